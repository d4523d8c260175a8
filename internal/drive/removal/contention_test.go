package removal_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// watched is a removal whose metrics and log can be read.
func (w *world) watched(change func(*removal.Config)) (*removal.Removal, *prometheus.Registry, *lines) {
	reg, log := prometheus.NewRegistry(), &lines{}
	m := w.with(func(c *removal.Config) {
		c.Registerer, c.Logger = reg, slog.New(slog.NewTextHandler(log, nil))
		if change != nil {
			change(c)
		}
	})
	return m, reg, log
}

// lines is a log that is read while a sweep may still write to it: a request that waited for
// one goes on as soon as the row says that it has ended.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write adds a line.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is the log so far.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await waits for n lines that hold a text.
func (l *lines) await(t *testing.T, n int, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), forEver)
	defer cancel()
	for strings.Count(l.String(), text) < n {
		select {
		case <-ctx.Done():
			t.Fatalf("not %d times %q in\n%s", n, text, l)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func wantMetrics(t *testing.T, reg *prometheus.Registry, lines ...string) {
	t.Helper()
	families, err := reg.Gather()
	must(t, err)
	got := map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if c := m.GetCounter(); c != nil {
				got[strings.TrimSpace(f.GetName()+" "+strings.Join(labels, " "))] = fmt.Sprint(c.GetValue())
			}
		}
	}
	for _, line := range lines {
		at := strings.LastIndexByte(line, ' ')
		if name := line[:at]; got[name] != line[at+1:] {
			t.Errorf("%s is %q, want %q", name, got[name], line[at+1:])
		}
	}
}

// counted is a counter without labels.
func counted(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Errorf("there is no %s", name)
	return 0
}

// TestMetricsAndLog counts a delete and says one line about it.
func TestMetricsAndLog(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 10}, func(t *testing.T, w *world) {
		ctx := t.Context()
		m, reg, log := w.watched(nil)
		w.plant(w.fs, "/t", append(names("f", 25), wide(3, 2)...)...)
		w.plant(w.fs, "/small", "f")
		_, err := m.RemoveAll(ctx, w.request("/small"))
		must(t, err)
		res, err := m.RemoveAll(ctx, w.request("/t"))
		must(t, err)
		if res.State != job.Succeeded || res.Counts.Nodes() != 25+9+1 {
			t.Errorf("result %+v", res)
		}
		log.await(t, 2, "msg=delete ")
		wantMetrics(t, reg,
			"lethe_delete_dir_recursive_nodes_deleted_total 37", "lethe_delete_dir_recursive_lift_tx_total 1", "lethe_delete_dir_recursive_batches_total 4",
			"lethe_delete_dir_recursive_orphans_total 0", "lethe_delete_dir_recursive_batch_retries_total 0", "lethe_delete_dir_recursive_incomplete_total quantum 0",
			"lethe_delete_reconcile_orphans_found_total repair detached_root 0", "lethe_delete_jobs_failed_total 0")
		if n := strings.Count(log.String(), "msg=delete"); n != 2 || strings.Count(log.String(), "outcome=ok") != 2 {
			t.Errorf("log:\n%s", log)
		}
		_, err = m.RemoveAll(ctx, w.request("/none"))
		if err == nil || !strings.Contains(log.String(), "outcome=error") {
			t.Errorf("log of an error:\n%s", log)
		}
	})
}

// TestFastPathWaits detaches a small tree in which somebody works for longer than the fast
// path waits, and finds it gone for everyone meanwhile.
func TestFastPathWaits(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{}, func(t *testing.T, w *world) {
		if w.db.Dialect().Name == sqldb.SQLite {
			return // one writer: nobody works in it
		}
		m, reg, _ := w.watched(nil)
		w.put("/t/d/x", "/keep")
		c := w.begin("inserted", 1, "", create("/t/d/new"))
		req := w.request("/t")
		req.Wait = -1
		res, err := m.RemoveAll(t.Context(), req)
		must(t, err)
		if res.Job == 0 || res.State != job.Pending {
			t.Errorf("result %+v", res)
		}
		wantMetrics(t, reg, "lethe_delete_dir_recursive_incomplete_total lock_wait 1")
		w.wantPaths("/keep")
		must(t, c.end()) // before the delete, by overlap
		w.sweep(res.Job)
		w.wantPaths("/keep")
		w.check()
	})
}

// TestMovedAgain runs transactions again that had filled their lists already: counts are
// exact, nothing is deleted twice.
func TestMovedAgain(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 6}, func(t *testing.T, w *world) {
		w.bushy("/t")
		w.put("/small/a", "/small/b")
		moved := map[string]int{}
		m, reg, _ := w.watched(func(c *removal.Config) {
			c.Step = func(_ context.Context, step string) error {
				switch step {
				case "sweep.between", "sweep.gathered", "sweep.begin": // not in a transaction
					return nil
				}
				if moved[step]++; moved[step] <= 2 {
					return tree.ErrMoved
				}
				return nil
			}
		})
		before := w.rows("file_nodes", w.fs)
		id := w.detach("/t")
		err := m.Sweep(t.Context(), w.claim(w.removal.Jobs(), id))
		if !errors.Is(err, job.ErrEnded) {
			t.Fatal(err)
		}
		j := w.job(id)
		if got := before - w.rows("file_nodes", w.fs); int64(got) != j.Counts.Nodes() {
			t.Errorf("%d names went, the job counts %+v", got, j.Counts)
		}
		if n := counted(t, reg, "lethe_delete_dir_recursive_batch_retries_total"); n < 3 {
			t.Errorf("%v retries", n)
		}
		w.check()
		// One that never holds still is said to be incomplete, and nothing changed.
		paths := w.paths(w.fs, "/")
		always := w.with(func(c *removal.Config) {
			c.Step = func(_ context.Context, step string) error {
				if step == "fast.resolved" || step == "detach.resolved" {
					return tree.ErrMoved
				}
				return nil
			}
		})
		_, err = always.RemoveAll(t.Context(), w.request("/small"))
		wantKind(t, err, fault.Busy, removal.CodeDeleteIncomplete)
		if !errors.Is(err, removal.ErrDeleteIncomplete) {
			t.Errorf("got %v", err)
		}
		w.wantPaths(paths...)
		w.check()
	})
}

// TestLateArrivals fills a tree while it is swept, more than a pass takes: all of it goes.
func TestLateArrivals(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 5}, func(t *testing.T, w *world) {
		w.put("/t/a/x", "/t/b/y")
		dir := w.inode("/t/a")
		id := w.detach("/t")
		late := 0
		m, reg, _ := w.watched(func(c *removal.Config) {
			c.Step = func(ctx context.Context, step string) error {
				if step != "sweep.gathered" || late == 24 {
					return nil
				}
				// One that held the directory when the sweep came.
				return w.db.Tx(ctx, func(tx *sqldb.Tx) error {
					if err := w.tree.LockShared(ctx, tx, w.fs, dir); err != nil {
						return err
					}
					for range 8 {
						late++
						n := tree.Node{Parent: dir, Name: fmt.Sprintf("late%d", late), Inode: tree.Inode(1_000_000 + late), Kind: tree.Directory}
						if err := w.tree.Insert(ctx, tx, w.fs, n); err != nil {
							return err
						}
					}
					return nil
				})
			}
		})
		if err := m.Sweep(t.Context(), w.claim(w.removal.Jobs(), id)); !errors.Is(err, job.ErrEnded) {
			t.Fatal(err)
		}
		if late != 24 {
			t.Errorf("%d came late", late)
		}
		if n := counted(t, reg, "lethe_delete_dir_recursive_orphans_total"); n < 8 {
			t.Errorf("%v names came late", n)
		}
		w.wantEmpty()
		w.check()
	})
}

// TestStalled gives up after three passes that could remove nothing, and says so.
func TestStalled(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 5}, func(t *testing.T, w *world) {
		w.put("/t/a/x")
		id := w.detach("/t")
		// An entry whose kind is told wrongly is neither a file nor a directory to a sweep.
		w.exec(1, "UPDATE file_nodes SET is_directory = 2 WHERE fs_id = ? AND inode_id = ?", int64(w.fs), int64(w.fileIn(id)))
		err := w.removal.Sweep(t.Context(), w.claim(w.removal.Jobs(), id))
		if err == nil || errors.Is(err, job.ErrEnded) {
			t.Fatalf("the sweep ended with %v", err)
		}
		if j := w.job(id); j.State != job.Running || j.Counts.Nodes() != 0 {
			t.Errorf("the job is %s, %+v", j.State, j.Counts)
		}
	})
}

// fileIn is the one file of our drive.
func (w *world) fileIn(job.ID) (ino tree.Inode) {
	w.t.Helper()
	must(w.t, w.db.QueryRow(w.t.Context(), "SELECT inode_id FROM inodes WHERE fs_id = ? AND kind = 2", int64(w.fs)).Scan(&ino))
	return ino
}

// TestLargeShapes are the trees that take a while to make.
func TestLargeShapes(t *testing.T) {
	t.Parallel()
	shapes := map[string][]string{
		"1,001 directories with 2 leaf directories": func() (p []string) {
			for _, a := range names("a", 1001) {
				p = append(p, a, a+"/b", a+"/c")
			}
			return p
		}(),
		"2,500 subdirectories that are not empty": func() (p []string) {
			for _, a := range names("a", 2500) {
				p = append(p, a, a+"/f")
			}
			return p
		}(),
		"100,000 files": names("f", 100_000),
		"binary": func() (p []string) {
			level := []string{""}
			for range 11 {
				var next []string
				for _, d := range level {
					for _, c := range []string{"a", "b"} {
						n := strings.TrimPrefix(d+"/"+c, "/")
						p, next = append(p, n, n+"/f1", n+"/f2"), append(next, n)
					}
				}
				level = next
			}
			return p
		}(),
		"chain of 5,000": chainOf(5000, 1),
	}
	each(t, removal.Config{}, func(t *testing.T, w *world) {
		for name, p := range shapes {
			began := time.Now()
			statements, transactions, nodes := w.measure("/t", p)
			t.Logf("%s: %d nodes, %d statements, %d transactions, %s", name, nodes, statements, transactions, time.Since(began).Round(time.Millisecond))
			if most := 2*nodes/500 + 50; transactions > most {
				t.Errorf("%s: %d transactions, want at most %d", name, transactions, most)
			}
			w.wantEmpty()
			w.check()
		}
	})
}

// TestRenamedChain deletes a chain of 5,000 directories that no path is long enough for:
// five chains were renamed into each other.
func TestRenamedChain(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{}, func(t *testing.T, w *world) {
		const chains, depth = 5, 1000
		down := strings.Repeat("/d", depth-1)
		for c := range chains {
			w.put(fmt.Sprintf("/c%d%s/f", c, down))
		}
		for c := chains - 1; c > 0; c-- {
			_, err := w.drive.Rename(t.Context(), w.fs, fmt.Sprintf("/c%d", c), fmt.Sprintf("/c%d%s/c", c-1, down), drive.RenameOptions{})
			must(t, err)
		}
		w.put("/keep")
		req := w.request("/c0")
		req.DryRun = true
		counted, err := w.removal.RemoveAll(t.Context(), req)
		must(t, err)
		id := w.detach("/c0")
		w.sweep(id)
		if got := w.job(id).Counts; got.Directories != chains*depth || got.Files != chains || counted.Counts.Nodes() != got.Nodes() || counted.Counts.Bytes != got.Bytes {
			t.Errorf("counted %+v, deleted %+v", counted.Counts, got)
		}
		w.wantPaths("/keep")
		w.removeAll("/keep")
		w.wantEmpty()
		w.check()
	})
}
