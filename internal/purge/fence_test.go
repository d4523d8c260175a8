package purge_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lethe-project/lethe/internal/blob/faulty"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// A worker that loses its lease while a batch is on the wire sends no other.
func TestLeaseLostWhileABatchIsOnTheWire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	table := w.table(w.builder("t", purgetest.Options{}).Append(20))
	r := w.job(table)
	gate := w.bucket.Hold(faulty.Delete)
	ctx, lose := context.WithCancelCause(t.Context())
	ended := make(chan error)
	s := &session{t: t, row: r}
	go func() {
		ended <- purge.NewWalker(purge.Config{BatchSize: 2, InFlight: 1}, w, w.pool).Run(ctx, r.Job, s)
	}()
	<-gate.Entered()
	lose(job.ErrLeaseLost)
	gate.Open()
	if err := <-ended; !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("got %v", err)
	}
	if n := w.bucket.Counts().DeleteKeys; n > 2 {
		t.Errorf("%d keys were sent", n)
	}
	if r.progress.Files != 0 {
		t.Errorf("progress %+v was saved without a lease", r.progress)
	}
}

// A stop that keeps the lease lets the batch on the wire settle and keeps its counts.
func TestShutdownWhileABatchIsOnTheWire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.job(w.table(w.builder("t", purgetest.Options{}).Append(20)))
	gate := w.bucket.Hold(faulty.Delete)
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan error)
	s := &session{t: t, row: r}
	go func() {
		ended <- purge.NewWalker(purge.Config{BatchSize: 2, InFlight: 1}, w, w.pool).Run(ctx, r.Job, s)
	}()
	<-gate.Entered()
	s.lose(job.ErrShutdown)
	gate.Open()
	if err := <-ended; !errors.Is(err, job.ErrShutdown) {
		t.Errorf("got %v", err)
	}
	stop(nil)
	if r.progress.Files != 2 || r.Cursor == "0:0:0" {
		t.Errorf("cursor %s, progress %+v, want the 2 files of the batch", r.Cursor, r.progress)
	}
}

// Many jobs share one pool; none loses a batch when it is full.
func TestManyJobsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var rows []*row
	for i := range 12 {
		b := w.builder(fmt.Sprintf("t%d", i), purgetest.Options{})
		rich(b)
		rows = append(rows, w.job(w.table(b)))
	}
	var running sync.WaitGroup
	for _, r := range rows {
		running.Go(func() {
			if err := w.run(r, purge.Config{BatchSize: 1, InFlight: 6}); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if left := w.tree(); len(left) != 0 {
		t.Errorf("left: %v", keys(left))
	}
}

func TestHostilePathsOnLocalDisk(t *testing.T) {
	t.Parallel()
	w := newLocalWorld(t)
	siblings(w, true)
	outside := filepath.Join(filepath.Dir(w.dir), "outside.txt")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(w.dir, "t", "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	before := w.tree() // links to elsewhere can not be read
	for name, to := range map[string]string{"link": filepath.Dir(w.dir), "beside": filepath.Join(w.dir, "t2")} {
		if err := os.Symlink(to, filepath.Join(w.dir, "t", "data", name)); err != nil {
			t.Fatal(err)
		}
	}
	var victims []string // files of t2, by way of a link inside the table
	for uri := range before {
		if rel, ok := strings.CutPrefix(uri, w.root()+"/t2/"); ok {
			victims = append(victims, w.root()+"/t/data/beside/"+rel)
		}
	}
	paths := append([]string{
		outside, "file://" + outside, "file:" + outside, w.dir, w.dir + "/", w.dir + "/../outside.txt",
		w.root() + "/t/../stray", w.root() + "/t/data/link/outside.txt", w.root() + "/t", w.root() + "/t/", w.root() + "/t/data",
		"/etc/passwd", "/", "", "file://otherhost" + w.dir + "/t/a", "data/relative", w.root() + "/t/nested/../../t2",
	}, victims...)
	var named []string
	for _, p := range paths {
		if p != "" {
			named = append(named, p)
		}
	}
	table := w.table(w.builder("t", purgetest.Options{}).Append(3).Name(named...))
	r := w.job(table)
	err := w.run(r, purge.Config{DeleteOutside: true})
	for _, uri := range keys(before) {
		_, statErr := os.Stat(strings.TrimPrefix(uri, "file://"))
		if statErr != nil && uri != w.root()+"/stray" { // nobody's, and deleting it was opted in
			t.Error(statErr)
		}
	}
	if _, statErr := os.Stat(outside); statErr != nil {
		t.Error(statErr)
	}
	// Directories and links are no files that could be proven gone: the job says so, and
	// that the directories above could not be looked at.
	if !errors.Is(err, purge.ErrUnsettled) || int(r.progress.Failed) < len(victims)+2 || r.progress.Directories == 0 {
		t.Errorf("got %v, %d failed of %d, %d directories: %v", err, r.progress.Failed, len(victims)+2, r.progress.Directories, r.progress.Samples)
	}
}
