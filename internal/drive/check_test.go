package drive_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// Check finds counters that are wrong, and says which.
func TestCheckFindsWrongCounters(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, owners, func(t *testing.T, db *sqldb.DB) {
		r := setup(t, db, nil)
		ctx := t.Context()
		file := r.put(t, "/dir/file", "bytes")
		r.symlink(t, "/soft", "dir")
		if _, err := r.Link(ctx, one, "/dir/file", "/hard", drive.Change{}); err != nil {
			t.Fatal(err)
		}
		r.begin(t, "/upload", 100)
		report, err := r.Check(ctx, one)
		want := drive.CheckReport{
			Counted: drive.Usage{Bytes: 5, Files: 2, Reserved: 100}, Recorded: drive.Usage{Bytes: 5, Files: 2, Reserved: 100}, Directories: 1,
		}
		if diff := cmp.Diff(want, report); err != nil || diff != "" {
			t.Errorf("a good drive: %v\n%s", err, diff)
		}
		if _, err := db.Exec(ctx, "UPDATE usage_total SET bytes = bytes + 7, files = files - 1, reserved = 0 WHERE fs_id = ?", int64(one)); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(ctx, "UPDATE inodes SET nlink = 3 WHERE fs_id = ? AND inode_id = ?", int64(one), int64(file.Inode)); err != nil {
			t.Fatal(err)
		}
		report, err = r.Check(ctx, one)
		problems := []string{
			fmt.Sprintf("inode %d has 2 names and records 3", file.Inode), "5 bytes are there and 12 are recorded", "2 files are there and 1 are recorded",
		}
		if diff := cmp.Diff(problems, report.Problems); err != nil || diff != "" || report.OK() {
			t.Errorf("a bad drive: %v\n%s", err, diff)
		}
		if _, err := r.Check(ctx, 99); code(err) != "NoSuchDrive" {
			t.Errorf("no drive: %v", err)
		}
	})
}

// An operation under which the tree never holds still ends, and says so.
func TestNeverHoldsStill(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		turns := 0
		r.steps.set(func(_, point string) error {
			if point != "resolved" {
				return nil
			}
			turns++
			return fmt.Errorf("moved by the test: %w", tree.ErrMoved)
		})
		_, _, err := r.Put(t.Context(), one, "/file", drive.PutOptions{Body: strings.NewReader(longText), Size: -1})
		r.steps.set(nil)
		if fault.KindOf(err) != fault.Busy || code(err) != "TreeBusy" || fault.RetryAfter(err) <= 0 || !errors.Is(err, tree.ErrMoved) {
			t.Errorf("after %d turns: %v", turns, err)
		}
		if turns != 8 {
			t.Errorf("%d turns", turns)
		}
		if got := r.read(t, "/file"); got != "NotFound" {
			t.Errorf("the file reads %q", got)
		}
		r.objects(t)
	})
}

// A condition that held when the path was resolved is proved once more under the lock.
func TestConditionsHoldUnderTheLock(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		for op, do := range map[string]func(ctx context.Context, path, etag string) error{
			"drive.Put": func(ctx context.Context, path, etag string) error {
				return errOf(r.Put(ctx, one, path, drive.PutOptions{Body: strings.NewReader("late"), Size: 4, IfMatch: etag}))
			},
			"drive.Remove": func(ctx context.Context, path, etag string) error {
				return errOf2(r.Remove(ctx, one, path, drive.RemoveOptions{IfMatch: etag}))
			},
			"drive.Rename": func(ctx context.Context, path, etag string) error {
				return errOf2(r.Rename(ctx, one, path, path+"-moved", drive.RenameOptions{IfMatch: etag}))
			},
			"drive.Chmod": func(ctx context.Context, path, etag string) error {
				return errOf2(r.Chmod(ctx, one, path, 0o600, drive.Change{IfMatch: etag}))
			},
			"drive.Link": func(ctx context.Context, path, etag string) error {
				return errOf2(r.Link(ctx, one, path, path+"-linked", drive.Change{IfMatch: etag}))
			},
		} {
			path := "/" + op
			old := r.put(t, path, "old")
			extend := func(ctx context.Context) error { // an operation without a name of the others'
				return errOf2(r.Append(ctx, one, path, drive.AppendOptions{Body: strings.NewReader(" and new"), Size: 8}))
			}
			_, got, beside := r.beside(t, op, 0, func(ctx context.Context) error { return do(ctx, path, old.ETag()) }, extend)
			if code(got) != "PreconditionFailed" || beside != nil {
				t.Errorf("%s of an old revision: %v, %v", op, got, beside)
			}
			r.oneOf(t, path, "old and new")
		}
	})
}
