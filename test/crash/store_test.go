package crash

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/proc"
)

// nobody is a user who owns nothing else.
const nobody = 65534

// command runs a tool of the system, or skips the test where there is none.
func command(t *testing.T, name string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s: %v", name, err)
	}
	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// humble makes the next server one without root's power over permissions: a test that
// runs as root gives all it made to nobody, and the server runs as that user.
func (w *world) humble(opts proc.Options) proc.Options {
	w.t.Helper()
	if os.Getuid() != 0 {
		return opts
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		w.t.Skipf("needs setpriv: %v", err)
	}
	// A copy, for the checkout may lie where only root can go.
	dir := filepath.Join(w.t.TempDir(), "bin")
	binary, err := os.ReadFile(proc.Binary(w.t))
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "lethe"), binary, 0o755)
	}
	opts.Binary = filepath.Join(dir, "run")
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' --reuid=%d --regid=%d --clear-groups '%s/lethe' \"$@\"\n", setpriv, nobody, nobody, dir)
	if err == nil {
		err = os.WriteFile(opts.Binary, []byte(script), 0o755)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	top := filepath.Dir(filepath.Dir(w.dir)) // of all temporary folders of this test
	if err := os.Chmod(top, 0o755); err != nil {
		w.t.Fatal(err)
	}
	w.give(top)
	return opts
}

// give gives a folder and all in it to nobody.
func (w *world) give(dir string) {
	w.t.Helper()
	if os.Getuid() != 0 {
		return
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// Files that cannot be deleted end the job FAILED: with counts, with nothing above them
// deleted, and with all else gone. When they can be deleted again, a retry finishes.
func TestFilesThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	day := func(w *world) string { return filepath.Join(w.dirOf("victim"), "data", "day=07") }
	file := func(w *world) string {
		w.t.Helper()
		found, err := filepath.Glob(filepath.Join(day(w), "00000107-*"))
		if err != nil || len(found) != 1 {
			w.t.Fatalf("%v, %v", found, err)
		}
		return found[0]
	}
	for _, c := range []struct {
		name      string
		hurt      func(w *world) error
		mend      func(w *world) error
		failed    int64 // of 300 files, three for each day
		dataStays int   // files, while the job is FAILED
	}{
		{
			name:   "permission denied",
			hurt:   func(w *world) error { return os.Chmod(day(w), 0o555) },
			mend:   func(w *world) error { return os.Chmod(day(w), 0o755) },
			failed: 3, dataStays: 3,
		},
		{
			name: "a directory in the place of a file",
			hurt: func(w *world) error {
				at := file(w)
				if err := os.Remove(at); err != nil {
					return err
				}
				return os.MkdirAll(filepath.Join(at, "precious"), 0o755)
			},
			mend:   func(w *world) error { return os.RemoveAll(day(w)) },
			failed: 1, dataStays: 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(w *world) {
				opts := w.humble(w.options("--async-purge-max-attempts", "2", "--async-purge-delete-batch-size", "50"))
				if dir, ok := strings.CutPrefix(w.database, "sqlite:"); ok {
					w.give(filepath.Dir(dir))
				}
				w.start(opts)
				w.namespace()
				w.neighbours()
				victim := w.bigTable("victim", 300)
				w.give(w.dir)
				if err := c.hurt(w); err != nil {
					w.t.Fatal(err)
				}
				w.give(w.dir)
				before := w.tree(victim)
				meta := countFiles(filepath.Join(w.dirOf("victim"), "metadata"))
				job := w.drop("victim")

				j := w.ends(job, client.Failed)
				if n := j.Counts(); n.Failed != c.failed || j.Attempts != 2 || j.Phase != "DATA" || j.LastError == "" {
					w.t.Errorf("%d failed, %d attempts, phase %s, last error %q; want %d, 2, DATA and a reason", n.Failed, j.Attempts, j.Phase, j.LastError, c.failed)
				}
				if left := countFiles(filepath.Join(w.dirOf("victim"), "data")); left != c.dataStays {
					w.t.Errorf("%d data files are left, want %d", left, c.dataStays)
				}
				if left := countFiles(filepath.Join(w.dirOf("victim"), "metadata")); left != meta {
					w.t.Errorf("%d metadata files are left of %d, and data is unsettled", left, meta)
				}

				if err := c.mend(w); err != nil {
					w.t.Fatal(err)
				}
				w.call(http.StatusOK, http.MethodPost, "/v1/jobs/"+job+"/retry", map[string]any{})
				w.ends(job, client.Succeeded)
				w.wantPurged(victim, "victim", before)
				w.wantOneRow("victim", client.Succeeded)
			})
		})
	}
}

// The store fails as a whole, here by the lack of descriptors: however long that takes,
// it is no failure of the job, which ends when the store is back.
func TestStoreOutage(t *testing.T) {
	t.Parallel()
	onEach(t, func(w *world) {
		w.up(append([]string{"--async-purge-max-attempts", "1"}, slow...)...)
		w.namespace()
		w.neighbours()
		victim := w.bigTable("victim", 2000) // 10 s of deletes
		before := w.tree(victim)
		job := w.drop("victim")
		w.deletedFrom(w.dirOf("victim"), 1950)
		limit := func(descriptors string) {
			command(w.t, "prlimit", "--pid", fmt.Sprint(w.server.PID()), "--nofile="+descriptors+":")
		}
		limit("3")
		w.logs("job attempt failed", 3)
		if left := countFiles(w.dirOf("victim")); left == 0 {
			w.t.Error("the purge was over before the outage: this test shows nothing")
		}
		limit("1024")
		w.ends(job, client.Succeeded)
		w.wantPurged(victim, "victim", before)
		w.wantOneRow("victim", client.Succeeded)
	})
}

// A server that starts while its storage is away (not mounted, renamed) must not take
// what it does not see for deleted.
func TestStorageAwayAtStart(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"DATA.deleted", "MANIFESTS.saved", "METADATA.saved", "ROOT.saved"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(w *world) {
				w.upTo(step, "--async-purge-delete-batch-size", "2")
				w.namespace()
				w.neighbours()
				victim := w.table("victim")
				before := w.tree(victim)
				job := w.drop("victim")
				w.killed()
				away := w.dir + "-away"
				if err := os.Rename(w.dir, away); err != nil {
					w.t.Fatal(err)
				}
				w.refused("is its disk mounted?")
				if err := os.RemoveAll(w.dir); err != nil {
					w.t.Fatal(err)
				}
				if err := os.Rename(away, w.dir); err != nil {
					w.t.Fatal(err)
				}
				w.up()
				w.ends(job, client.Succeeded)
				w.wantPurged(victim, "victim", before)
				w.wantOneRow("victim", client.Succeeded)
			})
		})
	}
}

// The files of an embedded database go away under a running purge. A server that starts
// without them deletes nothing; with them back, the accepted drop ends.
func TestDatabaseFileRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sqldbtest.Server{Name: "sqlite"}.URL(t))
	w.up(slow...)
	w.namespace()
	w.neighbours()
	sibling := w.load("sibling")
	victim := w.bigTable("victim", 500)
	before := w.tree(victim)
	job := w.drop("victim")
	w.deletedFrom(w.dirOf("victim"), 450)
	file := strings.TrimPrefix(w.database, "sqlite:")
	away := t.TempDir()
	move := func(from, to string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(from, "lethe.db*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no database in %s: %v", from, err)
		}
		for _, f := range files {
			if err := os.Rename(f, filepath.Join(to, filepath.Base(f))); err != nil {
				t.Fatal(err)
			}
		}
	}
	move(filepath.Dir(file), away)
	w.deletedFrom(w.dirOf("victim"), 430)
	w.server.Kill(t)

	left := countFiles(w.dirOf("victim"))
	// What the killed server may have made in place of what it lost is not the database.
	removeAll := func() {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(filepath.Dir(file), "lethe.db*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	removeAll()
	w.up()
	w.namespace()
	// A lost catalog is made anew from the files, which are all there.
	w.call(http.StatusOK, http.MethodPost, catalogPath+"/crash/register", registration("sibling", purgetest.Table{Metadata: sibling.MetadataLocation}))
	if now := countFiles(w.dirOf("victim")); now != left {
		t.Errorf("%d files became %d without a database", left, now)
	}
	w.server.Stop(t)
	removeAll()
	move(away, filepath.Dir(file))
	w.up()
	w.ends(job, client.Succeeded)
	w.load("sibling")
	w.wantPurged(victim, "victim", before)
	w.wantOneRow("victim", client.Succeeded)
}
