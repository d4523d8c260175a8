package local_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/blobtest"
	"github.com/lethe-project/lethe/internal/blob/local"
)

func open(tb testing.TB, dir string) *local.Bucket {
	tb.Helper()
	b, err := local.Open(dir)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
	})
	return b
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, open := range resolvers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blobtest.Run(t, func(t *testing.T) blob.Bucket {
				t.Helper()
				return open(t, t.TempDir())
			}, blobtest.Caps{TellsMissing: true, MaxComponent: 255})
		})
	}
}

// resolvers are the ways to a directory: the one this system offers, and the one that
// works on all.
var resolvers = map[string]func(testing.TB, string) *local.Bucket{
	"native": open,
	"walk": func(tb testing.TB, dir string) *local.Bucket {
		tb.Helper()
		b := open(tb, dir)
		b.Walk()
		return b
	},
}

func TestOpenMakesTheDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	b := open(t, dir)
	if err := b.Put(t.Context(), "k", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	wantTree(t, dir, "k")
}

func TestDirectoryAsKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	write(t, dir, "full/file")
	if err := os.Mkdir(dir+"/empty", 0o755); err != nil {
		t.Fatal(err)
	}
	results := b.DeleteMany(t.Context(), []blob.Key{"full", "empty", "full/file"})
	for _, r := range results[:2] {
		if r.Outcome != blob.Failed || r.Err == nil || blob.ClassOf(r.Err).Outage() {
			t.Errorf("%q: %+v, want a failure of this key", r.Key, r)
		}
	}
	if results[2].Outcome != blob.Deleted {
		t.Errorf("the file beside: %+v", results[2])
	}
	if _, err := os.Stat(dir + "/empty"); err != nil {
		t.Errorf("the empty directory: %v", err)
	}
}

func TestChecksumsGoWithTheirFiles(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 100, 1000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := open(t, dir)
			var keys []blob.Key
			for i := range n {
				name := fmt.Sprintf("t/f%d", i)
				keys = append(keys, blob.Key(name))
				write(t, dir, name)
				if i%3 == 0 {
					write(t, dir, fmt.Sprintf("t/.f%d.crc", i))
				}
			}
			write(t, dir, "t/.alien.crc")
			write(t, dir, "t/.f0.crcx")
			keys = append(keys, "t/never") // its file went in a run that crashed
			write(t, dir, "t/.never.crc")
			results := b.DeleteMany(t.Context(), keys)
			for i, r := range results[:n] {
				if r.Outcome != blob.Deleted {
					t.Errorf("key %d: %+v", i, r)
				}
			}
			if results[n].Outcome != blob.Missing {
				t.Errorf("%+v, want it missing: a checksum is not counted", results[n])
			}
			wantTree(t, dir, "t/.alien.crc", "t/.f0.crcx")
		})
	}
}

// A directory found without checksums is not read again for a moment; what this bucket
// itself writes, and a table that comes back after a prune, must be seen nevertheless.
func TestChecksumWrittenAfterALook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	keys := func(from int) (keys []blob.Key) {
		for i := range 100 {
			keys = append(keys, blob.Key(fmt.Sprintf("t/f%d", from+i)))
			write(t, dir, string(keys[i]))
		}
		return keys
	}
	b.DeleteMany(t.Context(), keys(0))
	second := keys(100)
	if err := b.Put(t.Context(), "t/.f150.crc", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	b.DeleteMany(t.Context(), second)
	wantTree(t, dir)
	if err := b.PruneDirs(t.Context(), second, "t"); err != nil {
		t.Fatal(err)
	}
	third := keys(200)
	write(t, dir, "t/.f250.crc")
	b.DeleteMany(t.Context(), third)
	wantTree(t, dir)
}

func TestFileWhereADirectoryShouldBe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	write(t, dir, "file")
	if err := b.Put(t.Context(), "file/below", strings.NewReader("x")); blob.ClassOf(err) != blob.Invalid {
		t.Errorf("Put below a file: %v, want invalid", err)
	}
	write(t, dir, "dir/file")
	if err := b.Put(t.Context(), "dir", strings.NewReader("x")); blob.ClassOf(err) != blob.Exist {
		t.Errorf("Put over a directory: %v, want exist", err)
	}
	wantTree(t, dir, "dir/file", "file")
}

func TestConcurrentPutAndDeleteOfDifferentKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 10 {
				key := blob.Key(fmt.Sprintf("t/%d/%d", i, j))
				if err := b.Put(t.Context(), key, strings.NewReader("x")); err != nil {
					t.Error(err)
				}
				if r := b.DeleteMany(t.Context(), []blob.Key{key}); r[0].Outcome != blob.Deleted {
					t.Errorf("%+v", r)
				}
				// Takes the directories away from under the other writers.
				if err := b.PruneDirs(t.Context(), []blob.Key{key}, ""); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

// wantTree asserts which files lie below dir, temporary ones included.
func wantTree(t *testing.T, dir string, want ...string) {
	t.Helper()
	got := []string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			got = append(got, filepath.ToSlash(strings.TrimPrefix(path, dir+"/")))
		}
		return err
	})
	want = append([]string{}, want...)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("files on disk: %v (-want +got):\n%s", err, diff)
	}
}

// write makes a file behind the bucket's back.
func write(tb testing.TB, dir, name string) {
	tb.Helper()
	path := filepath.Join(dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), 0o600))
	if err != nil {
		tb.Fatal(err)
	}
}

func symlink(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}
