package removal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

var withTrash = removal.Config{BatchSize: 50, TrashRetention: time.Hour}

// trash is what the trash lists, newest first.
func (w *world) trash() (list []removal.Job) {
	w.t.Helper()
	for before := job.ID(0); ; {
		part, next, err := w.removal.Trash(w.t.Context(), w.fs, before, 2) // in pages
		must(w.t, err)
		list = append(list, part...)
		if before = next; next == 0 {
			return list
		}
	}
}

// drop deletes a path of our drive into the trash.
func (w *world) drop(p string) job.ID {
	w.t.Helper()
	res, err := w.removal.RemoveAll(w.t.Context(), w.request(p))
	must(w.t, err)
	if res.Job == 0 {
		w.t.Fatalf("%s did not go to the trash: %+v", p, res)
	}
	return res.Job
}

func (w *world) restore(id job.ID) removal.Restored {
	w.t.Helper()
	back, err := w.removal.Restore(w.t.Context(), w.fs, id, nil, "test")
	must(w.t, err)
	return back
}

func TestTrash(t *testing.T) {
	t.Parallel()
	each(t, withTrash, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.start()
		w.put("/t/a", "/t/d/b", "/f", "/g")
		before := w.paths(w.fs, "/")
		used, err := w.feed.Usage(ctx, w.db, int64(w.fs))
		must(t, err)

		tr, f := w.drop("/t"), w.drop("/f")
		gone, err := w.drive.Remove(ctx, w.fs, "/g", drive.RemoveOptions{Actor: "test"})
		must(t, err)
		w.wantPaths()
		list := w.trash()
		if len(list) != 3 || list[0].ID != job.ID(gone.Job) || list[0].Kind != removal.FileJob || list[2].Kind != removal.TreeJob || list[2].Path != "/t" || list[2].CreatedBy != "test" {
			t.Errorf("trash: %+v", list)
		}
		if now, err := w.feed.Usage(ctx, w.db, int64(w.fs)); err != nil || now.Delta != used.Delta {
			t.Errorf("the trash counts for usage: %+v, was %+v, %v", now.Delta, used.Delta, err)
		}
		if n, err := w.removal.SweepFiles(ctx); n != 0 || err != nil { // nothing is due
			t.Errorf("%d files went, %v", n, err)
		}
		w.check()

		for _, id := range []job.ID{tr, f, job.ID(gone.Job)} {
			w.restore(id)
		}
		if diff := cmp.Diff(before, w.paths(w.fs, "/")); diff != "" {
			t.Errorf("restored (-want +got):\n%s", diff)
		}
		if got := w.read("/t/d/b"); got != body("/t/d/b", false) {
			t.Errorf("read %q", got)
		}
		if list := w.trash(); len(list) != 0 {
			t.Errorf("trash: %+v", list)
		}
		// A job that was restored is over.
		for name, control := range map[string]func(context.Context, tree.FS, job.ID) (removal.Job, error){
			"retry": w.removal.Retry, "cancel": w.removal.Cancel, "empty": w.removal.Empty,
			"restore": func(ctx context.Context, fs tree.FS, id job.ID) (removal.Job, error) {
				_, err := w.removal.Restore(ctx, fs, id, nil, "")
				return removal.Job{}, err
			},
		} {
			_, err := control(ctx, w.fs, tr)
			if fault.KindOf(err) != fault.Conflict {
				t.Errorf("%s of a restored job: %v", name, err)
			}
			_, err = control(ctx, w.other, f)
			wantKind(t, err, fault.NotFound, job.CodeNoSuchJob)
		}

		// Emptied, all goes, by sweep and by batch.
		w.drop("/t")
		w.drop("/f")
		w.drop("/g")
		n, err := w.removal.EmptyAll(ctx, w.fs, nil)
		if n != 3 || err != nil {
			t.Errorf("%d jobs let go, %v", n, err)
		}
		for len(w.trash()) > 0 {
			must(t, w.removal.Patrol(ctx))
			select {
			case <-ctx.Done():
				t.Fatal(ctx.Err())
			case <-time.After(20 * time.Millisecond):
			}
		}
		w.wantEmpty()
		w.check()
	})
}

// TestRestoreRefused is where a restore has no place to go.
func TestRestoreRefused(t *testing.T) {
	t.Parallel()
	each(t, withTrash, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.put("/a/b/x", "/c/x")
		inner, outer := w.drop("/a/b"), w.drop("/a")
		_, err := w.removal.Restore(ctx, w.fs, inner, nil, "") // nested trash: its parent is in the trash too
		wantKind(t, err, fault.NotFound, removal.CodeNoSuchPath)
		nowhere, taken, to, into := path(t, "/no/b"), path(t, "/c"), path(t, "/c/b"), path(t, "/c/x/b")
		for _, p := range []tree.Path{nowhere, into} {
			_, err = w.removal.Restore(ctx, w.fs, inner, &p, "")
			wantKind(t, err, fault.NotFound, removal.CodeNoSuchPath)
		}
		_, err = w.removal.Restore(ctx, w.fs, inner, &taken, "")
		wantKind(t, err, fault.Conflict, removal.CodeExists)
		back, err := w.removal.Restore(ctx, w.fs, inner, &to, "")
		must(t, err)
		if back.Path.String() != "/c/b" || back.Job.RestoredAt == 0 || back.Job.State != job.Cancelled {
			t.Errorf("restored: %+v", back)
		}
		// Its name was taken meanwhile.
		w.put("/a")
		_, err = w.removal.Restore(ctx, w.fs, outer, nil, "")
		wantKind(t, err, fault.Conflict, removal.CodeExists)
		w.drop("/a")
		w.restore(outer)
		w.wantPaths("/a/", "/c/", "/c/b/", "/c/b/x", "/c/x")
		// Cancelled before it began it lies there without a date, and comes back.
		id := w.drop("/c")
		_, err = w.removal.Cancel(ctx, w.fs, id)
		must(t, err)
		if j := w.job(id); !j.Restorable() || j.Partial() {
			t.Errorf("cancelled in the trash: %+v", j)
		}
		w.restore(id)
		// Claimed it does not.
		id = w.drop("/c")
		_, err = w.removal.Empty(ctx, w.fs, id)
		must(t, err)
		r := w.claim(w.removal.Jobs(), id)
		_, err = w.removal.Restore(ctx, w.fs, id, nil, "")
		wantKind(t, err, fault.Conflict, removal.CodeNotInTrash)
		w.sweepAs(r)
		w.check()
	})
}

// TestRestoredElsewhere follows a directory that was renamed, and comes back there.
func TestRestoredElsewhere(t *testing.T) {
	t.Parallel()
	each(t, withTrash, func(t *testing.T, w *world) {
		w.put("/a/x")
		id := w.drop("/a/x")
		_, err := w.drive.Rename(t.Context(), w.fs, "/a", "/b", drive.RenameOptions{})
		must(t, err)
		if back := w.restore(id); back.Path.String() != "/b/x" {
			t.Errorf("restored to %s", back.Path)
		}
		w.wantPaths("/b/", "/b/x")
		w.check()
	})
}

// TestFileBatches are files of the trash that are due: in batches, of two drives, with
// links in one batch, some of them restored or cancelled meanwhile.
func TestFileBatches(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 7, TrashRetention: time.Hour}, func(t *testing.T, w *world) {
		ctx := t.Context()
		var ids []job.ID
		for i := range 20 {
			p := fmt.Sprintf("/f%02d", i)
			w.put(p)
			if i%4 == 0 {
				w.link(p, p+"link")
				ids = append(ids, w.drop(p+"link"))
			}
			ids = append(ids, w.drop(p))
		}
		_, err := w.removal.Cancel(ctx, w.fs, ids[3])
		must(t, err)
		_, err = w.db.Exec(ctx, "UPDATE drive_delete_job SET available_at = 0 WHERE state = 'PENDING'")
		must(t, err)
		// One that is read as due is restored before its batch locks it.
		raced := false
		m := w.with(func(c *removal.Config) {
			c.Step = func(_ context.Context, step string) error {
				if step == "trash.ended" && !raced {
					raced = true
					if w.db.Dialect().Name != sqldb.SQLite { // there the writer is taken
						_, err := w.removal.Restore(ctx, w.fs, ids[20], nil, "")
						if err != nil {
							t.Error(err)
						}
					}
				}
				return nil
			}
		})
		n, err := m.SweepFiles(ctx)
		want := len(ids) - 1
		if w.db.Dialect().Name != sqldb.SQLite {
			want--
		}
		if err != nil || n != want {
			t.Errorf("%d of %d files went, %v", n, want, err)
		}
		list := w.trash()
		if len(list) != 1 || list[0].ID != ids[3] {
			t.Errorf("trash: %+v", list)
		}
		w.check()
		w.restore(ids[3])
		w.check()
	})
}

// TestDamagedFile makes the row of a file that cannot go FAILED, and lets the others go.
func TestDamagedFile(t *testing.T) {
	t.Parallel()
	each(t, withTrash, func(t *testing.T, w *world) {
		w.put("/a", "/b", "/c")
		bad := w.inode("/b")
		ids := []job.ID{w.drop("/a"), w.drop("/b"), w.drop("/c")}
		w.exec(1, "UPDATE inodes SET nlink = 0 WHERE fs_id = ? AND inode_id = ?", int64(w.fs), int64(bad))
		_, err := w.removal.EmptyAll(t.Context(), w.fs, nil)
		must(t, err)
		n, err := w.removal.SweepFiles(t.Context())
		if n != 2 || err != nil {
			t.Errorf("%d went, %v", n, err)
		}
		for i, want := range []job.State{job.Succeeded, job.Failed, job.Succeeded} {
			if j := w.job(ids[i]); j.State != want || (j.LastError == "") != (want == job.Succeeded) {
				t.Errorf("job %d is %s: %s", ids[i], j.State, j.LastError)
			}
		}
		w.exec(1, "UPDATE inodes SET nlink = 1 WHERE fs_id = ? AND inode_id = ?", int64(w.fs), int64(bad))
		_, err = w.removal.Retry(t.Context(), w.fs, ids[1])
		must(t, err)
		_, err = w.removal.SweepFiles(t.Context())
		must(t, err)
		w.wantEmpty()
		w.check()
	})
}

// TestRestoreOrSweep lets restores and workers want the same jobs: each job has one end.
func TestRestoreOrSweep(t *testing.T) {
	t.Parallel()
	each(t, withTrash, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.start()
		var ids []job.ID
		for i := range 12 {
			p := fmt.Sprintf("/t%02d", i)
			if i%2 == 0 {
				p = fmt.Sprintf("/f%02d", i)
				w.put(p)
			} else {
				w.put(p+"/a/x", p+"/y")
			}
			ids = append(ids, w.drop(p))
		}
		back := 0
		for _, id := range slices.Backward(ids) {
			if _, err := w.removal.Empty(ctx, w.fs, id); err != nil {
				t.Fatal(err)
			}
			_, err := w.removal.Restore(ctx, w.fs, id, nil, "")
			switch {
			case err == nil:
				back++
			case fault.CodeOf(err) != removal.CodeNotInTrash:
				t.Error(err)
			}
		}
		for len(w.trash()) > 0 {
			must(t, w.removal.Patrol(ctx))
			select {
			case <-ctx.Done():
				t.Fatal(errors.Join(ctx.Err(), errors.New("the trash does not get empty")))
			case <-time.After(20 * time.Millisecond):
			}
		}
		entries, _, err := w.drive.List(ctx, w.fs, "/", drive.ListOptions{})
		must(t, err)
		if len(entries) != back {
			t.Errorf("%d are back, %d were restored", len(entries), back)
		}
		w.check()
	})
}
