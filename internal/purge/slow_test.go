package purge_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lethe-project/lethe/internal/blob/faulty"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// listener is a lease that hears by a save alone that it shall stop, as a job's row does.
type listener struct {
	*session
	saved, asked, heard atomic.Int64 // when, in nanoseconds; 0 is never
}

func (l *listener) Due() bool { return time.Since(time.Unix(0, l.saved.Load())) >= time.Second }

func (l *listener) Save(ctx context.Context, at job.Point, progress any) error {
	now := time.Now().UnixNano()
	l.saved.Store(now)
	if err := l.session.Save(ctx, at, progress); err != nil {
		return err
	}
	if l.asked.Load() == 0 {
		return nil
	}
	l.heard.CompareAndSwap(0, now)
	return job.ErrCancelled
}

func (l *listener) Admit(context.Context) error {
	if l.heard.Load() != 0 {
		return job.ErrCancelled
	}
	return nil
}

// However slow the store is, a purge keeps its row up to date every second, and so hears
// that it shall stop. It stops with what is on the wire.
func TestSlowStoreDoesNotDeafen(t *testing.T) {
	t.Parallel()
	const files = 40
	slow := func(w *world) { w.bucket.Delay(faulty.Delete, time.Minute) }
	for name, tt := range map[string]struct {
		cfg     func(w *world) purge.Config
		hears   time.Duration // after it was asked to stop
		within  time.Duration // after that, it has ended
		sent    int           // keys that are sent after it
		atLeast int           // files gone in the end
	}{
		"a rate": {
			cfg:   func(*world) purge.Config { return purge.Config{RateLimit: 1} },
			hears: 2 * time.Second, within: 3 * time.Second, sent: 2, atLeast: 5,
		},
		"deletes that take a minute": {
			cfg:   func(w *world) purge.Config { slow(w); return purge.Config{BatchSize: 2, InFlight: 1} },
			hears: 2 * time.Second, within: time.Minute, atLeast: 2,
		},
		"a pool that is full": {
			cfg:   func(w *world) purge.Config { slow(w); return purge.Config{BatchSize: 1, InFlight: 40} },
			hears: 2 * time.Second, within: time.Minute, atLeast: 5,
		},
		"reads that take half a minute": {
			cfg: func(w *world) purge.Config {
				return purge.Config{Step: func(l purge.Level, step string) {
					if l == purge.Older && step == purge.StepSaved {
						w.bucket.Delay(faulty.Open, 30*time.Second)
					}
				}}
			},
			hears: 30 * time.Second, within: 30 * time.Second, atLeast: files,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				b := w.builder("t", purgetest.Options{})
				for range 4 {
					b.Append(files / 4)
				}
				table := w.table(b)
				r := w.job(table)
				cfg := tt.cfg(w)
				l := &listener{session: &session{t: t, row: r}}
				ended := make(chan error, 1)
				go func() { ended <- purge.NewWalker(cfg, w, w.pool).Run(t.Context(), r.Job, l) }()
				time.Sleep(10 * time.Second)
				before := w.bucket.Counts().DeleteKeys
				asked := time.Now()
				l.asked.Store(asked.UnixNano())
				if err := <-ended; !errors.Is(err, job.ErrCancelled) {
					t.Fatalf("ended with %v", err)
				}
				if took := time.Since(asked); took > tt.within {
					t.Errorf("it ended %s after it was asked to stop, want at most %s", took, tt.within)
				}
				if after := time.Duration(l.heard.Load() - asked.UnixNano()); after > tt.hears {
					t.Errorf("it heard of it after %s, want at most %s", after, tt.hears)
				}
				if sent := w.bucket.Counts().DeleteKeys - before; sent > tt.sent {
					t.Errorf("%d keys were sent after that", sent)
				}
				w.bucket.Delay(faulty.Delete, 0)
				w.bucket.Delay(faulty.Open, 0)
				gone := len(table.Reachable) - len(w.tree())
				if gone < tt.atLeast || int(r.progress.Files) != gone {
					t.Errorf("%d files are gone, %d in the row, want the same and at least %d", gone, r.progress.Files, tt.atLeast)
				}
				if err := w.run(r, purge.Config{}); err != nil {
					t.Fatal(err)
				}
				if left := w.tree(); len(left) > 0 {
					t.Errorf("left: %v", keys(left))
				}
			})
		})
	}
}

// What a rate grants in a second is the most that a batch holds: a job that yields leaves
// after seconds.
func TestYieldUnderARate(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.5, 1, 10} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				r := w.job(w.table(w.builder("t", purgetest.Options{}).Append(300)))
				var over atomic.Bool
				l := &listener{session: &session{t: t, row: r, yield: over.Load}}
				ended := make(chan error, 1)
				go func() { ended <- purge.NewWalker(purge.Config{RateLimit: rate}, w, w.pool).Run(t.Context(), r.Job, l) }()
				time.Sleep(5 * time.Second)
				over.Store(true)
				asked := time.Now()
				if err := <-ended; !errors.Is(err, job.ErrYield) {
					t.Fatalf("ended with %v", err)
				}
				if took := time.Since(asked); took > 20*time.Second {
					t.Errorf("it left after %s", took)
				}
				if r.progress.Files == 0 {
					t.Error("it settled nothing")
				}
			})
		})
	}
}
