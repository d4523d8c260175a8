package content_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/local"
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const one, two int64 = 7, 8 // the drives of every test

// env is a store over a database and a bucket of its own.
type env struct {
	*testing.T
	db       *sqldb.DB
	bucket   blob.Bucket
	cfg      content.Config
	store    *content.Store
	gc       *content.Collector
	ids      *atomic.Int64
	released *atomic.Int64
}

// buckets are the stores in their kinds: with uploads in parts and ranges, with neither,
// and real files.
var buckets = map[string]func(t *testing.T) blob.Bucket{
	"mem":   func(*testing.T) blob.Bucket { return mem.New() },
	"plain": func(*testing.T) blob.Bucket { return struct{ blob.Bucket }{mem.New()} },
	"local": func(t *testing.T) blob.Bucket {
		t.Helper()
		b, err := local.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		return b
	},
}

// each runs a test on every database with each of the named kinds of bucket, mem if none
// is. change may change the configuration.
func each(t *testing.T, change func(*content.Config), run func(t *testing.T, e *env), kinds ...string) {
	t.Helper()
	if len(kinds) == 0 {
		kinds = []string{"mem"}
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, []sqldb.Migrations{content.Migrations}, func(t *testing.T, db *sqldb.DB) {
				run(t, newEnv(t, db, buckets[kind](t), change))
			})
		})
	}
}

func newEnv(t *testing.T, db *sqldb.DB, bucket blob.Bucket, change func(*content.Config)) *env {
	t.Helper()
	e := &env{T: t, db: db, bucket: bucket, ids: new(atomic.Int64), released: new(atomic.Int64)}
	e.cfg = content.Config{
		DB: db, Bucket: bucket, InlineBytes: 16,
		NewID: func(context.Context, int64) (int64, error) { return e.ids.Add(1), nil },
		Release: func(_ context.Context, _ *sqldb.Tx, _, n int64) error {
			e.released.Add(n)
			return nil
		},
	}
	if change != nil {
		change(&e.cfg)
	}
	e.store = content.New(e.cfg)
	e.gc = content.NewCollector(e.store, content.CollectorConfig{Workers: 1})
	return e
}

// with makes the store anew, as a process that starts does, with a step for it.
func (e *env) with(step func(ctx context.Context, step string) error) {
	e.Helper()
	e.cfg.Step, e.cfg.Registerer = step, nil
	e.store = content.New(e.cfg)
	e.gc = content.NewCollector(e.store, content.CollectorConfig{Workers: 1})
}

func (e *env) tx(fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	e.Helper()
	return e.db.Tx(e.Context(), func(tx *sqldb.Tx) error { return fn(e.Context(), tx) })
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func (e *env) write(body []byte) content.Pending {
	e.Helper()
	p, err := e.store.Write(e.Context(), one, bytes.NewReader(body), content.WriteOptions{})
	e.must(err)
	return p
}

func (e *env) commit(p content.Pending, refs int64) error {
	e.Helper()
	return e.tx(func(ctx context.Context, tx *sqldb.Tx) error { return e.store.Commit(ctx, tx, one, p, refs) })
}

// make writes and commits.
func (e *env) make(body []byte, refs int64) int64 {
	e.Helper()
	p := e.write(body)
	e.must(e.commit(p, refs))
	return p.ID
}

func (e *env) unref(uses map[int64]int64) error {
	e.Helper()
	return e.tx(func(ctx context.Context, tx *sqldb.Tx) error { return e.store.Unref(ctx, tx, one, uses) })
}

func (e *env) read(id, offset, length int64) ([]byte, error) {
	e.Helper()
	r, _, err := e.store.Open(e.Context(), e.db, one, id, offset, length)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

// later lets a day pass for tasks and uploads.
func (e *env) later() {
	e.Helper()
	e.exec(`UPDATE file_gc_tasks SET due_at = due_at - 200000000`)
	e.exec(`UPDATE uploads SET expires_at = expires_at - 200000000`)
}

func (e *env) exec(s sqldb.Statement, args ...any) int64 {
	e.Helper()
	n, err := e.db.Exec(context.WithoutCancel(e.Context()), s, args...)
	e.must(err)
	return n
}

func (e *env) count(s sqldb.Statement, args ...any) (n int) {
	e.Helper()
	e.must(e.db.QueryRow(e.Context(), s, args...).Scan(&n))
	return n
}

func (e *env) collect() int {
	e.Helper()
	n, err := e.gc.Collect(e.Context())
	e.must(err)
	return n
}

// settle lets time pass until nothing is left to do, and returns how often that was.
func (e *env) settle() {
	e.Helper()
	for range 10 {
		e.later()
		expired, err := e.store.Expire(e.Context())
		e.must(err)
		if e.collect()+expired == 0 {
			break
		}
	}
	if n := e.count(`SELECT COUNT(*) FROM file_gc_tasks`); n != 0 {
		e.Errorf("%d tasks are left", n)
	}
	if m, ok := e.bucket.(*mem.Bucket); ok && m.Uploads() != 0 {
		e.Errorf("%d uploads are left at the store", m.Uploads())
	}
	e.check()
}

// check holds the objects against the rows: what is named is there, what is there is named
// or has a task.
func (e *env) check() {
	e.Helper()
	known := map[string]bool{} // object → it must be there
	for s, must := range map[sqldb.Statement]bool{
		`SELECT object_key FROM contents WHERE object_key IS NOT NULL`:     true,
		`SELECT object_key FROM upload_parts WHERE object_key IS NOT NULL`: true,
		`SELECT object_key FROM file_gc_tasks`:                             false,
	} {
		for _, key := range e.keys(s) {
			if known[key] {
				e.Errorf("%s is named twice, or named and queued", key)
			}
			known[key] = must
		}
	}
	e.must(e.bucket.List(e.Context(), "", func(info blob.Info) error {
		if _, ok := known[string(info.Key)]; !ok {
			e.Errorf("the object %s has neither a row nor a task", info.Key)
		}
		delete(known, string(info.Key))
		return nil
	}))
	for key, must := range known {
		if must {
			e.Errorf("the object %s is named and not there", key)
		}
	}
}

func (e *env) keys(s sqldb.Statement) (keys []string) {
	e.Helper()
	rows, err := e.db.Query(e.Context(), s)
	e.must(err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var key string
		e.must(rows.Scan(&key))
		keys = append(keys, key)
	}
	e.must(rows.Err())
	return keys
}

func (e *env) objects() int {
	e.Helper()
	n := 0
	e.must(e.bucket.List(e.Context(), "", func(blob.Info) error { n++; return nil }))
	return n
}

func (e *env) wantBytes(id int64, want []byte) {
	e.Helper()
	got, err := e.read(id, 0, -1)
	if err != nil || !bytes.Equal(got, want) {
		e.Errorf("content %d: read %d bytes, %v, want %d", id, len(got), err, len(want))
	}
}

func wantCode(t *testing.T, err error, kind fault.Kind, code fault.Code) {
	t.Helper()
	if fault.KindOf(err) != kind || fault.CodeOf(err) != code {
		t.Errorf("got %v, want %s %s", err, kind, code)
	}
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// noise returns n bytes that are another's only by chance.
func noise(n int) []byte {
	b := make([]byte, n)
	var seed [32]byte
	seed[0], seed[1] = byte(n), byte(n>>8)
	r := rand.NewChaCha8(seed)
	_, _ = r.Read(b)
	return b
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !ok() {
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Fatalf("%s: not in time", what)
		}
	}
}

var kindsAll = slices.Sorted(func(yield func(string) bool) {
	for kind := range buckets {
		if !yield(kind) {
			return
		}
	}
})
