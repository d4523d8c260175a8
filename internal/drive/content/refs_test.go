package content_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

func (e *env) ref(id int64) error {
	e.Helper()
	return e.tx(func(ctx context.Context, tx *sqldb.Tx) error { return e.store.Ref(ctx, tx, one, id) })
}

func (e *env) refs(id int64) int {
	e.Helper()
	return e.count(`SELECT COALESCE(SUM(refs), 0) FROM contents WHERE content_id = ?`, id)
}

func TestReferences(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		inline, object, shared, other := e.make(noise(3), 1), e.make(noise(100), 1), e.make(noise(101), 3), e.make(noise(102), 2)
		e.must(e.ref(shared))
		want(t, "references", e.refs(shared), 4)
		e.must(e.unref(map[int64]int64{inline: 1, object: 1, shared: 3, other: 1}))
		want(t, "references", []int{e.refs(inline), e.refs(object), e.refs(shared), e.refs(other)}, []int{0, 0, 1, 1})
		want(t, "contents", e.count(`SELECT COUNT(*) FROM contents`), 2)
		want(t, "tasks", e.count(`SELECT COUNT(*) FROM file_gc_tasks`), 1)
		if got := e.count(`SELECT due_at - {now} FROM file_gc_tasks`); got < 9*60*1000 || got > 10*60*1000 {
			t.Errorf("the object is due in %d ms, want the grace", got)
		}
		e.check()
		if _, err := e.read(object, 0, -1); !errors.Is(err, content.ErrGone) {
			t.Errorf("read of what went: %v", err)
		}
		if err := e.ref(object); !errors.Is(err, content.ErrGone) {
			t.Errorf("Ref of what went: %v", err)
		}
		e.settle()
		want(t, "objects", e.objects(), 2)
		e.wantBytes(shared, noise(101))
	}, kindsAll...)
}

func TestReferencesThatAreNot(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		id := e.make(noise(100), 2)
		for _, test := range []struct {
			name    string
			uses    map[int64]int64
			changed bool
		}{
			{"one is gone", map[int64]int64{id: 1, 99: 1}, true},
			{"more than there are", map[int64]int64{id: 3}, false},
			{"none", map[int64]int64{id: 0}, false},
			{"negative", map[int64]int64{id: -1}, false},
		} {
			err := e.unref(test.uses)
			if err == nil || errors.Is(err, content.ErrChanged) != test.changed {
				t.Errorf("%s: %v", test.name, err)
			}
			want(t, test.name+": references", e.refs(id), 2)
		}
		e.must(e.unref(nil))
		if err := e.tx(func(ctx context.Context, tx *sqldb.Tx) error {
			return e.store.Unref(ctx, tx, two, map[int64]int64{id: 1})
		}); !errors.Is(err, content.ErrChanged) {
			t.Errorf("another drive took a reference: %v", err)
		}
	})
}

// TestUnrefInBulk takes more than one list, in few statements.
func TestUnrefInBulk(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		const n = 1100
		uses := map[int64]int64{}
		e.must(e.tx(func(ctx context.Context, tx *sqldb.Tx) error {
			for id := range int64(n) {
				uses[id+1] = 1
				var key any
				if id%2 == 0 {
					key = "drive/7/aa/" + string(rune('0'+id%10)) + time.Unix(id, 0).String()
				}
				if _, err := tx.Exec(ctx, `INSERT INTO contents (fs_id, content_id, refs, size, sha256, object_key, created_at)
					VALUES (7, ?, ?, 1, 'x', ?, 0)`, id+1, 1+id/1000, key); err != nil {
					return err
				}
			}
			return nil
		}))
		lists := (n + e.db.Dialect().MaxList - 1) / e.db.Dialect().MaxList
		before := e.db.Statements()
		e.must(e.unref(uses))
		if got := e.db.Statements() - before; got > int64(4*lists) {
			t.Errorf("%d statements for %d lists", got, lists)
		}
		want(t, "left", e.count(`SELECT COUNT(*) FROM contents WHERE refs = 1`), 100)
		want(t, "tasks", e.count(`SELECT COUNT(*) FROM file_gc_tasks`), 500)
	})
}

// TestCopyBesideUnref: of a copy and the removal of the last user, one is first.
func TestCopyBesideUnref(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		for range 10 {
			id := e.make(noise(100), 1)
			var wg sync.WaitGroup
			var copied, removed error
			wg.Go(func() { copied = e.ref(id) })
			wg.Go(func() { removed = e.unref(map[int64]int64{id: 1}) })
			wg.Wait()
			e.must(removed)
			switch left := e.refs(id); {
			case copied == nil && left != 1, copied != nil && left != 0:
				t.Errorf("copy %v and %d references left", copied, left)
			case copied != nil && !errors.Is(copied, content.ErrGone):
				t.Error(copied)
			}
		}
		e.settle()
	})
}

// TestUnrefsInAnyOrder: overlapping sets do not wait for each other in a circle.
func TestUnrefsInAnyOrder(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{content.Migrations}, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db, mem.New(), nil)
		var ids []int64
		for range 20 {
			ids = append(ids, e.make(noise(100), 40))
		}
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := range 10 {
					uses := map[int64]int64{}
					for j := range 10 {
						uses[ids[(w*5+i+j)%len(ids)]] = 1
					}
					if err := e.unref(uses); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		want(t, "references", e.count(`SELECT SUM(refs) FROM contents`), 20*40-4*10*10)
	})
}
