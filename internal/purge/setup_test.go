package purge_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/deletepool"
	"github.com/lethe-project/lethe/internal/blob/faulty"
	"github.com/lethe-project/lethe/internal/blob/local"
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
	"github.com/lethe-project/lethe/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// tb is what *testing.T and *rapid.T have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Error(args ...any)
	Errorf(format string, args ...any)
	Cleanup(fn func())
}

// world is a warehouse with a fault-injecting bucket, and who owns what in it.
type world struct {
	t      tb
	space  *blob.Space
	bucket *faulty.Bucket
	dir    string // of a local store
	pool   *deletepool.Pool

	mu     sync.Mutex
	own    []blob.Location
	others []blob.Location
	whose  int // questions asked
}

const root = "mem://wh/root"

// newWorld is a world in memory.
func newWorld(t tb) *world {
	t.Helper()
	return makeWorld(t, mem.New(), root)
}

// newLocalWorld is a world in a directory.
func newLocalWorld(t tb) *world {
	t.Helper()
	dir := t.(testing.TB).TempDir()
	b, err := local.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	w := makeWorld(t, b, "file://"+dir)
	w.dir = dir
	return w
}

func makeWorld(t tb, bucket blob.Bucket, uri string) *world {
	t.Helper()
	w := &world{t: t, bucket: faulty.New(bucket)}
	l, err := blob.ParseLocation(uri)
	if err != nil {
		t.Fatal(err)
	}
	if w.space, err = blob.NewSpace(blob.Mount{Root: l, Bucket: w.bucket}); err != nil {
		t.Fatal(err)
	}
	w.pool = deletepool.New(deletepool.Config{Tries: 4, MinBackoff: time.Microsecond, MaxBackoff: time.Microsecond})
	t.Cleanup(w.pool.Close)
	return w
}

func (w *world) root() string { return string(w.space.Root()) }

func (w *world) Storage(context.Context, purge.Job) (*blob.Space, error) { return w.space, nil }

func (w *world) Locations(context.Context, purge.Job) (own, others []blob.Location, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.others {
		if slices.ContainsFunc(w.own, func(l blob.Location) bool { return l.Contains(o) }) {
			others = append(others, o)
		}
	}
	return slices.Clone(w.own), others, nil
}

func (w *world) Whose(_ context.Context, _ purge.Job, at []blob.Location) ([]purge.Owner, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whose++
	out := make([]purge.Owner, len(at))
	for i, l := range at {
		holds := func(o blob.Location) bool { return o.Contains(l) }
		switch {
		case slices.ContainsFunc(w.others, holds):
			out[i] = purge.Other
		case slices.ContainsFunc(w.own, holds):
			out[i] = purge.Own
		}
	}
	return out, nil
}

func (w *world) Adopt(_ context.Context, _ purge.Job, at []blob.Location) (owned []blob.Location, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range at {
		if !slices.ContainsFunc(w.others, l.Overlaps) {
			w.own = append(w.own, l)
			owned = append(owned, l)
		}
	}
	return owned, nil
}

// claim makes a location another entry's.
func (w *world) claim(uri string) {
	w.t.Helper()
	l, err := blob.ParseLocation(uri)
	if err != nil {
		w.t.Fatal(err)
	}
	w.others = append(w.others, l)
}

func (w *world) write(uri, body string) {
	w.t.Helper()
	if err := purgetest.Write(context.Background(), w.space, uri, []byte(body)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) replace(uri, body string) {
	w.t.Helper()
	if err := purgetest.Replace(context.Background(), w.space, uri, []byte(body)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(uri string) {
	w.t.Helper()
	if err := purgetest.Delete(context.Background(), w.space, uri); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tree() map[string]string {
	w.t.Helper()
	tree, err := purgetest.Tree(context.Background(), w.space)
	if err != nil {
		w.t.Fatal(err)
	}
	return tree
}

func (w *world) table(b *purgetest.Builder) purgetest.Table {
	w.t.Helper()
	table, err := b.Table()
	if err != nil {
		w.t.Fatal(err)
	}
	return table
}

func (w *world) builder(name string, opts purgetest.Options) *purgetest.Builder {
	return purgetest.New(context.Background(), w.space, w.root()+"/"+name, opts)
}

// row is the job's row: what a session saved survives it.
type row struct {
	purge.Job
	progress purge.Progress
}

func (w *world) job(table purgetest.Table) *row {
	w.t.Helper()
	if l, err := blob.ParseLocation(table.Location); err == nil {
		w.own = append(w.own, l)
	}
	return &row{Job: purge.Job{
		ID: 1, Type: purge.Table, UUID: table.UUID, TableLocation: table.Location, MetadataLocation: table.Metadata,
	}}
}

// session is a lease that can be lost at any call.
type session struct {
	t     tb
	row   *row
	due   bool
	yield func() bool // nil: never
	mu    sync.Mutex
	lost  error
	calls int
	// fail is asked at every Save and Admit, by their common number.
	fail func(call int) error
}

func (s *session) lose(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = err
	}
}

func (s *session) ask() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.fail != nil && s.lost == nil {
		s.lost = s.fail(s.calls)
	}
	return s.lost
}

func (s *session) Save(_ context.Context, at job.Point, progress any) error {
	err := s.ask()
	if errors.Is(err, job.ErrLeaseLost) {
		return err
	}
	before := job.Point{Phase: s.row.Phase}
	if purge.Further(at, before) {
		s.t.Errorf("phase went back from %q to %q", s.row.Phase, at.Phase)
	}
	raw, marshalErr := json.Marshal(progress)
	if marshalErr != nil {
		s.t.Error(marshalErr)
	}
	s.row.Phase, s.row.Cursor, s.row.Progress = at.Phase, at.Cursor, raw
	s.row.progress = purge.Progress{}
	if err := json.Unmarshal(raw, &s.row.progress); err != nil {
		s.t.Error(err)
	}
	return err
}

func (s *session) Admit(context.Context) error { return s.ask() }
func (s *session) Due() bool                   { return s.due }
func (s *session) Yield() bool                 { return s.yield != nil && s.yield() }

// run is one attempt.
func (w *world) run(r *row, cfg purge.Config) error {
	w.t.Helper()
	return w.runIn(&session{t: w.t, row: r}, cfg)
}

func (w *world) runIn(s *session, cfg purge.Config) error {
	w.t.Helper()
	cfg.ReadBackoff = time.Microsecond
	return purge.NewWalker(cfg, w, w.pool).Run(context.Background(), s.row.Job, s)
}

// want asserts which files are there, byte for byte.
func (w *world) want(before map[string]string, gone ...[]string) {
	w.t.Helper()
	want := maps.Clone(before)
	for _, set := range gone {
		for _, uri := range set {
			delete(want, uri)
		}
	}
	if diff := cmp.Diff(keys(want), keys(w.tree())); diff != "" {
		w.t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, w.tree()); diff != "" {
		w.t.Errorf("bytes differ")
	}
}

func progressOf(t *testing.T, raw json.RawMessage) (p purge.Progress) {
	t.Helper()
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func keys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

func isTerminal(err error) bool { return errors.As(err, new(*job.TerminalError)) }
func isOutage(err error) bool   { return errors.As(err, new(*job.OutageError)) }
