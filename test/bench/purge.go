package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"time"

	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// purgeSizes of the benchmark.
type purgeSizes struct {
	Store    string `default:"local" enum:"local,stub,s3" help:"local: a directory, beside a bare loop. stub: a store that answers after a fixed latency and does no work. s3: a real one."`
	Files    []int  `placeholder:"N" help:"Files of a purge. Default: 50000, and with --store stub 50000,500000."`
	Latency  []int  `default:"0,5,20,50" placeholder:"MS" help:"Milliseconds of a DeleteObjects, with --store stub."`
	Endpoint string `env:"LETHE_TEST_S3" placeholder:"URL" help:"Of the real store; credentials are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."`
	Runs     int    `default:"5" help:"Purges of each kind, and bare loops beside them, interleaved."`
	Threads  int    `default:"4" help:"Delete threads of the server, and of the bare loop."`
	Few      int    `default:"50000" help:"Files of the smaller purge whose memory is looked at."`
	Many     int    `default:"500000" help:"Files of the larger one."`
	Peaks    int    `default:"3" help:"Fresh servers for each of these."`
	Profiles string `placeholder:"DIR" help:"Keep the CPU profiles there."`
	Part     string `default:"all" enum:"all,rates,cpu,memory,resume,leak" help:"all, rates, cpu or memory; with --store stub all, rates, resume or leak."`
	Sync     bool   `default:"true" negatable:"" help:"Let the system write back what was made before its removal is timed."`
}

func (s purgeSizes) of(quick bool) purgeSizes {
	if quick {
		return purgeSizes{
			Store: s.Store, Files: []int{200}, Latency: []int{0, 5}, Endpoint: s.Endpoint, Runs: 1, Threads: s.Threads,
			Profiles: s.Profiles, Few: 1000, Many: 20_000, Peaks: 1, Part: s.Part,
		}
	}
	if len(s.Files) == 0 {
		s.Files = []int{50_000}
		if s.Store == "stub" {
			s.Files = []int{s.Few, s.Many}
		}
	}
	return s
}

// settle keeps the write-back of what was made out of the time of its removal.
func (s purgeSizes) settle() {
	if s.Sync {
		syscall.Sync()
	}
}

type purgeReport struct {
	Environment environment `json:"environment"`
	Rates       []rate      `json:"rates"`
	CPU         []profile   `json:"cpu"`
	Memory      []memory    `json:"memory"`
	MemoryRatio float64     `json:"memory_ratio"` // the larger purge to the smaller
	Checks      []check     `json:"checks"`
}

// rate is purges of real files beside a bare loop that removes an equal tree.
type rate struct {
	Layout string `json:"layout"`
	Files  int    `json:"files"`
	Bare   spread `json:"bare_files_per_second"`
	Purge  spread `json:"purge_files_per_second"`
	Ratio  spread `json:"ratio"` // purge to bare, run by run
}

// memory is the most that fresh servers had resident after one purge.
type memory struct {
	Files int    `json:"files"`
	Idle  spread `json:"idle_mib"` // before it
	Peak  spread `json:"peak_mib"`
}

// layout is a way in which files lie in directories.
type layout struct {
	name  string
	table purgetest.Synthetic
}

// layouts are that of a table without partitions, that of a writer who sorts by
// partition, and the worst one, where every batch meets every directory.
func layouts(files int) []layout {
	return []layout{
		{"one directory", purgetest.Synthetic{Files: files, PerManifest: 5000, PerPartition: files, Exist: true}},
		{"clustered", purgetest.Synthetic{Files: files, PerManifest: 5000, PerPartition: max(files/50, 1), Exist: true}},
		{"scattered", purgetest.Synthetic{Files: files, PerManifest: 5000, Exist: true}},
	}
}

func (b *bench) purge(ctx context.Context, sizes purgeSizes) (report, error) {
	if sizes.Store != "local" {
		return b.purgeOn(ctx, sizes)
	}
	r := &purgeReport{Environment: b.environment()}
	var err error
	if sizes.does("rates") {
		if r.Rates, err = b.rates(ctx, sizes); err != nil {
			return nil, fmt.Errorf("rates: %w", err)
		}
	}
	if sizes.does("cpu") {
		if r.CPU, err = b.profiles(ctx, sizes); err != nil {
			return nil, fmt.Errorf("profile: %w", err)
		}
	}
	if !sizes.does("memory") {
		return r, nil
	}
	if r.Memory, err = b.memory(ctx, sizes); err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	few, many := r.Memory[0].Peak, r.Memory[1].Peak
	r.MemoryRatio = ratio(many.P50, few.P50)
	r.Checks = []check{
		atMost(fmt.Sprintf("VmHWM after %d files, MiB", sizes.Many), many.Max, 200),
		atMost(fmt.Sprintf("VmHWM ratio, %d to %d files", sizes.Many, sizes.Few), r.MemoryRatio, 1.3),
	}
	return r, nil
}

func (s purgeSizes) does(part string) bool { return s.Part == "all" || s.Part == part }

// rates purges tables of real files, each run of a layout beside a bare loop.
func (b *bench) rates(ctx context.Context, sizes purgeSizes) (_ []rate, err error) {
	p, err := b.start(ctx, "--async-purge-delete-threads", strconv.Itoa(sizes.Threads), "--async-purge-purge-wait-ms", "600000")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.createNamespace(ctx); err != nil {
		return nil, err
	}
	var rates []rate
	for i, layout := range layouts(sizes.Files[0]) {
		var bare, purged, ratios []float64
		for run := range sizes.Runs {
			b.note("%s, run %d of %d", layout.name, run+1, sizes.Runs)
			var seconds [2]float64
			for _, which := range [2]int{run % 2, 1 - run%2} { // each goes first in turn
				name := fmt.Sprintf("t-%d-%d-%d", i, run, which)
				if which == 0 {
					seconds[0], err = p.timeBare(layout.table, name, sizes)
				} else {
					seconds[1], err = p.timePurge(ctx, layout.table, name, sizes)
				}
				if err != nil {
					return nil, err
				}
			}
			files := float64(sizes.Files[0])
			bare, purged = append(bare, files/seconds[0]), append(purged, files/seconds[1])
			ratios = append(ratios, seconds[0]/seconds[1])
		}
		rates = append(rates, rate{Layout: layout.name, Files: sizes.Files[0], Bare: spreadOf(bare), Purge: spreadOf(purged), Ratio: spreadOf(ratios)})
	}
	return rates, nil
}

// timeBare removes a tree like that of a table and returns the seconds.
func (e *endpoint) timeBare(table purgetest.Synthetic, name string, sizes purgeSizes) (float64, error) {
	paths := e.dataFiles(table, name)
	if err := fill(paths); err != nil {
		return 0, err
	}
	sizes.settle()
	began := time.Now()
	err := removeBare(paths, sizes.Threads)
	return time.Since(began).Seconds(), err
}

// timePurge drops a table synchronously and returns the seconds until all of it is gone.
func (e *endpoint) timePurge(ctx context.Context, table purgetest.Synthetic, name string, sizes purgeSizes) (float64, error) {
	if err := e.register(ctx, name, table); err != nil {
		return 0, err
	}
	sizes.settle()
	began := time.Now()
	job, _, err := e.drop(ctx, name, false)
	if err != nil {
		return 0, err
	}
	counts, err := e.succeeded(ctx, job)
	took := time.Since(began).Seconds()
	if err == nil && counts.Files < int64(table.Files) {
		err = fmt.Errorf("%s deleted %d files of %d", job, counts.Files, table.Files)
	}
	return took, err
}

// memory purges tables whose files do not exist on fresh servers, and looks at the most
// that these ever had resident. A missing file costs a purge the same memory as one that
// is there.
func (b *bench) memory(ctx context.Context, sizes purgeSizes) ([]memory, error) {
	of := []int{sizes.Few, sizes.Many}
	idle, peak := make([][]float64, len(of)), make([][]float64, len(of))
	for range sizes.Peaks {
		for i, files := range of {
			b.note("memory of a purge of %d files", files)
			before, after, err := b.peakOf(ctx, files)
			if err != nil {
				return nil, err
			}
			idle[i], peak[i] = append(idle[i], before), append(peak[i], after)
		}
	}
	var all []memory
	for i, files := range of {
		all = append(all, memory{Files: files, Idle: spreadOf(idle[i]), Peak: spreadOf(peak[i])})
	}
	return all, nil
}

func (b *bench) peakOf(ctx context.Context, files int) (before, after float64, err error) {
	p, err := b.start(ctx, "--async-purge-purge-wait-ms", "600000")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.createNamespace(ctx); err != nil {
		return 0, 0, err
	}
	if err := p.register(ctx, "t", purgetest.Synthetic{Files: files, PerManifest: 5000}); err != nil {
		return 0, 0, err
	}
	if before, err = p.peak(); err != nil {
		return 0, 0, err
	}
	job, _, err := p.drop(ctx, "t", false)
	if err != nil {
		return 0, 0, err
	}
	counts, err := p.succeeded(ctx, job)
	if err != nil {
		return 0, 0, err
	}
	if counts.Missing < int64(files) {
		return 0, 0, fmt.Errorf("%s met %d files of %d", job, counts.Missing, files)
	}
	after, err = p.peak()
	return before, after, err
}

func (r *purgeReport) text(w io.Writer) {
	r.Environment.text(w)
	for _, rate := range r.Rates {
		fmt.Fprintf(w, "\n%d real files, %s\n", rate.Files, rate.Layout)
		fmt.Fprintf(w, "  bare loop  %s\n", rate.Bare.rangeText("files/s"))
		fmt.Fprintf(w, "  purge      %s\n", rate.Purge.rangeText("files/s"))
		fmt.Fprintf(w, "  ratio      %s\n", rate.Ratio.rangeText(""))
	}
	for _, p := range r.CPU {
		p.text(w)
	}
	if len(r.Memory) > 0 {
		fmt.Fprintln(w, "\nmemory of fresh servers")
	}
	for _, m := range r.Memory {
		fmt.Fprintf(w, "  %7d files  VmHWM %s, before it %.4g MiB\n", m.Files, m.Peak.rangeText("MiB"), m.Idle.P50)
	}
	checksText(w, r.Checks)
}
