package chaos

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/purge/purgetest"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/proc"
)

// patience is for what happens sooner or later, on a slow machine too.
const patience = 3 * time.Minute

// victim makes and registers one synthetic table.
func (w *world) victim(name string, s purgetest.Synthetic) *table {
	w.t.Helper()
	t := &table{name: name}
	var err error
	if t.made, err = synthetic(s)(w.t.Context(), w, w.location(name)); err == nil {
		err = w.register(w.t.Context(), t)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// mustDrop drops a table, without waiting for its purge, in a calm world.
func (w *world) mustDrop(n *node, name string) {
	w.t.Helper()
	if _, err := n.must(w.t.Context(), http.MethodDelete, dropPath(name), nil, http.StatusNoContent, asyncHeader, "true"); err != nil {
		w.t.Fatal(err)
	}
}

// owns reports whether a node's process is the owner that a row or a lease names.
func (n *node) owns(owner string) bool {
	return strings.Contains(owner, fmt.Sprintf("/%d/", n.server.PID()))
}

// newest returns the highest epoch of which the store saw deletes, and how many.
func (w *world) newest() (l lease, n int) {
	for _, r := range w.store.requests() {
		switch {
		case r.lease.epoch > l.epoch:
			l, n = r.lease, 1
		case r.lease.epoch == l.epoch:
			n++
		}
	}
	return l, n
}

// A server is stopped in the middle of a purge, with all its threads on the wire of a
// slow store, until the other server has taken the purge over; and so on, in turns. Who
// wakes up sends at most what was on the wire.
func TestStoppedServerSendsNoMore(t *testing.T) {
	onServers(t, func(t *testing.T, db sqldbtest.Server) {
		w := newWorld(t, db, config{nodes: 2, batch: 5, latency: 500 * time.Millisecond})
		w.namespaceAndSiblings()
		// 45 s of deletes at this pace, of which the turns need a few.
		victim := w.victim("v00", purgetest.Synthetic{Files: 1800, PerManifest: 300, Exist: true})
		w.mustDrop(w.nodes[0], victim.name)
		const turns = 3
		for turn := range turns {
			var held lease
			proc.Eventually(t, patience, "a purge is on its way", func() bool {
				l, n := w.newest()
				held = l
				return n >= threads+1
			})
			owner, other := w.nodes[0], w.nodes[1]
			if !owner.owns(held.server) {
				owner, other = other, owner
			}
			lost := strings.Count(owner.server.Log(), "job lease lost")
			w.stop(owner)
			// An epoch may pass without a delete: of a claim that had to wait long for the row.
			proc.Eventually(t, patience, fmt.Sprintf("takeover %d, from server %d", turn+1, owner.number), func() bool {
				l, n := w.newest()
				return n > 0 && l.epoch > held.epoch && other.owns(l.server)
			})
			if j := w.job(victim.name); j.state.Ended() {
				t.Fatalf("%+v, want it on its way", j)
			}
			w.proceed(owner)
			proc.Eventually(t, patience, "the woken server gives the job up", func() bool {
				return strings.Count(owner.server.Log(), "job lease lost") > lost
			})
		}
		w.store.far(0)
		w.settle(patience)
		w.wantOneJobEach([]*table{victim})
		w.wantUntouched()
		v := w.wantFenced()
		t.Logf("%d deletes, %d leases passed on, %d late requests", len(w.store.requests()), v.takeovers, v.late)
		if v.takeovers < turns {
			t.Errorf("%d leases passed on, want %d", v.takeovers, turns)
		}
	})
}
