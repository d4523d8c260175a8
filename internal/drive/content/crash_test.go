package content_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// TestCrash ends the process at every step of everything. What was committed is there
// afterwards, and nothing else is once the collector has come.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, at := range content.Steps {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			each(t, nil, func(t *testing.T, e *env) {
				t.Helper()
				committed := map[int64][]byte{e.make(noise(50), 1): noise(50)}
				crash := errors.New("crash")
				crashed := false
				e.with(func(_ context.Context, step string) error {
					if step == at {
						crashed = true
						return crash
					}
					return nil
				})
				err := e.everything(committed)
				if e.bucketKnows(at) && (!crashed || !errors.Is(err, crash)) {
					t.Errorf("the step did not come: %v", err)
				}
				e.with(nil)
				e.check()
				e.settle()
				for id, body := range committed {
					e.wantBytes(id, body)
				}
				want(t, "contents", e.count(`SELECT COUNT(*) FROM contents`), len(committed))
				want(t, "uploads", e.count(`SELECT COUNT(*) FROM uploads`), 0)
				want(t, "objects", e.objects(), len(committed))
			}, kindsAll...)
		})
	}
}

// bucketKnows tells whether a step comes with this kind of bucket.
func (e *env) bucketKnows(step string) bool {
	d, err := e.store.Prepare(e.Context(), one)
	if err != nil {
		return true
	}
	atStore := d.AtStore()
	switch step {
	case "prepare: known", "prepare: begun", "complete: joined":
		return atStore
	case "part: known":
		return !atStore
	}
	return true
}

// everything writes, uploads, removes and collects until a step fails.
func (e *env) everything(committed map[int64][]byte) error {
	ctx := e.Context()
	note := func(p content.Pending, body []byte) error {
		err := e.commit(p, 1)
		if err == nil {
			committed[p.ID] = body
		}
		return err
	}
	p, err := e.store.Write(ctx, one, bytes.NewReader(noise(60)), content.WriteOptions{})
	if err != nil {
		return err
	}
	if err := note(p, noise(60)); err != nil {
		return err
	}
	d, err := e.store.Prepare(ctx, one)
	if err != nil {
		return err
	}
	var u content.Upload
	if err := e.tx(func(ctx context.Context, tx *sqldb.Tx) (err error) {
		u, err = e.store.Initiate(ctx, tx, one, d, content.NewUpload{Base: 5})
		return err
	}); err != nil {
		return err
	}
	for _, number := range []int{2, 1, 2} {
		if err := e.part(u, number, noise(70+number)); err != nil {
			return err
		}
	}
	p, err = e.complete(u, content.CompleteOptions{})
	if err != nil {
		return err
	}
	whole := append(noise(71), noise(72)...)
	if err := note(p, whole); err != nil {
		return err
	}
	if err := e.unref(map[int64]int64{p.ID: 1}); err != nil {
		return err
	}
	delete(committed, p.ID)
	e.later()
	if err := expireOnce(e); err != nil {
		return err
	}
	_, err = e.gc.Collect(ctx)
	return err
}
