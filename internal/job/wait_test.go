package job_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
)

// All workers are busy with jobs of others: the inline slots are for those who wait.
func TestWaitRunsInline(t *testing.T) {
	t.Parallel()
	each(t, slow(), job.Hooks{}, func(t *testing.T, w *world) {
		release := make(chan struct{})
		busy := make(chan job.ID, 2)
		long := map[job.ID]bool{}
		var mu sync.Mutex
		r := jobtest.Start(t, w.store, jobtest.Handler(func(_ context.Context, run *job.Run) error {
			mu.Lock()
			wait := long[run.Row().ID]
			mu.Unlock()
			if wait {
				busy <- run.Row().ID
				<-release
			}
			return nil
		}), "a")
		for range 2 {
			mu.Lock()
			long[w.insert(t)] = true
			mu.Unlock()
		}
		r.Wake()
		r.Wake()
		receive(t, "first worker busy", busy)
		receive(t, "second worker busy", busy)
		other := w.insert(t) // waits in the queue, and may go on waiting
		id := w.insert(t)
		row, err := r.Wait(t.Context(), id, time.Minute)
		if err != nil || row.State != job.Succeeded || row.LeaseEpoch != 1 {
			t.Errorf("%+v, %v", row, err)
		}
		if row := w.get(t, other); row.State != job.Pending {
			t.Errorf("the slot took another job: %+v", row)
		}
		close(release)
		jobtest.AwaitState(t, w.store, other, job.Succeeded)
	})
}

// The job outlives whoever waits for it.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	hungUp := errors.New("the client hung up")
	tests := map[string]struct {
		wait func(t *testing.T, r *job.Runner, id job.ID, running <-chan struct{}) (job.Row, error)
		want error
	}{
		"limit": {func(t *testing.T, r *job.Runner, id job.ID, _ <-chan struct{}) (job.Row, error) {
			t.Helper()
			return r.Wait(t.Context(), id, 300*time.Millisecond)
		}, nil},
		"hang-up": {func(t *testing.T, r *job.Runner, id job.ID, running <-chan struct{}) (job.Row, error) {
			t.Helper()
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-running
				cancel(hungUp)
			}()
			return r.Wait(ctx, id, time.Minute)
		}, hungUp},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, slow(), job.Hooks{}, func(t *testing.T, w *world) {
				running, release := make(chan struct{}), make(chan struct{})
				r := jobtest.Start(t, w.store, jobtest.Handler(func(ctx context.Context, _ *job.Run) error {
					close(running)
					select {
					case <-release:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}), "a")
				id := w.insert(t)
				row, err := tc.wait(t, r, id, running)
				unread := err != nil && row.ID == 0 // hung up before the first look
				if !errors.Is(err, tc.want) || row.ID != id && !unread || row.State.Ended() {
					t.Errorf("%+v, %v", row, err)
				}
				close(release)
				if row := jobtest.AwaitState(t, w.store, id, job.Succeeded); row.LeaseEpoch != 1 {
					t.Errorf("row %+v, want one run", row)
				}
			})
		})
	}
}

// A job that another server runs is polled for.
func TestWaitForAnother(t *testing.T) {
	t.Parallel()
	each(t, slow(), job.Hooks{}, func(t *testing.T, w *world) {
		id, paused := w.insert(t), w.insert(t)
		l := w.claimID(t, id).Lease() // before a worker here looks for the first time
		w.set(t, paused, "paused", 1)
		r := jobtest.Start(t, w.store, jobtest.Handler(func(context.Context, *job.Run) error { return nil }), "a")
		go func() {
			if _, err := w.store.Finish(context.Background(), l, job.Terminal(errors.New("damaged"))); err != nil {
				t.Error(err)
			}
		}()
		row, err := r.Wait(t.Context(), id, time.Minute)
		if err != nil || row.State != job.Failed || row.LastError != "damaged" {
			t.Errorf("%+v, %v", row, err)
		}
		if row, err := r.Wait(t.Context(), id, time.Minute); err != nil || row.State != job.Failed {
			t.Errorf("of an ended job: %+v, %v", row, err)
		}
		if _, err := r.Wait(t.Context(), paused+1, time.Minute); fault.KindOf(err) != fault.NotFound {
			t.Errorf("of no job: %v", err)
		}
		if row, err := r.Wait(t.Context(), paused, 250*time.Millisecond); err != nil || row.State != job.Pending || row.LeaseEpoch != 0 {
			t.Errorf("of a paused job: %+v, %v", row, err)
		}
	})
}

// More waiters than slots: they take turns, each job quantum by quantum.
func TestWaitersTakeTurns(t *testing.T) {
	t.Parallel()
	cfg := slow()
	cfg.Workers, cfg.Quantum = 1, 1
	each(t, cfg, job.Hooks{}, func(t *testing.T, w *world) {
		var mu sync.Mutex
		runs := map[job.ID]int{}
		inserted := make(chan struct{})
		r := jobtest.Start(t, w.store, steps(4, func(id job.ID) {
			<-inserted
			mu.Lock()
			defer mu.Unlock()
			runs[id]++
		}), "a")
		var ids []job.ID
		for range 6 {
			ids = append(ids, w.insert(t))
		}
		close(inserted)
		var wg sync.WaitGroup
		for _, id := range ids {
			wg.Go(func() {
				row, err := r.Wait(t.Context(), id, time.Minute)
				if err != nil || row.State != job.Succeeded || row.Attempts != 0 || row.Cursor != "4" {
					t.Errorf("%+v, %v", row, err)
				}
			})
		}
		wg.Wait()
		mu.Lock()
		defer mu.Unlock()
		yielded := 0
		for _, id := range ids {
			if runs[id] > 1 {
				yielded++
			}
		}
		if yielded < 3 { // with a worker and a slot, the last two may find nobody waiting
			t.Errorf("runs %v: hardly anybody yielded", runs)
		}
	})
}
