package content_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/fault"
)

// TestPartBehindComplete: a part that comes late, twice perhaps, when the store has put them
// together, costs the upload nothing.
func TestPartBehindComplete(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		u := e.initiate(5, 0)
		e.must(e.part(u, 1, noise(100)))
		late := func() {
			wantCode(t, e.part(u, 1, noise(100)), fault.Conflict, content.CodeUploadAborted)
			e.collect()
		}
		e.with(func(_ context.Context, step string) error {
			if step == "complete: joined" {
				late()
			}
			return nil
		})
		_, err := e.complete(u, content.CompleteOptions{ExpectSHA256: strings.Repeat("0", 64)})
		wantCode(t, err, fault.Unprocessable, content.CodeChecksum)
		late()
		want(t, "state", e.state(u), content.Open)
		p, err := e.complete(u, content.CompleteOptions{})
		e.must(err)
		e.must(e.commit(p, 1))
		e.settle()
		e.wantBytes(p.ID, noise(100))
	})
}

// TestTwinCompletes: of two that complete an upload at once, the slower one learns that it is
// done, and leaves the object alone.
func TestTwinCompletes(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		u := e.initiate(5, 0)
		e.must(e.part(u, 1, noise(100)))
		var twin content.Pending
		first := true
		e.with(func(_ context.Context, step string) error {
			if first && (step == "complete: joined" || step == "write: stored") {
				first = false
				var err error
				twin, err = e.complete(u, content.CompleteOptions{})
				e.must(err)
				e.must(e.commit(twin, 1))
			}
			return nil
		})
		p, err := e.complete(u, content.CompleteOptions{})
		if err == nil { // where each has an object of its own, its commit learns it
			err = e.commit(p, 1)
			e.must(e.store.Abandon(t.Context(), p))
		}
		wantCode(t, err, fault.Conflict, content.CodeUploadCompleted)
		e.check()
		want(t, "tasks of a named object", e.count(`SELECT COUNT(*) FROM file_gc_tasks t JOIN contents c ON c.object_key = t.object_key`), 0)
		e.must(e.unref(map[int64]int64{twin.ID: 1}))
		e.settle()
		want(t, "objects", e.objects(), 0)
	}, kindsAll...)
}

// tardy is a store that shows an object only after some looks.
type tardy struct {
	*mem.Bucket
	looks int
}

func (b *tardy) Open(ctx context.Context, key blob.Key) (io.ReadCloser, blob.Info, error) {
	if b.looks--; b.looks >= 0 {
		key += "-not-yet"
	}
	return b.Bucket.Open(ctx, key)
}

// TestObjectThatComes: an object that a twin is making is waited for, a while.
func TestObjectThatComes(t *testing.T) {
	t.Parallel()
	each(t, func(cfg *content.Config) { cfg.Bucket = &tardy{Bucket: cfg.Bucket.(*mem.Bucket)} }, func(t *testing.T, e *env) {
		t.Helper()
		u := e.initiate(5, 0)
		e.must(e.part(u, 1, noise(100)))
		store := e.cfg.Bucket.(*tardy)
		store.looks = 2
		_, err := e.complete(u, content.CompleteOptions{})
		e.must(err)
		store.looks = 1000
		_, err = e.complete(u, content.CompleteOptions{})
		wantCode(t, err, fault.Conflict, content.CodeUploadAborted)
		store.looks = 0
		p, err := e.complete(u, content.CompleteOptions{})
		e.must(err)
		e.must(e.commit(p, 1))
		e.wantBytes(p.ID, noise(100))
	})
}
