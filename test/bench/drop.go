package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// dropSizes of the benchmark.
type dropSizes struct {
	Drops     int    `default:"200" help:"Drops of each kind of table, workers paused."`
	Burst     int    `default:"64" help:"Drops at once."`
	Large     int    `default:"50000" help:"Files of the largest tables."`
	Small     int    `default:"100" help:"Real files of the tables that are dropped synchronously."`
	Snapshots int    `default:"5000" help:"Snapshots of the table with a long metadata file."`
	Part      string `default:"all" enum:"all,paused,bursts" help:"all, paused (drops one by one) or bursts (many at once)."`
}

func (s dropSizes) of(quick bool) dropSizes {
	if quick {
		return dropSizes{Drops: 4, Burst: 4, Large: 2000, Small: 10, Snapshots: 50, Part: s.Part}
	}
	return s
}

type dropReport struct {
	Environment environment `json:"environment"`
	Paused      []series    `json:"paused,omitempty"` // asynchronous drops one by one, no worker free
	Bursts      *bursts     `json:"bursts,omitempty"`
	Checks      []check     `json:"checks"`
}

// bursts are many drops at once, one kind after the other.
type bursts struct {
	Async      burst   `json:"async"`
	SyncBeside burst   `json:"sync_beside_backlog"`
	Backlog    backlog `json:"backlog"`
	Sync       burst   `json:"sync"`
	PeakMiB    float64 `json:"peak_mib"` // VmHWM of the server
}

// series is many drops of one kind of table.
type series struct {
	Table         string  `json:"table"`
	Files         int     `json:"files"`
	MetadataBytes int64   `json:"metadata_bytes"`
	Milliseconds  spread  `json:"milliseconds"`
	MedianRatio   float64 `json:"median_ratio"` // to the first series
	P95Ratio      float64 `json:"p95_ratio"`
}

// burst is many drops at once.
type burst struct {
	Tables       int    `json:"tables"`
	Files        int    `json:"files_each"`
	Milliseconds spread `json:"milliseconds"`
}

// backlog is what the asynchronous burst left to do.
type backlog struct {
	Files   int64   `json:"files"`
	Seconds float64 `json:"seconds"`
}

func (b *bench) drop(ctx context.Context, sizes dropSizes) (*dropReport, error) {
	r := &dropReport{Environment: b.environment()}
	if sizes.Part != "bursts" {
		if err := b.dropPaused(ctx, sizes, r); err != nil {
			return nil, fmt.Errorf("drops with paused workers: %w", err)
		}
		for _, s := range r.Paused[2:] {
			r.Checks = append(r.Checks,
				atMost("median ratio, "+s.Table, s.MedianRatio, 1.2), atMost("p95 ratio, "+s.Table, s.P95Ratio, 1.5))
		}
	}
	if sizes.Part != "paused" {
		r.Bursts = &bursts{}
		if err := b.dropBursts(ctx, sizes, r.Bursts); err != nil {
			return nil, fmt.Errorf("bursts: %w", err)
		}
		r.Checks = append(r.Checks,
			atMost("slowest async drop of the burst, s", r.Bursts.Async.Milliseconds.Max/1000, 5),
			atMost("slowest sync drop of the burst, s", r.Bursts.Sync.Milliseconds.Max/1000, 5))
	}
	return r, nil
}

// pausedArgs give the server one worker, and a rate that keeps this worker for ever on
// the first table it meets.
var pausedArgs = []string{
	"--async-purge-worker-threads", "1", "--async-purge-rate-limit", "1",
	"--async-purge-quantum", "24h",
}

// dropPaused drops tables of several kinds in turn while no worker is free.
func (b *bench) dropPaused(ctx context.Context, sizes dropSizes, r *dropReport) (err error) {
	p, err := b.start(ctx, pausedArgs...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.createNamespace(ctx); err != nil {
		return err
	}
	kinds := []struct {
		name  string
		table purgetest.Synthetic
	}{
		{"10 files", purgetest.Synthetic{Files: 10}},
		{"10 files, again", purgetest.Synthetic{Files: 10}}, // what noise alone makes of a ratio
		{"1,000 files", purgetest.Synthetic{Files: 1000}},
		{fmt.Sprintf("%d files", sizes.Large), purgetest.Synthetic{Files: sizes.Large, PerManifest: 5000}},
		{fmt.Sprintf("%d snapshots", sizes.Snapshots), purgetest.Synthetic{Files: 1000, Expired: sizes.Snapshots - 1}},
	}
	held, err := b.holdWorker(ctx, p.endpoint)
	if err != nil {
		return err
	}
	r.Paused = make([]series, len(kinds))
	for k, kind := range kinds {
		b.note("making %d tables: %s", sizes.Drops, kind.name)
		for i := range sizes.Drops {
			if err := p.register(ctx, fmt.Sprintf("t-%d-%d", k, i), kind.table); err != nil {
				return err
			}
		}
		st, err := os.Stat(strings.TrimPrefix(p.location(fmt.Sprintf("t-%d-0", k)), "file://") + "/metadata/00000-0.metadata.json")
		if err != nil {
			return err
		}
		r.Paused[k] = series{Table: kind.name, Files: kind.table.Files, MetadataBytes: st.Size()}
	}
	b.note("dropping them in turn")
	took := make([][]float64, len(kinds))
	for i := range sizes.Drops {
		for _, k := range rand.Perm(len(kinds)) {
			_, d, err := p.drop(ctx, fmt.Sprintf("t-%d-%d", k, i), true)
			if err != nil {
				return err
			}
			took[k] = append(took[k], millis(d))
		}
	}
	for k := range kinds {
		s, first := &r.Paused[k], &r.Paused[0]
		s.Milliseconds = spreadOf(took[k])
		s.MedianRatio = ratio(s.Milliseconds.P50, first.Milliseconds.P50)
		s.P95Ratio = ratio(s.Milliseconds.P95, first.Milliseconds.P95)
	}
	return p.onlyWaiting(ctx, held)
}

// holdWorker drops a table that the only worker can not finish and waits until it has
// claimed it.
func (b *bench) holdWorker(ctx context.Context, e *endpoint) (string, error) {
	if err := e.register(ctx, "held", purgetest.Synthetic{Files: 20_000}); err != nil {
		return "", err
	}
	held, _, err := e.drop(ctx, "held", true)
	if err != nil {
		return "", err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		j, err := e.jobs.Get(ctx, held)
		if err != nil || j.State == client.Running {
			return held, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// onlyWaiting proves that no job but the one that holds the worker was begun.
func (e *endpoint) onlyWaiting(ctx context.Context, held string) error {
	for j, err := range e.jobs.List(ctx, client.JobFilter{}) {
		if err != nil {
			return err
		}
		if want := client.Pending; j.Job != held && j.State != want {
			return fmt.Errorf("%s is %s: the workers were not paused", j.Job, j.State)
		} else if j.Job == held && j.State != client.Running {
			return fmt.Errorf("%s is %s: it did not hold the worker", j.Job, j.State)
		}
	}
	return nil
}

// dropBursts drops many tables at once on a server with its default settings: large
// ones asynchronously, then small real ones synchronously, first beside the purges of
// the large ones and then alone.
func (b *bench) dropBursts(ctx context.Context, sizes dropSizes, r *bursts) (err error) {
	p, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.createNamespace(ctx); err != nil {
		return err
	}
	large := purgetest.Synthetic{Files: sizes.Large, PerManifest: 5000}
	small := purgetest.Synthetic{Files: sizes.Small, PerPartition: 10, Exist: true}
	b.note("making %d tables of %d files for the bursts, %d of %d real files", sizes.Burst, large.Files, 2*sizes.Burst, small.Files)
	for i := range sizes.Burst {
		err := errors.Join(
			p.register(ctx, fmt.Sprintf("large-%d", i), large),
			p.register(ctx, fmt.Sprintf("beside-%d", i), small),
			p.register(ctx, fmt.Sprintf("small-%d", i), small))
		if err != nil {
			return err
		}
	}
	b.note("dropping %d at once", sizes.Burst)
	began := time.Now()
	var jobs []string
	if r.Async, jobs, err = p.burst(ctx, "large", sizes.Burst, large.Files, true); err != nil {
		return err
	}
	if r.SyncBeside, _, err = p.burst(ctx, "beside", sizes.Burst, small.Files, false); err != nil {
		return err
	}
	b.note("waiting for the purges")
	for _, job := range jobs {
		counts, err := p.succeeded(ctx, job)
		if err != nil {
			return err
		}
		r.Backlog.Files += counts.Files + counts.Missing
	}
	r.Backlog.Seconds = time.Since(began).Seconds()
	if r.Sync, _, err = p.burst(ctx, "small", sizes.Burst, small.Files, false); err != nil {
		return err
	}
	r.PeakMiB, err = p.peak()
	return err
}

func (e *endpoint) burst(ctx context.Context, prefix string, n, files int, async bool) (burst, []string, error) {
	jobs, took, errs := make([]string, n), make([]float64, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var d time.Duration
			jobs[i], d, errs[i] = e.drop(ctx, fmt.Sprintf("%s-%d", prefix, i), async)
			took[i] = millis(d)
		})
	}
	wg.Wait()
	return burst{Tables: n, Files: files, Milliseconds: spreadOf(took)}, jobs, errors.Join(errs...)
}

func (r *dropReport) text(w io.Writer) {
	r.Environment.text(w)
	if len(r.Paused) > 0 {
		fmt.Fprintln(w, "\nasynchronous drops one by one, workers paused")
	}
	for _, s := range r.Paused {
		fmt.Fprintf(w, "  %-18s metadata %8d B   %s   to the first: median %.2f, p95 %.2f\n",
			s.Table, s.MetadataBytes, s.Milliseconds.text("ms"), s.MedianRatio, s.P95Ratio)
	}
	if r.Bursts != nil {
		r.Bursts.text(w)
	}
	checksText(w, r.Checks)
}

func (r *bursts) text(w io.Writer) {
	fmt.Fprintln(w, "\nat once, default settings")
	line := func(name string, b burst) {
		fmt.Fprintf(w, "  %-20s %d tables of %d files   %s\n", name, b.Tables, b.Files, b.Milliseconds.text("ms"))
	}
	line("asynchronous", r.Async)
	line("synchronous, beside", r.SyncBeside)
	line("synchronous, alone", r.Sync)
	fmt.Fprintf(w, "  the purges of the asynchronous ones: %d files in %.1f s, the synchronous ones beside them included\n", r.Backlog.Files, r.Backlog.Seconds)
	fmt.Fprintf(w, "  VmHWM %.0f MiB\n", r.PeakMiB)
}
