package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// besidePurges is loads while two tables are purged from a slow store.
type besidePurges struct {
	Files    int     `json:"files_each"`
	Pace     float64 `json:"loads_per_second"`
	Idle     spread  `json:"idle_milliseconds"`
	Beside   spread  `json:"beside_milliseconds"`
	Seconds  spread  `json:"purge_seconds"`
	P50Ratio spread  `json:"p50_ratio"` // beside to idle, round by round
	P95Ratio spread  `json:"p95_ratio"`
	P99Ratio spread  `json:"p99_ratio"`
}

// besideGC is GOGC of the client and the store beside the measured server. Their garbage
// collectors take all processors for milliseconds, which the server's requests would pay for.
const besideGC = 1000

func (b *bench) besidePurges(ctx context.Context, sizes catalogSizes) (_ *besidePurges, err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(besideGC))
	s, err := startStore(ctx, sizes.StoreDelay)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	p, err := b.startOn(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.createNamespace(ctx); err != nil {
		return nil, err
	}
	const hot = 50
	for i := range hot {
		if err := p.create(ctx, tableName(i)); err != nil {
			return nil, err
		}
	}
	sizes.Hot = hot
	r := &besidePurges{Files: sizes.PurgeFiles, Pace: sizes.Pace}
	var idle, beside, seconds, p50, p95, p99 []float64
	for round := range sizes.Rounds {
		b.note("loads beside purges, round %d of %d", round+1, sizes.Rounds)
		quiet, loud, took, err := p.purgeRound(ctx, sizes, round)
		if err != nil {
			return nil, err
		}
		idle, beside, seconds = append(idle, quiet...), append(beside, loud...), append(seconds, took)
		a, b := spreadOf(quiet), spreadOf(loud)
		p50, p95, p99 = append(p50, ratio(b.P50, a.P50)), append(p95, ratio(b.P95, a.P95)), append(p99, ratio(b.P99, a.P99))
	}
	r.Idle, r.Beside, r.Seconds = spreadOf(idle), spreadOf(beside), spreadOf(seconds)
	r.P50Ratio, r.P95Ratio, r.P99Ratio = spreadOf(p50), spreadOf(p95), spreadOf(p99)
	return r, nil
}

// purgeRound measures loads before, during and after two purges.
func (e *endpoint) purgeRound(ctx context.Context, sizes catalogSizes, round int) (idle, beside []float64, seconds float64, err error) {
	names := []string{fmt.Sprintf("big-%d-0", round), fmt.Sprintf("big-%d-1", round)}
	for _, name := range names {
		if err := e.register(ctx, name, purgetest.Synthetic{Files: sizes.PurgeFiles, PerManifest: 5000}); err != nil {
			return nil, nil, 0, err
		}
	}
	before, err := e.pacedLoads(ctx, sizes, after(sizes.Idle))
	if err != nil {
		return nil, nil, 0, err
	}
	began := time.Now()
	var jobs []string
	for _, name := range names {
		job, _, err := e.drop(ctx, name, true)
		if err != nil {
			return nil, nil, 0, err
		}
		jobs = append(jobs, job)
	}
	purged := make(chan struct{})
	var purgeErr error
	go func() {
		defer close(purged)
		purgeErr = e.allMet(ctx, jobs, int64(sizes.PurgeFiles))
		seconds = time.Since(began).Seconds()
	}()
	beside, err = e.pacedLoads(ctx, sizes, purged)
	<-purged
	if err := errors.Join(err, purgeErr); err != nil {
		return nil, nil, 0, err
	}
	idle, err = e.pacedLoads(ctx, sizes, after(sizes.Idle))
	return append(before, idle...), beside, seconds, err
}

// allMet waits for purges and fails unless each of them met all its files.
func (e *endpoint) allMet(ctx context.Context, jobs []string, files int64) error {
	for _, job := range jobs {
		counts, err := e.succeeded(ctx, job)
		if err != nil {
			return err
		}
		if met := counts.Files + counts.Missing; met < files {
			return fmt.Errorf("%s met %d files of %d", job, met, files)
		}
	}
	return nil
}

func after(d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(d, func() { close(done) })
	return done
}

// pacedLoads loads at a steady pace until done, and at least once per connection.
func (e *endpoint) pacedLoads(ctx context.Context, sizes catalogSizes, done <-chan struct{}) ([]float64, error) {
	took, errs := make([][]float64, sizes.Connections), make([]error, sizes.Connections)
	interval := time.Duration(float64(sizes.Connections) / sizes.Pace * float64(time.Second))
	var wg sync.WaitGroup
	for c := range sizes.Connections {
		wg.Go(func() {
			// The connections take turns.
			time.Sleep(interval * time.Duration(c) / time.Duration(sizes.Connections))
			tick := time.NewTicker(interval)
			defer tick.Stop()
			for i := c; ; i++ {
				sent := time.Now()
				if err := e.load(ctx, tableName(i%sizes.Hot)); err != nil {
					errs[c] = err
					return
				}
				took[c] = append(took[c], millis(time.Since(sent)))
				select {
				case <-done:
					return
				case <-ctx.Done():
					errs[c] = context.Cause(ctx)
					return
				case <-tick.C:
				}
			}
		})
	}
	wg.Wait()
	var all []float64
	for _, sample := range took {
		all = append(all, sample...)
	}
	return all, errors.Join(errs...)
}

func (r *besidePurges) text(w io.Writer) {
	fmt.Fprintf(w, "\n%g loads/s beside two purges of %d files, slow S3 store in another process\n", r.Pace, r.Files)
	fmt.Fprintf(w, "  idle       %s\n  beside     %s\n", r.Idle.text("ms"), r.Beside.text("ms"))
	fmt.Fprintf(w, "  purges     %s\n", r.Seconds.rangeText("s"))
	fmt.Fprintf(w, "  p50 ratio  %s\n  p95 ratio  %s\n  p99 ratio  %s\n", r.P50Ratio.rangeText(""), r.P95Ratio.rangeText(""), r.P99Ratio.rangeText(""))
}
