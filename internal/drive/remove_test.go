package drive_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

func TestRemove(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		ctx := t.Context()
		file := r.put(t, "/file", "bytes")
		dir := r.mkdir(t, "/dir")
		r.put(t, "/full/of", "it")
		r.symlink(t, "/soft", "full")
		r.symlink(t, "/up", "/")
		if _, err := r.Link(ctx, one, "/file", "/hard", drive.Change{}); err != nil {
			t.Fatal(err)
		}
		type outcome struct {
			Code                      string
			Files, Directories, Bytes int64
		}
		for _, c := range []struct {
			path, ifMatch string
			want          outcome
		}{
			{"/", "", outcome{Code: "InvalidPath"}},
			{"/none", "", outcome{Code: "NotFound"}},
			{"/file/x", "", outcome{Code: "NotDirectory"}},
			{"/full", "", outcome{Code: "DirectoryNotEmpty"}},
			{"/file", `"1"`, outcome{Code: "PreconditionFailed"}},
			{"/dir", file.ETag(), outcome{Code: "PreconditionFailed"}},
			{"/file", file.ETag(), outcome{"ok", 1, 0, 0}}, // another name keeps the bytes
			{"/file", "", outcome{Code: "NotFound"}},
			{"/hard", "*", outcome{"ok", 1, 0, 5}},
			{"/soft", "", outcome{"ok", 1, 0, 0}},
			{"/dir", dir.ETag(), outcome{"ok", 0, 1, 0}},
			{"/up/full/of", "", outcome{"ok", 1, 0, 2}},
			{"/full", "", outcome{"ok", 0, 1, 0}},
			{"/up", "", outcome{"ok", 1, 0, 0}},
		} {
			res, err := r.Remove(ctx, one, c.path, drive.RemoveOptions{IfMatch: c.ifMatch})
			got := outcome{code(err), res.Files, res.Directories, res.Bytes}
			if got != c.want {
				t.Errorf("remove %s %s: %+v, want %+v", c.path, c.ifMatch, got, c.want)
			}
			if err == nil && (res.Path != c.path || res.Inode == 0 || res.State != "SUCCEEDED" || res.Job != 0 || res.Nodes != res.Files+res.Directories) {
				t.Errorf("remove %s says %+v", c.path, res)
			}
		}
		if got := r.names(t, "/"); got != "" {
			t.Errorf("left: %s", got)
		}
		if u, err := r.Usage(ctx, one); err != nil || u != (drive.Usage{}) {
			t.Errorf("usage %+v, %v", u, err)
		}
	})
}

func TestRemoveAll(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		ctx := t.Context()
		plant := func() drive.Entry {
			for i := range 10 {
				r.put(t, fmt.Sprintf("/tree/%d/file", i%3), "1234567890")
				r.put(t, fmt.Sprintf("/tree/f%d", i), "1")
			}
			e, err := r.Stat(ctx, one, "/tree", false)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		tree := plant()
		r.symlink(t, "/soft", "tree")
		r.symlink(t, "/by", "/")
		dry, err := r.RemoveAll(ctx, one, "/tree", drive.RemoveAllOptions{DryRun: true})
		if err != nil || dry.Nodes != 17 || r.names(t, "/tree/0") != "file" {
			t.Errorf("a dry run: %+v, %v", dry, err)
		}
		if _, err := r.RemoveAll(ctx, one, "/tree", drive.RemoveAllOptions{IfMatch: `"3"`}); code(err) != "PreconditionFailed" {
			t.Errorf("another inode: %v", err)
		}
		for path, want := range map[string]string{"/": "InvalidPath", "/none": "NotFound"} {
			if _, err := r.RemoveAll(ctx, one, path, drive.RemoveAllOptions{}); code(err) != want {
				t.Errorf("remove %s: %v, want %s", path, err, want)
			}
		}
		if res, err := r.RemoveAll(ctx, one, "/soft", drive.RemoveAllOptions{}); err != nil || res.Files != 1 || r.names(t, "/") != "by tree" {
			t.Errorf("a link goes, not what is behind it: %+v, %v", res, err)
		}
		res, err := r.RemoveAll(ctx, one, "/by/tree", drive.RemoveAllOptions{IfMatch: tree.ETag(), Wait: -1})
		if err != nil || res.State != "SUCCEEDED" || res.Files != 13 || res.Directories != 4 || res.Bytes != 40 || res.Path != "/by/tree" || res.Inode != tree.Inode {
			t.Errorf("remove all: %+v, %v", res, err)
		}
		if got := r.names(t, "/"); got != "by" {
			t.Errorf("left: %s", got)
		}
	})
}

// With a trash, files and trees go there; empty directories do not.
func TestRemoveIntoTheTrash(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, owners, func(t *testing.T, db *sqldb.DB) {
		r := setup(t, db, func(c *removal.Config) { c.TrashRetention = time.Hour })
		ctx := t.Context()
		r.put(t, "/file", "bytes")
		r.mkdir(t, "/dir")
		r.put(t, "/tree/leaf", "leaf")
		var got []string
		for _, path := range []string{"/file", "/dir"} {
			res, err := r.Remove(ctx, one, path, drive.RemoveOptions{Actor: "ann"})
			got = append(got, fmt.Sprint(path, " ", code(err), " ", res.Job != 0, " ", res.State, " ", res.Plain))
		}
		r.put(t, "/file2", "bytes")
		file, err := r.RemoveAll(ctx, one, "/file2", drive.RemoveAllOptions{Actor: "ann"})
		got = append(got, fmt.Sprint("/file2 ", code(err), " ", file.Job != 0, " ", file.State, " ", file.Plain))
		res, err := r.RemoveAll(ctx, one, "/tree", drive.RemoveAllOptions{Actor: "ann", Async: true})
		got = append(got, fmt.Sprint("/tree ", code(err), " ", res.Job != 0, " ", res.State, " ", res.Plain))
		want := []string{"/file ok true PENDING true", "/dir ok false SUCCEEDED true", "/file2 ok true PENDING true", "/tree ok true PENDING false"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if got := r.names(t, "/"); got != "" {
			t.Errorf("left: %s", got)
		}
		if u, err := r.Usage(ctx, one); err != nil || u.Bytes != 14 || u.Files != 3 {
			t.Errorf("the trash counts: %+v, %v", u, err)
		}
		r.agree(t)
	})
}

// A directory that is in use by others is not empty, or busy; never half removed.
func TestRemoveOfADirectoryInUse(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		if r.db.Dialect().Name != sqldb.Postgres {
			return // others serve locks in order
		}
		ctx := t.Context()
		dir := r.mkdir(t, "/dir")
		held, release := make(chan struct{}), make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- r.db.Tx(ctx, func(tx *sqldb.Tx) error {
				if err := r.tree.LockShared(ctx, tx, one, dir.Inode); err != nil {
					return err
				}
				close(held)
				// A server ends the session of a transaction that is silent for long.
				tick := time.NewTicker(time.Second)
				defer tick.Stop()
				for {
					select {
					case <-release:
						return nil
					case <-tick.C:
						if err := r.tree.LockShared(ctx, tx, one, dir.Inode); err != nil {
							return err
						}
					}
				}
			})
		}()
		<-held
		if _, err := r.Remove(ctx, one, "/dir", drive.RemoveOptions{}); fault.KindOf(err) != fault.Busy {
			t.Errorf("an empty directory that is held: %v", err)
		}
		r.put(t, "/dir/file", "x")
		if _, err := r.Remove(ctx, one, "/dir", drive.RemoveOptions{}); code(err) != "DirectoryNotEmpty" {
			t.Errorf("a directory with a file that is held: %v", err)
		}
		close(release)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}
