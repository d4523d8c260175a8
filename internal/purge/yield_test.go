package purge_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/blob/faulty"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// fairStore is a store on the database that needs no server, with a quantum.
func fairStore(t *testing.T, workers int, quantum time.Duration) (*sqldb.DB, *purge.Store) {
	t.Helper()
	cfg := jobtest.Config()
	cfg.Workers, cfg.Quantum = workers, quantum
	db := sqldbtest.Servers(t)[0].Open(t, sqldb.Config{}, purge.Migrations)
	return db, purge.NewStore(db, cfg, job.Hooks{}, job.Observer{})
}

// A small purge does not wait for the end of the large ones that hold all workers.
func TestSmallPurgeIsServedInTime(t *testing.T) {
	t.Parallel()
	const quantum = time.Second
	db, s := fairStore(t, 2, quantum)
	w := newWorld(t)
	large := func(name string) job.ID {
		return drop(t, w, db, s, name, w.table(w.builder(name, purgetest.Options{}).Append(3000)))
	}
	first, second := large("first"), large("second")
	table := w.table(w.builder("small", purgetest.Options{}).Append(10))
	w.bucket.Delay(faulty.Delete, 10*time.Millisecond) // the large ones take half a minute
	defer w.bucket.Delay(faulty.Delete, 0)
	walker := purge.NewWalker(purge.Config{BatchSize: 1, InFlight: 1}, w, w.pool)
	jobtest.Start(t, s.Jobs(), purge.NewHandler(s, walker), "here")
	jobtest.AwaitState(t, s.Jobs(), first, job.Running)
	jobtest.AwaitState(t, s.Jobs(), second, job.Running)

	before := w.bucket.Counts().DeleteKeys
	small := drop(t, w, db, s, "small", table)
	jobtest.AwaitState(t, s.Jobs(), small, job.Succeeded)
	// In a quantum each of two workers sends a hundred keys at most; on a busy machine fewer.
	if sent := w.bucket.Counts().DeleteKeys - before; sent > 3*2*100 {
		t.Errorf("%d keys were sent until the small one's ten files were gone, with a quantum of %s", sent, quantum)
	}
	for _, id := range []job.ID{first, second} {
		if row := jobtest.Get(t, s.Jobs(), id); row.State == job.Succeeded || row.Attempts != 0 {
			t.Errorf("job %d is %s after %d attempts: the small one waited for it, or a yield was counted", id, row.State, row.Attempts)
		}
	}
}

// Purges that yield all the time still end, with nothing left and every delete counted once.
func TestYieldingPurgesEnd(t *testing.T) {
	t.Parallel()
	db, s := fairStore(t, 1, time.Nanosecond)
	w := newWorld(t)
	siblings(w, true)
	before := w.tree()
	var ids []job.ID
	var files []int
	for _, name := range []string{"a", "b", "c"} {
		b := w.builder(name, purgetest.Options{LogMax: 2})
		rich(b)
		table := w.table(b)
		ids, files = append(ids, drop(t, w, db, s, name, table)), append(files, len(table.Reachable))
	}
	walker := purge.NewWalker(purge.Config{BatchSize: 1, InFlight: 1}, w, w.pool)
	jobtest.Start(t, s.Jobs(), purge.NewHandler(s, walker), "here")
	for i, id := range ids {
		row := jobtest.AwaitState(t, s.Jobs(), id, job.Succeeded)
		found, err := s.Find(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if p := progressOf(t, found.Progress); int(p.Files) != files[i] || p.Failed != 0 {
			t.Errorf("progress %+v, want %d files", p, files[i])
		}
		if row.LeaseEpoch < 2 {
			t.Errorf("job %d never yielded", id)
		}
	}
	w.want(before)
}

// Every run moves ahead before it yields, also when it settles less than a batch.
func TestYieldSettlesWhatItBegan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.builder("t", purgetest.Options{LogMax: 3})
	for range 12 {
		b.Append(1)
	}
	table := w.table(b)
	before := w.tree()
	r := w.job(table)
	runs, left := 0, len(before)
	for ; ; runs++ {
		s := &session{t: t, row: r, due: true, yield: func() bool { return true }}
		err := w.runIn(s, purge.Config{}) // a batch is far larger than the table
		if err == nil {
			break
		}
		if !errors.Is(err, job.ErrYield) {
			t.Fatal(err)
		}
		if now := len(w.tree()); now >= left {
			t.Fatalf("run %d at %s %s deleted nothing", runs, r.Phase, r.Cursor)
		} else {
			left = now
		}
	}
	if runs == 0 {
		t.Error("it never yielded")
	}
	w.want(before, table.Reachable)
	if p := r.progress; int(p.Files) != len(table.Reachable) || p.Failed != 0 {
		t.Errorf("progress %+v, want %d files", p, len(table.Reachable))
	}
}
