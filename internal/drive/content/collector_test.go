package content_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/faulty"
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// orphans puts n objects with due tasks into the bucket, of two drives.
func (e *env) orphans(n int) {
	e.Helper()
	for i := range n { // first: a collector that runs takes what is due at once
		e.must(e.bucket.Put(e.Context(), blob.Key(orphan(i)), strings.NewReader("x")))
	}
	e.must(e.tx(func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range n {
			if _, err := tx.Exec(ctx, `INSERT INTO file_gc_tasks (fs_id, object_key, due_at, multipart, attempts, last_error, created_at)
				VALUES (?, ?, ?, 0, 0, '', 0)`, 7+i%2, orphan(i), i); err != nil {
				return err
			}
		}
		return nil
	}))
}

func orphan(i int) string { return fmt.Sprintf("drive/x/%02d/%d", i%100, i) }

func TestCollectInBulk(t *testing.T) {
	t.Parallel()
	each(t, func(cfg *content.Config) { cfg.Bucket = faulty.New(cfg.Bucket) }, func(t *testing.T, e *env) {
		t.Helper()
		bucket := e.cfg.Bucket.(*faulty.Bucket)
		e.orphans(2500)
		kept := e.make(noise(100), 1)
		before := e.db.Statements()
		want(t, "settled", e.collect(), 2500)
		if got := e.db.Statements() - before; got > 3*3+1 {
			t.Errorf("%d statements for three batches", got)
		}
		counts := bucket.Counts()
		if counts.Calls[faulty.Delete] != 3 || counts.MaxBatch != 1000 {
			t.Errorf("%d requests, the biggest of %d keys", counts.Calls[faulty.Delete], counts.MaxBatch)
		}
		want(t, "objects", e.objects(), 1)
		e.wantBytes(kept, noise(100))
		want(t, "again", e.collect(), 0)
	})
}

// TestNamedKeysStay: whatever the tasks say, an object that a row names is not deleted.
func TestNamedKeysStay(t *testing.T) {
	t.Parallel()
	each(t, func(cfg *content.Config) { cfg.Registerer = prometheus.NewRegistry() }, func(t *testing.T, e *env) {
		t.Helper()
		id := e.make(noise(100), 1)
		e.exec(`INSERT INTO file_gc_tasks (fs_id, object_key, due_at, multipart, attempts, last_error, created_at)
			SELECT fs_id, object_key, 0, 1, 0, '', 0 FROM contents`)
		e.exec(`INSERT INTO upload_parts (fs_id, upload_id, number, size, sha256, etag, object_key, created_at) VALUES (7, 'u', 1, 1, 'x', 'x', 'part', 0)`)
		e.exec(`INSERT INTO file_gc_tasks (fs_id, object_key, due_at, multipart, attempts, last_error, created_at) VALUES (7, 'part', 0, 0, 0, '', 0)`)
		e.must(e.bucket.Put(t.Context(), "part", strings.NewReader("x")))
		e.collect()
		want(t, "tasks", e.count(`SELECT COUNT(*) FROM file_gc_tasks`), 0)
		want(t, "objects", e.objects(), 2)
		e.wantBytes(id, noise(100))
		families, err := e.cfg.Registerer.(*prometheus.Registry).Gather()
		e.must(err)
		for _, f := range families {
			if f.GetName() == "lethe_drive_gc_named_total" {
				want(t, "counted", f.GetMetric()[0].GetCounter().GetValue(), 2)
			}
		}
		want(t, "metrics", len(families), 5)
	})
}

// TestFailedKeys: they wait under a claim that is never undone, the others are settled.
func TestFailedKeys(t *testing.T) {
	t.Parallel()
	each(t, func(cfg *content.Config) { cfg.Bucket = faulty.New(cfg.Bucket) }, func(t *testing.T, e *env) {
		t.Helper()
		bucket := e.cfg.Bucket.(*faulty.Bucket)
		e.orphans(20)
		bucket.DenyKeys(func(key blob.Key) bool {
			return strings.HasSuffix(string(key), "/3") || strings.HasSuffix(string(key), "/4")
		})
		want(t, "settled", e.collect(), 18)
		want(t, "waiting", e.count(`SELECT COUNT(*) FROM file_gc_tasks WHERE claim IS NOT NULL AND attempts = 1 AND due_at > {now} + 1000 AND last_error <> ''`), 2)
		want(t, "too early", e.collect(), 0)
		e.later()
		want(t, "still denied", e.collect(), 0)
		want(t, "attempts", e.count(`SELECT SUM(attempts) FROM file_gc_tasks`), 4)
		bucket.DenyKeys(nil)
		e.later()
		want(t, "settled", e.collect(), 2)
		want(t, "objects", e.objects(), 0)
	})
}

// TestOutage: nothing counts as tried while the store is down, and it is not asked by each batch.
func TestOutage(t *testing.T) {
	t.Parallel()
	each(t, func(cfg *content.Config) { cfg.Bucket = faulty.New(cfg.Bucket) }, func(t *testing.T, e *env) {
		t.Helper()
		bucket := e.cfg.Bucket.(*faulty.Bucket)
		e.orphans(2500)
		bucket.SetOutage(blob.Throttled)
		_, err := e.gc.Collect(t.Context())
		wantCode(t, err, fault.Busy, content.CodeStore)
		want(t, "requests", bucket.Counts().Calls[faulty.Delete], 1)
		want(t, "tried", e.count(`SELECT SUM(attempts) FROM file_gc_tasks`), 0)
		bucket.SetOutage(blob.Other)
		e.later()
		want(t, "settled", e.collect(), 2500)
	})
}

func TestNoBulkDelete(t *testing.T) {
	t.Parallel()
	each(t, func(cfg *content.Config) { cfg.Bucket = faulty.New(cfg.Bucket) }, func(t *testing.T, e *env) {
		t.Helper()
		e.cfg.Bucket.(*faulty.Bucket).NoBulk(true)
		e.orphans(10)
		want(t, "settled", e.collect(), 10)
		want(t, "objects", e.objects(), 0)
	})
}

// TestClaims: what is claimed is nobody else's for the lease, and another's afterwards; the
// first one's late acknowledgement takes nothing away.
func TestClaims(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		e.orphans(10)
		other := content.NewCollector(content.New(e.cfg), content.CollectorConfig{Workers: 1})
		collect := func() int {
			n, err := other.Collect(t.Context())
			e.must(err)
			return n
		}
		died := errors.New("died")
		e.with(func(_ context.Context, step string) error {
			if step == "collect: looked" {
				return died
			}
			return nil
		})
		if _, err := e.gc.Collect(t.Context()); !errors.Is(err, died) {
			t.Fatal(err)
		}
		want(t, "within the lease", collect(), 0)
		want(t, "objects", e.objects(), 10)
		e.with(func(_ context.Context, step string) error {
			if step == "collect: deleted" { // and then it stands still for a day
				e.later()
				want(t, "the dead one's", collect(), 10)
			}
			return nil
		})
		e.later()
		want(t, "acknowledged late", e.collect(), 0)
		want(t, "objects", e.objects(), 0)
	})
}

// TestManyCollectors: servers share the work and each object is sent once.
func TestManyCollectors(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{content.Migrations}, func(t *testing.T, db *sqldb.DB) {
		bucket := faulty.New(mem.New())
		e := newEnv(t, db, bucket, nil)
		e.orphans(1000)
		var wg sync.WaitGroup
		var total int
		var mu sync.Mutex
		for range 3 {
			c := content.NewCollector(e.store, content.CollectorConfig{Batch: 50})
			wg.Go(func() {
				n, err := c.Collect(t.Context())
				mu.Lock()
				defer mu.Unlock()
				total += n
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		want(t, "settled", total, 1000)
		want(t, "keys sent", bucket.Counts().DeleteKeys, 1000)
		want(t, "objects", e.objects(), 0)
	})
}

func TestStartAndStop(t *testing.T) {
	t.Parallel()
	each(t, func(cfg *content.Config) { cfg.Bucket = faulty.New(cfg.Bucket) }, func(t *testing.T, e *env) {
		t.Helper()
		bucket := e.cfg.Bucket.(*faulty.Bucket)
		c := content.NewCollector(e.store, content.CollectorConfig{Poll: time.Hour})
		c.Start()
		c.Start() // once
		e.must(c.Stop(t.Context()))
		e.must(c.Stop(t.Context()))
		c.Start()
		e.orphans(10)
		eventually(t, "collected when woken", func() bool { c.Wake(); return e.count(`SELECT COUNT(*) FROM file_gc_tasks`) == 0 })
		gate := bucket.Hold(faulty.Delete)
		e.orphans(5)
		c.Wake()
		<-gate.Entered()
		e.must(c.Stop(t.Context())) // the request is cut off
		gate.Open()
		want(t, "settled by the next", e.collect(), 5)
	})
}
