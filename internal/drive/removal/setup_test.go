package removal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/drivetest"
	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var owners = []sqldb.Migrations{tree.Migrations, content.Migrations, feed.Migrations, removal.Migrations}

// world is a drive with its rooms over a database of its own.
type world struct {
	t *testing.T
	// The drive under test, and another one whose ids and names are the same, which no
	// delete may touch.
	fs, other tree.FS

	db      *sqldb.DB
	commits *atomic.Int64
	lose    *atomic.Int64 // answers to commits that are lost from now on
	tree    *tree.Tree
	content *content.Store
	feed    *feed.Store
	bucket  *mem.Bucket
	drive   *drive.Drive
	removal *removal.Removal
	cfg     removal.Config

	waiting []*party // for a lock, when they were last looked at
}

// each runs fn in a world on every engine.
func each(t *testing.T, cfg removal.Config, fn func(t *testing.T, w *world)) {
	t.Helper()
	for _, s := range sqldbtest.Servers(t) {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			fn(t, newWorld(t, s, cfg))
		})
	}
}

func newWorld(t *testing.T, s sqldbtest.Server, cfg removal.Config) *world {
	t.Helper()
	w := &world{t: t, fs: 11, other: 12, commits: &atomic.Int64{}, lose: &atomic.Int64{}, bucket: mem.New()}
	w.db = s.Open(t, sqldb.Config{LockWait: 20 * time.Second, MaxConns: 12, Hooks: sqldb.Hooks{AfterCommit: func(context.Context) error {
		w.commits.Add(1)
		if w.lose.Add(-1) >= 0 {
			return errors.New("the answer was lost")
		}
		return nil
	}}}, owners...)
	w.tree = tree.New(w.db)
	newID := func(ctx context.Context, fs int64) (int64, error) { return w.tree.NewID(ctx, tree.FS(fs)) }
	w.content = content.New(content.Config{DB: w.db, Bucket: w.bucket, InlineBytes: 8, NewID: newID})
	w.feed = feed.New(feed.Config{DB: w.db})
	cfg.DB, cfg.Tree, cfg.Content, cfg.Feed, cfg.Owner = w.db, w.tree, w.content, w.feed, "test"
	if cfg.Job.PollInterval == 0 {
		cfg.Job = jobtest.Config()
	}
	w.cfg = cfg
	w.removal = removal.New(cfg)
	w.drive = w.over(w.removal, nil)
	w.createDrives()
	return w
}

func (w *world) createDrives() {
	w.t.Helper()
	for _, fs := range []tree.FS{w.fs, w.other} {
		must(w.t, w.drive.CreateDrive(w.t.Context(), fs))
	}
}

// beside is the same world with two new drives.
func (w *world) beside(t *testing.T, n int) *world {
	t.Helper()
	v := *w
	v.t, v.fs, v.other, v.waiting = t, w.fs+tree.FS(10*n), w.other+tree.FS(10*n), nil
	v.createDrives()
	return &v
}

// over is the facade over a removal, with steps of its own.
func (w *world) over(m *removal.Removal, at func(op, point string) error) *drive.Drive {
	return drive.New(drive.Config{DB: w.db, Tree: w.tree, Content: w.content, Feed: w.feed, Removal: m, Steps: drive.Steps{At: at}})
}

// with is a removal beside the world's own, as of another server.
func (w *world) with(change func(*removal.Config)) *removal.Removal {
	cfg := w.cfg
	change(&cfg)
	return removal.New(cfg)
}

// start runs the workers until the test ends.
func (w *world) start() {
	w.t.Helper()
	startRemoval(w.t, w.removal)
}

func startRemoval(t *testing.T, m *removal.Removal) {
	t.Helper()
	m.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := m.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// body is the bytes of a file: short ones stand inline, others are objects.
func body(path string, inline bool) string {
	if inline {
		return "x"
	}
	return strings.Repeat("x", 16) + path
}

// put makes files in our drive. Every third is inline.
func (w *world) put(paths ...string) {
	w.t.Helper()
	for i, p := range paths {
		w.putIn(w.fs, p, i%3 == 2)
	}
}

func (w *world) putIn(fs tree.FS, path string, inline bool) {
	w.t.Helper()
	b := body(path, inline)
	_, _, err := w.drive.Put(w.t.Context(), fs, path, drive.PutOptions{Body: strings.NewReader(b), Size: int64(len(b)), Actor: "test"})
	must(w.t, err)
}

func (w *world) mkdir(paths ...string) {
	w.t.Helper()
	for _, p := range paths {
		_, _, err := w.drive.Mkdir(w.t.Context(), w.fs, p, drive.MkdirOptions{Parents: true, Actor: "test"})
		must(w.t, err)
	}
}

func (w *world) link(from, to string) {
	w.t.Helper()
	_, err := w.drive.Link(w.t.Context(), w.fs, from, to, drive.Change{Actor: "test"})
	must(w.t, err)
}

func (w *world) copy(from, to string) {
	w.t.Helper()
	_, _, err := w.drive.Copy(w.t.Context(), w.fs, from, to, drive.CopyOptions{Actor: "test"})
	must(w.t, err)
}

// plant makes a tree quickly, by the tree's own insert: below the path of top (made anew),
// directories and files named by their path from there, a file by an "f" that begins its
// last name. Files have no bytes.
func (w *world) plant(fs tree.FS, top string, paths ...string) tree.Inode {
	w.t.Helper()
	ctx := w.t.Context()
	e, _, err := w.drive.Mkdir(ctx, fs, top, drive.MkdirOptions{Parents: true})
	must(w.t, err)
	at := map[string]tree.Inode{"": e.Inode}
	var nodes []tree.Node
	ids, err := w.tree.NewIDs(ctx, fs, len(paths))
	must(w.t, err)
	files := int64(0)
	for i, p := range paths {
		dir, name := "", p
		if cut := strings.LastIndexByte(p, '/'); cut >= 0 {
			dir, name = p[:cut], p[cut+1:]
		}
		parent, ok := at[dir]
		if !ok {
			w.t.Fatalf("%q before %q", p, dir)
		}
		n := tree.Node{Parent: parent, Name: name, Inode: tree.Inode(ids[i]), Kind: tree.Directory, Mode: 0o755}
		if name[0] == 'f' {
			n.Kind = tree.File
			files++
		}
		at[p] = n.Inode
		nodes = append(nodes, n)
	}
	for part := range slices.Chunk(nodes, 5000) {
		must(w.t, w.db.Tx(ctx, func(tx *sqldb.Tx) error { return w.tree.InsertAll(ctx, tx, fs, part) }))
	}
	must(w.t, w.db.Tx(ctx, func(tx *sqldb.Tx) error { return w.feed.Add(ctx, tx, int64(fs), feed.Delta{Files: files}) }))
	return e.Inode
}

// names are n names with a prefix.
func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%06d", prefix, i)
	}
	return out
}

// paths lists all that a drive shows below a path, directories with a slash at the end.
func (w *world) paths(fs tree.FS, top string) []string {
	w.t.Helper()
	out := []string{}
	for todo := []string{top}; len(todo) > 0; {
		dir := todo[0]
		todo = todo[1:]
		for after := ""; ; {
			entries, next, err := w.drive.List(w.t.Context(), fs, dir, drive.ListOptions{Limit: 1000, After: after})
			must(w.t, err)
			for _, e := range entries {
				p := strings.TrimSuffix(dir, "/") + "/" + e.Name
				if e.Kind == drive.Directory {
					todo = append(todo, p)
					p += "/"
				}
				out = append(out, p)
			}
			if after = next; after == "" {
				break
			}
		}
	}
	slices.Sort(out)
	return out
}

func (w *world) wantPaths(want ...string) {
	w.t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(append([]string{}, want...), w.paths(w.fs, "/")); diff != "" {
		w.t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func path(t *testing.T, text string) tree.Path {
	t.Helper()
	p, err := tree.ParsePath(text)
	must(t, err)
	return p
}

func (w *world) request(p string) removal.Request {
	w.t.Helper()
	return removal.Request{FS: w.fs, Path: path(w.t, p), Actor: "test", Wait: 5 * time.Minute}
}

// removeAll deletes a path of our drive and expects it done.
func (w *world) removeAll(p string) removal.Result {
	w.t.Helper()
	res, err := w.removal.RemoveAll(w.t.Context(), w.request(p))
	must(w.t, err)
	if res.State != job.Succeeded {
		w.t.Fatalf("delete of %s is %s", p, res.State)
	}
	return res
}

// detach detaches a path of our drive.
func (w *world) detach(p string) job.ID {
	w.t.Helper()
	id, _, err := w.removal.Detach(w.t.Context(), w.request(p))
	must(w.t, err)
	return id
}

// run is a session without a runner.
type run struct {
	store *job.Store
	row   job.Row
	due   bool // every look saves
	yield bool
}

func (r *run) Row() job.Row                    { return r.row }
func (r *run) Admit(ctx context.Context) error { return ctx.Err() }
func (r *run) Due() bool                       { return r.due }
func (r *run) Yield() bool                     { return r.yield }

func (r *run) Save(ctx context.Context, p job.Point, progress any) error {
	raw, err := jsonOf(progress)
	if err != nil {
		return err
	}
	return r.store.Save(ctx, r.row.Lease(), p, raw, false)
}

// claim claims a job for a run without a runner.
func (w *world) claim(store *job.Store, id job.ID) *run {
	w.t.Helper()
	row, ok, err := store.ClaimID(w.t.Context(), "test", id)
	if err != nil || !ok {
		w.t.Fatalf("claim of job %d: %t, %v", id, ok, err)
	}
	return &run{store: store, row: row}
}

// sweep runs a job's sweep here to its end.
func (w *world) sweep(id job.ID) {
	w.t.Helper()
	w.sweepAs(w.claim(w.removal.Jobs(), id))
}

func (w *world) sweepAs(r *run) {
	w.t.Helper()
	if err := w.removal.Sweep(w.t.Context(), r); !errors.Is(err, job.ErrEnded) {
		w.t.Fatalf("sweep: %v", err)
	}
}

func (w *world) job(id job.ID) removal.Job {
	w.t.Helper()
	j, err := w.removal.Job(w.t.Context(), w.fs, id)
	must(w.t, err)
	return j
}

// check proves that both drives are sound, and that a reconcile finds nothing in w.fs.
func (w *world) check() {
	w.t.Helper()
	for _, fs := range []tree.FS{w.fs, w.other} {
		drivetest.Check(w.t, w.db, int64(fs))
	}
	found, err := w.removal.DryReconcile(w.t.Context(), w.fs)
	must(w.t, err)
	if found.Any() {
		w.t.Errorf("a reconcile finds %v", maps.Clone(found))
	}
	known := map[string]bool{}
	for _, q := range []sqldb.Statement{"SELECT object_key FROM contents WHERE object_key IS NOT NULL", "SELECT object_key FROM file_gc_tasks"} {
		w.keys(q, known)
	}
	must(w.t, w.bucket.List(w.t.Context(), "", func(o blob.Info) error {
		if !known[string(o.Key)] {
			w.t.Errorf("nobody knows the object %s", o.Key)
		}
		return nil
	}))
}

// keys notes the keys of objects that a query finds.
func (w *world) keys(q sqldb.Statement, known map[string]bool) {
	w.t.Helper()
	rows, err := w.db.Query(w.t.Context(), q)
	must(w.t, err)
	defer func() { must(w.t, rows.Close()) }()
	for rows.Next() {
		var key string
		must(w.t, rows.Scan(&key))
		known[key] = true
	}
	must(w.t, rows.Err())
}

// rows counts the rows of a table in a drive.
func (w *world) rows(table string, fs tree.FS) (n int) {
	w.t.Helper()
	must(w.t, w.db.QueryRow(w.t.Context(), sqldb.Statement("SELECT COUNT(*) FROM "+table+" WHERE fs_id = ?"), int64(fs)).Scan(&n))
	return n
}

// wantEmpty expects that nothing but the root and the trash is left of our drive, in rows.
func (w *world) wantEmpty() {
	w.t.Helper()
	for table, want := range map[string]int{"file_nodes": 0, "inodes": 2, "contents": 0, "file_tags": 0} {
		if n := w.rows(table, w.fs); n != want {
			w.t.Errorf("%s has %d rows, want %d", table, n, want)
		}
	}
	u, err := w.feed.Usage(w.t.Context(), w.db, int64(w.fs))
	must(w.t, err)
	if u.Delta != (feed.Delta{}) {
		w.t.Errorf("usage of an empty drive: %+v", u.Delta)
	}
}

func wantKind(t *testing.T, err error, kind fault.Kind, code fault.Code) {
	t.Helper()
	if fault.KindOf(err) != kind || fault.CodeOf(err) != code || err == nil {
		t.Errorf("got %v (%s, %s), want %s, %s", err, fault.KindOf(err), fault.CodeOf(err), kind, code)
	}
}

// awaitJob waits for a job's end.
func (w *world) awaitJob(id job.ID) {
	w.t.Helper()
	jobtest.AwaitState(w.t, w.removal.Jobs(), id, job.Succeeded)
}

// read reads a file whole.
func (w *world) read(p string) string {
	w.t.Helper()
	r, err := w.drive.Open(w.t.Context(), w.fs, p)
	must(w.t, err)
	stream, err := r.Range(w.t.Context(), 0, -1)
	must(w.t, err)
	b, err := io.ReadAll(stream)
	must(w.t, errors.Join(err, stream.Close()))
	return string(b)
}
