package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/local"
)

func TestMarker(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	open := func(dir string) *local.Bucket {
		b, err := local.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	b := open(dir)
	if _, err := b.Marker(ctx); !blob.IsNotExist(err) {
		t.Fatalf("a new root's marker: %v, want not exist", err)
	}
	first, err := b.MakeMarker(ctx)
	if err != nil {
		t.Fatal(err)
	}
	again, err := open(dir).MakeMarker(ctx)
	if err != nil || again != first || first == "" {
		t.Fatalf("marked again: %q, %v, want %q", again, err, first)
	}
	// It is the bucket's own: no key, never listed, never deleted.
	if err := b.Put(ctx, ".lethe-root", strings.NewReader("x")); err == nil {
		t.Error("the marker was overwritten")
	}
	if r := b.DeleteMany(ctx, []blob.Key{".lethe-root", "x/../.lethe-root"}); r[0].Outcome == blob.Deleted || r[1].Outcome == blob.Deleted {
		t.Errorf("the marker was deleted: %+v", r)
	}
	err = b.List(ctx, "", func(i blob.Info) error {
		t.Errorf("listed %s", i.Key)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the root holds %v, %v", entries, err)
	}
	// Below the root the name is nothing special.
	if err := b.Put(ctx, "t/.lethe-root", strings.NewReader("x")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "t", ".lethe-root")); err != nil {
		t.Error(err)
	}
}
