package local_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
)

// asNobody takes root's rights over files from this goroutine, until the test ends.
// Nothing is denied to root.
func asNobody(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	runtime.LockOSThread()
	if err := syscall.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setfsuid(0); err != nil {
			t.Error(err) // the thread stays locked, and ends with the goroutine
			return
		}
		runtime.UnlockOSThread()
	})
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir)
	write(t, dir, "locked/file")
	write(t, dir, "open/file")
	for name, mode := range map[string]os.FileMode{"locked": 0o555, "open": 0o777} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "locked"), 0o755) })
	asNobody(t)
	results := b.DeleteMany(t.Context(), []blob.Key{"locked/file", "open/file"})
	if results[0].Outcome != blob.Failed || blob.ClassOf(results[0].Err) != blob.Denied {
		t.Errorf("%+v, want it denied", results[0])
	}
	if results[1].Outcome != blob.Deleted {
		t.Errorf("%+v, want it deleted", results[1])
	}
	if err := b.Put(t.Context(), "locked/new", strings.NewReader("x")); blob.ClassOf(err) != blob.Denied {
		t.Errorf("Put: %v, want denied", err)
	}
}
