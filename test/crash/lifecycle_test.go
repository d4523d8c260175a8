package crash

import (
	"context"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/test/proc"
)

// slow makes a purge of the table of a test take seconds.
var slow = []string{"--async-purge-rate-limit", "200", "--async-purge-delete-batch-size", "20", "--async-purge-delete-threads", "1"}

// drain is well below the time after which a server that drains gives up what goes on.
const drain = 20 * time.Second

// signal sends a signal to the server's process.
func (w *world) signal(sig syscall.Signal) {
	w.t.Helper()
	if err := syscall.Kill(w.server.PID(), sig); err != nil {
		w.t.Fatal(err)
	}
}

// logs waits until the server has logged an event n times.
func (w *world) logs(event string, n int) {
	w.t.Helper()
	proc.Eventually(w.t, patience, "the log says: "+event, func() bool { return strings.Count(w.server.Log(), `"msg":"`+event+`"`) >= n })
}

// deletedFrom waits until a table's files have become as few.
func (w *world) deletedFrom(dir string, left int) {
	w.t.Helper()
	proc.Eventually(w.t, patience, "files are deleted from "+dir, func() bool { return countFiles(dir) <= left })
}

// dirOf is a table's directory.
func (w *world) dirOf(name string) string { return filepath.Join(w.dir, "crash", name) }

func TestTerminatedServerAnswersItsDrops(t *testing.T) {
	t.Parallel()
	onEach(t, func(w *world) {
		w.up(slow...)
		w.namespace()
		w.neighbours()
		victim := w.bigTable("victim", 5000) // 25 s of deletes
		before := w.tree(victim)
		answers := make(chan answer, 1)
		go func() {
			defer close(answers)
			a, err := w.send(http.MethodDelete, tablesPath+"/victim"+purgeQuery, nil)
			if err != nil {
				w.t.Errorf("the waiting drop got no answer: %v", err)
				return
			}
			answers <- a
		}()
		w.deletedFrom(w.dirOf("victim"), 4960)
		began := time.Now()
		w.server.Stop(w.t)
		if took := time.Since(began); took > drain {
			w.t.Errorf("the server drained for %s", took)
		}
		a, ok := <-answers
		if !ok {
			return
		}
		if state := a.header.Get("X-Lethe-Job-State"); a.status != http.StatusNoContent || (state != "RUNNING" && state != "PENDING") {
			w.t.Errorf("the waiting drop got %d, state %q: %s", a.status, state, a.body)
		}
		if left := countFiles(w.dirOf("victim")); left == 0 {
			w.t.Error("the purge was over before the server ended: this test shows nothing")
		}
		w.up()
		if j := w.ends(a.header.Get("X-Lethe-Job"), client.Succeeded); j.Attempts != 0 || j.LastError != "" {
			w.t.Errorf("the shutdown counts as a failure: %d attempts, %s", j.Attempts, j.LastError)
		}
		w.wantPurged(victim, "victim", before)
		w.wantOneRow("victim", client.Succeeded)
	})
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(w *world) {
		w.upTo("DATA.delete") // a purge that hears no signal
		w.namespace()
		w.neighbours()
		victim := w.table("victim")
		before := w.tree(victim)
		job := w.drop("victim")
		w.reached()
		w.signal(syscall.SIGTERM)
		w.logs("draining", 1)
		began := time.Now()
		w.signal(syscall.SIGTERM)
		<-w.server.Done()
		if took := time.Since(began); took > drain {
			w.t.Errorf("the second signal took %s", took)
		}
		w.up()
		w.ends(job, client.Succeeded)
		w.wantPurged(victim, "victim", before)
		w.wantOneRow("victim", client.Succeeded)
	})
}

func TestSecondServerOnOneFolderIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "") // SQLite in the data folder
	w.up()
	w.namespace()
	w.table("t")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	second := exec.CommandContext(ctx, proc.Binary(t), "serve", "--data", w.data, "--listen", "127.0.0.1:0")
	out, err := second.CombinedOutput()
	if code := second.ProcessState.ExitCode(); err == nil || code != 1 && code != 2 {
		t.Errorf("the second server ended with %d (%v)", code, err)
	}
	if text := string(out); !strings.Contains(text, "another server") || !strings.Contains(text, w.data) || len(strings.Split(text, "\n")) > 5 {
		t.Errorf("the second server said:\n%s\nwant a line that names the folder and says that another server has it", text)
	}
	w.load("t")
	// The first one is still found by its address, and stops as it should.
	w.server.WaitReady(t)
}
