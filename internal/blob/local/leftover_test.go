package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/local"
)

// A delete of a key whose writer was killed takes what that left; one that lives keeps it.
func TestDeleteTakesWhatAKilledWriterLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := local.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	if err := os.MkdirAll(filepath.Join(dir, "t"), 0o750); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, "t", ".lethe-tmp-key")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "t", ".lethe-tmp-key2")
	if err := os.WriteFile(other, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.DeleteMany(t.Context(), []blob.Key{"t/key"}); r[0].Outcome != blob.Missing {
		t.Fatalf("%+v", r)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("the temporary file is left: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("another key's file: %v", err)
	}
}
