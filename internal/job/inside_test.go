package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// TestInsideTransactions is a domain that saves and ends its job in its own transactions.
func TestInsideTransactions(t *testing.T) {
	t.Parallel()
	each(t, job.Config{}, job.Hooks{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		id := jobtest.Insert(t, w.db, w.store, job.New{})
		row, ok, err := w.store.ClaimID(ctx, "a", id)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		tx := func(fn func(tx *sqldb.Tx) error) error { return w.db.Tx(ctx, fn) }
		at := job.Point{Phase: "P", Cursor: "7"}
		old := job.Lease{ID: id, Epoch: row.LeaseEpoch - 1}
		progress := json.RawMessage(`{"n":7}`)
		for name, write := range map[string]func(tx *sqldb.Tx, l job.Lease) error{
			"save":    func(tx *sqldb.Tx, l job.Lease) error { return w.store.SaveIn(ctx, tx, l, at, progress, true) },
			"succeed": func(tx *sqldb.Tx, l job.Lease) error { return w.store.SucceedIn(ctx, tx, l, at, progress) },
		} {
			if err := tx(func(tx *sqldb.Tx) error { return write(tx, old) }); !errors.Is(err, job.ErrLeaseLost) {
				t.Errorf("%s of an older epoch: %v", name, err)
			}
			roll := errors.New("roll back")
			if err := tx(func(tx *sqldb.Tx) error { return errors.Join(write(tx, row.Lease()), roll) }); !errors.Is(err, roll) {
				t.Error(err)
			}
		}
		if now := jobtest.Get(t, w.store, id); now.State != job.Running || now.Cursor != "" {
			t.Errorf("rolled back: %+v", now)
		}
		if err := tx(func(tx *sqldb.Tx) error { return w.store.SaveIn(ctx, tx, row.Lease(), at, progress, true) }); err != nil {
			t.Fatal(err)
		}
		if now := jobtest.Get(t, w.store, id); now.Point() != at || string(now.Progress) != `{"n":7}` {
			t.Errorf("saved: %+v", now)
		}
		if err := tx(func(tx *sqldb.Tx) error { return w.store.SucceedIn(ctx, tx, row.Lease(), at, progress) }); err != nil {
			t.Fatal(err)
		}
		if now := jobtest.Get(t, w.store, id); now.State != job.Succeeded || now.HeartbeatAt != 0 {
			t.Errorf("ended: %+v", now)
		}
	})
}

// TestEndedByHandler is told to those who watch, also where the row is gone.
func TestEndedByHandler(t *testing.T) {
	t.Parallel()
	each(t, jobtest.Config(), job.Hooks{}, func(t *testing.T, w *world) {
		drop := jobtest.Insert(t, w.db, w.store, job.New{})
		keep := jobtest.Insert(t, w.db, w.store, job.New{})
		jobtest.Start(t, w.store, jobtest.Handler(func(ctx context.Context, run *job.Run) error {
			err := w.db.Tx(ctx, func(tx *sqldb.Tx) error {
				if run.Row().ID == drop {
					if err := w.store.Fence(ctx, tx, run.Row().Lease()); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "DELETE FROM test_job WHERE id = ?", int64(drop))
					return err
				}
				return w.store.SucceedIn(ctx, tx, run.Row().Lease(), job.Point{}, json.RawMessage("{}"))
			})
			return errors.Join(err, job.ErrEnded)
		}), "a")
		if row := <-w.ended; row.ID != keep || row.State != job.Succeeded {
			t.Errorf("ended: %+v", row)
		}
		jobtest.Eventually(t, "the row is gone", func() bool {
			_, err := w.store.Get(t.Context(), drop)
			return err != nil
		})
	})
}

// TestOnly leaves rows alone that are not for workers.
func TestOnly(t *testing.T) {
	t.Parallel()
	each(t, job.Config{}, job.Hooks{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		table := jobtest.Table
		table.Only = "kind = 'TREE'"
		s := job.NewStore(w.db, table, job.Config{}, job.Hooks{}, job.Observer{})
		file := jobtest.Insert(t, w.db, s, job.New{Extra: []job.Extra{{Column: "kind", Value: "FILE"}}})
		if _, ok, err := s.Claim(ctx, "a"); ok || err != nil {
			t.Errorf("claimed a row of another kind: %t, %v", ok, err)
		}
		if _, ok, err := s.ClaimID(ctx, "a", file); ok || err != nil {
			t.Errorf("claimed a row of another kind by its id: %t, %v", ok, err)
		}
		if waiting, err := s.Waiting(ctx); waiting || err != nil {
			t.Errorf("waiting: %t, %v", waiting, err)
		}
		tree := jobtest.Insert(t, w.db, s, job.New{Extra: []job.Extra{{Column: "kind", Value: "TREE"}}})
		row, ok, err := s.Claim(ctx, "a")
		if !ok || err != nil || row.ID != tree {
			t.Errorf("claimed %d, want %d: %t, %v", row.ID, tree, ok, err)
		}
	})
}
