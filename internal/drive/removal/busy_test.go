package removal_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
)

// TestBarrierAmongDetaches lets a sweep through its barrier though others detach without a
// pause: whoever waits for the move lock alone is not overtaken for ever.
func TestBarrierAmongDetaches(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{}, func(t *testing.T, w *world) {
		for c := range 6 {
			w.mkdir(fmt.Sprintf("/c%d", c))
		}
		w.put("/t/x")
		id := w.detach("/t")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var clients sync.WaitGroup
		for c := range 6 {
			clients.Go(func() {
				p := &party{w: w, drive: w.drive}
				for i := 0; ctx.Err() == nil; i++ {
					top := fmt.Sprintf("/c%d/n%d", c, i)
					if err := create(top + "/f")(p); err != nil {
						t.Error(err)
						return
					}
					if _, _, err := w.removal.Detach(t.Context(), removal.Request{FS: w.fs, Path: mustPath(top)}); err != nil && fault.KindOf(err) != fault.Busy {
						t.Error(err)
						return
					}
				}
			})
		}
		began := time.Now()
		err := w.removal.Sweep(t.Context(), w.claim(w.removal.Jobs(), id))
		took := time.Since(began)
		stop()
		clients.Wait()
		if !errors.Is(err, job.ErrEnded) {
			t.Fatal(err)
		}
		t.Logf("the sweep took %s", took.Round(time.Millisecond))
		w.start()
		w.settle()
		w.check()
	})
}

// TestTwoAtOnce deletes the same trees from many sides at once while others write at the
// same paths: every tree goes once, what is written afterwards stays.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 10}, func(t *testing.T, w *world) {
		w.start()
		for round := range 4 {
			if round%2 == 0 {
				w.plant(w.fs, "/t", names("f", 30)...)
			} else {
				w.put("/t/a", "/t/d/b")
			}
			old := w.inode("/t")
			var mu sync.Mutex
			won := 0
			var clients sync.WaitGroup
			for range 4 {
				clients.Go(func() {
					req := w.request("/t")
					res, err := w.removal.RemoveAll(t.Context(), req)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil && res.Inode == old:
						won++
					case err == nil: // a tree that a writer made
					case fault.KindOf(err) != fault.NotFound:
						t.Error(err)
					}
				})
			}
			for c := range 2 {
				clients.Go(func() {
					if err := create(fmt.Sprintf("/t/n%d/x", c))(&party{w: w, drive: w.drive}); err != nil {
						t.Error(err)
					}
				})
			}
			clients.Wait()
			if won != 1 {
				t.Errorf("%d deletes took the tree", won)
			}
			w.put("/t/last") // whatever is there now
			w.removeAll("/t")
		}
		w.settle()
		w.wantPaths()
		w.wantEmpty()
		w.check()
	})
}

// TestSiblings write beside a tree that is swept, and none of them waits for long or fails.
func TestSiblings(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{}, func(t *testing.T, w *world) {
		w.start()
		w.plant(w.fs, "/d/t", append(names("f", 4000), wide(50, 10)...)...)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var clients sync.WaitGroup
		var mu sync.Mutex
		n, longest := 0, time.Duration(0)
		for c := range 3 {
			clients.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					began := time.Now()
					if err := create(fmt.Sprintf("/d/s%d-%d", c, i))(&party{w: w, drive: w.drive}); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					n, longest = n+1, max(longest, time.Since(began))
					mu.Unlock()
				}
			})
		}
		res, err := w.removal.RemoveAll(t.Context(), w.request("/d/t"))
		must(t, err)
		stop()
		clients.Wait()
		if res.State != job.Succeeded || res.Counts.Nodes() != 4000+550+1 {
			t.Errorf("result %+v", res)
		}
		t.Logf("%d writes, the longest took %s", n, longest.Round(time.Millisecond))
		if got := len(w.paths(w.fs, "/d")); got != n {
			t.Errorf("%d siblings are there, %d were written", got, n)
		}
		w.check()
	})
}
