package job_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// slow is a config whose workers never poll by themselves.
func slow() job.Config {
	c := jobtest.Config()
	c.PollInterval = time.Hour
	return c
}

// receive waits for a signal of the code under test.
func receive[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(2 * time.Minute):
		t.Fatalf("never: %s", what)
	}
	return v
}

// Two servers share one table: every job runs, and no two runs of a job overlap.
func TestRunnersShareTheWork(t *testing.T) {
	t.Parallel()
	each(t, jobtest.Config(), job.Hooks{}, func(t *testing.T, w *world) {
		const jobs = 30
		var mu sync.Mutex
		inside, tries := map[job.ID]bool{}, map[job.ID]int{}
		handler := jobtest.Handler(func(ctx context.Context, run *job.Run) error {
			id := run.Row().ID
			mu.Lock()
			if inside[id] {
				t.Errorf("job %d runs twice at once", id)
			}
			inside[id] = true
			tries[id]++
			n := tries[id]
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				inside[id] = false
			}()
			if err := run.Save(ctx, job.Point{Cursor: fmt.Sprint(n)}, map[string]int{"files": n}); err != nil {
				return err
			}
			if n <= int(id)%3 {
				return errors.New("not yet")
			}
			return nil
		})
		other := job.NewStore(w.db, jobtest.Table, jobtest.Config(), job.Hooks{}, job.Observer{})
		jobtest.Start(t, w.store, handler, "a")
		jobtest.Start(t, other, handler, "b")
		var ids []job.ID
		for range jobs {
			ids = append(ids, w.insert(t))
			w.store.Wake()
		}
		for _, id := range ids {
			row := jobtest.AwaitState(t, w.store, id, job.Succeeded)
			if want := int64(id)%3 + 1; row.LeaseEpoch != want || string(row.Progress) != fmt.Sprintf(`{"files":%d}`, want) {
				t.Errorf("job %d: %+v, want %d runs", id, row, want)
			}
		}
	})
}

// An insert wakes a worker; nobody waits for the poll.
func TestWake(t *testing.T) {
	t.Parallel()
	each(t, slow(), job.Hooks{}, func(t *testing.T, w *world) {
		ran := make(chan job.ID)
		r := jobtest.Start(t, w.store, jobtest.Handler(func(_ context.Context, run *job.Run) error {
			ran <- run.Row().ID
			return nil
		}), "a")
		for range 5 {
			id := w.insert(t)
			r.Wake()
			if got := receive(t, "the job runs", ran); got != id {
				t.Errorf("job %d ran, want %d", got, id)
			}
		}
	})
}

// A batch that blocks for longer than the timeout does not cost the lease: whoever beats
// never deletes. Another server stands by to steal it.
func TestBlockedBatchKeepsItsOwner(t *testing.T) {
	t.Parallel()
	cfg := jobtest.Config()
	cfg.HeartbeatTimeout = 10 * time.Second // a busy machine may stand still for some of it
	each(t, cfg, job.Hooks{}, func(t *testing.T, w *world) {
		var runs atomic.Int32
		handler := jobtest.Handler(func(ctx context.Context, run *job.Run) error {
			runs.Add(1)
			claimed := run.Row().HeartbeatAt
			jobtest.Eventually(t, "the lease of the claim would have run out", func() bool { // the batch; it hears no context
				return w.get(t, run.Row().ID).HeartbeatAt > claimed+cfg.HeartbeatTimeout.Milliseconds()
			})
			if err := run.Admit(ctx); err != nil {
				t.Errorf("the next batch: %v", err)
			}
			return nil
		})
		other := job.NewStore(w.db, jobtest.Table, cfg, job.Hooks{}, job.Observer{})
		jobtest.Start(t, w.store, handler, "a")
		jobtest.Start(t, other, handler, "b")
		id := w.insert(t)
		row := jobtest.AwaitState(t, w.store, id, job.Succeeded)
		if row.LeaseEpoch != 1 || row.StaleReclaims != 0 || runs.Load() != 1 {
			t.Errorf("%d runs, row %+v, want one owner", runs.Load(), row)
		}
	})
}

// A stolen lease ends the run with its name, and nothing it says counts any more.
func TestLostLease(t *testing.T) {
	t.Parallel()
	for _, server := range sqldbtest.Servers(t) {
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			db := server.Open(t, sqldb.Config{}, jobtest.Migrations)
			cfg := slow()
			cfg.HeartbeatTimeout = 6 * time.Second
			lost := make(chan job.Row, 1)
			s := job.NewStore(db, jobtest.Table, cfg, job.Hooks{}, job.Observer{Events: job.Events{Lost: func(r job.Row) { lost <- r }}})
			started, answers := make(chan struct{}), make(chan error, 2)
			r := jobtest.Start(t, s, jobtest.Handler(func(ctx context.Context, run *job.Run) error {
				close(started)
				<-ctx.Done() // by the heartbeat
				answers <- context.Cause(ctx)
				answers <- run.Admit(ctx)
				if err := run.Save(ctx, job.Point{Phase: "z"}, 1); !errors.Is(err, job.ErrLeaseLost) {
					t.Errorf("save: %v", err)
				}
				return nil // a lie: all is settled
			}), "a")
			id := jobtest.Insert(t, db, s, job.New{})
			r.Wake()
			receive(t, "start", started)
			jobtest.Set(t, db, jobtest.Table, id, "lease_epoch", 7) // the thief, whose runner is elsewhere
			for range 2 {
				if err := receive(t, "an answer", answers); !errors.Is(err, job.ErrLeaseLost) {
					t.Errorf("stopped by %v, want the lost lease", err)
				}
			}
			if row := receive(t, "event", lost); row.ID != id || row.LeaseEpoch != 1 {
				t.Errorf("lost %+v", row)
			}
			if row := jobtest.Get(t, s, id); row.State != job.Running || row.Phase != "" || row.LeaseEpoch != 7 {
				t.Errorf("row %+v", row)
			}
		})
	}
}

// When no heartbeat gets through, batches stop long before the lease runs out.
func TestAdmitNeedsAFreshLease(t *testing.T) {
	t.Parallel()
	cfg := slow()
	cfg.HeartbeatTimeout, cfg.RetryBase = 8*time.Second, time.Hour
	db := sqldbtest.Servers(t)[0].Open(t, sqldb.Config{}, jobtest.Migrations)
	s := job.NewStore(db, jobtest.Table, cfg, job.Hooks{}, job.Observer{})
	s.SetJitter(func(d time.Duration) time.Duration { return d })
	held, release := make(chan time.Time), make(chan struct{})
	refused := make(chan error, 1)
	r := jobtest.Start(t, s, jobtest.Handler(func(ctx context.Context, run *job.Run) error {
		if err := run.Admit(ctx); err != nil {
			t.Errorf("the first batch: %v", err)
		}
		since, last := <-held, time.Time{}
		jobtest.Eventually(t, "no more batches", func() bool {
			asked := time.Now()
			if run.Admit(ctx) != nil {
				return true
			}
			last = asked
			return false
		})
		if first := time.Since(since); first < cfg.HeartbeatTimeout/2-cfg.HeartbeatTimeout/3 || last.Sub(since) >= cfg.HeartbeatTimeout {
			t.Errorf("the last batch was sent %s after the database stopped, and refused after %s", last.Sub(since), first)
		}
		refused <- run.Admit(ctx)
		close(release)
		return run.Admit(ctx)
	}), "a")
	id := jobtest.Insert(t, db, s, job.New{})
	r.Wake()
	jobtest.AwaitState(t, s, id, job.Running)
	// One long transaction keeps every other writer of SQLite waiting.
	err := db.Tx(t.Context(), func(*sqldb.Tx) error {
		held <- time.Now()
		receive(t, "release", release)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := receive(t, "refusal", refused); !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("refused with %v", err)
	}
	// It still held the lease, so that it could give the job back, uncounted.
	if row := jobtest.AwaitState(t, s, id, job.Pending); row.Attempts != 0 || row.LastError != "" {
		t.Errorf("row %+v", row)
	}
}

// A failed attempt is one error line and one event, a panic too.
func TestFailedAttemptsAreTold(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		run   func(ctx context.Context, run *job.Run) error
		state job.State
		err   string
	}{
		"error":    {func(context.Context, *job.Run) error { return fmt.Errorf("level DATA: %w", errors.New("denied")) }, job.Failed, "level DATA: denied"},
		"terminal": {func(context.Context, *job.Run) error { return job.Terminal(errors.New("damaged")) }, job.Failed, "damaged"},
		"panic":    {func(context.Context, *job.Run) error { panic("nil map") }, job.Failed, "panic: nil map"},
		"long":     {func(context.Context, *job.Run) error { return errors.New(strings.Repeat("ä", 5000)) }, job.Failed, strings.Repeat("ä", 1024)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := sqldbtest.Servers(t)[0].Open(t, sqldb.Config{}, jobtest.Migrations)
			cfg := slow()
			cfg.MaxAttempts = 1
			failed := make(chan job.Row, 10)
			ended := make(chan job.Row, 10)
			var lines lockedBuffer
			s := job.NewStore(db, jobtest.Table, cfg, job.Hooks{}, job.Observer{
				Logger: slog.New(slog.NewJSONHandler(&lines, &slog.HandlerOptions{Level: slog.LevelWarn})),
				Events: job.Events{
					Failed: func(row job.Row, err error) {
						if err == nil {
							t.Error("failed without an error")
						}
						failed <- row
					},
					Ended: func(row job.Row) { ended <- row },
				},
			})
			r := jobtest.Start(t, s, jobtest.Handler(func(ctx context.Context, run *job.Run) error {
				if err := run.Save(ctx, job.Point{Phase: "DATA"}, nil); err != nil {
					return err
				}
				return tc.run(ctx, run)
			}), "a")
			id := jobtest.Insert(t, db, s, job.New{})
			r.Wake()
			row := receive(t, "failed event", failed)
			if row.State != tc.state || row.LastError != tc.err || row.Attempts != 1 {
				t.Errorf("row %+v", row)
			}
			receive(t, "ended event", ended)
			var line struct {
				Level, Msg, Job, Phase, State, Error, Stack string
				Attempt                                     int
			}
			text := lines.String()
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Fatalf("not one line: %v\n%s", err, text)
			}
			if line.Level != "ERROR" || line.Job != s.Name(id) || line.Phase != "DATA" || line.Attempt != 1 || line.State != "FAILED" || !strings.HasPrefix(line.Error, tc.err) {
				t.Errorf("line %+v", line)
			}
			if (line.Stack != "") != (name == "panic") {
				t.Errorf("stack %q", line.Stack)
			}
		})
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A server that stops gives its jobs back, uncounted, with what they have settled.
func TestStopReleases(t *testing.T) {
	t.Parallel()
	each(t, slow(), job.Hooks{}, func(t *testing.T, w *world) {
		started := make(chan struct{}, 2)
		r := job.NewRunner(w.store, jobtest.Handler(func(ctx context.Context, run *job.Run) error {
			started <- struct{}{}
			<-ctx.Done()
			if err := run.Save(ctx, job.Point{Phase: "DATA", Cursor: "9"}, map[string]int{"files": 9}); !errors.Is(err, job.ErrShutdown) {
				t.Errorf("save: %v", err)
			}
			return fmt.Errorf("delete: %w", ctx.Err())
		}), "a")
		r.Start()
		ids := []job.ID{w.insert(t), w.insert(t)}
		w.set(t, ids[0], "attempts", 4)
		r.Wake()
		r.Wake()
		for range ids {
			receive(t, "start", started)
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			row := w.get(t, id)
			if row.State != job.Pending || row.Attempts != 0 || row.Cursor != "9" || row.LastError != "" || row.HeartbeatAt != 0 {
				t.Errorf("row %+v", row)
			}
		}
		if row, err := r.Wait(t.Context(), ids[0], time.Hour); !errors.Is(err, job.ErrShutdown) || row.State != job.Pending {
			t.Errorf("wait on a stopped runner: %+v, %v", row, err)
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Errorf("second stop: %v", err)
		}
	})
}

// A handler that does not listen cannot hold a server up.
func TestHardStop(t *testing.T) {
	t.Parallel()
	each(t, slow(), job.Hooks{}, func(t *testing.T, w *world) {
		started, deaf, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
		r := job.NewRunner(w.store, jobtest.Handler(func(context.Context, *job.Run) error {
			close(started)
			<-deaf
			close(over)
			return nil
		}), "a")
		r.Start()
		id := w.insert(t)
		r.Wake()
		receive(t, "start", started)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := r.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stop: %v", err)
		}
		close(deaf)
		receive(t, "the end of the handler", over)
		if err := r.Stop(t.Context()); err != nil {
			t.Errorf("second stop: %v", err)
		}
		if row := w.get(t, id); row.State != job.Running { // its lease runs out
			t.Errorf("row %+v", row)
		}
	})
}

// steps is a handler that takes its job n steps far, saves each, and yields when it is
// asked to. began hears of each run.
func steps(n int, began func(id job.ID)) jobtest.Handler {
	return func(ctx context.Context, run *job.Run) error {
		began(run.Row().ID)
		done, _ := strconv.Atoi(run.Row().Cursor)
		for done < n {
			done++
			if err := run.Save(ctx, job.Point{Cursor: strconv.Itoa(done)}, done); err != nil {
				return err
			}
			if done < n && run.Yield() {
				return job.ErrYield
			}
		}
		return nil
	}
}

// With one worker and a quantum that is always over, the jobs take turns.
func TestFairness(t *testing.T) {
	t.Parallel()
	cfg := slow()
	cfg.Workers, cfg.Quantum = 1, 1
	each(t, cfg, job.Hooks{}, func(t *testing.T, w *world) {
		var order []job.ID // of the one worker
		a, b, c := w.insert(t), w.insert(t), w.insert(t)
		for i, id := range []job.ID{a, b, c} { // which may all be of one millisecond
			w.set(t, id, "available_at", int64(i))
		}
		r := jobtest.Start(t, w.store, steps(3, func(id job.ID) { order = append(order, id) }), "a")
		for _, id := range []job.ID{a, b, c} {
			if row := jobtest.AwaitState(t, w.store, id, job.Succeeded); row.Attempts != 0 || row.Cursor != "3" {
				t.Errorf("row %+v", row)
			}
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(order) < 7 || !slices.Equal(order[:3], []job.ID{a, b, c}) {
			t.Errorf("order %v, want turns of %d, %d, %d", order, a, b, c)
		}
	})
}

// A job alone has nobody to yield to.
func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	cfg := slow()
	cfg.Quantum = 1
	each(t, cfg, job.Hooks{}, func(t *testing.T, w *world) {
		later := jobtest.Insert(t, w.db, w.store, job.New{Delay: time.Hour})
		paused := w.insert(t)
		if _, err := w.store.Pause(t.Context(), paused); err != nil {
			t.Fatal(err)
		}
		r := jobtest.Start(t, w.store, steps(5, func(job.ID) {}), "a")
		id := w.insert(t)
		r.Wake()
		if row := jobtest.AwaitState(t, w.store, id, job.Succeeded); row.LeaseEpoch != 1 {
			t.Errorf("it took %d runs", row.LeaseEpoch)
		}
		for _, id := range []job.ID{later, paused} {
			if row := w.get(t, id); row.LeaseEpoch != 0 {
				t.Errorf("ran %+v", row)
			}
		}
	})
}

// An answer that COMMIT lost is read back: the job is done once, and told once. A lost
// claim is nobody's, until its lease has run out.
func TestAmbiguousCommits(t *testing.T) {
	t.Parallel()
	for _, server := range sqldbtest.Servers(t) {
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			var lose atomic.Bool
			lost := errors.New("connection reset")
			db := server.Open(t, sqldb.Config{LockWait: 20 * time.Second, Hooks: sqldb.Hooks{AfterCommit: func(context.Context) error {
				if lose.CompareAndSwap(true, false) {
					return lost
				}
				return nil
			}}}, jobtest.Migrations)
			var ended atomic.Int32
			w := &world{db: db, store: job.NewStore(db, jobtest.Table, job.Config{}, job.Hooks{}, job.Observer{Events: job.Events{Ended: func(job.Row) { ended.Add(1) }}})}
			for _, answer := range []error{nil, errors.New("boom"), job.ErrYield} {
				id := w.insert(t)
				l := w.claimID(t, id).Lease()
				lose.Store(true)
				after, err := w.store.Finish(t.Context(), l, answer)
				if row := w.get(t, id); err != nil || after.State != row.State || row.State == job.Running {
					t.Errorf("finish %v: %+v, %v, row %+v", answer, after, err, row)
				}
			}
			if n := ended.Load(); n != 1 {
				t.Errorf("%d ends were told", n)
			}
			id := w.insert(t)
			lose.Store(true)
			if row, ok, err := w.store.ClaimID(t.Context(), "me", id); ok || !errors.Is(err, lost) {
				t.Fatalf("claimed %+v, %v", row, err)
			}
			w.stale(t, id)
			if row := w.claimID(t, id); row.LeaseEpoch != 2 {
				t.Errorf("row %+v", row)
			}
		})
	}
}

// Cancel and pause reach a running job at its next save; the requests on the wire end.
func TestControlOfARunningJob(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		control func(ctx context.Context, s *job.Store, id job.ID) (job.Row, error)
		cause   error
		state   job.State
	}{
		"cancel": {func(ctx context.Context, s *job.Store, id job.ID) (job.Row, error) { return s.Cancel(ctx, id) }, job.ErrCancelled, job.Cancelled},
		"pause":  {func(ctx context.Context, s *job.Store, id job.ID) (job.Row, error) { return s.Pause(ctx, id) }, job.ErrPaused, job.Pending},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, slow(), job.Hooks{}, func(t *testing.T, w *world) {
				started, next := make(chan struct{}, 2), make(chan struct{})
				var second atomic.Bool
				r := jobtest.Start(t, w.store, jobtest.Handler(func(ctx context.Context, run *job.Run) error {
					started <- struct{}{}
					if second.Load() {
						return nil
					}
					receive(t, "control", next)
					err := run.Save(ctx, job.Point{Cursor: "1"}, 1)
					if !errors.Is(err, tc.cause) {
						t.Errorf("save: %v", err)
					}
					if ctx.Err() != nil {
						t.Error("requests on the wire were cut off")
					}
					if err := run.Admit(ctx); !errors.Is(err, tc.cause) {
						t.Errorf("admit: %v", err)
					}
					if err := run.Save(ctx, job.Point{Cursor: "2"}, 2); !errors.Is(err, tc.cause) {
						t.Errorf("last save: %v", err)
					}
					return err
				}), "a")
				id := w.insert(t)
				r.Wake()
				receive(t, "start", started)
				if row, err := tc.control(t.Context(), w.store, id); err != nil || row.State != job.Running {
					t.Fatalf("%+v, %v", row, err)
				}
				close(next)
				row := jobtest.AwaitState(t, w.store, id, tc.state)
				if row.Attempts != 0 || row.Cursor != "2" || row.LastError != "" {
					t.Errorf("row %+v", row)
				}
				second.Store(true)
				var err error
				if tc.state == job.Cancelled {
					_, err = w.store.Retry(t.Context(), id, job.RetryOptions{})
				} else {
					_, err = w.store.Resume(t.Context(), id)
				}
				if err != nil {
					t.Fatal(err)
				}
				receive(t, "a second run, woken", started)
				jobtest.AwaitState(t, w.store, id, job.Succeeded)
			})
		})
	}
}
