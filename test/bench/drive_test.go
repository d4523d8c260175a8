package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Not parallel: a process has one CPU profile at a time.
func TestDriveRuns(t *testing.T) {
	report := smoke(t, "drive")
	for i := range 10 {
		positive(t, report, "operations", i, "per_second", "p50")
		positive(t, report, "operations", i, "ratio", "p50")
		positive(t, report, "operations", i, "milliseconds", "p99")
	}
	positive(t, report, "statements", 12, "statements")
	positive(t, report, "list", "pages")
	positive(t, report, "list", "seconds", "p50")
	positive(t, report, "rename", "median_ratio")
	positive(t, report, "stream", "up_mib_per_second", "p50")
	positive(t, report, "stream", "peak_mib", "p50")
	positive(t, report, "cpu", "requests")
	countsMet(t, report, "SQL")
}

// countsMet fails for a missed target whose name begins so: those are counts, no times.
func countsMet(t *testing.T, report map[string]any, prefix string) {
	t.Helper()
	found := false
	for _, c := range report["checks"].([]any) {
		c := c.(map[string]any)
		if !strings.HasPrefix(c["what"].(string), prefix) {
			continue
		}
		found = true
		if c["met"] != true {
			t.Errorf("missed: %v", c)
		}
	}
	if !found {
		t.Errorf("no target of %q", prefix)
	}
}

func TestParseShape(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]shape{
		"flat100k":     {Files: 100_000},
		"flat1m":       {Files: 1_000_000},
		"100x1000":     {Dirs: 100, Files: 1000},
		"chain1000x10": {Dirs: 1000, Files: 10, Chain: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseShape(name)
			want.Name = name
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v, shape (-want +got):\n%s", err, diff)
			}
		})
	}
	for _, name := range []string{"", "flat", "flat0", "100", "x10", "10x", "chain10", "flat-1k"} {
		if s, err := parseShape(name); err == nil {
			t.Errorf("%q is read as %+v", name, s)
		}
	}
}

func TestDriveTextReports(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]struct {
		report
		want string
	}{
		"operation": {&driveReport{Operations: []operation{{Name: "stat", Connections: 32}}}, "32 clients"},
		"list":      {&driveReport{List: &listing{Entries: 70, Pages: 7}}, "70 entries in 7 pages"},
		"rename":    {&driveReport{Rename: &renames{Ratio: 1.25}}, "median ratio 1.25"},
		"stream":    {&driveReport{Stream: &stream{Peak: spreadOf([]float64{66})}}, "VmHWM      median 66 MiB"},
		"sweep":     {&rmReport{Shapes: []shapeFigures{{PerSecond: spreadOf([]float64{5}), Ceilings: []ceilingFigures{{Form: byKeys}}}}}, "dentries by keys"},
		"beside":    {&rmReport{Shapes: []shapeFigures{{Beside: &beside{Idle: spreadOf([]float64{7})}}}}, "idle       p50 7"},
		"detach":    {&rmReport{Detach: &detachFigures{Ratio: 1.5}}, "median ratio 1.50"},
		"memory":    {&rmReport{Memory: []sweepMemory{{Files: 9}}}, "deletes 9 files"},
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
