package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/test/proc"
)

// TestMain lets the test's binary be the store as well, as the program's own is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "store" {
		main()
		return
	}
	os.Exit(m.Run())
}

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

func TestPurgeOnStubRuns(t *testing.T) {
	t.Parallel()
	report := smoke(t, "purge", "--store", "stub")
	for i := range 2 {
		positive(t, report, "rates", i, "files_per_second", "p50")
		positive(t, report, "rates", i, "data_files_per_second", "p50")
		positive(t, report, "rates", i, "requests_per_1000_files")
		positive(t, report, "rates", i, "peak_mib", "p50")
	}
	positive(t, report, "rates", 1, "bound_files_per_second")
	positive(t, report, "resume", "killed_at")
	for i := range 3 {
		positive(t, report, "leaks", i, "refused")
	}
	for _, c := range report["checks"].([]any) {
		if c := c.(map[string]any); strings.HasPrefix(c["what"].(string), "files and objects left") && c["met"] != true {
			t.Errorf("missed: %v", c) // a count, not a time
		}
	}
}

func TestPurgeOnS3Runs(t *testing.T) {
	t.Parallel()
	if os.Getenv("LETHE_TEST_S3") == "" {
		t.Skip("LETHE_TEST_S3 names no gateway")
	}
	report := smoke(t, "purge", "--store", "s3")
	positive(t, report, "rates", 0, "files_per_second", "p50")
	positive(t, report, "rates", 0, "requests_per_1000_files")
}

// The store does what it counts.
func TestStubStore(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := startStore(ctx, 0, "--track", "--fail", "50")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	}()
	bucket, err := s.open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bucket.Close() }()
	if err := bucket.Put(ctx, "m/a.json", strings.NewReader("{}")); err != nil {
		t.Fatal(err)
	}
	keys := []blob.Key{"m/a.json"}
	for i := range 200 {
		keys = append(keys, blob.Key(fmt.Sprintf("t/data/%d&.parquet", i)))
	}
	for range 2 {
		for _, r := range bucket.DeleteMany(ctx, keys) {
			if r.Outcome != blob.Deleted && r.Err == nil {
				t.Errorf("%s: neither deleted nor an error", r.Key)
			}
		}
	}
	got, err := s.stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got.Requests != 2 || got.DataRequests != 2 || got.DataKeys != 400 || got.DataGone <= 100 || got.DataGone >= 200 || got.Refused < 100 || got.DataSeconds <= 0 {
		t.Errorf("stats %+v", got)
	}
}

// Not parallel: a process has one CPU profile at a time, and purge takes one as well.
func TestCatalogRuns(t *testing.T) {
	report := smoke(t, "catalog")
	for i := range 10 {
		positive(t, report, "operations", i, "per_second", "p50")
		positive(t, report, "operations", i, "milliseconds", "p99")
	}
	positive(t, report, "document_bytes", "hot")
	positive(t, report, "statements", 0, "statements")
	for i := range 2 {
		positive(t, report, "cpu", i, "requests")
	}
	positive(t, report, "purges", "beside_milliseconds", "p95")
	positive(t, report, "purges", "p95_ratio", "p50")
	for _, c := range report["checks"].([]any) {
		if c := c.(map[string]any); strings.HasPrefix(c["what"].(string), "SQL") && c["met"] != true {
			t.Errorf("missed: %v", c) // a count, not a time
		}
	}
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

const table = `File: bench
Showing top 10 nodes out of 210
      flat  flat%   sum%        cum   cum%
      30ms 10.00% 10.00%       60ms 20.00%  syscall.Syscall (inline)
         0     0% 10.00%      100ms 33.33%  net/http.(*conn).serve
`

func TestTop(t *testing.T) {
	t.Parallel()
	want := []hot{{"syscall.Syscall (inline)", 30, 60}, {"net/http.(*conn).serve", 0, 100}}
	if diff := cmp.Diff(want, topOf([]byte(table), 100)); diff != "" {
		t.Errorf("top (-want +got):\n%s", diff)
	}
}

func TestMissedTargetIsSaid(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	checksText(&out, []check{atMost("ratio", 1.21, 1.2), atMost("seconds", 5, 5), atLeast("rate", 0.79, 0.8)})
	for _, want := range []string{"MISSED  ratio", "met     seconds", "MISSED  rate", "at least 0.8"} {
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
		"paused":     {&dropReport{Paused: []series{{Table: "1,000 files", P95Ratio: 1.25}}}, "p95 1.25"},
		"bursts":     {&dropReport{Bursts: &bursts{PeakMiB: 77}}, "VmHWM 77 MiB"},
		"rates":      {&purgeReport{Rates: []rate{{Layout: "scattered", Ratio: spreadOf([]float64{0.5})}}}, "ratio      median 0.5"},
		"profile":    {&purgeReport{CPU: []profile{{Layout: "scattered", Files: 7, Milliseconds: 1000}}}, "CPU of 7 purged files, scattered: 1s"},
		"operations": {&catalogReport{Operations: []operation{{Name: "HEAD", Conflicts: 3}}}, "conflicts 3"},
		"statements": {&catalogReport{Statements: []statements{{"HEAD", 1}}}, "HEAD"},
		"top":        {&catalogReport{CPU: []operationProfile{{Top: []hot{{"f", 12.5, 50}}}}}, "12.5 %"},
		"beside":     {&catalogReport{Purges: &besidePurges{P95Ratio: spreadOf([]float64{1.5})}}, "p95 ratio  median 1.5"},
		"stub":       {&storeReport{Rates: []storeRate{{Bound: 200_000, OfBound: 0.93, Requests: 1.01}}}, "data files reach 0.93"},
		"resume":     {&storeReport{Resume: &resume{Files: 500, KilledAt: 250, Again: 5, Percent: 1}}, "5 deletes were sent again, 1.00 %"},
		"leak":       {&storeReport{Leaks: []leak{{Percent: 20, Leaked: 3}}}, "3 files and 0 objects left"},
		"memory":     {&purgeReport{Memory: []memory{{Files: 9, Peak: spreadOf([]float64{90})}}}, "VmHWM median 90 MiB"},
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
