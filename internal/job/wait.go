package job

import (
	"context"
	"slices"
	"time"
)

const (
	firstLook = 100 * time.Millisecond
	lastLook  = time.Second
)

// Wait gets a job run at once, by a worker or by an inline slot, whichever is free
// first, and waits until it has ended, for at most limit. It returns the row as last
// seen, the zero Row if it was not: with no error when the job ended or limit passed,
// else with the reason why the waiting ended. The job never ends with the waiting.
func (r *Runner) Wait(ctx context.Context, id ID, limit time.Duration) (Row, error) {
	r.store.Wake()
	// The request's context only bounds the stay in the queue of the slots.
	queue, leave := context.WithCancel(ctx)
	defer leave()
	over := time.NewTimer(limit)
	defer over.Stop()
	pause := firstLook
	look := time.NewTimer(pause)
	defer look.Stop()

	ended := r.watchRun(id)
	defer r.unwatch(id, ended)

	var row Row
	var inline chan bool // answers once when the inline slot is done with the job
	asked := false       // and did not get it since the last look
	for {
		seen, err := r.store.Get(ctx, id)
		switch {
		case ctx.Err() != nil: // whatever the read said
			return row, context.Cause(ctx)
		case err != nil:
			return row, err
		}
		row = seen
		if row.State.Ended() {
			return row, nil
		}
		if inline == nil && !asked && row.State == Pending && !row.Paused {
			inline = r.inline(queue, id)
		}
		select {
		case <-ended:
			asked = false // if it yielded, a slot may be had for it
		case ran := <-inline:
			inline, asked = nil, !ran
		case <-look.C:
			asked = false
			pause = min(pause*3/2, lastLook)
			look.Reset(pause)
		case <-over.C:
			return row, nil
		case <-ctx.Done():
			return row, context.Cause(ctx)
		case <-r.soft.Done():
			return row, ErrShutdown
		}
	}
}

// inline queues for a slot and runs exactly this job in it, once: after its quantum a
// job goes to the end of the queue. It answers whether it ran.
//
//nolint:contextcheck // A job outlives the request that waits for it.
func (r *Runner) inline(queue context.Context, id ID) chan bool {
	ran := make(chan bool, 1)
	if !r.goIfRunning(func() {
		if r.slots.Acquire(queue, 1) != nil {
			ran <- false
			return
		}
		defer r.slots.Release(1)
		sent := time.Now()
		row, ok, err := r.store.ClaimID(r.hard, r.owner, id)
		if err != nil && r.soft.Err() == nil {
			r.store.log.WarnContext(r.hard, "job claim failed", "table", r.store.table.Name, "job", r.store.Name(id), "error", err)
		}
		if ok {
			r.execute(row, sent)
		}
		ran <- ok
	}) {
		ran <- false
	}
	return ran
}

// watchRun returns a channel that is signalled when a run of the job ends in this process.
func (r *Runner) watchRun(id ID) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := make(chan struct{}, 1)
	r.watch[id] = append(r.watch[id], w)
	return w
}

func (r *Runner) unwatch(id ID, w chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watch[id] = slices.DeleteFunc(r.watch[id], func(o chan struct{}) bool { return o == w })
	if len(r.watch[id]) == 0 {
		delete(r.watch, id)
	}
}
