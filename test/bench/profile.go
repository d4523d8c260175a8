package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/server"
)

// profile says where the CPU time of purges of real files goes.
type profile struct {
	Layout       string  `json:"layout"`
	Files        int     `json:"files"`
	Milliseconds float64 `json:"cpu_milliseconds"`
	MicrosFile   float64 `json:"cpu_microseconds_per_file"`
	Packages     []share `json:"packages"`
}

// share is the part of one package. What the standard library, the runtime and the
// kernel did is counted for the package that called them.
type share struct {
	Package string  `json:"package"`
	Percent float64 `json:"percent"`
	Kernel  float64 `json:"kernel_percent"` // of it, inside system calls
}

// profilePurges is how many tables are purged under one profile, which samples 100
// times a second.
const profilePurges = 2

// profiles purges tables of each layout on a server inside this process, so that a
// server needs no profiling endpoint.
func (b *bench) profiles(ctx context.Context, sizes purgeSizes) (all []profile, err error) {
	e, stop, err := b.inside(ctx, sizes.Threads)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for i, layout := range layouts(sizes.Files[0]) {
		b.note("profile, %s", layout.name)
		names := make([]string, profilePurges)
		for t := range names {
			names[t] = fmt.Sprintf("t-%d-%d", i, t)
			if err := e.register(ctx, names[t], layout.table); err != nil {
				return nil, err
			}
		}
		file := filepath.Join(b.profileDir(sizes.Profiles), strings.ReplaceAll(layout.name, " ", "-")+".pprof")
		if err := underProfile(file, func() error { return e.purged(ctx, names) }); err != nil {
			return nil, err
		}
		traces, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", "-unit=ms", file).Output()
		if err != nil {
			return nil, fmt.Errorf("go tool pprof: %w", err)
		}
		p := profile{Layout: layout.name, Files: profilePurges * sizes.Files[0]}
		p.Milliseconds, p.Packages = byPackage(traces)
		p.MicrosFile = 1000 * p.Milliseconds / float64(p.Files)
		all = append(all, p)
	}
	return all, nil
}

func (b *bench) profileDir(chosen string) string {
	if chosen != "" {
		return chosen
	}
	return b.dir
}

// underProfile runs work and writes where the CPU time went.
func underProfile(file string, work func() error) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the profile is complete once it was stopped
	if err := pprof.StartCPUProfile(out); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return work()
}

// purged drops the tables and waits until they are gone.
func (e *endpoint) purged(ctx context.Context, names []string) error {
	for _, name := range names {
		job, _, err := e.drop(ctx, name, false)
		if err != nil {
			return err
		}
		if _, err := e.succeeded(ctx, job); err != nil {
			return err
		}
	}
	return nil
}

// inside starts a server in this process.
func (b *bench) inside(ctx context.Context, deleteThreads int) (*endpoint, func() error, error) {
	data, err := os.MkdirTemp(b.dir, "inside-")
	if err != nil {
		return nil, nil, err
	}
	url, cleanup, err := b.emptyDatabase(ctx)
	if err != nil {
		return nil, nil, err
	}
	set := server.DefaultSettings()
	set.Data, set.Listen, set.Database = data, "127.0.0.1:0", url
	set.AsyncPurge.DeleteThreads = deleteThreads
	set.AsyncPurge.PurgeWaitMS = 600_000
	const token = "of-a-benchmark" //nolint:gosec // of a server that nobody else reaches
	running, end := context.WithCancel(ctx)
	started, ended := make(chan server.Started, 1), make(chan error, 1)
	go func() {
		ended <- server.Run(running, server.Config{
			Settings: set,
			Lookup:   func(name string) (string, bool) { return token, name == server.AdminTokenVariable },
			Started:  func(s server.Started) { started <- s },
		})
	}()
	stop := func() error {
		end()
		return errors.Join(<-ended, os.RemoveAll(data), cleanup())
	}
	select {
	case err := <-ended:
		ended <- nil
		return nil, nil, errors.Join(err, stop())
	case s := <-started:
		e, err := newEndpoint(ctx, s.BaseURL, token, data, nil)
		if err == nil {
			err = e.createNamespace(ctx)
		}
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		return e, func() error { e.close(); return stop() }, nil
	}
}

// byPackage reads what go tool pprof -traces -unit=ms prints: blocks of a value and a
// stack, leaf first, between dashed lines.
func byPackage(traces []byte) (total float64, shares []share) {
	all, kernel := map[string]float64{}, map[string]float64{}
	var value float64
	var stack []string
	settle := func() {
		if len(stack) > 0 {
			owner := ownerOf(stack)
			all[owner] += value
			if strings.HasPrefix(stack[0], "internal/runtime/syscall") || strings.HasPrefix(stack[0], "syscall.") {
				kernel[owner] += value
			}
			total += value
		}
		stack, value = nil, 0
	}
	for lines := bufio.NewScanner(bytes.NewReader(traces)); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "-----") {
			settle()
			continue
		}
		frame := strings.TrimSpace(line)
		if first, rest, ok := strings.Cut(frame, "ms "); ok && len(stack) == 0 {
			if _, err := fmt.Sscanf(first, "%g", &value); err != nil {
				continue // a line of the heading, or a label
			}
			frame = strings.TrimSpace(rest)
		} else if len(stack) == 0 {
			continue
		}
		stack = append(stack, frame)
	}
	settle()
	for _, name := range slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Compare(all[b], all[a]) }) {
		if percent := 100 * all[name] / total; percent >= 1 {
			shares = append(shares, share{Package: name, Percent: percent, Kernel: 100 * kernel[name] / total})
		}
	}
	return total, shares
}

// ownerOf returns the first package from the leaf on that is neither of the Go
// distribution nor its bare system calls.
func ownerOf(stack []string) string {
	for _, frame := range stack {
		if pkg := packageOf(strings.TrimPrefix(frame, "type:.eq.")); strings.Contains(pkg, ".") && !strings.HasPrefix(pkg, "golang.org/x/sys") || pkg == "main" {
			return strings.TrimPrefix(pkg, "github.com/lethe-project/lethe/")
		}
	}
	return "runtime (scheduler, garbage collector) and net"
}

// packageOf cuts a function's name off its package.
func packageOf(function string) string {
	slash := strings.LastIndexByte(function, '/') + 1
	if bracket := strings.IndexAny(function, "[("); bracket >= 0 && bracket < slash { // type parameters and receivers hold paths too
		slash = strings.LastIndexByte(function[:bracket], '/') + 1
	}
	if dot := strings.IndexByte(function[slash:], '.'); dot >= 0 {
		return function[:slash+dot]
	}
	return function
}

func (p *profile) text(w io.Writer) {
	fmt.Fprintf(w, "\nCPU of %d purged files, %s: %s, %.3g µs a file\n", p.Files, p.Layout,
		time.Duration(p.Milliseconds*float64(time.Millisecond)).Round(10*time.Millisecond), p.MicrosFile)
	for _, s := range p.Packages {
		fmt.Fprintf(w, "  %5.1f %%  (system calls %5.1f)  %s\n", s.Percent, s.Kernel, s.Package)
	}
}
