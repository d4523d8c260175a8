package removal_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
)

// A restore whose answer was lost says what it did; it is not refused for what it did itself.
func TestRestoreWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	each(t, withTrash, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.put("/t/a", "/f")
		before := w.paths(w.fs, "/")
		for _, id := range []job.ID{w.drop("/t"), w.drop("/f")} {
			w.lose.Store(1)
			back, err := w.removal.Restore(ctx, w.fs, id, nil, "test")
			must(t, err)
			if w.lose.Load() > 0 {
				t.Error("no answer was lost")
			}
			w.lose.Store(0)
			if j := w.job(id); j.RestoredAt == 0 || back.Job.ID != id || back.Inode != j.Root || back.Path.String() != j.Path {
				t.Errorf("told %+v of %+v", back, j)
			}
			_, err = w.removal.Restore(ctx, w.fs, id, nil, "test")
			wantKind(t, err, fault.Conflict, removal.CodeNotInTrash)
		}
		if diff := cmp.Diff(before, w.paths(w.fs, "/")); diff != "" {
			t.Errorf("restored (-want +got):\n%s", diff)
		}
		w.check()
	})
}

// A restore that the database rolled back, and did not say so, is not taken for the other one
// that came between.
func TestRestoreThatWasNotCommitted(t *testing.T) {
	t.Parallel()
	each(t, withTrash, func(t *testing.T, w *world) {
		w.put("/t/a")
		w.mkdir("/other")
		id := w.drop("/t")
		to, err := tree.ParsePath("/other/t")
		must(t, err)
		slow := w.with(func(c *removal.Config) {
			c.Step = func(ctx context.Context, step string) error {
				if step == "restore.moved" {
					return fault.New("test", fault.Busy, "", "rolled back")
				}
				return nil
			}
		})
		_, err = slow.Restore(t.Context(), w.fs, id, nil, "test")
		if fault.KindOf(err) != fault.Busy {
			t.Errorf("rolled back: %v", err)
		}
		back, err := w.removal.Restore(t.Context(), w.fs, id, &to, "test")
		must(t, err)
		if back.Path.String() != to.String() {
			t.Errorf("restored to %s", back.Path)
		}
		w.wantPaths("/other/", "/other/t/", "/other/t/a")
		w.check()
	})
}
