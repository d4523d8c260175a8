package main

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/test/proc"
)

// smoke runs a benchmark on the smallest sizes: its figures mean nothing, but it must
// go through, and no part may come out empty.
func smoke(t *testing.T, args ...string) map[string]any {
	t.Helper()
	var out, notes bytes.Buffer
	args = append(args, "--quick", "--json", "--dir", t.TempDir(), "--binary", proc.Binary(t))
	if err := run(t.Context(), args, &out, &notes); err != nil {
		t.Fatalf("%v\n%s", err, notes.Bytes())
	}
	var report map[string]any
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
	return report
}

// positive fails unless the figure at the path is there and more than zero.
func positive(t *testing.T, report any, path ...any) {
	t.Helper()
	at := report
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := at.(map[string]any)
			at = m[step]
		case int:
			list, _ := at.([]any)
			if step >= len(list) {
				t.Errorf("%v: only %d", path, len(list))
				return
			}
			at = list[step]
		}
	}
	if n, ok := at.(float64); !ok || n <= 0 {
		t.Errorf("%v is %v", path, at)
	}
}

func TestDropRuns(t *testing.T) {
	t.Parallel()
	report := smoke(t, "drop")
	for i := range 5 {
		positive(t, report, "paused", i, "milliseconds", "p95")
		positive(t, report, "paused", i, "median_ratio")
	}
	for _, burst := range []string{"async", "sync_beside_backlog", "sync"} {
		positive(t, report, "bursts", burst, "milliseconds", "p99")
	}
	positive(t, report, "bursts", "backlog", "files")
	positive(t, report, "bursts", "peak_mib")
	positive(t, report, "checks", 7, "limit")
}

func TestPurgeRuns(t *testing.T) {
	t.Parallel()
	report := smoke(t, "purge")
	for i := range 3 {
		positive(t, report, "rates", i, "ratio", "p50")
		positive(t, report, "cpu", i, "files")
	}
	for i := range 2 {
		positive(t, report, "memory", i, "peak_mib", "p50")
	}
	positive(t, report, "memory_ratio")
}

func TestSpread(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for name, c := range map[string]struct {
		sample []float64
		want   spread
	}{
		"nothing": {nil, spread{}},
		"one":     {[]float64{7}, spread{N: 1, Min: 7, P50: 7, P95: 7, P99: 7, Max: 7}},
		"even":    {[]float64{4, 1, 3, 2}, spread{N: 4, Min: 1, P50: 2, P95: 4, P99: 4, Max: 4}},
		"hundred": {hundred, spread{N: 100, Min: 1, P50: 50, P95: 95, P99: 99, Max: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, spreadOf(c.sample)); diff != "" {
				t.Errorf("spread (-want +got):\n%s", diff)
			}
		})
	}
}

const traces = `File: bench
Type: cpu
Time: 2026-01-02 03:04:05 UTC
Duration: 1s, Total samples = 100ms (10%)
-----------+-------------------------------------------------------
      40ms   internal/runtime/syscall/linux.Syscall6
             syscall.Syscall
             golang.org/x/sys/unix.Unlinkat
             github.com/lethe-project/lethe/internal/blob/local.unlinkat
             github.com/lethe-project/lethe/internal/blob/deletepool.(*Pool).work
-----------+-------------------------------------------------------
         key:[value]
      30ms   runtime.mallocgc
             github.com/twmb/avro.(*Reader[go.shape.struct { A github.com/x/y.T }]).Decode
-----------+-------------------------------------------------------
      25ms   runtime.gcBgMarkWorker
-----------+-------------------------------------------------------
       5ms   main.removeBare
-----------+-------------------------------------------------------
`

func TestByPackage(t *testing.T) {
	t.Parallel()
	total, got := byPackage([]byte(traces))
	want := []share{
		{Package: "internal/blob/local", Percent: 40, Kernel: 40},
		{Package: "github.com/twmb/avro", Percent: 30},
		{Package: "runtime (scheduler, garbage collector) and net", Percent: 25},
		{Package: "main", Percent: 5},
	}
	if diff := cmp.Diff(want, got); diff != "" || math.Abs(total-100) > 0.01 {
		t.Errorf("total %g, shares (-want +got):\n%s", total, diff)
	}
}

func TestMissedTargetIsSaid(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	checksText(&out, []check{atMost("ratio", 1.21, 1.2), atMost("seconds", 5, 5)})
	for _, want := range []string{"MISSED  ratio", "met     seconds"} {
		if !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Errorf("no %q in\n%s", want, out.Bytes())
		}
	}
}

func TestTextReports(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]struct {
		report
		want string
	}{
		"paused":  {&dropReport{Paused: []series{{Table: "1,000 files", P95Ratio: 1.25}}}, "p95 1.25"},
		"bursts":  {&dropReport{Bursts: &bursts{PeakMiB: 77}}, "VmHWM 77 MiB"},
		"rates":   {&purgeReport{Rates: []rate{{Layout: "scattered", Ratio: spreadOf([]float64{0.5})}}}, "ratio      median 0.5"},
		"profile": {&purgeReport{CPU: []profile{{Layout: "scattered", Files: 7, Milliseconds: 1000}}}, "CPU of 7 purged files, scattered: 1s"},
		"memory":  {&purgeReport{Memory: []memory{{Files: 9, Peak: spreadOf([]float64{90})}}}, "VmHWM median 90 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			r.text(&out)
			if !bytes.Contains(out.Bytes(), []byte(r.want)) {
				t.Errorf("report:\n%s", out.Bytes())
			}
		})
	}
}
