package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Run is one run of a claimed job, as its handler sees it. It is safe for concurrent
// use. Once the run has to stop, every call says so with the named cause.
type Run struct {
	store   *Store
	row     Row // as claimed
	further func(a, b Point) bool
	began   time.Time
	stop    context.CancelCauseFunc // cancels the handler's context

	saving sync.Mutex // one save at a time
	base   Point      // as claimed, then as last counted for progress

	mu    sync.Mutex
	cause error     // why the run must stop
	yield bool      // the quantum is over and others wait
	sent  time.Time // when the last successful save or heartbeat was sent
	saved time.Time // the same of the last save
}

func newRun(store *Store, further func(a, b Point) bool, row Row, sent time.Time, stop context.CancelCauseFunc) *Run {
	return &Run{store: store, row: row, further: further, began: time.Now(), stop: stop, base: row.Point(), sent: sent, saved: sent}
}

// Row returns the job as it was claimed.
func (r *Run) Row() Row { return r.row }

// Name returns the job's public name.
func (r *Run) Name() string { return r.store.Name(r.row.ID) }

// Due reports whether a second has passed since the last save.
func (r *Run) Due() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.saved) >= saveEvery
}

// Save writes the point reached and the progress (anything that marshals to JSON),
// under the lease. An error means that the run must send nothing more, let the
// requests on the wire end, may Save once again what they settled, and return the
// error: ErrLeaseLost (nothing was written), ErrCancelled, ErrPaused or ErrShutdown, or
// trouble of the database.
func (r *Run) Save(ctx context.Context, p Point, progress any) error {
	raw, err := json.Marshal(progress)
	if err != nil {
		return fmt.Errorf("job: progress: %w", err)
	}
	r.saving.Lock()
	defer r.saving.Unlock()
	if cause := r.why(ctx); errors.Is(cause, ErrLeaseLost) {
		return cause
	}
	ahead := r.further(r.base, p)
	sent := time.Now()
	// What was settled is settled, also when the server is stopping; the fence decides.
	free, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveWait)
	err = r.store.Save(free, r.row.Lease(), p, raw, ahead)
	cancel()
	switch {
	case err == nil, errors.Is(err, ErrCancelled), errors.Is(err, ErrPaused):
		if ahead {
			r.base = p
		}
		r.mu.Lock()
		r.sent, r.saved = later(r.sent, sent), sent
		r.mu.Unlock()
		if err != nil {
			r.halt(err)
		}
	case errors.Is(err, ErrLeaseLost):
		r.lose(ErrLeaseLost)
	default:
		if cause := r.why(ctx); cause != nil {
			return cause
		}
		return &unsavedError{err: err}
	}
	if cause := r.why(ctx); cause != nil {
		return cause
	}
	r.look(ctx)
	return nil
}

// look asks, once the quantum is over, whether others wait.
func (r *Run) look(ctx context.Context) {
	if time.Since(r.began) < r.store.cfg.Quantum {
		return
	}
	if waiting, err := r.store.Waiting(ctx); err == nil { // else the next save asks again
		r.mu.Lock()
		r.yield = waiting
		r.mu.Unlock()
	}
}

// Yield reports whether the quantum is over while others wait, as of the last save. The
// run then settles what it has begun, saves and returns ErrYield.
func (r *Run) Yield() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.yield
}

// Admit reports whether a batch may be sent now: nil only if the last successful save
// or heartbeat was sent less than half the timeout ago, by this process' monotonic
// clock, and nothing has told the run to stop.
func (r *Run) Admit(ctx context.Context) error {
	if cause := r.why(ctx); cause != nil {
		return cause
	}
	if age := r.age(); age >= r.store.cfg.HeartbeatTimeout/2 {
		return fmt.Errorf("%w: no heartbeat got through for %s", ErrLeaseLost, age.Round(time.Millisecond))
	}
	return nil
}

func (r *Run) age() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.sent)
}

// why returns the cause for which the run must stop, nil if there is none.
func (r *Run) why(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause != nil {
		return r.cause
	}
	return context.Cause(ctx)
}

// halt stops the run softly: nothing new is begun.
func (r *Run) halt(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause == nil {
		r.cause = cause
	}
}

// lose stops the run at once.
func (r *Run) lose(cause error) {
	r.mu.Lock()
	r.cause = cause // whatever was to stop it before: now nothing may be written either
	r.mu.Unlock()
	r.stop(cause)
}

// beat is one heartbeat. Trouble of the database is borne until the lease has surely
// run out.
func (r *Run) beat(ctx context.Context) {
	sent := time.Now()
	err := r.store.Heartbeat(ctx, r.row.Lease())
	switch {
	case err == nil:
		r.mu.Lock()
		r.sent = later(r.sent, sent)
		r.mu.Unlock()
	case errors.Is(err, ErrLeaseLost), r.age() >= r.store.cfg.HeartbeatTimeout:
		r.lose(ErrLeaseLost)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
