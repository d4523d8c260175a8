package removal_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// TestMarkOfADroppedDrive: what a delete has marked to be looked at is looked at, and over,
// also when the drive was dropped meanwhile.
func TestMarkOfADroppedDrive(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{ReconcileInterval: time.Hour}, func(t *testing.T, w *world) {
		w.put("/a/x")
		w.removeAll("/a")
		id, state, _, _ := w.markOf(w.fs)
		if state == "" {
			t.Fatal("the delete left no mark")
		}
		must(t, w.db.Tx(t.Context(), func(tx *sqldb.Tx) error { return w.drive.DropDriveIn(t.Context(), tx, w.fs) }))
		w.exec(1, "UPDATE delete_reconcile_pending SET available_at = 0 WHERE id = ?", int64(id))
		if err := w.removal.Reconcile(t.Context(), w.claim(w.removal.Marks(), id)); !errors.Is(err, job.ErrEnded) {
			t.Errorf("the look: %v", err)
		}
		if _, state, _, _ := w.markOf(w.fs); state != "" {
			t.Errorf("the mark of a drive that is gone is %s", state)
		}
	})
}
