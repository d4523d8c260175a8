package removal_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
)

// TestEmptyAll empties what a prefix covers, at the cost of pages: no statement is for one
// entry, and what the prefix does not cover, and another drive's, stays as it is.
func TestEmptyAll(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 20, TrashRetention: 2 * time.Hour}, func(t *testing.T, w *world) {
		ctx := t.Context()
		theirs := map[job.ID]string{}
		mine := map[job.ID]string{}
		for i := range 60 {
			m, o := fmt.Sprintf("/mine/f%d", i), fmt.Sprintf("/mine2/f%d", i)
			w.put(m, o)
			mine[w.drop(m)], theirs[w.drop(o)] = "due", ""
		}
		going := 0 // already, or not there any more
		for i, s := range standings {
			id := w.stand(s, fmt.Sprintf("/mine/s%02d", i))
			switch stands(w.job(id)) {
			case "due", "RUNNING", "SUCCEEDED", "restored":
				mine[id] = stands(w.job(id))
				going++
			case "RUNNING,paused":
				mine[id] = "RUNNING"
			default:
				mine[id] = "due"
			}
			theirs[w.stand(s, fmt.Sprintf("/mine2/s%02d", i))] = ""
		}
		for id := range theirs {
			theirs[id] = stands(w.job(id))
		}
		w.putIn(w.other, "/mine/x", false)
		other, err := w.removal.RemoveAll(ctx, removal.Request{FS: w.other, Path: path(t, "/mine/x")})
		must(t, err)

		before := w.db.Statements()
		n, err := w.removal.EmptyAll(ctx, w.fs, func(p string) bool { return strings.HasPrefix(p, "/mine/") })
		must(t, err)
		if n != len(mine)-going {
			t.Errorf("%d let go of %d", n, len(mine)-going)
		}
		pages := int64(len(mine)+len(theirs))/20 + 1
		if cost := w.db.Statements() - before; cost > 6*pages {
			t.Errorf("%d statements for %d pages", cost, pages)
		}
		for _, all := range []map[job.ID]string{mine, theirs} {
			for id, want := range all {
				if j := w.job(id); stands(j) != want {
					t.Errorf("%s is %s, want %s", j.Path, stands(j), want)
				}
			}
		}
		if j, err := w.removal.Job(ctx, w.other, other.Job); err != nil || stands(j) != "later" {
			t.Errorf("the other drive's is %s, %v", stands(j), err)
		}
		if n, err := w.removal.EmptyAll(ctx, w.fs, func(p string) bool { return strings.HasPrefix(p, "/mine/") }); n != 0 || err != nil {
			t.Errorf("%d let go again, %v", n, err)
		}
		w.check()
	})
}

// TestEmptyOfAPausedJob lets it run to its end, where it lies in the trash and where its worker
// was to stop.
func TestEmptyOfAPausedJob(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 5, TrashRetention: 2 * time.Hour}, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.put("/t/x", "/f", "/all/x")
		for _, p := range []string{"/t", "/f"} {
			id := w.drop(p)
			pause(w, id)
			j, err := w.removal.Empty(ctx, w.fs, id)
			must(t, err)
			if j.Paused || stands(j) != "due" {
				t.Errorf("%s is %s", p, stands(j))
			}
		}
		all := w.drop("/all")
		pause(w, all)
		if n, err := w.removal.EmptyAll(ctx, w.fs, nil); n != 1 || err != nil {
			t.Errorf("%d let go, %v", n, err)
		}
		w.start()
		w.awaitJob(all)
		w.emptied()
		w.wantEmpty()
		w.check()
	})
}

// TestNestedTrash brings back what was deleted out of a directory that was deleted later: in
// its place when that is back, elsewhere when that is gone for good.
func TestNestedTrash(t *testing.T) {
	t.Parallel()
	each(t, withTrash, func(t *testing.T, w *world) {
		w.put("/a/b/x", "/a/b/c/y", "/a/z")
		before := w.paths(w.fs, "/")
		inmost, inner, outer := w.drop("/a/b/c"), w.drop("/a/b"), w.drop("/a")
		for _, id := range []job.ID{outer, inner, inmost} {
			w.restore(id)
		}
		w.wantPaths(before...)

		inmost, inner, outer = w.drop("/a/b/c"), w.drop("/a/b"), w.drop("/a")
		empty(w, outer)
		w.sweep(outer)
		for _, id := range []job.ID{inner, inmost} {
			_, err := w.removal.Restore(t.Context(), w.fs, id, nil, "")
			wantKind(t, err, fault.NotFound, removal.CodeNoSuchPath)
		}
		// Its own way, made anew, is a way as any other; what lies in the trash is none.
		to := path(t, "/a/b")
		_, err := w.removal.Restore(t.Context(), w.fs, inner, &to, "")
		wantKind(t, err, fault.NotFound, removal.CodeNoSuchPath)
		w.mkdir("/a")
		_, err = w.removal.Restore(t.Context(), w.fs, inner, &to, "")
		must(t, err)
		w.restore(inmost) // its directory is back, wherever it is
		w.wantPaths("/a/", "/a/b/", "/a/b/c/", "/a/b/c/y", "/a/b/x")
		w.check()
	})
}

// TestRestoreTouches moves the time of the directory that something comes back to.
func TestRestoreTouches(t *testing.T) {
	t.Parallel()
	each(t, withTrash, func(t *testing.T, w *world) {
		w.put("/d/x")
		id, dir := w.drop("/d/x"), w.inode("/d")
		w.exec(1, "UPDATE inodes SET modified_at = 7 WHERE fs_id = ? AND inode_id = ?", int64(w.fs), int64(dir))
		m := w.with(func(c *removal.Config) { c.Tree = tree.New(w.db) }) // which has touched nothing yet
		_, err := m.Restore(t.Context(), w.fs, id, nil, "")
		must(t, err)
		node, _, err := w.tree.Get(t.Context(), w.db, w.fs, dir)
		if err != nil || node.Modified == 7 {
			t.Errorf("modified at %d, %v", node.Modified, err)
		}
		w.check()
	})
}
