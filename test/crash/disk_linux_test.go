package crash

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/client"
)

// disk mounts a small disk, where that is allowed.
func disk(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("a full disk needs a disk of its own, and mounting one is not allowed: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill leaves no byte free on a disk, until free is called.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size > 0; { // ever smaller pieces
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// The disk of the warehouse is full: what cannot be written is refused and changes
// nothing, and a drop still works, for that is how space comes back.
func TestStorageDiskFull(t *testing.T) {
	t.Parallel()
	onEach(t, func(w *world) {
		w.dir = filepath.Join(disk(w.t), "warehouse")
		w.space = openSpace(w.t, w.dir)
		w.up()
		w.namespace()
		w.neighbours()
		victim := w.table("victim")
		table := w.created("t", map[string]string{"n": "0"})
		free := fill(w.t, filepath.Dir(w.dir))
		before := w.tree()
		a, err := w.send(http.MethodPost, tablesPath+"/t", setProperty("n", "1"))
		if err != nil || a.status != http.StatusTooManyRequests {
			w.t.Errorf("a commit got %d, want 429, nothing was applied: %v %s", a.status, err, a.body)
		}
		if got := w.load("t"); got.MetadataLocation != table.MetadataLocation {
			w.t.Errorf("metadata is %s, want %s", got.MetadataLocation, table.MetadataLocation)
		}
		if diff := cmp.Diff(before, w.tree()); diff != "" {
			w.t.Errorf("files changed (-before +after):\n%s", diff)
		}
		before = w.tree(victim)
		w.ends(w.drop("victim"), client.Succeeded)
		w.wantPurged(victim, "victim", before)
		free()
		w.call(http.StatusOK, http.MethodPost, tablesPath+"/t", setProperty("n", "2"))
		w.wantOneRow("victim", client.Succeeded)
	})
}

// The disk of the embedded database is full in the middle of a purge: nothing that was
// acknowledged is lost, and the drop ends when there is space again.
func TestDatabaseDiskFull(t *testing.T) {
	t.Parallel()
	dir := disk(t)
	w := newWorld(t, "sqlite:"+filepath.Join(dir, "lethe.db"))
	w.up(slow...)
	w.namespace()
	w.neighbours()
	table := w.created("t", map[string]string{"n": "0"})
	victim := w.bigTable("victim", 600)
	before := w.tree(victim, asTable(table))
	job := w.drop("victim")
	w.deletedFrom(w.dirOf("victim"), 550)
	free := fill(t, dir)
	acked := table.Metadata.Properties["n"]
	for _, n := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} { // until the log of the database has no room
		a, err := w.send(http.MethodPost, tablesPath+"/t", setProperty("n", n))
		switch {
		case err != nil:
			t.Fatal(err)
		case a.status == http.StatusOK:
			acked = n
		case a.status != http.StatusTooManyRequests:
			t.Errorf("a commit got %d, want 429, nothing was applied: %s", a.status, a.body)
		}
	}
	t.Logf("the last acknowledged commit is %s of 9", acked)
	if got := w.load("t").Metadata.Properties["n"]; got != acked {
		t.Errorf("n=%s, want %s, the last acknowledged", got, acked)
	}
	// A server that is killed now finds all of it again.
	w.server.Kill(t)
	free()
	w.up()
	if got := w.load("t").Metadata.Properties["n"]; got != acked {
		t.Errorf("n=%s after a kill, want %s, the last acknowledged", got, acked)
	}
	w.ends(job, client.Succeeded)
	w.wantPurged(victim, "victim", before, asTable(table))
	w.wantOneRow("victim", client.Succeeded)
}
