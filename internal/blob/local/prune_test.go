package local_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
)

func TestPruneDirs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		files []string // what still lies there
		dirs  []string // what there is besides
		keys  []blob.Key
		top   blob.Key
		gone  []string
		stays []string
	}{
		{
			"up to and including top",
			nil,
			[]string{"ns/t/data/p=1", "ns/t/data/p=2", "ns/t/metadata"},
			[]blob.Key{"ns/t/data/p=1/f", "ns/t/data/p=2/f", "ns/t/metadata/m"},
			"ns/t",
			[]string{"ns/t"},
			[]string{"ns"},
		},
		{
			"no further than what is in use",
			[]string{"ns/t/data/p=1/other"},
			[]string{"ns/t/data/p=2"},
			[]blob.Key{"ns/t/data/p=1/f", "ns/t/data/p=2/f"},
			"ns/t",
			[]string{"ns/t/data/p=2"},
			[]string{"ns/t/data/p=1/other"},
		},
		{
			"a sibling with the same beginning",
			nil,
			[]string{"t", "t2"},
			[]blob.Key{"t/f", "t2/f", "../t2/f", "t/../t2/f"},
			"t",
			[]string{"t"},
			[]string{"t2"},
		},
		{
			"never the root",
			nil,
			[]string{"d"},
			[]blob.Key{"d/f", "f", "", "../../f"},
			"",
			[]string{"d"},
			[]string{"."},
		},
		{"directories that are gone", nil, []string{"t/a"}, []blob.Key{"t/a/b/c/f"}, "t", []string{"t"}, nil},
		{"a file in place of a directory", []string{"t/a"}, nil, []blob.Key{"t/a/f"}, "t", nil, []string{"t/a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b := open(t, dir)
			for _, name := range test.files {
				write(t, dir, name)
			}
			for _, name := range test.dirs {
				if err := os.MkdirAll(dir+"/"+name, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.PruneDirs(t.Context(), test.keys, test.top); err != nil {
				t.Fatal(err)
			}
			for _, name := range test.gone {
				if _, err := os.Stat(dir + "/" + name); !os.IsNotExist(err) {
					t.Errorf("%s: %v, want it gone", name, err)
				}
			}
			for _, name := range test.stays {
				if _, err := os.Stat(dir + "/" + name); err != nil {
					t.Errorf("%s: %v, want it to stay", name, err)
				}
			}
		})
	}
}

func TestPruneKeepsLinksToDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	for _, name := range []string{"t", "elsewhere"} {
		if err := os.Mkdir(dir+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	symlink(t, "../elsewhere", dir+"/t/link")
	if err := b.PruneDirs(t.Context(), []blob.Key{"t/link/f"}, "t"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir + "/t/link"); err != nil {
		t.Errorf("the link: %v", err)
	}
}

// A crash during Put leaves a temporary file that nobody holds.
func TestLeftoversOfACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	const leftover = "t/data/.lethe-tmp-CRASHED"
	write(t, dir, leftover)
	if err := b.List(t.Context(), "", func(info blob.Info) error {
		t.Errorf("listed %q", info.Key)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Stat(t.Context(), leftover); !blob.IsNotExist(err) {
		t.Errorf("Stat: %v, want no such object", err)
	}
	if r := b.DeleteMany(t.Context(), []blob.Key{leftover}); r[0].Outcome != blob.Missing {
		t.Errorf("DeleteMany: %+v, want it missing", r[0])
	}
	if err := b.Put(t.Context(), leftover, strings.NewReader("x")); blob.ClassOf(err) != blob.Invalid {
		t.Errorf("Put: %v, want invalid", err)
	}
	wantTree(t, dir, leftover)
	// It goes with its directory, unless something else lies there.
	write(t, dir, "t/data/file")
	prune := func() {
		t.Helper()
		if err := b.PruneDirs(t.Context(), []blob.Key{"t/data/file"}, "t"); err != nil {
			t.Fatal(err)
		}
	}
	prune()
	wantTree(t, dir, leftover, "t/data/file")
	b.DeleteMany(t.Context(), []blob.Key{"t/data/file"})
	prune()
	wantTree(t, dir)
	if _, err := os.Stat(dir + "/t"); !os.IsNotExist(err) {
		t.Errorf("the directory: %v, want it gone", err)
	}
}

func TestPruneLeavesALiveWriterAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, other := open(t, dir), open(t, dir)
	body, feed := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- b.Put(t.Context(), "t/data/new", body) }()
	if _, err := feed.Write([]byte("half ")); err != nil { // returns when Put has read it
		t.Fatal(err)
	}
	for _, pruner := range []blob.DirPruner{b, other} {
		if err := pruner.PruneDirs(t.Context(), []blob.Key{"t/data/old"}, "t"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := feed.Write([]byte("and half")); err != nil {
		t.Fatal(err)
	}
	if err := feed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantTree(t, dir, "t/data/new")
}
