// Command ci runs what `make check`, `make test` and `make chaos` promise: it installs and
// starts what the tests need, runs the stages one after another, prints the time of each,
// and ends with the line "N passed, N failed, N skipped".
//
// Downloads (PostgreSQL, PyIceberg) run in the background while Go builds. A stage that
// fails does not keep the later ones from running, but the run fails. What cannot be
// tested here is said; with CI=true every skipped test, and every service that cannot be
// had, is a failure. Whatever was started is stopped, also after a failure or a signal.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	mode, patterns := "", []string{"./..."}
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	if len(os.Args) > 2 {
		patterns = os.Args[2:]
	}
	r := &run{ci: os.Getenv("CI") == "true", patterns: patterns, started: time.Now()}
	switch mode {
	case "check":
		r.check(ctx)
	case "test":
		r.test(ctx)
	case "chaos":
		r.chaos(ctx, os.Args[2:])
	default:
		fmt.Fprintln(os.Stderr, "usage: ci check|test [packages], ci chaos [flags of the test]")
		os.Exit(2)
	}
	r.close()
	stop()
	os.Exit(r.summary(os.Stdout))
}

// run is one run of stages.
type run struct {
	ci       bool
	patterns []string // packages that are checked and tested
	started  time.Time
	env      []string // for the tests
	counts   counts
	stages   []stage
	closers  []func()
}

type stage struct {
	name string
	took time.Duration
	err  error
}

// stage runs one stage, unless the run was interrupted, and remembers its end.
func (r *run) stage(ctx context.Context, name string, do func(context.Context) error) bool {
	if ctx.Err() != nil {
		r.stages = append(r.stages, stage{name: name, err: context.Cause(ctx)})
		return false
	}
	fmt.Printf("\n=== %s\n", name)
	began := time.Now()
	s := stage{name: name, err: do(ctx)}
	s.took = time.Since(began)
	r.stages = append(r.stages, s)
	if s.err != nil {
		fmt.Printf("--- FAIL: %s (%s): %v\n", name, round(s.took), s.err)
		return false
	}
	fmt.Printf("--- ok: %s (%s)\n", name, round(s.took))
	return true
}

func (r *run) onClose(do func()) { r.closers = append(r.closers, do) }

func (r *run) close() {
	for _, do := range slices.Backward(r.closers) {
		do()
	}
}

// summary prints the stages and the closing line, and returns the exit code.
func (r *run) summary(w io.Writer) int {
	failed := 0
	fmt.Fprintf(w, "\n=== summary (%s)\n", round(time.Since(r.started)))
	for _, s := range r.stages {
		word := "ok  "
		if s.err != nil {
			word = "FAIL"
			failed++
		}
		fmt.Fprintf(w, "%s %8s  %s\n", word, round(s.took), s.name)
	}
	for _, skip := range r.counts.skips {
		fmt.Fprintln(w, "skipped: "+skip)
	}
	// A stage may fail without a failed test: lint, a package that does not build.
	r.counts.failed = max(r.counts.failed, failed)
	if r.ci && len(r.counts.skips) > 0 {
		fmt.Fprintln(w, "with CI=true a skipped test is a failure")
		r.counts.failed += len(r.counts.skips)
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", r.counts.passed, r.counts.failed, len(r.counts.skips))
	if r.counts.failed > 0 || r.counts.passed == 0 {
		return 1
	}
	return 0
}

// check is the fast loop: no service, no race detector, no process.
func (r *run) check(ctx context.Context) {
	var pkgs packages
	r.stage(ctx, "format and lint", r.lint)
	if r.stage(ctx, "list packages", func(ctx context.Context) (err error) { pkgs, err = list(ctx, r.patterns); return err }) {
		r.stage(ctx, "unit tests", r.goTest(slices.Concat(pkgs.light, pkgs.heavy))) // what did not change is cached
	}
}

// test is everything.
func (r *run) test(ctx context.Context) {
	services := r.startServices(ctx)
	var pkgs packages
	built := r.stage(ctx, "build", r.build)
	r.stage(ctx, "format and lint", r.lint)
	r.stage(ctx, "vet", command("go", append([]string{"vet", "-tags", crashTag}, r.patterns...)...))
	listed := r.stage(ctx, "list packages", func(ctx context.Context) (err error) { pkgs, err = list(ctx, r.patterns); return err })
	r.stage(ctx, "services", func(ctx context.Context) error { return r.awaitServices(ctx, services) })
	if !listed {
		return
	}
	r.stage(ctx, "unit tests, race detector", r.goTest(pkgs.light, "-count=1", "-race"))
	r.stage(ctx, "unit tests", r.goTest(pkgs.heavy, "-count=1"))
	for _, target := range pkgs.fuzz {
		r.stage(ctx, "fuzz "+target.String(), r.goTest([]string{target.pkg}, "-run=^$", "-fuzz=^"+target.name+"$", "-fuzztime="+fuzzTime, "-fuzzminimizetime=1x"))
	}
	system, alone := r.goTest(pkgs.system, "-count=1"), r.goTest(pkgs.alone, "-count=1")
	if !built {
		system = func(context.Context) error { return errors.New("not run: the server does not build") }
		alone = system
	}
	r.stage(ctx, "end to end, crash, conformance", system)
	r.stage(ctx, "chaos", alone)
}

// chaos is one package of test alone, with flags of its own, such as how long it lasts.
func (r *run) chaos(ctx context.Context, flags []string) {
	services := r.startServices(ctx, "PostgreSQL", "MariaDB", "S3 gateway")
	built := r.stage(ctx, "build", r.build)
	r.stage(ctx, "services", func(ctx context.Context) error { return r.awaitServices(ctx, services) })
	if built {
		r.stage(ctx, "chaos", r.goTest(append([]string{"./test/chaos", "-args"}, flags...), "-count=1", "-timeout=2h"))
	}
}

// build builds the binaries under test and hands their paths to the tests.
func (r *run) build(ctx context.Context) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	// Reading what there is to build downloads it.
	if err := fetch(ctx, "go", append([]string{"list", "-deps", "-test"}, r.patterns...)...); err != nil {
		return err
	}
	for _, b := range []struct{ env, path, tags string }{
		{"LETHE_BINARY", dir + "/bin/lethe", ""},
		{"LETHE_CRASH_BINARY", dir + "/bin/lethe-crash", crashTag},
	} {
		if err := command("go", "build", "-tags", b.tags, "-o", b.path, "./cmd/lethe")(ctx); err != nil {
			return err
		}
		r.env = append(r.env, b.env+"="+b.path)
	}
	return nil
}

// lint builds the pinned linter, whose cost must not weigh on go.mod, and runs it with
// its formatters.
func (r *run) lint(ctx context.Context) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := fetch(ctx, "env", "GOBIN="+dir+"/bin", "go", "-C", "tools", "install", "tool"); err != nil {
		return err
	}
	return command("bin/golangci-lint", append([]string{"run"}, r.patterns...)...)(ctx)
}

func round(d time.Duration) string {
	return strings.TrimSuffix(d.Round(100*time.Millisecond).String(), ".0s")
}
