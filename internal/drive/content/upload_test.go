package content_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

func (e *env) initiate(base, size int64) content.Upload {
	e.Helper()
	d, err := e.store.Prepare(e.Context(), one)
	e.must(err)
	var u content.Upload
	e.must(e.tx(func(ctx context.Context, tx *sqldb.Tx) (err error) {
		u, err = e.store.Initiate(ctx, tx, one, d, content.NewUpload{Base: base, Rest: "a/b", Path: "/x/a/b", Size: size, Actor: "ann"})
		return err
	}))
	return u
}

func (e *env) part(u content.Upload, number int, body []byte) error {
	e.Helper()
	_, err := e.store.PutPart(e.Context(), one, u.ID, number, bytes.NewReader(body), int64(len(body)), "")
	return err
}

func (e *env) complete(u content.Upload, opts content.CompleteOptions) (content.Pending, error) {
	e.Helper()
	p, _, err := e.store.Complete(e.Context(), one, u.ID, opts)
	return p, err
}

func (e *env) abort(u content.Upload) (reserved int64, err error) {
	e.Helper()
	err = e.tx(func(ctx context.Context, tx *sqldb.Tx) (err error) {
		reserved, err = e.store.Abort(ctx, tx, one, u.ID)
		return err
	})
	return reserved, err
}

func (e *env) state(u content.Upload) content.UploadState {
	e.Helper()
	got, err := e.store.Upload(e.Context(), e.db, one, u.ID)
	if fault.Is(err, content.CodeNoSuchUpload) {
		return ""
	}
	e.must(err)
	return got.State
}

func TestUploadShapes(t *testing.T) {
	t.Parallel()
	big := [][]byte{noise(3000), noise(2000), noise(10)}
	for _, test := range []struct {
		name  string
		parts [][]byte
		send  []int // indexes of parts, in the order in which they are sent
		want  []int // numbers for Complete
		body  [][]byte
	}{
		{"one empty part", [][]byte{{}}, []int{0}, nil, nil},
		{"one small part", [][]byte{noise(5)}, []int{0}, nil, [][]byte{noise(5)}},
		{"one part", [][]byte{noise(5000)}, []int{0}, nil, [][]byte{noise(5000)}},
		{"in order", big, []int{0, 1, 2}, nil, big},
		{"backwards", big, []int{2, 1, 0}, nil, big},
		{"sent again", big, []int{0, 1, 1, 2, 0}, nil, big},
		{"some of them", big, []int{0, 1, 2}, []int{1, 3}, [][]byte{big[0], big[2]}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			each(t, nil, func(t *testing.T, e *env) {
				t.Helper()
				u := e.initiate(5, 0)
				for _, i := range test.send {
					e.must(e.part(u, i+1, test.parts[i]))
				}
				parts, err := e.store.Parts(t.Context(), e.db, one, u.ID)
				e.must(err)
				want(t, "parts", len(parts), len(test.parts))
				for i, p := range parts {
					sum := sha256.Sum256(test.parts[i])
					if p.Number != i+1 || p.Size != int64(len(test.parts[i])) || p.SHA256 != hex.EncodeToString(sum[:]) {
						t.Errorf("part %d is %+v", i+1, p)
					}
				}
				e.check()
				whole := bytes.Join(test.body, nil)
				sum := sha256.Sum256(whole)
				p, err := e.complete(u, content.CompleteOptions{Parts: test.want, ExpectSHA256: hex.EncodeToString(sum[:])})
				e.must(err)
				want(t, "state before the commit", e.state(u), content.Open)
				e.must(e.commit(p, 1))
				want(t, "state", e.state(u), content.Completed)
				e.wantBytes(p.ID, whole)
				wantCode(t, e.part(u, 1, []byte("late")), fault.Conflict, content.CodeUploadCompleted)
				_, err = e.complete(u, content.CompleteOptions{})
				wantCode(t, err, fault.Conflict, content.CodeUploadCompleted)
				_, err = e.abort(u)
				wantCode(t, err, fault.Conflict, content.CodeUploadCompleted)
				e.must(expireOnce(e))
				want(t, "parts", e.count(`SELECT COUNT(*) FROM upload_parts`), 0)
				want(t, "state after its parts went", e.state(u), content.Completed)
				e.settle()
				want(t, "state after its time", e.state(u), "")
				e.wantBytes(p.ID, whole)
				want(t, "objects", e.objects(), e.count(`SELECT COUNT(*) FROM contents WHERE object_key IS NOT NULL`))
			}, kindsAll...)
		})
	}
}

func expireOnce(e *env) error {
	_, err := e.store.Expire(e.Context())
	return err
}

func TestPartsInParallel(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		u := e.initiate(5, 0)
		var wg sync.WaitGroup
		for i := range 24 {
			wg.Go(func() { // each part three times
				if err := e.part(u, i%8+1, noise(1000+i%8)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		p, err := e.complete(u, content.CompleteOptions{})
		e.must(err)
		e.must(e.commit(p, 1))
		var whole []byte
		for i := range 8 {
			whole = append(whole, noise(1000+i)...)
		}
		e.wantBytes(p.ID, whole)
		e.settle()
		want(t, "objects", e.objects(), 1)
	}, kindsAll...)
}

func TestRefusedParts(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		u := e.initiate(5, 100)
		put := func(id string, number int, body io.Reader, size int64, sum string) error {
			_, err := e.store.PutPart(t.Context(), one, id, number, body, size, sum)
			return err
		}
		text := func() io.Reader { return strings.NewReader("0123456789") }
		wantCode(t, put(u.ID, 0, text(), 10, ""), fault.Invalid, content.CodeInvalidPart)
		wantCode(t, put(u.ID, content.MaxParts+1, text(), 10, ""), fault.Invalid, content.CodeInvalidPart)
		wantCode(t, put(u.ID, 1, text(), -1, ""), fault.Invalid, content.CodeInvalidPart)
		wantCode(t, put(u.ID, 1, text(), content.MaxPartSize+1, ""), fault.Invalid, content.CodeInvalidPart)
		wantCode(t, put(u.ID, 1, text(), 11, ""), fault.Invalid, content.CodeSize)
		wantCode(t, put(u.ID, 1, text(), 9, ""), fault.Invalid, content.CodeSize)
		wantCode(t, put(u.ID, 1, text(), 10, strings.Repeat("0", 64)), fault.Unprocessable, content.CodeChecksum)
		wantCode(t, put(u.ID, 1, io.MultiReader(text(), failing{errors.New("hung up")}), 20, ""), fault.Invalid, content.CodeBody)
		wantCode(t, put("none", 1, text(), 10, ""), fault.NotFound, content.CodeNoSuchUpload)
		if _, err := e.store.PutPart(t.Context(), two, u.ID, 1, text(), 10, ""); !fault.Is(err, content.CodeNoSuchUpload) {
			t.Errorf("another drive's part: %v", err)
		}
		_, err := e.complete(u, content.CompleteOptions{})
		wantCode(t, err, fault.Invalid, content.CodeInvalidPart) // none arrived
		e.must(e.part(u, 2, noise(40)))
		e.must(e.part(u, 4, noise(60)))
		for _, numbers := range [][]int{{1}, {2, 3}, {4, 2}, {2, 2, 4}, {}} {
			_, err := e.complete(u, content.CompleteOptions{Parts: numbers})
			wantCode(t, err, fault.Invalid, content.CodeInvalidPart)
		}
		_, err = e.complete(u, content.CompleteOptions{Parts: []int{2}})
		wantCode(t, err, fault.Invalid, content.CodeSize) // 100 were declared
		_, err = e.complete(u, content.CompleteOptions{ExpectSHA256: strings.Repeat("0", 64)})
		wantCode(t, err, fault.Unprocessable, content.CodeChecksum)
		p, err := e.complete(u, content.CompleteOptions{}) // and again
		e.must(err)
		want(t, "reserved", p.Reserved, 100)
		e.must(e.store.Abandon(t.Context(), p)) // the directory was locked, say
		e.collect()
		p, err = e.complete(u, content.CompleteOptions{})
		e.must(err)
		e.must(e.commit(p, 1))
		if err := e.commit(p, 1); !fault.Is(err, content.CodeUploadCompleted) {
			t.Errorf("committed twice: %v", err)
		}
		e.settle()
		e.wantBytes(p.ID, append(noise(40), noise(60)...))
	}, kindsAll...)
}

// small is a bucket that wants parts of 1,000 bytes.
type small struct{ *mem.Bucket }

func (small) MinPart() int64 { return 1000 }

func TestPartTooSmallForTheStore(t *testing.T) {
	t.Parallel()
	each(t, func(cfg *content.Config) { cfg.Bucket = small{cfg.Bucket.(*mem.Bucket)} }, func(t *testing.T, e *env) {
		t.Helper()
		u := e.initiate(5, 0)
		e.must(e.part(u, 1, noise(999)))
		e.must(e.part(u, 2, noise(1)))
		_, err := e.complete(u, content.CompleteOptions{})
		wantCode(t, err, fault.Unprocessable, content.CodePartTooSmall)
		e.must(e.part(u, 1, noise(1000)))
		p, err := e.complete(u, content.CompleteOptions{})
		e.must(err)
		e.must(e.commit(p, 1))
		e.wantBytes(p.ID, append(noise(1000), noise(1)...))
	})
}

func TestUploadsThatEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		end      func(e *env, u content.Upload) (reserved int64)
		released bool // by the store itself
	}{
		"aborted": {func(e *env, u content.Upload) int64 {
			reserved, err := e.abort(u)
			e.must(err)
			again, err := e.abort(u)
			e.must(err)
			return reserved + again
		}, false},
		"directory removed": {func(e *env, u content.Upload) (reserved int64) {
			var dirs []int64
			for i := range int64(1200) {
				dirs = append(dirs, i)
			}
			e.must(e.tx(func(ctx context.Context, tx *sqldb.Tx) (err error) {
				var n int64
				n, reserved, err = e.store.AbortIn(ctx, tx, one, dirs)
				want(e.T, "uploads", n, 1)
				return err
			}))
			return reserved
		}, false},
		"expired": {func(e *env, u content.Upload) int64 {
			e.later()
			want(e.T, "state before Expire", e.state(u), content.Aborted)
			e.must(expireOnce(e))
			return e.released.Load()
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, nil, func(t *testing.T, e *env) {
				t.Helper()
				u, other := e.initiate(5, 1000), e.initiate(5000, 77)
				for i := range 3 {
					e.must(e.part(u, i+1, noise(100+i)))
				}
				_, err := e.complete(u, content.CompleteOptions{Parts: []int{1}})
				wantCode(t, err, fault.Invalid, content.CodeSize)
				e.exec(`UPDATE uploads SET declared_size = 303 WHERE upload_id = ?`, u.ID)
				p, err := e.complete(u, content.CompleteOptions{})
				e.must(err)
				sum := int64(303)
				if end.released {
					sum += 77
				}
				want(t, "reserved", end.end(e, u), sum)
				if err := e.commit(p, 1); !fault.Is(err, content.CodeUploadAborted) && !fault.Is(err, content.CodeNoSuchUpload) {
					t.Errorf("Commit after the end: %v", err)
				}
				e.must(e.store.Abandon(t.Context(), p))
				if err := e.part(u, 4, noise(100)); fault.KindOf(err) != fault.Conflict && fault.KindOf(err) != fault.NotFound {
					t.Errorf("a part after the end: %v", err)
				}
				if !end.released {
					want(t, "the other", e.state(other), content.Open)
					want(t, "released", e.released.Load(), 0)
				}
				e.settle()
				want(t, "objects", e.objects(), 0)
				want(t, "uploads", e.count(`SELECT COUNT(*) FROM uploads`), 0)
				want(t, "parts", e.count(`SELECT COUNT(*) FROM upload_parts`), 0)
			}, kindsAll...)
		})
	}
}

// TestEndBesidePart: an upload that ends while a part is on its way leaves nothing.
func TestEndBesidePart(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		u := e.initiate(5, 0)
		e.with(func(_ context.Context, step string) error {
			if step == "part: stored" {
				_, err := e.abort(u)
				e.must(err)
				e.must(expireOnce(e))
				e.collect()
			}
			return nil
		})
		if err := e.part(u, 1, noise(100)); fault.KindOf(err) != fault.NotFound {
			t.Errorf("the part was taken: %v", err)
		}
		want(t, "due tasks", e.count(`SELECT COUNT(*) FROM file_gc_tasks WHERE due_at <= {now}`), 1)
		e.collect()
		want(t, "objects", e.objects(), 0)
		e.settle()
	}, kindsAll...)
}

// lagging is a store that completes an upload after it was told to abort it.
type lagging struct {
	*mem.Bucket
	before func()
}

func (b *lagging) AbortMultipart(context.Context, blob.Key) error { return nil }

func (b *lagging) CompleteMultipart(ctx context.Context, key blob.Key, upload string, parts []blob.PartRef) error {
	b.before()
	return b.Bucket.CompleteMultipart(ctx, key, upload, parts)
}

// TestCompleteBesideCollector: an object that comes after the collector was there is
// collected once more.
func TestCompleteBesideCollector(t *testing.T) {
	t.Parallel()
	each(t, func(cfg *content.Config) { cfg.Bucket = &lagging{Bucket: cfg.Bucket.(*mem.Bucket)} }, func(t *testing.T, e *env) {
		t.Helper()
		u := e.initiate(5, 0)
		e.must(e.part(u, 1, noise(100)))
		e.cfg.Bucket.(*lagging).before = func() {
			e.later()
			want(t, "settled", e.collect(), 1)
		}
		if _, err := e.complete(u, content.CompleteOptions{}); !errors.Is(err, content.ErrCollected) {
			t.Errorf("Complete = %v, want ErrCollected", err)
		}
		e.check()
		want(t, "settled", e.collect(), 1)
		e.settle()
		want(t, "objects", e.objects(), 0)
	})
}

func TestListUploads(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		var made []string
		for range 5 {
			made = append(made, e.initiate(5, 10).ID)
		}
		_, err := e.abort(content.Upload{ID: made[2]})
		e.must(err)
		var got []string
		for after := ""; ; {
			page, err := e.store.Uploads(t.Context(), e.db, one, after, 3)
			e.must(err)
			for _, u := range page {
				if u.Base != 5 || u.Rest != "a/b" || u.Path != "/x/a/b" || u.Actor != "ann" || u.Expires-u.Created != 24*3600*1000 {
					t.Errorf("listed %+v", u)
				}
				got = append(got, u.ID)
			}
			if len(page) < 3 {
				break
			}
			after = page[2].ID
		}
		want(t, "open uploads", got, append(made[:2:2], made[3:]...))
		others, err := e.store.Uploads(t.Context(), e.db, two, "", 10)
		e.must(err)
		want(t, "of another drive", len(others), 0)
	})
}

// TestManyUploadsExpire needs more than one look.
func TestManyUploadsExpire(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		for range 250 {
			e.initiate(5, 3)
		}
		e.later()
		n, err := e.store.Expire(t.Context())
		e.must(err)
		want(t, "changes", n, 500) // aborted, then removed
		want(t, "released", e.released.Load(), 750)
		e.settle()
	}, "plain")
}
