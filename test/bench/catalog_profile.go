package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// operationProfile says where the CPU time of one operation's requests goes.
type operationProfile struct {
	Operation string  `json:"operation"`
	Requests  int     `json:"requests"`
	Micros    float64 `json:"cpu_microseconds_per_request"` // of the goroutines that answer
	Top       []hot   `json:"top"`
	Packages  []share `json:"packages"`
}

// hot is a function of the top ten.
type hot struct {
	Function   string  `json:"function"`
	Percent    float64 `json:"percent"`            // in the function itself
	Cumulative float64 `json:"cumulative_percent"` // with what it calls
}

// answering are the samples of goroutines that answer a request: the client runs in the
// same process. The garbage collector's own goroutines are left out with it.
const answering = `-focus=net/http\.\(\*conn\)\.serve`

// operationProfiles loads from and commits to a server inside this process.
func (b *bench) operationProfiles(ctx context.Context, sizes catalogSizes) (all []operationProfile, err error) {
	e, stop, err := b.inside(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	sizes.Hot = min(sizes.Hot, 100)
	var setup operation
	if err := setup.measure(sizes.Connections, sizes.Hot+writerTables+1, func(i int) error { return e.create(ctx, tableName(i)) }); err != nil {
		return nil, err
	}
	if err := e.histories(ctx, sizes); err != nil {
		return nil, err
	}
	w := &writers{endpoint: e, sizes: sizes}
	for _, kind := range []struct {
		name string
		n    int
		do   func(i int) error
	}{
		{"load", 5 * sizes.Loads, func(i int) error { return e.load(ctx, tableName(i%sizes.Hot)) }},
		{"commit", 5 * sizes.Commits, func(i int) error { return w.append(ctx, i%writerTables) }},
	} {
		b.note("profile, %s", kind.name)
		file := filepath.Join(b.profileDir(sizes.Profiles), kind.name+".pprof")
		err := underProfile(file, func() error { return setup.measure(sizes.Connections, kind.n, kind.do) })
		if err != nil {
			return nil, err
		}
		p := operationProfile{Operation: kind.name, Requests: kind.n}
		if err := p.read(ctx, file); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (p *operationProfile) read(ctx context.Context, file string) error {
	traces, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", "-unit=ms", answering, file).Output()
	if err != nil {
		return fmt.Errorf("go tool pprof: %w", err)
	}
	var total float64
	total, p.Packages = byPackage(traces)
	p.Micros = 1000 * total / float64(p.Requests)
	top, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-nodecount=10", "-unit=ms", answering, file).Output()
	if err != nil {
		return fmt.Errorf("go tool pprof: %w", err)
	}
	p.Top = topOf(top, total)
	return nil
}

// topOf reads the lines of go tool pprof -top -unit=ms: flat, its percent, the sum of
// these, cumulative, its percent, function. The percents are of the whole profile and
// are taken anew.
func topOf(table []byte, total float64) []hot {
	var top []hot
	for lines := bufio.NewScanner(bytes.NewReader(table)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || total == 0 {
			continue
		}
		flat, flatErr := strconv.ParseFloat(strings.TrimSuffix(fields[0], "ms"), 64)
		cum, cumErr := strconv.ParseFloat(strings.TrimSuffix(fields[3], "ms"), 64)
		if flatErr != nil || cumErr != nil {
			continue // the heading
		}
		top = append(top, hot{strings.Join(fields[5:], " "), 100 * flat / total, 100 * cum / total})
	}
	return top
}

func (p *operationProfile) text(w io.Writer) {
	fmt.Fprintf(w, "\nCPU of %d requests, %s: %.3g µs each in the server's goroutines\n", p.Requests, p.Operation, p.Micros)
	for _, h := range p.Top {
		fmt.Fprintf(w, "  %5.1f %%  (cumulative %5.1f)  %s\n", h.Percent, h.Cumulative, h.Function)
	}
	for _, s := range p.Packages {
		fmt.Fprintf(w, "  %5.1f %%  (system calls %5.1f)  %s\n", s.Percent, s.Kernel, s.Package)
	}
}
