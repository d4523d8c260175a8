package local_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/local"
)

// forResolvers runs a test with each way to resolve a path.
func forResolvers(t *testing.T, fn func(t *testing.T, open func(testing.TB, string) *local.Bucket)) {
	t.Helper()
	for name, open := range resolvers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(t, open)
		})
	}
}

func TestNoLinkIsFollowed(t *testing.T) {
	t.Parallel()
	forResolvers(t, func(t *testing.T, open func(testing.TB, string) *local.Bucket) {
		ctx := t.Context()
		outside, dir := t.TempDir(), t.TempDir()
		write(t, outside, "sub/secret")
		write(t, dir, "live/data/file")
		write(t, dir, "t/own")
		b := open(t, dir)
		symlink(t, outside, dir+"/absolute")
		symlink(t, "../"+filepath.Base(outside), dir+"/relative")
		symlink(t, "../live/data", dir+"/t/link")
		symlink(t, "../live/data/file", dir+"/t/file")
		symlink(t, "nowhere", dir+"/t/dangling")
		symlink(t, "loop", dir+"/t/loop")

		for _, key := range []blob.Key{"absolute/sub/secret", "relative/sub/secret", "t/link/file", "t/dangling/file", "t/loop/file", "t/file", "t/link"} {
			if r, _, err := b.Open(ctx, key); blob.ClassOf(err) != blob.Denied {
				t.Errorf("Open(%q) = %v, %v, want denied", key, r, err)
			}
			if _, err := b.Stat(ctx, key); blob.ClassOf(err) != blob.Denied {
				t.Errorf("Stat(%q) = %v, want denied", key, err)
			}
		}
		for _, key := range []blob.Key{"absolute/sub/secret", "relative/sub/secret", "t/link/file", "t/dangling/file", "t/loop/file"} {
			// One call with a key that may go: the link is a failure of its own keys only.
			r := b.DeleteMany(ctx, []blob.Key{key})[0]
			if r.Outcome != blob.Failed || blob.ClassOf(r.Err) != blob.Denied {
				t.Errorf("DeleteMany(%q) = %+v, want it denied", key, r)
			}
			for _, sibling := range []blob.Key{"2", "2/new"} {
				if err := b.Put(ctx, key+sibling, strings.NewReader("x")); blob.ClassOf(err) != blob.Denied {
					t.Errorf("Put(%q) = %v, want denied", key+sibling, err)
				}
			}
			if err := b.PruneDirs(ctx, []blob.Key{key + "/below"}, ""); blob.ClassOf(err) != blob.Denied {
				t.Errorf("PruneDirs(%q) = %v, want denied", key+"/below", err)
			}
			prefix := key[:strings.LastIndexByte(string(key), '/')+1]
			err := b.List(ctx, prefix, func(i blob.Info) error {
				t.Errorf("List(%q) shows %q", prefix, i.Key)
				return nil
			})
			if blob.ClassOf(err) != blob.Denied {
				t.Errorf("List(%q) = %v, want denied", prefix, err)
			}
		}
		// Links are listed, so that nobody wonders what keeps a directory; none is followed.
		var listed []string
		err := b.List(ctx, "", func(info blob.Info) error {
			listed = append(listed, string(info.Key))
			return nil
		})
		slices.Sort(listed)
		if diff := cmp.Diff([]string{"absolute", "live/data/file", "relative", "t/dangling", "t/file", "t/link", "t/loop", "t/own"}, listed); diff != "" || err != nil {
			t.Errorf("List: %v (-want +got):\n%s", err, diff)
		}
		// Deleting a link takes the link.
		for _, r := range b.DeleteMany(ctx, []blob.Key{"t/own", "t/file", "t/link", "t/dangling"}) {
			if r.Outcome != blob.Deleted {
				t.Errorf("%+v, want it deleted", r)
			}
		}
		wantTree(t, dir+"/live", "data/file")
		wantTree(t, outside, "sub/secret")
	})
}

// The place of the root is the operator's own choice.
func TestRootMayBeALink(t *testing.T) {
	t.Parallel()
	forResolvers(t, func(t *testing.T, open func(testing.TB, string) *local.Bucket) {
		dir, other := t.TempDir(), t.TempDir()
		name := filepath.Join(t.TempDir(), "storage")
		symlink(t, dir, name)
		b := open(t, name)
		// It is resolved once: what becomes of the link later does not matter.
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		symlink(t, other, name)
		if err := b.Put(t.Context(), "t/f", strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		if st, err := b.Stat(t.Context(), "t/f"); err != nil || st.Size != 1 || st.ModTime.IsZero() {
			t.Errorf("Stat: %+v, %v", st, err)
		}
		wantTree(t, dir, "t/f")
		wantTree(t, other)
	})
}

func TestClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "f")
	b, err := local.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if r := b.DeleteMany(t.Context(), []blob.Key{"f"})[0]; r.Outcome != blob.Failed {
		t.Errorf("%+v, want a failure", r)
	}
	if _, _, err := b.Open(t.Context(), "f"); err == nil || blob.IsNotExist(err) {
		t.Errorf("Open: %v, want a failure", err)
	}
	wantTree(t, dir, "f")
}
