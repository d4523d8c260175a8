package removal_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/drivetest"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// exec writes behind everybody's back.
func (w *world) exec(want int64, s sqldb.Statement, args ...any) {
	w.t.Helper()
	n, err := w.db.Exec(w.t.Context(), s, args...)
	if err != nil || n != want {
		w.t.Fatalf("%s: %d rows, %v", s, n, err)
	}
}

// inode is the inode of a path of our drive.
func (w *world) inode(p string) tree.Inode {
	w.t.Helper()
	e, err := w.drive.Stat(w.t.Context(), w.fs, p, false)
	must(w.t, err)
	return e.Inode
}

// markOf returns the mark of a drive: its state, empty when there is none.
func (w *world) markOf(fs tree.FS) (id job.ID, state string, due, rearm int64) {
	w.t.Helper()
	rows, err := w.db.Query(w.t.Context(), "SELECT id, state, available_at, COALESCE(rearm_at, 0) FROM delete_reconcile_pending WHERE fs_id = ?", int64(fs))
	must(w.t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		must(w.t, rows.Scan(&id, &state, &due, &rearm))
	}
	must(w.t, rows.Err())
	return id, state, due, rearm
}

// reconcile claims our mark and runs one run of it.
func (w *world) reconcile(m *removal.Removal) error {
	w.t.Helper()
	id, _, _, _ := w.markOf(w.fs)
	_, err := w.db.Exec(w.t.Context(), "UPDATE delete_reconcile_pending SET available_at = 0 WHERE id = ? AND state = 'PENDING'", int64(id))
	must(w.t, err)
	r := w.claim(m.Marks(), id)
	err = m.Reconcile(w.t.Context(), r)
	if !errors.Is(err, job.ErrEnded) {
		_, finish := m.Marks().Finish(w.t.Context(), r.row.Lease(), err)
		must(w.t, finish)
	}
	return err
}

// damage makes one of every kind of row that nothing reaches, and returns how many of each
// a reconcile is to find.
func (w *world) damage() removal.Found {
	w.t.Helper()
	fs := int64(w.fs)
	// A chain whose second link is gone: dentry of it and all.
	w.put("/chain/a/b/c/x", "/chain/a/b/y", "/chain/a/z")
	gone := w.inode("/chain/a")
	w.exec(1, "DELETE FROM file_nodes WHERE fs_id = ? AND inode_id = ?", fs, int64(gone))
	w.exec(1, "DELETE FROM inodes WHERE fs_id = ? AND inode_id = ?", fs, int64(gone))
	// A directory whose inode alone is gone: its name leads nowhere.
	w.put("/nowhere/x")
	w.exec(1, "DELETE FROM inodes WHERE fs_id = ? AND inode_id = ?", fs, int64(w.inode("/nowhere")))
	// A file and a directory without a name.
	w.put("/lost", "/lostdir/x", "/lostdir/d/y")
	for _, p := range []string{"/lost", "/lostdir"} {
		w.exec(1, "DELETE FROM file_nodes WHERE fs_id = ? AND inode_id = ?", fs, int64(w.inode(p)))
	}
	// A tree in the trash whose job is gone, and a file whose job believes it is done.
	w.put("/jobless/x")
	id := w.detach("/jobless")
	w.exec(1, "DELETE FROM drive_delete_job WHERE id = ?", int64(id))
	w.put("/done")
	must(w.t, w.db.Tx(w.t.Context(), func(tx *sqldb.Tx) error {
		return w.tree.Move(w.t.Context(), tx, w.fs, tree.Node{Parent: tree.Root, Name: "done", Inode: w.inode("/done")}, tree.Trash, "done")
	}))
	return removal.Found{removal.Dentries: 3, removal.Files: 1, removal.Directories: 1, removal.DetachedRoots: 2}
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]removal.Config{
		"in one run":   {},
		"page by page": {BatchSize: 2, ReconcilePages: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, cfg, func(t *testing.T, w *world) {
				ctx := t.Context()
				w.put("/keep/a", "/keep/d/b", "/top")
				w.putIn(w.other, "/keep/a", false)
				w.link("/keep/a", "/keep/a2")
				w.detached("/aside") // unsettled jobs are nobody's orphans
				want := w.damage()
				dry, err := w.removal.DryReconcile(ctx, w.fs)
				must(t, err)
				if diff := cmp.Diff(want, dry); diff != "" {
					t.Errorf("found (-want +got):\n%s", diff)
				}
				others, err := w.removal.DryReconcile(ctx, w.other)
				must(t, err)
				if others.Any() {
					t.Errorf("in the other drive: %v", others)
				}
				must(t, w.removal.MarkNow(ctx, w.fs))
				runs := 0
				for err = errors.New("begin"); !errors.Is(err, job.ErrEnded); runs++ {
					if err = w.reconcile(w.removal); err != nil && !errors.Is(err, job.ErrEnded) && !errors.Is(err, job.ErrYield) {
						t.Fatal(err)
					}
				}
				if (runs > 1) != (cfg.ReconcilePages > 0) {
					t.Errorf("%d runs", runs)
				}
				// What was found hangs in the trash now, with jobs, and comes again to be looked at.
				if _, state, _, _ := w.markOf(w.fs); state != "PENDING" {
					t.Errorf("the mark is %q", state)
				}
				list, err := w.removal.List(ctx, w.fs, job.Pending, 0, 100)
				must(t, err)
				if len(list) != 1+5 { // two broken parents, a directory, two detached roots
					t.Errorf("%d jobs", len(list))
				}
				w.start()
				for _, j := range list {
					if j.Kind == removal.TreeJob {
						w.sweepBy(j.ID)
					}
				}
				_, err = w.removal.SweepFiles(ctx)
				must(t, err)
				w.wantPaths("/chain/", "/keep/", "/keep/a", "/keep/a2", "/keep/d/", "/keep/d/b", "/top")
				for _, fs := range []tree.FS{w.fs, w.other} {
					drivetest.Check(t, w.db, int64(fs))
				}
				w.check()
			})
		})
	}
}

// A directory that is gone, and has its own name where no directory is, ends in the trash all the
// same, and holds nothing up.
func TestReconcileNameInAFile(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{}, func(t *testing.T, w *world) {
		w.put("/file", "/dir/x")
		fs, dir := int64(w.fs), int64(w.inode("/dir"))
		w.exec(1, "UPDATE file_nodes SET parent_id = ? WHERE fs_id = ? AND inode_id = ?", int64(w.inode("/file")), fs, dir)
		w.exec(1, "DELETE FROM inodes WHERE fs_id = ? AND inode_id = ?", fs, dir)
		must(t, w.removal.MarkNow(t.Context(), w.fs))
		if err := w.reconcile(w.removal); !errors.Is(err, job.ErrEnded) {
			t.Fatal(err)
		}
		list, err := w.removal.List(t.Context(), w.fs, job.Pending, 0, 100)
		must(t, err)
		if len(list) != 1 {
			t.Fatalf("%d jobs", len(list))
		}
		w.start()
		w.sweepBy(list[0].ID)
		w.wantPaths("/file")
		drivetest.Check(t, w.db, fs)
	})
}

// detached makes and detaches a tree.
func (w *world) detached(top string) {
	w.t.Helper()
	w.put(top + "/x")
	w.detach(top)
}

// TestReconcilePageFails goes back to the start of the page that failed.
func TestReconcilePageFails(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 3}, func(t *testing.T, w *world) {
		w.put("/a/1", "/a/2", "/b/1", "/lost")
		w.exec(1, "DELETE FROM file_nodes WHERE fs_id = ? AND inode_id = ?", int64(w.fs), int64(w.inode("/lost")))
		must(t, w.removal.MarkNow(t.Context(), w.fs))
		bad := w.with(func(c *removal.Config) {
			c.Step = func(_ context.Context, step string) error {
				if step == "reconcile.looked" {
					return errCrash
				}
				return nil
			}
		})
		if err := w.reconcile(bad); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		id, state, _, _ := w.markOf(w.fs)
		row, err := w.removal.Marks().Get(t.Context(), id)
		must(t, err)
		if state != "PENDING" || row.Phase != "INODES" || row.Cursor == "" || row.Attempts != 1 {
			t.Errorf("%s at %s %q after %d attempts", state, row.Phase, row.Cursor, row.Attempts)
		}
		if err := w.reconcile(w.removal); !errors.Is(err, job.ErrEnded) {
			t.Fatal(err)
		}
		w.check()
	})
}

// TestMarks is when a drive is looked at.
// losing is a run that loses the answer to the first commit after a save.
type losing struct {
	*run
	w *world
}

func (l losing) Save(ctx context.Context, p job.Point, progress any) error {
	err := l.run.Save(ctx, p, progress)
	l.w.lose.Store(1)
	return err
}

// A pass whose last commit went unanswered, as when its server stops at that moment, knows
// that it has ended: nobody tries to end it again.
func TestEndOfAPassWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{ReconcileInterval: time.Hour}, func(t *testing.T, w *world) {
		w.put("/a/x", "/b/x")
		w.removeAll("/a")
		id, _, _, _ := w.markOf(w.fs)
		for _, want := range []string{"PENDING", ""} { // with a delete meanwhile, and without
			w.exec(1, "UPDATE delete_reconcile_pending SET available_at = 0 WHERE id = ?", int64(id))
			r := w.claim(w.removal.Marks(), id)
			if want != "" {
				w.removeAll("/b")
			}
			err := w.removal.Reconcile(t.Context(), losing{r, w})
			if lost := w.lose.Swap(0) < 1; !lost || !errors.Is(err, job.ErrEnded) {
				t.Errorf("an answer was lost: %t; the pass ended with %v", lost, err)
			}
			if _, state, _, _ := w.markOf(w.fs); state != want {
				t.Errorf("the mark is %q, want %q", state, want)
			}
		}
	})
}

func TestMarks(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{ReconcileInterval: time.Hour}, func(t *testing.T, w *world) {
		ctx := t.Context()
		if _, state, _, _ := w.markOf(w.fs); state != "" {
			t.Errorf("a new drive has a mark: %s", state)
		}
		w.put("/a/x", "/b/x", "/c/x", "/d/x", "/e/x", "/g/x")
		w.removeAll("/a") // the fast path marks too
		_, state, due, rearm := w.markOf(w.fs)
		if state != "PENDING" || due == 0 || rearm != 0 {
			t.Errorf("after a delete: %s, %d, %d", state, due, rearm)
		}
		w.removeAll("/b")
		if _, _, again, rearm := w.markOf(w.fs); again != due || rearm != 0 { // the earlier time stays
			t.Errorf("after another: due %d, was %d, rearm %d", again, due, rearm)
		}
		// While it is looked at, a delete is for the next look.
		during := w.with(func(c *removal.Config) {
			c.Step = func(context.Context, string) error { return nil }
		})
		id, _, _, _ := w.markOf(w.fs)
		w.exec(1, "UPDATE delete_reconcile_pending SET available_at = 0 WHERE id = ?", int64(id))
		r := w.claim(during.Marks(), id)
		w.removeAll("/c")
		if _, state, _, rearm := w.markOf(w.fs); state != "RUNNING" || rearm == 0 {
			t.Errorf("during a look: %s, %d", state, rearm)
		}
		if err := during.Reconcile(ctx, r); !errors.Is(err, job.ErrEnded) {
			t.Fatal(err)
		}
		_, state, due, rearm = w.markOf(w.fs)
		if state != "PENDING" || due == 0 || rearm != 0 {
			t.Errorf("after it: %s, %d, %d", state, due, rearm)
		}
		// One that stands in the middle of its pass knows of it too.
		w.exec(1, "UPDATE delete_reconcile_pending SET phase = 'INODES' WHERE id = ?", int64(id))
		w.removeAll("/d")
		if _, _, _, rearm := w.markOf(w.fs); rearm == 0 {
			t.Error("a mark in the middle of its pass was not armed again")
		}
		// A failed one begins anew.
		w.exec(1, "UPDATE delete_reconcile_pending SET state = 'FAILED', attempts = 5 WHERE id = ?", int64(id))
		w.removeAll("/e")
		if _, state, _, _ := w.markOf(w.fs); state != "PENDING" {
			t.Errorf("a failed mark is %s after a delete", state)
		}
		// Nobody comes: the row goes.
		if err := w.reconcile(w.removal); !errors.Is(err, job.ErrEnded) {
			t.Fatal(err)
		}
		if _, state, _, _ := w.markOf(w.fs); state != "" {
			t.Errorf("after a look that nobody asked for again: %s", state)
		}
		// A full audit is due on its own date, once.
		must(t, w.removal.Patrol(ctx))
		if _, state, _, _ := w.markOf(w.fs); state != "" {
			t.Errorf("before the full audit is due: %s", state)
		}
		w.exec(1, "UPDATE usage_total SET full_due_at = 0 WHERE fs_id = ?", int64(w.fs))
		for range 2 {
			must(t, w.removal.Patrol(ctx))
		}
		if _, state, _, rearm := w.markOf(w.fs); state != "PENDING" || rearm != 0 {
			t.Errorf("when the full audit is due: %s, %d", state, rearm)
		}
		if err := w.reconcile(w.removal); !errors.Is(err, job.ErrEnded) {
			t.Fatal(err)
		}
		must(t, w.removal.Patrol(ctx))
		if _, state, _, _ := w.markOf(w.fs); state != "" {
			t.Errorf("after the full audit: %s", state)
		}
		if _, state, _, _ := w.markOf(w.other); state != "" {
			t.Errorf("the other drive is %s", state)
		}
	})
}

// TestReconcileBesideCreates repairs nothing that is only just being made or removed.
func TestReconcileBesideCreates(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 5}, func(t *testing.T, w *world) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := make(chan error, 2)
		for c := range 2 {
			go func() {
				var err error
				for i := 0; err == nil && ctx.Err() == nil; i++ {
					top := fmt.Sprintf("/c%d/n%d", c, i)
					p := &party{w: w, drive: w.drive}
					if err = create(top + "/x/y/f")(p); err == nil {
						_, err = w.removal.RemoveAll(t.Context(), removal.Request{FS: w.fs, Path: mustPath(top), Wait: time.Minute})
					}
					if fault.KindOf(err) == fault.Busy {
						err = nil
					}
				}
				done <- err
			}()
		}
		for range 15 {
			must(t, w.removal.MarkNow(t.Context(), w.fs))
			w.exec(1, "UPDATE delete_reconcile_pending SET available_at = 0, state = 'PENDING' WHERE fs_id = ?", int64(w.fs))
			if err := w.reconcile(w.removal); !errors.Is(err, job.ErrEnded) {
				t.Error(err)
			}
		}
		stop()
		must(t, errors.Join(<-done, <-done))
		list, err := w.removal.List(t.Context(), w.fs, "", 0, 1000)
		must(t, err)
		for _, j := range list {
			if j.CreatedBy == "reconcile" {
				t.Errorf("a reconcile took %+v", j)
			}
		}
		w.check()
	})
}

func mustPath(text string) tree.Path {
	p, err := tree.ParsePath(text)
	if err != nil {
		panic(err)
	}
	return p
}

func TestScrub(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.put("/a", "/b", "/inline1") // two objects
		w.put("/gone")
		w.removeAll("/gone") // its object has a task
		prefix := fmt.Sprintf("drive/%d/", w.fs)
		stray := blob.Key(prefix + "ab/0197a2d0-0000-7000-8000-000000000001")
		for _, k := range []blob.Key{stray, blob.Key(prefix + "notours")} {
			must(t, w.bucket.Put(ctx, k, strings.NewReader("stray")))
		}
		seen, err := w.content.Scrub(ctx, int64(w.fs), content.ScrubOptions{})
		must(t, err)
		if seen.Stray != 0 || seen.Foreign != 1 || seen.Missing != 0 || seen.Objects != 5 { // it is too young
			t.Errorf("scrubbed: %+v", seen)
		}
		for _, queue := range []bool{false, true} {
			seen, err = w.content.Scrub(ctx, int64(w.fs), content.ScrubOptions{OlderThan: time.Nanosecond, Queue: queue})
			must(t, err)
			if diff := cmp.Diff([]string{string(stray)}, seen.Samples); diff != "" || seen.Stray != 1 || (seen.Queued == 1) != queue {
				t.Errorf("scrubbed: %+v\n%s", seen, diff)
			}
		}
		c := content.NewCollector(w.content, content.CollectorConfig{})
		_, err = c.Collect(ctx)
		must(t, err)
		if _, err := w.bucket.Stat(ctx, stray); !blob.IsNotExist(err) {
			t.Errorf("the stray object: %v", err)
		}
		w.exec(1, "UPDATE contents SET object_key = NULL, inline_bytes = ? WHERE fs_id = ? AND inline_bytes IS NULL AND content_id = (SELECT content_id FROM inodes WHERE fs_id = ? AND inode_id = ?)",
			[]byte(body("/a", false)), int64(w.fs), int64(w.fs), int64(w.inode("/a")))
		seen, err = w.content.Scrub(ctx, int64(w.fs), content.ScrubOptions{OlderThan: time.Nanosecond})
		must(t, err)
		if seen.Stray != 1 {
			t.Errorf("a content that forgot its object: %+v", seen)
		}
	})
}

// dump is every row of every table that a delete or a reconcile writes.
func (w *world) dump() (rows []string) {
	w.t.Helper()
	for _, table := range []string{
		"file_nodes", "inodes", "contents", "file_tags", "file_gc_tasks", "drive_delete_job", "delete_reconcile_pending",
		"usage_total", "usage_delta", "fs_events", "uploads", "upload_parts",
	} {
		rows = append(rows, w.dumpOf(table)...)
	}
	slices.Sort(rows)
	return rows
}

func (w *world) dumpOf(table string) (rows []string) {
	w.t.Helper()
	read, err := w.db.Query(w.t.Context(), sqldb.Statement("SELECT * FROM "+table))
	must(w.t, err)
	defer func() { must(w.t, read.Close()) }()
	columns, err := read.Columns()
	must(w.t, err)
	for read.Next() {
		values := make([]sql.NullString, len(columns))
		dest := make([]any, len(columns))
		for i := range values {
			dest[i] = &values[i]
		}
		must(w.t, read.Scan(dest...))
		rows = append(rows, fmt.Sprint(table, values))
	}
	must(w.t, read.Err())
	return rows
}

// A look at a damaged drive changes no row of it, nor of another, and counts as what it is.
func TestDryReconcileChangesNothing(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 2}, func(t *testing.T, w *world) {
		w.put("/keep/a")
		w.putIn(w.other, "/keep/a", false)
		want := w.damage()
		m, reg, _ := w.watched(nil)
		before := w.dump()
		found, err := m.DryReconcile(t.Context(), w.fs)
		must(t, err)
		if diff := cmp.Diff(want, found); diff != "" {
			t.Errorf("found (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, w.dump()); diff != "" {
			t.Errorf("rows (-before +after):\n%s", diff)
		}
		for class, n := range want {
			wantMetrics(t, reg,
				fmt.Sprintf("lethe_delete_reconcile_orphans_found_total dry_run %s %d", class, n),
				fmt.Sprintf("lethe_delete_reconcile_orphans_found_total repair %s 0", class))
		}
	})
}
