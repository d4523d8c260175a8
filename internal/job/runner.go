package job

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Runner runs the jobs of one table in this process: workers that claim what waits,
// inline slots for those who wait for one job, and one goroutine that keeps all their
// leases alive and does nothing else that could block.
type Runner struct {
	store   *Store
	handler Handler
	owner   string
	slots   *semaphore.Weighted // inline runs; it serves its waiters in order

	pruneFirst time.Duration // after the start

	// The runner's own life: work outlives the request that asked for it. soft ends
	// with Stop, hard with the end of Stop's patience.
	soft, hard         context.Context
	endSoft, endHard   context.CancelCauseFunc
	heartbeats, worker sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	runs    map[*Run]struct{}
	watch   map[ID][]chan struct{} // signalled when a run of that job ends here
}

// NewRunner returns a runner that calls itself owner in the rows it works on.
func NewRunner(store *Store, handler Handler, owner string) *Runner {
	if wrap := store.cfg.Wrap; wrap != nil {
		handler = wrap(handler)
	}
	r := &Runner{
		store: store, handler: handler, owner: owner,
		slots: semaphore.NewWeighted(int64(store.cfg.Workers)), pruneFirst: pruneFirst,
		runs: map[*Run]struct{}{}, watch: map[ID][]chan struct{}{},
	}
	r.hard, r.endHard = context.WithCancelCause(sqldb.Patient(context.Background()))
	r.soft, r.endSoft = context.WithCancelCause(r.hard)
	return r
}

// Start begins to claim jobs, and lets Wait run some.
func (r *Runner) Start() {
	r.heartbeats.Go(r.beat)
	for range r.store.cfg.Workers {
		r.goIfRunning(r.work)
	}
	r.goIfRunning(r.prune)
}

// Wake lets an idle worker look for work at once.
func (r *Runner) Wake() { r.store.Wake() }

// Stop asks every run to end with ErrShutdown, gives the jobs back uncounted and waits
// for all goroutines. When ctx ends first, the database is given up too (leases run out
// by themselves), and Stop returns without waiting for handlers that do not listen.
func (r *Runner) Stop(ctx context.Context) error {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.endSoft(ErrShutdown)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.worker.Wait() // first: leases must live while runs end
		r.endHard(ErrShutdown)
		r.heartbeats.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		r.endHard(ErrShutdown)
		return fmt.Errorf("job: %s runs did not end in time: %w", r.store.table.Prefix, context.Cause(ctx))
	}
}

// goIfRunning starts a goroutine that Stop waits for; false after Stop.
func (r *Runner) goIfRunning(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return false
	}
	r.worker.Go(f)
	return true
}

// work is one worker: it claims only when it is free.
func (r *Runner) work() {
	for r.soft.Err() == nil {
		sent := time.Now()
		// Not the soft context: a claim that is cut off at its commit would be nobody's.
		row, ok, err := r.store.Claim(r.hard, r.owner)
		switch {
		case ok:
			r.execute(row, sent)
			continue
		case err != nil && r.soft.Err() == nil:
			r.store.log.WarnContext(r.hard, "job claim failed", "table", r.store.table.Name, "error", err)
		}
		idle := time.NewTimer(jittered(r.store.cfg.PollInterval))
		select {
		case <-r.soft.Done():
		case <-r.store.wake:
		case <-idle.C:
		}
		idle.Stop()
	}
}

// jittered keeps the workers of many servers from polling in step.
func jittered(d time.Duration) time.Duration { return d*3/4 + rand.N(d/4+1) }

// prune runs soon after the start, because a server may be restarted every hour, and
// then every hour.
func (r *Runner) prune() {
	next := time.NewTimer(jittered(r.pruneFirst))
	defer next.Stop()
	for {
		select {
		case <-r.soft.Done():
			return
		case <-next.C:
		}
		if _, err := r.store.Prune(r.soft); err != nil && r.soft.Err() == nil {
			r.store.log.WarnContext(r.hard, "job prune failed", "table", r.store.table.Name, "error", err)
		}
		next.Reset(jittered(pruneEvery))
	}
}

// beat keeps the leases of all runs alive.
func (r *Runner) beat() {
	every := r.store.cfg.HeartbeatTimeout / 3
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-r.hard.Done():
			return
		case <-tick.C:
		}
		for _, run := range r.owned() {
			// A database that does not answer costs every run as little as that: the last in
			// line learns in time, too, that its lease has run out.
			ctx, cancel := context.WithTimeout(r.hard, min(every, saveWait))
			run.beat(ctx)
			cancel()
		}
	}
}

func (r *Runner) owned() []*Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	runs := make([]*Run, 0, len(r.runs))
	for run := range r.runs {
		runs = append(runs, run)
	}
	return runs
}

// execute runs a claimed job and ends the run in its row.
func (r *Runner) execute(row Row, sent time.Time) {
	ctx, stop := context.WithCancelCause(r.soft)
	defer stop(nil)
	run := newRun(r.store, r.handler.Further, row, sent, stop)
	r.mu.Lock()
	r.runs[run] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.runs, run)
		for _, w := range r.watch[row.ID] {
			select {
			case w <- struct{}{}:
			default: // it has a signal to act on already
			}
		}
	}()
	if f := r.store.events.Started; f != nil {
		f(row)
	}
	r.finish(run, r.answer(ctx, run))
}

// answer runs the handler and says how the run ended.
func (r *Runner) answer(ctx context.Context, run *Run) (err error) {
	if ctx.Err() != nil {
		return ErrShutdown // it stopped between the claim and here
	}
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	err = r.handler.Run(ctx, run)
	if err == nil || errors.Is(err, ErrEnded) {
		return err
	}
	// An error that came after the run was told to stop is most likely the stop's own.
	switch cause := run.why(ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, ErrLeaseLost), errors.Is(cause, ErrShutdown):
		return cause
	case errors.Is(err, context.Canceled):
		return cause
	}
	return err
}

// panicError is a panic of a handler: a counted attempt.
type panicError struct {
	value any
	stack []byte // for the log only
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// finish writes the end of a run, as long as the lease can be trusted to last.
func (r *Runner) finish(run *Run, answer error) {
	store, row := r.store, run.row
	if errors.Is(answer, ErrEnded) {
		if after, err := store.Get(r.hard, row.ID); err == nil && after.State.Ended() {
			store.ended(after)
		}
		return
	}
	var after Row
	var err error
	pause := 50 * time.Millisecond
	for began := time.Now(); ; pause = min(2*pause, time.Second) {
		after, err = store.Finish(r.hard, row.Lease(), answer)
		if err == nil || errors.Is(err, ErrLeaseLost) || time.Since(began) > store.cfg.HeartbeatTimeout {
			break
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
			continue
		case <-r.hard.Done():
			t.Stop()
		}
		break
	}
	job := store.Name(row.ID)
	switch {
	case errors.Is(err, ErrLeaseLost):
		store.log.WarnContext(r.hard, "job lease lost", "job", job, "epoch", row.LeaseEpoch)
		if f := store.events.Lost; f != nil {
			f(row)
		}
		return
	case err != nil: // the lease runs out, another claims it
		store.log.ErrorContext(r.hard, "job end not written", "job", job, "error", err)
		after = row
	}
	if failedAttempt(after, answer) {
		log := store.log
		if p := (*panicError)(nil); errors.As(answer, &p) {
			log = log.With("stack", string(p.stack))
		}
		log.ErrorContext(r.hard, "job attempt failed", "job", job, "phase", after.Phase, "attempt", after.Attempts, "state", string(after.State), "error", answer)
		if f := store.events.Failed; f != nil {
			f(after, answer)
		}
	}
}

// failedAttempt reports whether the answer is an error of the attempt, rather than a
// reason to stop that lies outside of it.
func failedAttempt(after Row, answer error) bool {
	return answer != nil && !uncounted(answer) && (after.State != Cancelled || !errors.Is(answer, ErrCancelled))
}
