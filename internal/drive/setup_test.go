package drive_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/drivetest"
	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// The drives of the tests: two tenants in one database.
const (
	one tree.FS = 7
	two tree.FS = 8
)

var owners = []sqldb.Migrations{tree.Migrations, content.Migrations, feed.Migrations, removal.Migrations}

// room is a drive under test with all that is below it.
type room struct {
	*drive.Drive
	t       *testing.T
	db      *sqldb.DB
	bucket  *mem.Bucket
	tree    *tree.Tree
	content *content.Store
	feed    *feed.Store
	removal *removal.Removal
	steps   *steps
}

// inline is how long a content is kept in its row here, so that tests see both kinds.
const inline = 16

func setup(t *testing.T, db *sqldb.DB, change func(*removal.Config)) *room {
	t.Helper()
	r := &room{t: t, db: db, bucket: mem.New(), tree: tree.New(db), steps: &steps{}}
	r.feed = feed.New(feed.Config{DB: db})
	r.content = content.New(content.Config{
		DB: db, Bucket: r.bucket, InlineBytes: inline,
		NewID: func(ctx context.Context, fs int64) (int64, error) { return r.tree.NewID(ctx, tree.FS(fs)) },
		Release: func(ctx context.Context, tx *sqldb.Tx, fs, bytes int64) error {
			return r.feed.Add(ctx, tx, fs, feed.Delta{Reserved: -bytes})
		},
	})
	cfg := removal.Config{DB: db, Tree: r.tree, Content: r.content, Feed: r.feed, Owner: "test"}
	if change != nil {
		change(&cfg)
	}
	r.removal = removal.New(cfg)
	r.Drive = drive.New(drive.Config{
		DB: db, Tree: r.tree, Content: r.content, Feed: r.feed, Removal: r.removal, Steps: drive.Steps{At: r.steps.at},
	})
	for _, fs := range []tree.FS{one, two} {
		if err := r.CreateDrive(t.Context(), fs); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// each runs fn on a new drive of every database, and looks at the end whether its rows
// agree.
func each(t *testing.T, fn func(t *testing.T, r *room)) {
	t.Helper()
	sqldbtest.Each(t, owners, func(t *testing.T, db *sqldb.DB) {
		r := setup(t, db, nil)
		fn(t, r)
		r.agree(t)
	})
}

// agree fails for every row that does not agree with the others.
func (r *room) agree(t *testing.T) {
	t.Helper()
	for _, fs := range []tree.FS{one, two} {
		drivetest.Check(t, r.db, int64(fs))
		report, err := r.Check(t.Context(), fs)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range report.Problems {
			t.Errorf("fs check of drive %d: %s", fs, p)
		}
	}
}

func (r *room) put(t *testing.T, path, text string) drive.Entry {
	t.Helper()
	e, _, err := r.Put(t.Context(), one, path, drive.PutOptions{Body: strings.NewReader(text), Size: int64(len(text))})
	if err != nil {
		t.Fatalf("put %s: %v", path, err)
	}
	return e
}

func (r *room) mkdir(t *testing.T, path string) drive.Entry {
	t.Helper()
	e, _, err := r.Mkdir(t.Context(), one, path, drive.MkdirOptions{Parents: true})
	if err != nil {
		t.Fatalf("mkdir %s: %v", path, err)
	}
	return e
}

func (r *room) symlink(t *testing.T, path, target string) drive.Entry {
	t.Helper()
	e, err := r.Symlink(t.Context(), one, path, target, drive.Change{})
	if err != nil {
		t.Fatalf("symlink %s: %v", path, err)
	}
	return e
}

// read returns the bytes of a file, or the code of the error.
func (r *room) read(t *testing.T, path string) string {
	t.Helper()
	text, err := r.readErr(t.Context(), one, path)
	if err != nil {
		return code(err)
	}
	return text
}

func (r *room) readErr(ctx context.Context, fs tree.FS, path string) (text string, err error) {
	f, err := r.Open(ctx, fs, path)
	if err != nil {
		return "", err
	}
	for range 5 {
		body, err := f.Range(ctx, 0, -1)
		if fault.Is(err, drive.CodeFileChanged) {
			continue
		}
		if err != nil {
			return "", err
		}
		var b bytes.Buffer
		_, err = io.Copy(&b, body)
		return b.String(), errors.Join(err, body.Close())
	}
	return "", errors.New("the file changes too often")
}

// names returns the names of a directory, or the code of the error.
func (r *room) names(t *testing.T, path string) string {
	t.Helper()
	entries, _, err := r.List(t.Context(), one, path, drive.ListOptions{})
	if err != nil {
		return code(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	return strings.Join(names, " ")
}

// code is what a user learns of an error: "ok" for none, "?" with the text for one that
// is not classified.
func code(err error) string {
	if err == nil {
		return "ok"
	}
	if c := fault.CodeOf(err); c != "" {
		return string(c)
	}
	return "? " + err.Error()
}

// steps lets tests stand between the statements of operations.
type steps struct {
	mu sync.Mutex
	do func(op, point string) error
}

func (s *steps) at(op, point string) error {
	s.mu.Lock()
	do := s.do
	s.mu.Unlock()
	if do == nil {
		return nil
	}
	return do(op, point)
}

func (s *steps) set(do func(op, point string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do = do
}
