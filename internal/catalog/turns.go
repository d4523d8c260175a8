package catalog

import (
	"context"
	"sync"
	"time"
)

// turnWait bounds how long a commit queues for its turn; after that it competes as if
// there were no queue. A commit before it may hang in the store.
const turnWait = 5 * time.Second

// turns lets the commits of this process to one table go one behind another once one of
// them lost a compare-and-swap. Otherwise every commit that loses has written a file in
// vain, and the more clients there are the less gets through. It is a courtesy that
// decides nothing: the swap does, also between replicas.
type turns struct {
	mu sync.Mutex
	of map[turnKey]*turn
}

type turnKey struct {
	warehouse int64
	table     string
}

// turn is the queue of one table. It exists while somebody stands in it.
type turn struct {
	slot     chan struct{} // holds one value while it is somebody's turn
	standing int
}

// contended reports whether commits to the table queue already.
func (t *turns) contended(k turnKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[k] != nil
}

// take queues and returns what ends the turn.
func (t *turns) take(ctx context.Context, k turnKey) (end func()) {
	t.mu.Lock()
	q := t.of[k]
	if q == nil {
		if t.of == nil {
			t.of = map[turnKey]*turn{}
		}
		q = &turn{slot: make(chan struct{}, 1)}
		t.of[k] = q
	}
	q.standing++
	t.mu.Unlock()

	patience := time.NewTimer(turnWait)
	defer patience.Stop()
	mine := false
	select {
	case q.slot <- struct{}{}: // waiters are served in order
		mine = true
	case <-patience.C:
	case <-ctx.Done(): // the commit finds out by itself
	}
	return func() {
		if mine {
			<-q.slot
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if q.standing--; q.standing == 0 {
			delete(t.of, k)
		}
	}
}
