package content_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/faulty"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

func TestWriteAndRead(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		for _, size := range []int{0, 1, 15, 16, 17, 100_000} {
			body := noise(size)
			p := e.write(body)
			sum := sha256.Sum256(body)
			want(t, "checksum", p.SHA256, hex.EncodeToString(sum[:]))
			if _, err := e.read(p.ID, 0, -1); !errors.Is(err, content.ErrGone) {
				t.Errorf("%d bytes are read before their commit: %v", size, err)
			}
			before := e.db.Statements()
			e.must(e.commit(p, 1))
			want(t, "statements of a commit", e.db.Statements()-before, map[bool]int64{true: 1, false: 2}[size <= 16])
			before = e.db.Statements()
			e.wantBytes(p.ID, body)
			want(t, "statements of a read", e.db.Statements()-before, 1)
			for _, r := range []struct{ offset, length int64 }{{0, 0}, {0, 1}, {1, -1}, {int64(size) / 2, 7}, {int64(size) - 1, 5}, {int64(size), 3}, {1 << 40, -1}} {
				got, err := e.read(p.ID, r.offset, r.length)
				from := min(max(r.offset, 0), int64(size))
				to := int64(size)
				if r.length >= 0 {
					to = min(from+r.length, to)
				}
				if err != nil || !bytes.Equal(got, body[from:to]) {
					t.Errorf("%d bytes, range %v: %d bytes, %v", size, r, len(got), err)
				}
			}
			info, err := e.store.Stat(t.Context(), e.db, one, p.ID)
			if err != nil || info != (content.Info{Size: int64(size), SHA256: p.SHA256}) {
				t.Errorf("Stat = %+v, %v", info, err)
			}
			if _, _, err := e.store.Open(t.Context(), e.db, two, p.ID, 0, -1); !errors.Is(err, content.ErrGone) {
				t.Errorf("another drive reads it: %v", err)
			}
		}
		want(t, "objects", e.objects(), 2)
		for _, key := range e.keys(`SELECT object_key FROM contents WHERE object_key IS NOT NULL`) {
			if parts := strings.Split(key, "/"); len(parts) != 4 || parts[0] != "drive" || parts[1] != "7" || len(parts[2]) != 2 || len(parts[3]) != 36 {
				t.Errorf("the key %s has another form", key)
			}
		}
		e.settle()
		want(t, "objects after the collector", e.objects(), 2)
	}, kindsAll...)
}

func TestRefusedBodies(t *testing.T) {
	t.Parallel()
	eleven, broken := int64(11), errors.New("hung up")
	small, big := strings.Repeat("s", 11), strings.Repeat("b", 5000)
	wrong := strings.Repeat("0", 64)
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		for _, test := range []struct {
			name string
			body io.Reader
			opts content.WriteOptions
			kind fault.Kind
			code fault.Code
		}{
			{"other checksum, inline", strings.NewReader(small), content.WriteOptions{ExpectSHA256: wrong}, fault.Unprocessable, content.CodeChecksum},
			{"other checksum, object", strings.NewReader(big), content.WriteOptions{ExpectSHA256: wrong}, fault.Unprocessable, content.CodeChecksum},
			{"too short", strings.NewReader("short"), content.WriteOptions{ExpectSize: &eleven}, fault.Invalid, content.CodeSize},
			{"too long", strings.NewReader(big), content.WriteOptions{ExpectSize: &eleven}, fault.Invalid, content.CodeSize},
			{"beyond the limit", strings.NewReader(big), content.WriteOptions{MaxSize: 4000}, fault.Invalid, content.CodeTooLarge},
			{"broken, inline", io.MultiReader(strings.NewReader("x"), failing{broken}), content.WriteOptions{}, fault.Invalid, content.CodeBody},
			{"broken, object", io.MultiReader(strings.NewReader(big), failing{broken}), content.WriteOptions{}, fault.Invalid, content.CodeBody},
		} {
			_, err := e.store.Write(t.Context(), one, test.body, test.opts)
			if fault.KindOf(err) != test.kind || fault.CodeOf(err) != test.code {
				t.Errorf("%s: %v, want %s %s", test.name, err, test.kind, test.code)
			}
			want(t, test.name+": objects", e.objects(), 0)
		}
		e.collect() // at once: they are due
		want(t, "tasks", e.count(`SELECT COUNT(*) FROM file_gc_tasks`), 0)
		sum := sha256.Sum256([]byte(big))
		size := int64(len(big))
		_, err := e.store.Write(t.Context(), one, strings.NewReader(big), content.WriteOptions{
			ExpectSHA256: strings.ToUpper(hex.EncodeToString(sum[:])), ExpectSize: &size, MaxSize: size,
		})
		e.must(err)
	}, kindsAll...)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestStoreInTrouble(t *testing.T) {
	t.Parallel()
	each(t, func(cfg *content.Config) { cfg.Bucket = faulty.New(cfg.Bucket) }, func(t *testing.T, e *env) {
		t.Helper()
		bucket := e.cfg.Bucket.(*faulty.Bucket)
		id := e.make(noise(100), 1)
		bucket.SetOutage(blob.Unavailable)
		_, err := e.store.Write(t.Context(), one, bytes.NewReader(noise(100)), content.WriteOptions{})
		wantCode(t, err, fault.Busy, content.CodeStore)
		_, err = e.read(id, 0, -1)
		wantCode(t, err, fault.Busy, content.CodeStore)
		if _, err := e.gc.Collect(t.Context()); !fault.Is(err, content.CodeStore) {
			t.Errorf("Collect during an outage: %v", err)
		}
		bucket.SetOutage(blob.Other)
		bucket.LoseAnswer(faulty.Put, 1, blob.Unavailable) // it is there, and nobody knows
		_, err = e.store.Write(t.Context(), one, bytes.NewReader(noise(100)), content.WriteOptions{})
		wantCode(t, err, fault.Busy, content.CodeStore)
		want(t, "objects", e.objects(), 2)
		e.settle()
		want(t, "objects after the collector", e.objects(), 1)
		e.wantBytes(id, noise(100))
	})
}

func TestDamageIsSeen(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		inline, object, short := e.make(noise(10), 1), e.make(noise(100), 1), e.make(noise(101), 1)
		e.exec(`UPDATE contents SET sha256 = 'abc' WHERE content_id <> ?`, short)
		for _, id := range []int64{inline, object} {
			_, err := e.read(id, 0, -1)
			wantCode(t, err, fault.Internal, content.CodeDamaged)
			if _, err := e.read(id, 1, -1); err != nil {
				t.Errorf("a part of content %d: %v", id, err)
			}
		}
		e.exec(`UPDATE contents SET size = 200 WHERE content_id = ?`, short)
		_, err := e.read(short, 0, -1)
		wantCode(t, err, fault.Internal, content.CodeDamaged)
		keys := e.keys(`SELECT object_key FROM contents WHERE object_key IS NOT NULL`)
		for _, key := range keys {
			e.bucket.DeleteMany(t.Context(), []blob.Key{blob.Key(key)})
		}
		for _, length := range []int64{-1, 3} {
			if _, err := e.read(object, 0, length); !errors.Is(err, content.ErrGone) {
				t.Errorf("the object vanished: %v, want ErrGone", err)
			}
		}
	}, kindsAll...)
}

// TestWriteBesideCollector lets the collector come, a day late, at every step of a write.
func TestWriteBesideCollector(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"write: known", "write: stored", "commit"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			each(t, nil, func(t *testing.T, e *env) {
				t.Helper()
				come := func() {
					e.later()
					if n := e.collect(); n != 1 {
						t.Errorf("the collector settled %d tasks, want 1", n)
					}
				}
				e.with(func(_ context.Context, step string) error {
					if step == at {
						come()
					}
					return nil
				})
				p, err := e.store.Write(t.Context(), one, bytes.NewReader(noise(100)), content.WriteOptions{})
				if at == "commit" {
					e.must(err)
					come()
					err = e.commit(p, 1)
				}
				if !errors.Is(err, content.ErrCollected) {
					t.Errorf("the write ended with %v, want ErrCollected", err)
				}
				e.check()
				e.settle()
				want(t, "objects", e.objects(), 0)
				want(t, "contents", e.count(`SELECT COUNT(*) FROM contents`), 0)
			}, kindsAll...)
		})
	}
}

// TestLongWrite: a body that comes slowly keeps its task from being due, and ends when a
// collector has it nevertheless.
func TestLongWrite(t *testing.T) {
	t.Parallel()
	const timeout = 6 * time.Second // a busy machine may stand still for some of it
	due := func(e *env) int { return e.count(`SELECT COUNT(*) FROM file_gc_tasks WHERE due_at <= {now} + 50`) }
	each(t, func(cfg *content.Config) { cfg.WriteTimeout = timeout }, func(t *testing.T, e *env) {
		t.Helper()
		body, feed := io.Pipe()
		result := make(chan error, 1)
		go func() {
			p, err := e.store.Write(t.Context(), one, body, content.WriteOptions{})
			if err == nil {
				err = e.commit(p, 1)
			}
			result <- err
		}()
		_, err := feed.Write(noise(1000))
		e.must(err)
		first := e.count(`SELECT due_at FROM file_gc_tasks`)
		eventually(t, "three pushes", func() bool { return e.count(`SELECT due_at FROM file_gc_tasks`) > first+int(timeout.Milliseconds()) })
		want(t, "due tasks", due(e), 0)
		e.must(feed.Close())
		e.must(<-result)
		e.check()
	})
	each(t, func(cfg *content.Config) { cfg.WriteTimeout = timeout / 20 }, func(t *testing.T, e *env) {
		t.Helper()
		body, feed := io.Pipe()
		result := make(chan error, 1)
		go func() {
			_, err := e.store.Write(t.Context(), one, body, content.WriteOptions{})
			_ = body.CloseWithError(errors.New("nobody reads on"))
			result <- err
		}()
		_, err := feed.Write(noise(1000))
		e.must(err)
		e.exec(`UPDATE file_gc_tasks SET claim = 'dead', due_at = {now} + 100000000`)
		for err == nil { // mem takes it until the context ends
			_, err = feed.Write(noise(100))
		}
		if err := <-result; !errors.Is(err, content.ErrCollected) {
			t.Errorf("Write = %v, want ErrCollected", err)
		}
		e.settle()
		want(t, "objects", e.objects(), 0)
	}, "local")
}

func TestAbandonAndHungUp(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		p := e.write(noise(100))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		e.must(e.store.Abandon(ctx, p))
		e.must(e.store.Abandon(ctx, e.write(noise(3))))
		want(t, "settled", e.collect(), 1)
		want(t, "objects", e.objects(), 0)
		if err := e.commit(p, 1); !errors.Is(err, content.ErrCollected) {
			t.Errorf("Commit of what was abandoned: %v", err)
		}
		hung, hangUp := context.WithCancelCause(t.Context())
		cause := errors.New("client is gone")
		_, err := e.store.Write(hung, one, io.MultiReader(bytes.NewReader(noise(100)), trigger(func() { hangUp(cause) }), bytes.NewReader(noise(9))), content.WriteOptions{})
		if !errors.Is(err, cause) {
			t.Errorf("Write = %v, want the context's cause", err)
		}
		want(t, "settled", e.collect(), 1)
		e.check()
	}, "mem", "local")
}

type trigger func()

func (f trigger) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// TestCommitRollsBack: a transaction that fails after Commit leaves the task as it was.
func TestCommitRollsBack(t *testing.T) {
	t.Parallel()
	each(t, nil, func(t *testing.T, e *env) {
		t.Helper()
		p := e.write(noise(100))
		no := errors.New("the name is taken")
		err := e.tx(func(ctx context.Context, tx *sqldb.Tx) error {
			return errors.Join(e.store.Commit(ctx, tx, one, p, 1), no)
		})
		if !errors.Is(err, no) {
			t.Fatal(err)
		}
		e.check()
		e.must(e.commit(p, 2)) // again, in a new transaction
		e.settle()
		e.wantBytes(p.ID, noise(100))
		if err := e.tx(func(ctx context.Context, tx *sqldb.Tx) error { return e.store.Commit(ctx, tx, two, p, 1) }); err == nil {
			t.Error("committed in another drive")
		}
	})
}
