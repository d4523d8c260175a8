package purge_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/deletepool"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/pace"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// free is a governor with one slot, which must be free wherever a walk may block.
type free struct {
	t *testing.T
	*pace.Governor
}

func newFree(t *testing.T) free {
	t.Helper()
	return free{t, pace.New(pace.Config{Slots: 1, Slice: 50 * time.Microsecond, Patience: time.Millisecond})}
}

func (f free) check(where string) {
	f.t.Helper()
	got := make(chan struct{})
	go func() {
		defer close(got)
		s := f.Section()
		s.Step()
		s.Pause()
	}()
	select {
	case <-got:
	case <-time.After(2 * time.Minute):
		f.t.Errorf("the walk holds its turn in %s", where)
	}
}

type freeHost struct {
	purge.Host
	free free
}

func (h freeHost) Whose(ctx context.Context, j purge.Job, at []blob.Location) ([]purge.Owner, error) {
	h.free.check("Whose")
	return h.Host.Whose(ctx, j, at)
}

func (h freeHost) Adopt(ctx context.Context, j purge.Job, at []blob.Location) ([]blob.Location, error) {
	h.free.check("Adopt")
	return h.Host.Adopt(ctx, j, at)
}

type freeDeleter struct {
	purge.Deleter
	free free
}

func (d freeDeleter) Submit(ctx context.Context, b deletepool.Batch) {
	d.free.check("Submit")
	d.Deleter.Submit(ctx, b)
}

type freeSession struct {
	purge.Session
	free free
}

func (s freeSession) Save(ctx context.Context, at job.Point, progress any) error {
	s.free.check("Save")
	return s.Session.Save(ctx, at, progress)
}

// A walk gives its turn back before it blocks and whatever way it ends, beside requests
// that never cease.
func TestWalkGivesItsTurnBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func(w *world, table purgetest.Table)
		fail  func(call int) error
		ok    func(err error) bool
	}{
		"success":    {ok: func(err error) bool { return err == nil }},
		"damage":     {spoil: func(w *world, table purgetest.Table) { w.replace(table.Manifests[0], "no Avro") }, ok: isTerminal},
		"lost lease": {fail: func(int) error { return job.ErrLeaseLost }, ok: func(err error) bool { return errors.Is(err, job.ErrLeaseLost) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFree(t)
			stop := make(chan struct{})
			var asking sync.WaitGroup
			defer asking.Wait()
			defer close(stop)
			asking.Go(func() {
				for {
					done := f.Request()
					select {
					case <-stop:
						done()
						return
					case <-time.After(time.Millisecond):
						done()
					}
				}
			})
			w := newWorld(t)
			b := w.builder("t", purgetest.Options{LogMax: 2})
			rich(b)
			table := w.table(b.Append(500))
			if tt.spoil != nil {
				tt.spoil(w, table)
			}
			r := w.job(table)
			s := &session{t: t, row: r, due: true, fail: tt.fail}
			walker := purge.NewWalker(purge.Config{BatchSize: 10, InFlight: 2, Pace: f.Governor, ReadBackoff: time.Microsecond},
				freeHost{w, f}, freeDeleter{w.pool, f})
			if err := walker.Run(t.Context(), r.Job, freeSession{s, f}); !tt.ok(err) {
				t.Fatalf("ended with %v", err)
			}
			f.check("its end")
			if name == "success" && int(r.progress.Files) != len(table.Reachable) {
				t.Errorf("%d files, want %d", r.progress.Files, len(table.Reachable))
			}
		})
	}
}
