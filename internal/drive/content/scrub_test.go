package content_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/drive/content"
)

// stray puts n objects below a prefix that no row knows.
func (e *env) stray(prefix string, n int) {
	e.Helper()
	for i := range n {
		key := blob.Key(fmt.Sprintf("%s%02x/%s", prefix, i%256, uuid.Must(uuid.NewV7())))
		e.must(e.bucket.Put(e.Context(), key, bytes.NewReader([]byte("x"))))
	}
}

func (e *env) scrub(opts content.ScrubOptions) content.Scrubbed {
	e.Helper()
	seen, err := e.store.Scrub(e.Context(), one, opts)
	e.must(err)
	return seen
}

// anyAge takes objects of every age for old enough.
var anyAge = content.ScrubOptions{OlderThan: time.Nanosecond}

// A scrub of more than one page tells leaks from what is written, uploaded, queued or another
// drive's, and two of them at once queue each leak once.
func TestScrubPages(t *testing.T) {
	t.Parallel()
	const strays = 1203
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		kept := e.make(noise(100), 1)
		gone := e.make(noise(101), 1)
		e.must(e.unref(map[int64]int64{gone: 1})) // its object is queued
		live := e.write(noise(102))               // nothing names it yet
		for _, prefix := range []string{"drive/70/", "drive/8/", "other/7/", "drive/"} {
			e.stray(prefix, 3)
		}
		e.stray("drive/7/", strays)
		if seen := e.scrub(content.ScrubOptions{Queue: true}); seen.Stray != 0 || seen.Queued != 0 { // all too young
			t.Errorf("young objects: %+v", seen)
		}
		seen := e.scrub(anyAge)
		if seen.Stray != strays || seen.Queued != 0 || seen.Objects != strays+3 || seen.Missing != 0 || seen.Foreign != 0 || len(seen.Samples) != 20 {
			t.Errorf("told %+v", seen)
		}
		want(t, "tasks after a look", e.count(`SELECT COUNT(*) FROM file_gc_tasks`), 2)

		both, errs := make([]content.Scrubbed, 2), make([]error, 2)
		before := e.db.Statements()
		var scrubs sync.WaitGroup
		for i := range both {
			scrubs.Go(func() {
				both[i], errs[i] = e.store.Scrub(t.Context(), one, content.ScrubOptions{OlderThan: time.Nanosecond, Queue: true})
			})
		}
		scrubs.Wait()
		e.must(errors.Join(errs...))
		if n := e.db.Statements() - before; n > 100 { // of 3 pages, each twice; one or two more where they met
			t.Errorf("%d statements", n)
		}
		if queued := both[0].Queued + both[1].Queued; queued != strays {
			t.Errorf("%d of %d queued: %+v", queued, strays, both)
		}
		if seen := e.scrub(anyAge); seen.Stray != 0 {
			t.Errorf("once they are queued: %+v", seen)
		}
		e.must(e.commit(live, 1))
		for e.collect() > 0 {
			e.later()
		}
		e.wantBytes(kept, noise(100))
		e.wantBytes(live.ID, noise(102))
		want(t, "objects left", e.objects(), 2+4*3)
	})
}

// A content that is let go while a scrub looks is no leak: its key went back to the tasks.
func TestScrubBesideDeletes(t *testing.T) {
	t.Parallel()
	for look := 1; look <= 3; look++ {
		t.Run(fmt.Sprint("after look ", look), func(t *testing.T) {
			t.Parallel()
			each(t, nil, func(t *testing.T, e *env) {
				t.Helper()
				id := e.make(noise(100), 1)
				looks := 0
				e.with(func(_ context.Context, step string) error {
					if step != "scrub: looked" {
						return nil
					}
					if looks++; looks == look {
						return e.unref(map[int64]int64{id: 1})
					}
					return nil
				})
				if seen := e.scrub(content.ScrubOptions{OlderThan: time.Nanosecond, Queue: true}); seen.Stray != 0 || looks != 3 {
					t.Errorf("told %+v after %d looks", seen, looks)
				}
				e.settle()
			})
		})
	}
}

// What a store cannot list to its end is no report.
func TestScrubOfABrokenList(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		e.stray("drive/7/", 3)
		e.cfg.Bucket = brokenList{e.bucket.(*mem.Bucket)}
		e.with(nil)
		if _, err := e.store.Scrub(t.Context(), one, anyAge); err == nil {
			t.Error("it was told of as if it were whole")
		}
	})
}

type brokenList struct{ *mem.Bucket }

var errBroken = errors.New("the list broke off")

// List ends after the first object.
func (b brokenList) List(ctx context.Context, prefix blob.Key, fn func(blob.Info) error) error {
	n := 0
	return b.Bucket.List(ctx, prefix, func(o blob.Info) error {
		if n++; n > 1 {
			return errBroken
		}
		return fn(o)
	})
}
