package closing_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/closing"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// house is a host with pieces that take a while to go.
type house struct {
	mu     sync.Mutex
	pieces int   // not begun yet
	looks  int   // Removes that find it busy after the last piece was begun
	failed error // of a delete, until it is cleared
	weak   bool  // every other Empty fails
	rested bool
	gone   bool
}

func (h *house) Empty(context.Context, closing.Object) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.weak {
		if h.rested = !h.rested; !h.rested && h.pieces > 0 {
			return 0, errors.New("a table could not be dropped")
		}
	}
	n := min(h.pieces, 2)
	h.pieces -= n
	return n, nil
}

func (h *house) Remove(context.Context, closing.Object) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.pieces > 0:
		return errors.New("removed before it was emptied")
	case h.failed != nil:
		return h.failed
	case h.looks > 0:
		h.looks--
		return &closing.StillBusy{Err: errors.New("purge-1 goes on")}
	}
	h.gone = true
	return nil
}

func (h *house) set(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

var acme = closing.Object{Kind: closing.Tenant, Tenant: 7, TenantName: "acme"}

func insert(t *testing.T, db *sqldb.DB, j *closing.Jobs, o closing.Object) (id job.ID) {
	t.Helper()
	err := db.Tx(t.Context(), func(tx *sqldb.Tx) (err error) {
		id, err = j.Insert(t.Context(), tx, o, "ann", "request")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	j.Wake()
	return id
}

// await polls until a job is in a state.
func await(t *testing.T, j *closing.Jobs, id job.ID, want job.State) job.Row {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		row, err := j.Store().Get(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if row.State == want {
			return row
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("job is %s, want %s: %s", row.State, want, row.LastError)
		}
	}
}

func each(t *testing.T, h *house, fn func(t *testing.T, db *sqldb.DB, j *closing.Jobs, own *house)) {
	t.Helper()
	sqldbtest.Each(t, []sqldb.Migrations{closing.Migrations}, func(t *testing.T, db *sqldb.DB) {
		own := &house{pieces: h.pieces, looks: h.looks, failed: h.failed}
		j := closing.New(closing.Config{DB: db, Host: own, Owner: "test", Look: time.Millisecond, Job: job.Config{PollInterval: 5 * time.Millisecond, RetryBase: time.Millisecond, MaxAttempts: 1}})
		j.Start()
		t.Cleanup(func() { _ = j.Stop(context.Background()) })
		fn(t, db, j, own)
		if h.failed == nil && !own.gone {
			t.Error("it is still there")
		}
		if h.failed != nil {
			own.set(func() { own.failed = nil })
			for _, id := range []job.ID{1} {
				if _, err := j.Store().Retry(t.Context(), id, job.RetryOptions{}); err != nil {
					t.Fatal(err)
				}
				j.Wake()
				await(t, j, id, job.Succeeded)
			}
			if !own.gone {
				t.Error("it is still there after the retry")
			}
		}
	})
}

func TestCloses(t *testing.T) {
	t.Parallel()
	each(t, &house{pieces: 5, looks: 3}, func(t *testing.T, db *sqldb.DB, j *closing.Jobs, _ *house) {
		id := insert(t, db, j, acme)
		row := await(t, j, id, job.Succeeded)
		if string(row.Progress) != `{"begun":5}` {
			t.Errorf("progress %s", row.Progress)
		}
		if o, err := j.Object(t.Context(), id); err != nil || o != acme {
			t.Errorf("%+v, %v", o, err)
		}
		if _, err := j.Object(t.Context(), id+1); fault.KindOf(err) != fault.NotFound {
			t.Error(err)
		}
	})
}

func TestFailedDeleteStopsIt(t *testing.T) {
	t.Parallel()
	each(t, &house{pieces: 1, failed: errors.New("purge-9 has FAILED")}, func(t *testing.T, db *sqldb.DB, j *closing.Jobs, _ *house) {
		id := insert(t, db, j, acme)
		if row := await(t, j, id, job.Failed); row.LastError != "purge-9 has FAILED" {
			t.Errorf("it says %q", row.LastError)
		}
	})
}

// A run that began more deletes has made progress, however few they are beside those of the
// runs before it; and the row counts all of them.
func TestEveryPieceIsProgress(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{closing.Migrations}, func(t *testing.T, db *sqldb.DB) {
		h := &house{pieces: 9, weak: true}
		j := closing.New(closing.Config{DB: db, Host: h, Owner: "test", Job: job.Config{PollInterval: 5 * time.Millisecond, RetryBase: time.Millisecond, MaxAttempts: 2}})
		j.Start()
		t.Cleanup(func() { _ = j.Stop(context.Background()) })
		row := await(t, j, insert(t, db, j, acme), job.Succeeded)
		if string(row.Progress) != `{"begun":9}` || row.LeaseEpoch < 4 {
			t.Errorf("progress %s in epoch %d", row.Progress, row.LeaseEpoch)
		}
	})
}

func TestOneJobAnObject(t *testing.T) {
	t.Parallel()
	each(t, &house{looks: math.MaxInt}, func(t *testing.T, db *sqldb.DB, j *closing.Jobs, own *house) {
		id := insert(t, db, j, acme)
		if again := insert(t, db, j, acme); again != id {
			t.Errorf("a second job %d beside %d", again, id)
		}
		other := acme
		other.Kind, other.Name = closing.Warehouse, "lake"
		if lake := insert(t, db, j, other); lake == id {
			t.Error("the warehouse has the tenant's job")
		}
		own.set(func() { own.looks = 0 }) // until now neither could end
		await(t, j, id, job.Succeeded)
	})
}

func TestStatements(t *testing.T) {
	t.Parallel()
	sqldbtest.PrepareAll(t, ".", []sqldb.Migrations{closing.Migrations}, nil)
}
