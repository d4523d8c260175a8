package deletepool_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/deletepool"
	"github.com/lethe-project/lethe/internal/blob/faulty"
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// fixture is a pool over a faulty bucket that holds n objects. It lives in a synctest
// bubble.
type fixture struct {
	pool  *deletepool.Pool
	store *faulty.Bucket
	mem   *mem.Bucket
	keys  []blob.Key
}

func setup(t *testing.T, n int, cfg deletepool.Config) *fixture {
	t.Helper()
	f := &fixture{mem: mem.New(), pool: deletepool.New(cfg)}
	f.store = faulty.New(f.mem)
	for i := range n {
		f.keys = append(f.keys, blob.Key(fmt.Sprintf("t/%06d", i)))
		if err := f.mem.Put(t.Context(), f.keys[i], strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// answer is what Done was given.
type answer struct {
	results []blob.Result
	err     error
}

func (a answer) count(want blob.Outcome) (n int) {
	for _, r := range a.results {
		if r.Outcome == want {
			n++
		}
	}
	return n
}

// submit submits in a goroutine of its own, for Submit may work inline.
func (f *fixture) submit(ctx context.Context, keys []blob.Key, admit func(context.Context) error) <-chan answer {
	done := make(chan answer, 2) // room for a second call, which a test would see
	go f.pool.Submit(ctx, deletepool.Batch{
		Bucket: f.store, Keys: keys, Admit: admit,
		Done: func(results []blob.Result, err error) { done <- answer{results, err} },
	})
	return done
}

func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

func TestDeletesAndAnswersInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := setup(t, 2500, deletepool.Config{})
		defer f.pool.Close()
		keys := append([]blob.Key{"missing"}, f.keys...)
		a := <-f.submit(t.Context(), keys, nil)
		if a.err != nil || a.count(blob.Deleted) != 2500 || a.count(blob.Missing) != 1 {
			t.Errorf("deleted %d, missing %d, %v", a.count(blob.Deleted), a.count(blob.Missing), a.err)
		}
		for i, r := range a.results {
			if r.Key != keys[i] {
				t.Fatalf("result %d is of %q, want %q", i, r.Key, keys[i])
			}
		}
		if c := f.store.Counts(); c.MaxBatch != blob.MaxDelete || c.Calls[faulty.Delete] != 3 {
			t.Errorf("%d requests of at most %d keys, want 3 of 1000", c.Calls[faulty.Delete], c.MaxBatch)
		}
		if a := <-f.submit(t.Context(), nil, nil); a.err != nil || len(a.results) != 0 {
			t.Errorf("no keys: %+v", a)
		}
	})
}

func TestFullQueueWorksInline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := setup(t, 20, deletepool.Config{Threads: 2})
		defer f.pool.Close()
		gate := f.store.Hold(faulty.Delete)
		var answers []<-chan answer
		for _, key := range f.keys {
			answers = append(answers, f.submit(t.Context(), []blob.Key{key}, nil))
		}
		synctest.Wait()
		if got := f.pool.Depth(); got != 6 {
			t.Errorf("depth %d, want 6: two threads and twice that queued", got)
		}
		// 2 threads and the 14 callers that found no room.
		if got := len(gate.Entered()); got != 16 {
			t.Errorf("%d requests on the wire, want 16", got)
		}
		gate.Open()
		for i, done := range answers {
			if a := <-done; a.err != nil || a.count(blob.Deleted) != 1 {
				t.Errorf("batch %d: %+v", i, a)
			}
		}
		synctest.Wait()
		if f.mem.Len() != 0 || f.pool.Depth() != 0 {
			t.Errorf("%d objects left, depth %d", f.mem.Len(), f.pool.Depth())
		}
	})
}

func TestFailingKeysAreRetriedAlone(t *testing.T) {
	for _, share := range []float64{0.05, 0.20} {
		t.Run(fmt.Sprint(share), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := setup(t, 5000, deletepool.Config{})
				defer f.pool.Close()
				f.store.FailFraction(share, 7)
				for i := 0; i < len(f.keys); i += 1000 {
					a := <-f.submit(t.Context(), f.keys[i:i+1000], nil)
					if a.err != nil || a.count(blob.Deleted) != 1000 {
						t.Errorf("batch %d: %d deleted, %v", i, a.count(blob.Deleted), a.err)
					}
				}
				if f.mem.Len() != 0 {
					t.Errorf("%d objects left", f.mem.Len())
				}
				// 5000/(1-share) keys, were it not random.
				if got, most := f.store.Counts().DeleteKeys, int(5000/(1-share)*1.1); got > most {
					t.Errorf("%d keys sent, want at most %d: only the failed ones again", got, most)
				}
			})
		})
	}
}

func TestDeniedKeysEndFailed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := setup(t, 100, deletepool.Config{})
		defer f.pool.Close()
		f.store.DenyKeys(func(key blob.Key) bool { return strings.HasSuffix(string(key), "7") })
		start := time.Now()
		a := <-f.submit(t.Context(), f.keys, nil)
		if a.err != nil || a.count(blob.Failed) != 10 || a.count(blob.Deleted) != 90 || f.mem.Len() != 10 {
			t.Errorf("failed %d, deleted %d, left %d, %v", a.count(blob.Failed), a.count(blob.Deleted), f.mem.Len(), a.err)
		}
		for _, r := range a.results {
			if r.Outcome == blob.Failed && blob.ClassOf(r.Err) != blob.Denied {
				t.Errorf("%q failed with %v", r.Key, r.Err)
			}
		}
		// 50+100+200+400+800+1600+2000 ms, of which jitter takes up to half.
		if took := time.Since(start); took < 2575*time.Millisecond || took > 5150*time.Millisecond {
			t.Errorf("8 tries took %s", took)
		}
		if got := f.store.Counts().Calls[faulty.Delete]; got != 8 {
			t.Errorf("%d tries, want 8", got)
		}
	})
}

func TestHopelessKeysAreNotRetried(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := setup(t, 10, deletepool.Config{})
		defer f.pool.Close()
		f.store.FailKeys(func(key blob.Key) (blob.Class, bool) { return blob.Invalid, key == f.keys[3] })
		a := <-f.submit(t.Context(), f.keys, nil)
		if got := f.store.Counts().Calls[faulty.Delete]; got != 1 || a.count(blob.Failed) != 1 {
			t.Errorf("%d requests, %d failed, want one of each", got, a.count(blob.Failed))
		}
	})
}

func TestWaitingHoldsNoThread(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := setup(t, 2, deletepool.Config{Threads: 1})
		defer f.pool.Close()
		f.store.DenyKeys(func(key blob.Key) bool { return key == f.keys[0] })
		slow := f.submit(t.Context(), f.keys[:1], nil)
		synctest.Wait()
		start := time.Now()
		if a := <-f.submit(t.Context(), f.keys[1:], nil); a.count(blob.Deleted) != 1 || time.Since(start) != 0 {
			t.Errorf("the other batch waited %s for the one thread", time.Since(start))
		}
		if f.pool.Depth() != 1 {
			t.Errorf("depth %d, want the waiting batch", f.pool.Depth())
		}
		f.store.DenyKeys(nil)
		if a := <-slow; a.count(blob.Deleted) != 1 {
			t.Errorf("after the grant: %+v", a)
		}
	})
}

func TestAdmitRefusesMidWay(t *testing.T) {
	lost := errors.New("lease lost")
	for _, test := range []struct {
		name     string
		admitted int // how often Admit agrees
		noBulk   bool
		deleted  int
	}{
		{"before anything", 0, false, 0},
		{"before the second request", 1, false, 1000},
		{"before a retry", 3, false, 2490},
		{"between single deletes", 100, true, 99}, // the first went to the bulk request
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := setup(t, 2500, deletepool.Config{})
				defer f.pool.Close()
				f.store.NoBulk(test.noBulk)
				if !test.noBulk {
					f.store.CutDelete(3, 490, blob.Other)
				}
				asked := 0
				a := <-f.submit(t.Context(), f.keys, func(context.Context) error {
					asked++
					if asked > test.admitted {
						return lost
					}
					return nil
				})
				if !errors.Is(a.err, lost) || a.count(blob.Deleted) != test.deleted || f.mem.Len() != 2500-test.deleted {
					t.Errorf("deleted %d, left %d, %v; want %d deleted", a.count(blob.Deleted), f.mem.Len(), a.err, test.deleted)
				}
				if asked != test.admitted+1 {
					t.Errorf("asked %d times, want never again after the refusal", asked)
				}
				for _, r := range a.results {
					if r.Outcome == blob.Failed && r.Err == nil {
						t.Fatalf("%q failed without an error", r.Key)
					}
				}
			})
		})
	}
}

func TestCancelledContext(t *testing.T) {
	stop := errors.New("server is stopping")
	bubble(t, func(t *testing.T) {
		f := setup(t, 10, deletepool.Config{Threads: 1})
		defer f.pool.Close()
		f.store.DenyKeys(func(key blob.Key) bool { return key == f.keys[0] })
		ctx, cancel := context.WithCancelCause(t.Context())
		done := f.submit(ctx, f.keys, nil)
		synctest.Wait() // waits for the first retry
		start := time.Now()
		cancel(stop)
		a := <-done
		if !errors.Is(a.err, stop) || a.count(blob.Deleted) != 9 || time.Since(start) != 0 {
			t.Errorf("deleted %d after %s, %v", a.count(blob.Deleted), time.Since(start), a.err)
		}
		if blob.ClassOf(a.results[0].Err) != blob.Denied {
			t.Errorf("the last answer is lost: %v", a.results[0].Err)
		}
	})
}

func TestCloseAnswersEveryBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := setup(t, 6, deletepool.Config{Threads: 1})
		gate := f.store.Hold(faulty.Delete)
		f.store.DenyKeys(func(key blob.Key) bool { return key == f.keys[0] })
		var answers []<-chan answer
		for _, key := range f.keys {
			answers = append(answers, f.submit(t.Context(), []blob.Key{key}, nil))
			synctest.Wait()
		}
		gate.Pass() // one of the requests on the wire
		synctest.Wait()
		go func() {
			time.Sleep(time.Second)
			gate.Open()
		}()
		f.pool.Close()
		closed := 0
		for i, done := range answers {
			a := <-done
			if len(a.results) != 1 {
				t.Errorf("batch %d: %+v", i, a)
			}
			if errors.Is(a.err, deletepool.ErrClosed) {
				closed++
			}
			if len(done) != 0 {
				t.Errorf("batch %d: Done was called twice", i)
			}
		}
		if closed == 0 {
			t.Error("no batch was ended by Close")
		}
		if a := <-f.submit(t.Context(), f.keys, nil); !errors.Is(a.err, deletepool.ErrClosed) || a.count(blob.Failed) != 6 {
			t.Errorf("Submit after Close: %+v", a)
		}
	})
}
