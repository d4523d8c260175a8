package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	crashTag    = "lethe_crash"
	fuzzTime    = "20s"
	testTimeout = "40m"
)

// packages are the packages with tests, by what they need.
type packages struct {
	light  []string // tested with the race detector: they do not link iceberg-go
	heavy  []string
	system []string // they drive built servers
	alone  []string // so do these, and they bound times: nothing runs beside them
	fuzz   []fuzzTarget
}

type fuzzTarget struct{ pkg, name string }

func (f fuzzTarget) String() string { return f.pkg[strings.LastIndex(f.pkg, "/")+1:] + "." + f.name }

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// list sorts packages with tests by what their test binaries link.
func list(ctx context.Context, patterns []string) (packages, error) {
	var p packages
	args := append([]string{"list", "-test", "-json=Dir,ImportPath,ForTest,Deps,TestGoFiles,XTestGoFiles"}, patterns...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return p, err
	}
	type entry struct {
		Dir, ImportPath, ForTest        string
		Deps, TestGoFiles, XTestGoFiles []string
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var e entry
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return p, nil
		} else if err != nil {
			return p, err
		}
		if pkg, ok := strings.CutSuffix(e.ImportPath, ".test"); ok { // a test binary: its Deps are what it links
			links := func(part string) bool {
				return slices.ContainsFunc(e.Deps, func(dep string) bool { return strings.Contains(dep, part) })
			}
			switch {
			case strings.HasSuffix(pkg, "/test/chaos"):
				p.alone = append(p.alone, pkg)
			case links("/lethe/test/proc"):
				p.system = append(p.system, pkg)
			case links("github.com/apache/iceberg-go"):
				p.heavy = append(p.heavy, pkg)
			default:
				p.light = append(p.light, pkg)
			}
		}
		if e.ForTest != "" {
			continue
		}
		for _, file := range slices.Concat(e.TestGoFiles, e.XTestGoFiles) {
			source, err := os.ReadFile(filepath.Join(e.Dir, file))
			if err != nil {
				return p, err
			}
			for _, m := range fuzzFunc.FindAllSubmatch(source, -1) {
				p.fuzz = append(p.fuzz, fuzzTarget{e.ImportPath, string(m[1])})
			}
		}
	}
}

// counts adds up what go test reports; a test with subtests counts as one more.
type counts struct {
	passed, failed int
	skips          []string // test: reason
	cut            bool     // fuzzing ended as cutShort says
}

// goTest returns a stage that runs go test and counts. It prints a line a package, and
// the whole output of what failed.
func (r *run) goTest(pkgs []string, flags ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		if len(pkgs) == 0 {
			return nil
		}
		args := slices.Concat([]string{"test", "-json", "-timeout=" + testTimeout}, flags, pkgs)
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 30 * time.Second
		cmd.Env = append(os.Environ(), r.env...)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		failed := r.counts.failed
		r.counts.cut = false
		read := r.counts.read(out, os.Stdout)
		ended := cmd.Wait()
		if r.counts.cut && r.counts.failed == failed {
			ended = nil
		}
		return errors.Join(ended, read)
	}
}

// cutShort matches what a fuzz target says whose time ended while a worker was in the
// middle of an input: the Go tool, before 1.27, calls that a failure, though no input
// failed (golang.org/issue/75804).
var cutShort = regexp.MustCompile(`(?m)^--- FAIL: Fuzz\w+ \([0-9.]+s\)\n {4}context deadline exceeded\n\z`)

// read consumes the events of go test -json (go doc test2json) and writes what a person
// wants to see of them.
func (c *counts) read(out io.Reader, w io.Writer) error {
	type key struct{ pkg, test string }
	texts := map[key]*strings.Builder{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e struct{ Action, Package, ImportPath, Test, Output string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(w, lines.Text()) // a tool that does not speak JSON
			continue
		}
		if e.Action == "build-output" {
			fmt.Fprint(w, e.Output)
			continue
		}
		k := key{e.Package, e.Test}
		if texts[k] == nil {
			texts[k] = &strings.Builder{}
		}
		switch e.Action {
		case "output":
			texts[k].WriteString(e.Output)
			continue
		case "pass", "fail", "skip":
		default:
			continue
		}
		text := texts[k].String()
		delete(texts, k)
		switch {
		case e.Test == "":
			// The package's own last word: ok, FAIL, a panic, or that it has no tests.
			if i := strings.LastIndex(text, "ok  "); e.Action == "pass" && i >= 0 {
				text = text[i:]
			}
			for _, k := range slices.SortedFunc(maps.Keys(texts), func(a, b key) int { return strings.Compare(a.test, b.test) }) {
				if k.pkg == e.Package { // it never ended: the process did
					fmt.Fprint(w, texts[k])
					delete(texts, k)
				}
			}
			if e.Action == "fail" && !c.cut || strings.HasPrefix(text, "ok  ") {
				fmt.Fprint(w, text)
			}
		case e.Action == "pass":
			c.passed++
		case e.Action == "skip":
			c.skips = append(c.skips, e.Test+" in "+e.Package+": "+reason(text))
		case cutShort.MatchString(text):
			c.passed++
			c.cut = true
			fmt.Fprintf(w, "%s: its time was over, no input failed\n", e.Test)
		default:
			c.failed++
			fmt.Fprint(w, text)
		}
	}
	return lines.Err()
}

var location = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reason finds what a skipped test said.
func reason(text string) string {
	for line := range strings.Lines(text) {
		if location.MatchString(line) {
			return strings.TrimSpace(location.ReplaceAllString(line, ""))
		}
	}
	return "no reason given"
}
