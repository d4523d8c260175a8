package removal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// TestSizesInTheTrash tells the size of a file while it lies there, and what was freed when it
// has gone: its bytes once, when its last name goes.
func TestSizesInTheTrash(t *testing.T) {
	t.Parallel()
	each(t, withTrash, func(t *testing.T, w *world) {
		ctx := t.Context()
		size := func(p string) int64 { return int64(len(body(p, false))) }
		w.put("/alone", "/here") // no third: that would be inline
		w.put("/both", "/grows")
		w.put("/t/x")
		w.link("/here", "/kept")
		w.link("/both", "/both2")
		w.link("/grows", "/grown")
		_, err := w.drive.Symlink(ctx, w.fs, "/soft", "alone", drive.Change{})
		must(t, err)
		type told struct{ Answer, Listed, Freed int64 }
		want := map[string]told{
			"/alone": {size("/alone"), size("/alone"), size("/alone")},
			"/here":  {0, size("/here"), 0},             // its other name stays
			"/both":  {0, size("/both"), size("/both")}, // both go, in one batch
			"/both2": {0, size("/both"), 0},
			"/grows": {0, size("/grows"), 0}, // another one is written by its other name
			"/soft":  {0, 0, 0},
			"/t":     {0, -1, size("/t/x")},
		}
		got, ids := map[string]told{}, map[string]job.ID{}
		for _, p := range []string{"/alone", "/here", "/both", "/both2", "/grows", "/soft", "/t"} {
			var res drive.RemoveResult
			var err error
			if p == "/alone" { // either way
				res, err = w.drive.Remove(ctx, w.fs, p, drive.RemoveOptions{})
			} else {
				res, err = w.drive.RemoveAll(ctx, w.fs, p, drive.RemoveAllOptions{})
			}
			must(t, err)
			got[p], ids[p] = told{Answer: res.Bytes}, job.ID(res.Job)
		}
		long := strings.Repeat("long", 100)
		_, _, err = w.drive.Put(ctx, w.fs, "/grown", drive.PutOptions{Body: strings.NewReader(long), Size: int64(len(long))})
		must(t, err)
		for _, j := range w.trash() {
			at := got[j.Path]
			at.Listed = j.Size
			got[j.Path] = at
			if j.Counts != (removal.Counts{}) {
				t.Errorf("%s counts before it is gone: %+v", j.Path, j.Counts)
			}
		}
		w.restore(ids["/alone"])
		if j := w.job(ids["/alone"]); j.Counts != (removal.Counts{}) {
			t.Errorf("what was restored counts %+v", j.Counts)
		}
		ids["/alone"] = w.drop("/alone")
		used, err := w.feed.Usage(ctx, w.db, int64(w.fs))
		must(t, err)
		w.do(w.removal.EmptyAll(ctx, w.fs, nil))
		w.do(w.removal.SweepFiles(ctx))
		w.sweep(ids["/t"])
		freed := int64(0)
		for p, id := range ids {
			j, at := w.job(id), got[p]
			at.Freed = j.Counts.Bytes
			got[p] = at
			freed += at.Freed
			if j.State != job.Succeeded || j.Counts.Files != 1 || j.Counts.Transactions == 0 || j.Size >= 0 {
				t.Errorf("%s is %s with %+v, size %d", p, j.State, j.Counts, j.Size)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("bytes (-want +got):\n%s", diff)
		}
		now, err := w.feed.Usage(ctx, w.db, int64(w.fs))
		if err != nil || used.Bytes-now.Bytes != freed {
			t.Errorf("usage fell by %d, the jobs freed %d, %v", used.Bytes-now.Bytes, freed, err)
		}
		w.wantPaths("/grown", "/kept")
		w.check()
	})
}

// TestFileWithoutASize is of a row that another version wrote.
func TestFileWithoutASize(t *testing.T) {
	t.Parallel()
	each(t, withTrash, func(t *testing.T, w *world) {
		w.put("/f", "/g")
		f, g := w.drop("/f"), w.drop("/g")
		w.exec(1, "UPDATE drive_delete_job SET progress = '{}' WHERE id = ?", int64(f))
		if j := w.job(f); j.Size != -1 {
			t.Errorf("size %d", j.Size)
		}
		w.do(w.removal.EmptyAll(t.Context(), w.fs, nil))
		w.do(w.removal.SweepFiles(t.Context()))
		for _, id := range []job.ID{f, g} {
			if j := w.job(id); j.Counts.Bytes != int64(len(body("/f", false))) || j.Counts.Files != 1 {
				t.Errorf("freed %+v", j.Counts)
			}
		}
		w.wantEmpty()
		w.check()
	})
}

// TestStuckFile lets every other file of the trash go when one cannot, of its drive and of
// others, and gives that one up as a job is given up.
func TestStuckFile(t *testing.T) {
	t.Parallel()
	cfg := jobtest.Config()
	cfg.MaxAttempts, cfg.RetryBase = 3, time.Minute
	for name, damage := range map[string]struct {
		s     sqldb.Statement
		whole bool // it can be restored all the same
	}{
		"no content":    {"DELETE FROM contents WHERE fs_id = ? AND content_id = (SELECT content_id FROM inodes WHERE inode_id = ? AND fs_id = contents.fs_id)", true},
		"no references": {"UPDATE contents SET refs = 0 WHERE fs_id = ? AND content_id = (SELECT content_id FROM inodes WHERE inode_id = ? AND fs_id = contents.fs_id)", true},
		"no dentry":     {"DELETE FROM file_nodes WHERE fs_id = ? AND inode_id = ?", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, removal.Config{BatchSize: 50, TrashRetention: time.Hour, Job: cfg}, func(t *testing.T, w *world) {
				ctx := t.Context()
				w.put("/bad", "/a")
				w.put("/b")
				w.putIn(w.other, "/other", false)
				bad := w.inode("/bad")
				ids := []job.ID{w.drop("/bad"), w.drop("/a"), w.drop("/b")}
				other, err := w.removal.RemoveAll(ctx, removal.Request{FS: w.other, Path: path(t, "/other")})
				must(t, err)
				w.exec(1, damage.s, int64(w.fs), int64(bad))
				for attempt := 1; attempt <= cfg.MaxAttempts; attempt++ {
					_, err := w.db.Exec(ctx, "UPDATE drive_delete_job SET available_at = 0 WHERE state = 'PENDING'")
					must(t, err)
					w.do(w.removal.SweepFiles(ctx))
					j := w.job(ids[0])
					if j.Attempts != attempt || j.LastError == "" || (j.State == job.Failed) != (attempt == cfg.MaxAttempts) || j.State == job.Pending && j.AvailableAt < j.UpdatedAt+20_000 {
						t.Errorf("after attempt %d: %s, %d attempts, %q", attempt, stands(j), j.Attempts, j.LastError)
					}
					for _, id := range ids[1:] {
						if j := w.job(id); j.State != job.Succeeded {
							t.Errorf("beside it %s is %s", j.Path, j.State)
						}
					}
					if j, err := w.removal.Job(ctx, w.other, other.Job); err != nil || j.State != job.Succeeded {
						t.Errorf("in another drive: %s, %v", j.State, err)
					}
				}
				if damage.whole {
					w.restore(ids[0])
					w.wantPaths("/bad")
				}
			})
		})
	}
}

// TestFilesAmongConflicts tries files again that met contention, however long it lasts, and
// waits for a database that is away.
func TestFilesAmongConflicts(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 50, TrashRetention: time.Hour}, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.put("/a", "/b")
		ids := []job.ID{w.drop("/a"), w.drop("/b")}
		var trouble error
		tried := 0
		m := w.with(func(c *removal.Config) {
			c.Step = func(_ context.Context, step string) error {
				if step == "trash.ended" {
					tried++
					return trouble
				}
				return nil
			}
		})
		sweepNow := func() error {
			_, err := w.db.Exec(ctx, "UPDATE drive_delete_job SET available_at = 0 WHERE state = 'PENDING'")
			must(t, err)
			_, err = m.SweepFiles(ctx)
			return err
		}
		trouble = fault.New("test", fault.Busy, "DatabaseBusy", "busy")
		for range 10 { // more than the attempts of a job
			tried = 0
			must(t, sweepNow())
			if tried != 3 { // the two at once, then each of them
				t.Fatalf("it tried %d times, want 3", tried)
			}
		}
		trouble = fault.New("test", fault.Busy, sqldb.CodeUnavailable, "away")
		if err := sweepNow(); !errors.Is(err, trouble) {
			t.Errorf("without a database: %v", err)
		}
		for _, id := range ids {
			if j := w.job(id); j.State != job.Pending || j.Attempts != 0 {
				t.Errorf("%s is %s after %d attempts", j.Path, j.State, j.Attempts)
			}
		}
		trouble = nil
		must(t, sweepNow())
		w.wantEmpty()
		w.check()
	})
}

// TestIfMatchOfAFile holds to the revision that is there when the file goes, not to the one
// that was read before somebody wrote another.
func TestIfMatchOfAFile(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]removal.Config{"for good": {}, "to the trash": withTrash} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, cfg, func(t *testing.T, w *world) {
				w.put("/f", "/g")
				meant, err := w.drive.Stat(t.Context(), w.fs, "/f", false)
				must(t, err)
				asked, before := 0, 2 // the request looks, then the transaction
				if w.db.Dialect().Name == sqldb.SQLite {
					before = 1 // the transaction is the only one that writes
				}
				req := w.request("/f")
				req.Match = func(n tree.Node) bool {
					if asked++; asked == before {
						_, _, err := w.drive.Put(t.Context(), w.fs, "/f", drive.PutOptions{Body: strings.NewReader("new"), Size: 3})
						must(t, err)
					}
					return n.Revision == meant.Revision
				}
				_, err = w.removal.RemoveAll(t.Context(), req)
				wantKind(t, err, fault.Precondition, removal.CodePrecondition)
				w.wantPaths("/f", "/g")
				if got := w.read("/f"); got != "new" {
					t.Errorf("reads %q", got)
				}
				if n := w.rows("drive_delete_job", w.fs); n != 0 {
					t.Errorf("%d jobs", n)
				}
				for p, match := range map[string]string{"/f": "*", "/g": fmt.Sprintf(`"1-1", "%d-1"`, w.inode("/g"))} {
					w.do(w.drive.RemoveAll(t.Context(), w.fs, p, drive.RemoveAllOptions{IfMatch: match}))
				}
				w.wantPaths()
				w.check()
			})
		})
	}
}
