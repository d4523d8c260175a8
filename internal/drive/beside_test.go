package drive_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// beside runs first and, at its nth point, second, until that has ended or waits for a lock
// that first holds. It returns false when first has fewer points, and what became of both.
func (r *room) beside(t *testing.T, op string, n int, first, second func(ctx context.Context) error) (reached bool, a, b error) {
	t.Helper()
	done := make(chan error, 1)
	seen := 0
	r.steps.set(func(at, _ string) error {
		if at != op || reached {
			return nil
		}
		if seen++; seen <= n {
			return nil
		}
		reached = true
		go func() { done <- second(t.Context()) }()
		sqldbtest.Blocked(t, r.db, 0, func() bool { return len(done) > 0 })
		return nil
	})
	a = first(t.Context())
	if reached {
		b = <-done
	}
	r.steps.set(nil)
	return reached, a, b
}

// pair is two operations on one small tree, by a name of their own for every run.
type pair struct {
	name          string
	op            string // of first
	prepare       func(t *testing.T, r *room, dir string)
	first, second func(r *room, dir string) func(ctx context.Context) error
	// after looks at what both left, beyond the rows' agreement.
	after func(t *testing.T, r *room, dir string, first, second error)
}

const longText = "long enough for an object in the bucket"

func write(path, text string) func(r *room, dir string) func(ctx context.Context) error {
	return func(r *room, dir string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, _, err := r.Put(ctx, one, dir+path, drive.PutOptions{Body: strings.NewReader(text), Size: -1})
			return err
		}
	}
}

func remove(path string) func(r *room, dir string) func(ctx context.Context) error {
	return func(r *room, dir string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := r.Remove(ctx, one, dir+path, drive.RemoveOptions{})
			return err
		}
	}
}

func removeAll(path string) func(r *room, dir string) func(ctx context.Context) error {
	return func(r *room, dir string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := r.RemoveAll(ctx, one, dir+path, drive.RemoveAllOptions{Wait: time.Minute})
			return err
		}
	}
}

func cp(from, to string) func(r *room, dir string) func(ctx context.Context) error {
	return func(r *room, dir string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, _, err := r.Copy(ctx, one, dir+from, dir+to, drive.CopyOptions{})
			return err
		}
	}
}

func hard(from, to string) func(r *room, dir string) func(ctx context.Context) error {
	return func(r *room, dir string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := r.Link(ctx, one, dir+from, dir+to, drive.Change{})
			return err
		}
	}
}

func mv(from, to string) func(r *room, dir string) func(ctx context.Context) error {
	return func(r *room, dir string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := r.Rename(ctx, one, dir+from, dir+to, drive.RenameOptions{})
			return err
		}
	}
}

func plant(paths ...string) func(t *testing.T, r *room, dir string) {
	return func(t *testing.T, r *room, dir string) {
		t.Helper()
		for _, p := range paths {
			if sub, isDir := strings.CutSuffix(p, "/"); isDir {
				r.mkdir(t, dir+sub)
			} else {
				r.put(t, dir+p, longText)
			}
		}
	}
}

// oneOf fails unless a path reads as one of the texts or codes.
func (r *room) oneOf(t *testing.T, path string, want ...string) {
	t.Helper()
	got := r.read(t, path)
	if !slices.Contains(want, got) {
		t.Errorf("%s reads %q, want one of %q", path, got, want)
	}
}

// acknowledged fails when a change succeeded and its file is not there, or the reverse.
func (r *room) acknowledged(t *testing.T, err error, path, text string) {
	t.Helper()
	want := text
	if err != nil {
		want = "NotFound"
	}
	r.oneOf(t, path, want)
}

var pairs = []pair{
	{
		name: "copy beside the removal of its source", op: "drive.Copy", prepare: plant("/src"),
		first: cp("/src", "/dst"), second: remove("/src"),
		after: func(t *testing.T, r *room, dir string, first, _ error) {
			r.acknowledged(t, first, dir+"/dst", longText)
		},
	},
	{
		name: "removal beside a copy", op: "drive.Remove", prepare: plant("/src"),
		first: remove("/src"), second: cp("/src", "/dst"),
		after: func(t *testing.T, r *room, dir string, _, second error) {
			r.acknowledged(t, second, dir+"/dst", longText)
		},
	},
	{
		name: "copy onto the source of another copy", op: "drive.Copy", prepare: plant("/src", "/dst"),
		first: cp("/src", "/dst"), second: cp("/dst", "/src"),
		after: func(t *testing.T, r *room, dir string, first, second error) {
			if first != nil || second != nil {
				t.Errorf("%v, %v", first, second)
			}
			r.oneOf(t, dir+"/src", longText)
		},
	},
	{
		name: "copy beside a write to its source", op: "drive.Copy", prepare: plant("/src"),
		first: cp("/src", "/dst"), second: write("/src", "short"),
		after: func(t *testing.T, r *room, dir string, first, second error) {
			if first != nil || second != nil {
				t.Errorf("%v, %v", first, second)
			}
			r.oneOf(t, dir+"/dst", longText, "short")
			r.oneOf(t, dir+"/src", "short")
		},
	},
	{
		name: "two writes of one new file", op: "drive.Put", prepare: plant("/"),
		first: write("/new/file", "first"), second: write("/new/file", "second"),
		after: func(t *testing.T, r *room, dir string, first, second error) {
			if first != nil || second != nil {
				t.Errorf("%v, %v", first, second)
			}
			r.oneOf(t, dir+"/new/file", "first", "second")
		},
	},
	{
		name: "overwriting beside the removal", op: "drive.Put", prepare: plant("/file"),
		first: write("/file", "written"), second: remove("/file"),
		after: func(t *testing.T, r *room, dir string, _, _ error) { r.oneOf(t, dir+"/file", "written", "NotFound") },
	},
	{
		name: "create beside rmdir", op: "drive.Put", prepare: plant("/sub/"),
		first: write("/sub/file", "written"), second: remove("/sub"),
		after: func(t *testing.T, r *room, dir string, first, second error) {
			if first != nil {
				t.Errorf("create: %v", first)
			}
			r.oneOf(t, dir+"/sub/file", "written")
		},
	},
	{
		name: "rmdir beside create", op: "drive.Remove", prepare: plant("/sub/"),
		first: remove("/sub"), second: write("/sub/deep/file", "written"),
		after: func(t *testing.T, r *room, dir string, _, second error) {
			if second != nil {
				t.Errorf("create: %v", second)
			}
			r.oneOf(t, dir+"/sub/deep/file", "written")
		},
	},
	{
		name: "create beside the removal of the tree", op: "drive.Put", prepare: plant("/sub/deep/", "/sub/other"),
		first: write("/sub/deep/file", "written"), second: removeAll("/sub"),
		after: func(t *testing.T, r *room, dir string, _, _ error) {
			r.oneOf(t, dir+"/sub/deep/file", "written", "NotFound")
		},
	},
	{
		name: "link beside the removal of its file", op: "drive.Link", prepare: plant("/file"),
		first: hard("/file", "/hard"), second: remove("/file"),
		after: func(t *testing.T, r *room, dir string, first, _ error) {
			r.acknowledged(t, first, dir+"/hard", longText)
		},
	},
	{
		name: "removal beside a link", op: "drive.Remove", prepare: plant("/file"),
		first: remove("/file"), second: hard("/file", "/hard"),
		after: func(t *testing.T, r *room, dir string, _, second error) {
			r.acknowledged(t, second, dir+"/hard", longText)
		},
	},
	{
		name: "two removals", op: "drive.Remove", prepare: plant("/file"),
		first: remove("/file"), second: remove("/file"),
		after: func(t *testing.T, r *room, dir string, first, second error) {
			if (first == nil) == (second == nil) {
				t.Errorf("%v, %v", first, second)
			}
		},
	},
	{
		name: "rename over a file beside a link to it", op: "drive.Rename", prepare: plant("/src", "/victim"),
		first: mv("/src", "/victim"), second: hard("/victim", "/hard"),
		after: func(t *testing.T, r *room, dir string, first, second error) {
			if first != nil || second != nil {
				t.Errorf("%v, %v", first, second)
			}
			r.oneOf(t, dir+"/hard", longText)
		},
	},
	{
		name: "two directories into each other", op: "drive.Rename", prepare: plant("/a/", "/b/"),
		first: mv("/a", "/b/a"), second: mv("/b", "/a/b"),
		after: func(t *testing.T, r *room, dir string, first, second error) {
			if (first == nil) == (second == nil) {
				t.Errorf("%v, %v", first, second)
			}
		},
	},
	{
		name: "rename of a directory beside the removal of its new parent", op: "drive.Rename", prepare: plant("/src/file", "/dst/"),
		first: mv("/src", "/dst/src"), second: removeAll("/dst"),
		after: func(t *testing.T, r *room, dir string, first, second error) {
			if first != nil {
				r.oneOf(t, dir+"/src/file", longText)
			}
		},
	},
	{
		name: "rename out of a tree beside its removal", op: "drive.Rename", prepare: plant("/tree/sub/file"),
		first: mv("/tree/sub", "/out"), second: removeAll("/tree"),
		after: func(t *testing.T, r *room, dir string, first, second error) {
			if second != nil {
				t.Errorf("remove: %v", second)
			}
			r.acknowledged(t, first, dir+"/out/file", longText)
		},
	},
	{
		name: "rename over an empty directory beside a create in it", op: "drive.Rename", prepare: plant("/src/file", "/dst/"),
		first: mv("/src", "/dst"), second: write("/dst/other", "written"),
		after: func(t *testing.T, r *room, dir string, first, second error) {
			if second != nil {
				t.Errorf("create: %v", second)
			}
			r.oneOf(t, dir+"/dst/other", "written")
		},
	},
}

// Every operation with every other that could harm it, at each of its points: both end as
// if they had come one after the other, and all rows agree.
func TestBeside(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		for i, p := range pairs {
			for n := 0; ; n++ {
				dir := fmt.Sprintf("/p%d/%d", i, n)
				p.prepare(t, r, dir)
				reached, first, second := r.beside(t, p.op, n, p.first(r, dir), p.second(r, dir))
				for _, err := range []error{first, second} {
					if k := fault.KindOf(err); err != nil && k != fault.NotFound && k != fault.Conflict {
						t.Errorf("%s, point %d: %v", p.name, n, err)
					}
				}
				if p.after != nil && reached {
					p.after(t, r, dir, first, second)
				}
				if t.Failed() {
					t.Fatalf("%s, point %d: %v, %v", p.name, n, first, second)
				}
				if !reached {
					if n == 0 {
						t.Errorf("%s: no point", p.name)
					}
					break
				}
			}
			if r.agree(t); t.Failed() {
				t.Fatalf("after %s", p.name)
			}
		}
	})
}
