package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// bench is one run of the program.
type bench struct {
	dir      string // scratch, removed by close
	binary   string
	database string // empty: SQLite
	notes    io.Writer
	began    time.Time
}

func newBench(ctx context.Context, c *cli, notes io.Writer) (*bench, error) {
	dir, err := os.MkdirTemp(c.Dir, "lethe-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir, binary: c.Binary, database: c.Database, notes: notes, began: time.Now()}
	if b.binary == "" {
		b.binary = filepath.Join(dir, "lethe")
		b.note("building the server")
		cmd := exec.CommandContext(ctx, "go", "build", "-o", b.binary, "github.com/lethe-project/lethe/cmd/lethe")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.close()
			return nil, fmt.Errorf("build the server: %w\n%s", err, out)
		}
	}
	return b, nil
}

func (b *bench) close() { _ = os.RemoveAll(b.dir) }

// note tells a person who waits what is going on.
func (b *bench) note(format string, args ...any) {
	fmt.Fprintf(b.notes, "%6.1fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// environment is what a figure depends on.
type environment struct {
	CPUs     int    `json:"cpus"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Go       string `json:"go"`
	Database string `json:"database"`
	Store    string `json:"store"`
}

func (b *bench) environment() environment {
	e := environment{
		CPUs: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(),
		Database: "sqlite", Store: "local directory",
	}
	if scheme, _, ok := strings.Cut(b.database, "://"); ok {
		e.Database = scheme
	}
	return e
}

func (e environment) text(w io.Writer) {
	fmt.Fprintf(w, "%d CPUs, %s/%s, %s, %s, %s\n", e.CPUs, e.OS, e.Arch, e.Go, e.Database, e.Store)
}

// check is one target.
type check struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"` // at most, or at least
	Least bool    `json:"at_least"`
	Met   bool    `json:"met"`
}

func atMost(what string, value, limit float64) check {
	return check{What: what, Value: value, Limit: limit, Met: value <= limit}
}

func atLeast(what string, value, limit float64) check {
	return check{What: what, Value: value, Limit: limit, Least: true, Met: value >= limit}
}

func checksText(w io.Writer, checks []check) {
	if len(checks) > 0 {
		fmt.Fprintln(w, "\ntargets")
	}
	for _, c := range checks {
		word := "met   "
		if !c.Met {
			word = "MISSED"
		}
		most := "at most"
		if c.Least {
			most = "at least"
		}
		fmt.Fprintf(w, "  %s  %-58s %10.2f  %s %g\n", word, c.What, c.Value, most, c.Limit)
	}
}
