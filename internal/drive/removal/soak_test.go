package removal_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
)

// soakTime is how long clients work on one drive: LETHE_TEST_SOAK, such as 30s or 10m.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("LETHE_TEST_SOAK")
	if text == "" {
		return 3 * time.Second
	}
	d, err := time.ParseDuration(text)
	must(t, err)
	return d
}

// TestSoak lets eight clients of two servers create, rename, copy, link and delete at
// random in one drive. In the end nothing is found that nothing reaches.
func TestSoak(t *testing.T) {
	t.Parallel()
	long := soakTime(t)
	each(t, removal.Config{BatchSize: 25}, func(t *testing.T, w *world) {
		w.removal.Hold(60)
		second := w.with(func(c *removal.Config) { c.Owner = "second" })
		second.Hold(60)
		w.start()
		startRemoval(t, second)
		ctx, stop := context.WithTimeout(t.Context(), long)
		defer stop()
		w.putIn(w.other, "/a/a/a", false)
		done := make(chan map[string]int)
		for n := range 8 {
			m := w.removal
			if n%2 == 1 {
				m = second
			}
			c := &client{w: w, drive: w.over(m, nil), removal: m, rand: rand.New(rand.NewPCG(uint64(n), uint64(time.Now().UnixNano()))), did: map[string]int{}}
			go func() {
				for ctx.Err() == nil {
					c.once(t)
				}
				done <- c.did
			}()
		}
		did := map[string]int{}
		for range 8 {
			for op, n := range <-done {
				did[op] += n
			}
		}
		t.Logf("done: %v", did)
		w.settle()
		w.check()
		// Now everything goes, and nothing may stay.
		for _, p := range w.top() {
			w.removeAll(p)
		}
		w.settle()
		w.wantEmpty()
		w.check()
	})
}

// top lists the root of our drive.
func (w *world) top() (out []string) {
	w.t.Helper()
	entries, _, err := w.drive.List(w.t.Context(), w.fs, "/", drive.ListOptions{})
	must(w.t, err)
	for _, e := range entries {
		out = append(out, "/"+e.Name)
	}
	return out
}

// settle waits until the trash is empty.
func (w *world) settle() {
	w.t.Helper()
	limit := time.After(5 * time.Minute)
	for {
		list, _, err := w.removal.Trash(w.t.Context(), w.fs, 0, 100)
		must(w.t, err)
		if len(list) == 0 {
			return
		}
		select {
		case <-limit:
			w.t.Fatalf("the trash does not get empty: %+v", list)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// client does random things to paths of a few short names.
type client struct {
	w       *world
	drive   *drive.Drive
	removal *removal.Removal
	rand    *rand.Rand
	did     map[string]int
}

func (c *client) path(least int) string {
	var b strings.Builder
	for range least + c.rand.IntN(3) {
		b.WriteString("/" + string(rune('a'+c.rand.IntN(3))))
	}
	return b.String()
}

func (c *client) once(t *testing.T) {
	t.Helper()
	ctx, fs := t.Context(), c.w.fs
	var op string
	var err error
	switch n := c.rand.IntN(100); {
	case n < 35:
		op = "put"
		dir, many := c.path(1), 1
		if c.rand.IntN(6) == 0 {
			many = 40 // more than a fast path takes
		}
		for i := 0; i < many && err == nil; i++ {
			b := body(dir, c.rand.IntN(3) == 0)
			_, _, err = c.drive.Put(ctx, fs, fmt.Sprintf("%s/f%d", dir, c.rand.IntN(8*many)), drive.PutOptions{Body: strings.NewReader(b), Size: int64(len(b))})
		}
	case n < 45:
		op = "mkdir"
		_, _, err = c.drive.Mkdir(ctx, fs, c.path(1), drive.MkdirOptions{Parents: true})
	case n < 58:
		op = "rename"
		_, err = c.drive.Rename(ctx, fs, c.path(1), c.path(1), drive.RenameOptions{})
	case n < 66:
		op = "rename file"
		_, err = c.drive.Rename(ctx, fs, fmt.Sprintf("%s/f%d", c.path(1), c.rand.IntN(8)), fmt.Sprintf("%s/f%d", c.path(1), c.rand.IntN(8)), drive.RenameOptions{})
	case n < 74:
		op = "link"
		_, err = c.drive.Link(ctx, fs, fmt.Sprintf("%s/f%d", c.path(1), c.rand.IntN(8)), fmt.Sprintf("%s/f%d", c.path(1), c.rand.IntN(8)), drive.Change{})
	case n < 82:
		op = "copy"
		_, _, err = c.drive.Copy(ctx, fs, fmt.Sprintf("%s/f%d", c.path(1), c.rand.IntN(8)), fmt.Sprintf("%s/f%d", c.path(1), c.rand.IntN(8)), drive.CopyOptions{})
	case n < 88:
		op = "remove"
		_, err = c.drive.Remove(ctx, fs, c.path(1), drive.RemoveOptions{})
	default:
		op = "remove all"
		var p tree.Path
		p, err = tree.ParsePath(c.path(1))
		if err == nil {
			_, err = c.removal.RemoveAll(ctx, removal.Request{FS: fs, Path: p, Wait: time.Duration(c.rand.IntN(200)) * time.Millisecond})
		}
	}
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Conflict, fault.Busy, fault.Invalid:
		op += " not"
	default:
		if err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
	if err == nil || fault.KindOf(err) != fault.Internal {
		c.did[op]++
	}
}
