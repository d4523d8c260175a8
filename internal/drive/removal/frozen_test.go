package removal_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// A delete whose COMMIT lies on the way for longer than anybody waits is not taken for one
// that was never made: its job is a row that nobody can see or wait for before that.
func TestCommitThatArrivesLate(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/tree", "/file"} {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			for _, server := range sqldbtest.Servers(t) {
				if server.Name == sqldb.SQLite {
					continue // nothing is on a way
				}
				t.Run(server.String(), func(t *testing.T) {
					t.Parallel()
					arrivesLate(t, server, path)
				})
			}
		})
	}
}

func arrivesLate(t *testing.T, server sqldbtest.Server, path string) {
	t.Helper()
	ctx := t.Context()
	url := server.URL(t)
	beside := server.OpenURL(t, url, sqldb.Config{}, owners...)
	g := sqldbtest.NewGateway(t, url)
	var armed atomic.Bool
	db := server.OpenURL(t, g.URL, sqldb.Config{Timeout: 4 * time.Second, LockWait: 20 * time.Second, Hooks: sqldb.Hooks{
		BeforeCommit: func(context.Context) error {
			if armed.CompareAndSwap(true, false) {
				g.Lose()
			}
			return nil
		},
	}})
	w := &world{t: t, fs: 11, other: 12, db: db, tree: tree.New(db), feed: feed.New(feed.Config{DB: db}), bucket: mem.New()}
	w.content = content.New(content.Config{DB: db, Bucket: w.bucket, InlineBytes: 8, NewID: func(ctx context.Context, fs int64) (int64, error) {
		return w.tree.NewID(ctx, tree.FS(fs))
	}})
	w.removal = removal.New(removal.Config{
		DB: db, Tree: w.tree, Content: w.content, Feed: w.feed, Owner: "test", Job: jobtest.Config(), TrashRetention: time.Hour,
	})
	w.drive = w.over(w.removal, nil)
	w.createDrives()
	w.put("/tree/a", "/file")

	armed.Store(true)
	answered := make(chan error, 1)
	var res drive.RemoveResult
	go func() {
		var err error
		res, err = w.drive.RemoveAll(ctx, w.fs, path, drive.RemoveAllOptions{Async: true})
		answered <- err
	}()
	waits := func() bool { return len(answered) > 0 || sqldbtest.Waiting(t, beside) > 0 }
	jobtest.Eventually(t, "it is answered, or the look waits for the transaction", waits)
	if len(answered) > 0 {
		t.Error("answered while it is being decided")
	}
	g.Thaw()
	err := <-answered
	_, gone := w.drive.Stat(ctx, w.fs, path, true)
	switch {
	case err == nil && (fault.KindOf(gone) != fault.NotFound || res.Job == 0):
		t.Errorf("deleted by job %d, and it is there: %v", res.Job, gone)
	case err != nil && (fault.KindOf(err) != fault.Busy || gone != nil): // the server ended the silent transaction first
		t.Errorf("%v, and it is gone: %v", err, gone)
	}
}
