package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCounts(t *testing.T) {
	t.Parallel()
	const start = `{"Action":"start","Package":"p"}` + "\n"
	for _, tt := range []struct {
		name   string
		events []string
		want   counts
		shown  string
	}{
		{
			name: "pass and fail, subtests counted",
			events: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/x"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"fail","Package":"p","Test":"TestB"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want: counts{passed: 2, failed: 1},
		},
		{
			name: "of a package that passes, its line is shown",
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"PASS\n"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}`,
				`{"Action":"pass","Package":"p"}`,
			},
			want:  counts{passed: 1},
			shown: "ok  \tp\t0.1s\n",
		},
		{
			name: "what a test said is shown when it fails, or never ends",
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"why\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestB","Output":"panic: timed out\n"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want:  counts{failed: 1},
			shown: "why\npanic: timed out\nFAIL\tp\t0.1s\n",
		},
		{
			name: "a fuzz target whose time ended in the middle of an input passed",
			events: []string{
				`{"Action":"output","Package":"p","Test":"FuzzA","Output":"=== RUN   FuzzA\n"}`,
				`{"Action":"output","Package":"p","Test":"FuzzA","Output":"fuzz: elapsed: 20s, execs: 349419 (18103/sec), new interesting: 45 (total: 568)\n"}`,
				`{"Action":"output","Package":"p","Test":"FuzzA","Output":"--- FAIL: FuzzA (20.21s)\n"}`,
				`{"Action":"output","Package":"p","Test":"FuzzA","Output":"    context deadline exceeded\n"}`,
				`{"Action":"fail","Package":"p","Test":"FuzzA"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want:  counts{passed: 1, cut: true},
			shown: "FuzzA: its time was over, no input failed\n",
		},
		{
			name: "one that found an input failed",
			events: []string{
				`{"Action":"output","Package":"p","Test":"FuzzA","Output":"--- FAIL: FuzzA (3.21s)\n"}`,
				`{"Action":"output","Package":"p","Test":"FuzzA","Output":"    --- FAIL: FuzzA (0.00s)\n        a_test.go:7: context deadline exceeded\n"}`,
				`{"Action":"output","Package":"p","Test":"FuzzA","Output":"    Failing input written to testdata/fuzz/FuzzA/1\n"}`,
				`{"Action":"fail","Package":"p","Test":"FuzzA"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want:  counts{failed: 1},
			shown: "--- FAIL: FuzzA (3.21s)\n    --- FAIL: FuzzA (0.00s)\n        a_test.go:7: context deadline exceeded\n    Failing input written to testdata/fuzz/FuzzA/1\n",
		},
		{
			name: "a skip keeps its reason",
			events: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: no disk\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}`,
				`{"Action":"skip","Package":"p","Test":"TestA"}`,
				`{"Action":"pass","Package":"p"}`,
			},
			want: counts{skips: []string{"TestA in p: no disk"}},
		},
		{
			name:   "a package without tests is no skipped test",
			events: []string{`{"Action":"skip","Package":"p"}`},
			want:   counts{},
		},
		{
			name:   "a package that does not build fails its stage, not a test",
			events: []string{`{"Action":"build-output","ImportPath":"p","Output":"no such thing\n"}`, `{"Action":"build-fail","ImportPath":"p"}`, `{"Action":"fail","Package":"p","FailedBuild":"p"}`},
			want:   counts{},
			shown:  "no such thing\n",
		},
		{
			name:   "what is no JSON is passed on",
			events: []string{`go: warning`, `{"Action":"pass","Package":"p","Test":"TestA"}`},
			want:   counts{passed: 1},
			shown:  "go: warning\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got counts
			var shown strings.Builder
			if err := got.read(strings.NewReader(start+strings.Join(tt.events, "\n")+"\n"), &shown); err != nil {
				t.Fatal(err)
			}
			if shown.String() != tt.shown {
				t.Errorf("shown %q, want %q", shown.String(), tt.shown)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(counts{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestSummaryFails(t *testing.T) {
	t.Parallel()
	skip := []string{"TestA in p: no disk"}
	for _, tt := range []struct {
		name string
		run  run
		want int
	}{
		{"all passed", run{counts: counts{passed: 3}}, 0},
		{"a test failed", run{counts: counts{passed: 3, failed: 1}}, 1},
		{"a stage failed without a test", run{counts: counts{passed: 3}, stages: []stage{{name: "lint", err: stageError{}}}}, 1},
		{"nothing ran", run{}, 1},
		{"a skip by hand", run{counts: counts{passed: 3, skips: skip}}, 0},
		{"a skip in CI", run{ci: true, counts: counts{passed: 3, skips: skip}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.run.summary(io.Discard); got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
		})
	}
}

type stageError struct{}

func (stageError) Error() string { return "failed" }

func TestListFindsFuzzTargetsAndKinds(t *testing.T) {
	t.Parallel()
	const module = "github.com/lethe-project/lethe/"
	got, err := list(t.Context(), []string{module + "test/readme", module + "internal/fault", module + "internal/catalog/metadata"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{module + "test/readme"}, got.system); diff != "" {
		t.Errorf("system (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{module + "internal/catalog/metadata"}, got.heavy); diff != "" {
		t.Errorf("heavy (-want +got):\n%s", diff)
	}
	if len(got.fuzz) == 0 {
		t.Error("no fuzz target of catalog/metadata was found")
	}
}
