package removal_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// conflicts are errors as the engine itself tells a deadlock and the end of a wait for a lock.
func (w *world) conflicts() map[string]error {
	w.t.Helper()
	raise := map[string]sqldb.Statement{
		"deadlock":  "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'of the test'",
		"lock wait": "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'of the test'",
	}
	switch w.db.Dialect().Name {
	case sqldb.SQLite:
		return map[string]error{"busy": sqliteBusy(w.t)}
	case sqldb.Postgres:
		raise["deadlock"] = "DO $$ BEGIN RAISE EXCEPTION 'of the test' USING ERRCODE = '40P01'; END $$"
		raise["lock wait"] = "DO $$ BEGIN RAISE EXCEPTION 'of the test' USING ERRCODE = '55P03'; END $$"
	case sqldb.MySQL:
	}
	all := map[string]error{}
	for name, s := range raise {
		var cause error
		_ = w.db.Tx(w.t.Context(), func(tx *sqldb.Tx) error {
			_, cause = tx.Exec(w.t.Context(), s)
			return errors.New("enough")
		})
		class := w.db.Dialect().Classify(cause)
		if want := map[string]sqldb.Class{"deadlock": sqldb.ClassRetry, "lock wait": sqldb.ClassLockWait}[name]; class != want {
			w.t.Fatalf("%s is of class %d: %v", name, class, cause)
		}
		all[name] = cause
	}
	return all
}

// sqliteBusy is what the second writer of a database is told.
func sqliteBusy(t *testing.T) error {
	t.Helper()
	file, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "busy.db"))
	must(t, err)
	defer func() { must(t, file.Close()) }()
	begin := func() (*sql.Conn, error) {
		conn, err := file.Conn(t.Context())
		must(t, err)
		_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
		return conn, err
	}
	first, err := begin()
	must(t, err)
	second, busy := begin()
	if busy == nil {
		t.Fatal("two writers at once")
	}
	must(t, errors.Join(first.Close(), second.Close()))
	return busy
}

// outside are the steps that are not in a transaction.
var outside = []string{"sweep.between", "sweep.gathered", "sweep.begin"}

// TestConflicts lets every step of every delete meet the engine's deadlocks and lock waits,
// those of one transaction in two runs, since it is tried four times: it runs again as a
// whole, and what it had collected is forgotten.
func TestConflicts(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 6}, func(t *testing.T, base *world) {
		n := 0
		for name, conflict := range base.conflicts() {
			for half := range 2 {
				n++
				t.Run(fmt.Sprint(name, " ", half), func(t *testing.T) { // one after the other: retries are counted
					w := base.beside(t, n)
					w.clash(conflict, half)
				})
			}
		}
	})
}

func (w *world) clash(conflict error, half int) {
	w.t.Helper()
	ctx := w.t.Context()
	w.bushy("/t")
	w.put("/small/a", "/small/d/b", "/f", "/back/x")
	var mu sync.Mutex // a sweep that was waited for may not have come quite to its end
	met, clashes := map[string]bool{}, 0
	step := func(_ context.Context, step string) error {
		mu.Lock()
		defer mu.Unlock()
		if met[step] || slices.Contains(outside, step) {
			return nil
		}
		met[step] = true
		if len(met)%2 == half {
			return nil
		}
		clashes++
		return conflict
	}
	m := w.with(func(c *removal.Config) { c.Step = step })
	retries := w.db.Retries()
	res, err := m.RemoveAll(ctx, w.request("/small"))
	must(w.t, err)
	// Where the locks are hard to get, the tree is detached; else it goes at once.
	fast := w.db.Dialect().Classify(conflict) != sqldb.ClassLockWait
	if (res.Job == 0) != fast || res.State != job.Succeeded || res.Counts.Nodes() != 4 {
		w.t.Errorf("small tree: %+v", res)
	}
	id, _, err := m.Detach(ctx, w.request("/t"))
	must(w.t, err)
	if err := m.Sweep(ctx, w.claim(m.Jobs(), id)); !errors.Is(err, job.ErrEnded) {
		w.t.Fatal(err)
	}
	if j := w.job(id); j.State != job.Succeeded || j.Counts.Files != 17 || j.Counts.Directories != 7 {
		w.t.Errorf("%s, %+v", j.State, j.Counts)
	}
	trash := w.with(func(c *removal.Config) { c.Step, c.TrashRetention = step, time.Hour })
	var ids []job.ID
	for _, p := range []string{"/f", "/back"} {
		res, err := trash.RemoveAll(ctx, w.request(p))
		must(w.t, err)
		ids = append(ids, res.Job)
	}
	w.do(trash.Restore(ctx, w.fs, ids[1], nil, "test"))
	w.do(trash.Empty(ctx, w.fs, ids[0]))
	if n, err := trash.SweepFiles(ctx); n != 1 || err != nil {
		w.t.Errorf("%d files went, %v", n, err)
	}
	// A lock that the fast path did not get is not waited for again.
	mu.Lock()
	defer mu.Unlock()
	if got := w.db.Retries() - retries; len(met) < 13 || clashes < len(met)/2 || got < int64(clashes)-1 {
		w.t.Errorf("%d steps, %d of them clashed, %d retries", len(met), clashes, got)
	}
	w.wantPaths("/back/", "/back/x", "/copied", "/outside")
	for _, p := range []string{"/copied", "/outside", "/back/x"} {
		w.read(p)
	}
	w.check()
}

// TestConflictsWithoutEnd are what a delete cannot outlast: it changes nothing, says when to
// come again, and is counted and logged as incomplete. A sweep counts no attempt.
func TestConflictsWithoutEnd(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 3}, func(t *testing.T, w *world) {
		conflict := slices.Collect(maps.Values(w.conflicts()))[0]
		w.put("/t/a", "/t/b", "/t/c", "/t/d", "/u/x")
		before := w.paths(w.fs, "/")
		m, reg, log := w.watched(func(c *removal.Config) {
			c.Step = func(_ context.Context, step string) error {
				if strings.HasPrefix(step, "fast.") || strings.HasPrefix(step, "detach.") || step == "sweep.deleted" {
					return conflict
				}
				return nil
			}
		})
		for _, p := range []string{"/t", "/u"} {
			_, err := m.RemoveAll(t.Context(), w.request(p))
			wantKind(t, err, fault.Busy, removal.CodeDeleteIncomplete)
			if fault.RetryAfter(err) <= 0 {
				t.Errorf("no time to come again in %v", err)
			}
		}
		w.wantPaths(before...)
		if n := strings.Count(log.String(), "outcome=incomplete"); n != 2 {
			t.Errorf("the log has it %d times:\n%s", n, log)
		}
		if n := w.incomplete(reg, "lock_wait"); n < 2 {
			t.Errorf("counted %v times", n)
		}
		id := w.detach("/t")
		r := w.claim(w.removal.Jobs(), id)
		err := m.Sweep(t.Context(), r)
		if _, outage := errors.AsType[*job.OutageError](err); !outage {
			t.Errorf("the sweep ended with %v", err)
		}
		row, err := w.removal.Jobs().Finish(t.Context(), r.row.Lease(), err)
		if err != nil || row.State != job.Pending || row.Attempts != 0 {
			t.Errorf("the job is %s after %d attempts, %v", row.State, row.Attempts, err)
		}
		w.start()
		w.awaitJob(id)
		w.wantPaths("/u/", "/u/x")
		w.check()
	})
}

// TestOutcomes are the other words of the log's line about a delete, and what is counted of
// sweeps that stop before their end.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	cfg := jobtest.Config()
	cfg.MaxAttempts = 1
	each(t, removal.Config{BatchSize: 5, Job: cfg}, func(t *testing.T, w *world) {
		ctx := t.Context()
		m, _, log := w.watched(func(c *removal.Config) {
			c.Step = func(_ context.Context, step string) error {
				if step == "sweep.locked" {
					return errCrash
				}
				return nil
			}
		})
		for _, top := range []string{"/a", "/b", "/c"} {
			w.plant(w.fs, top, names("f", 30)...)
		}
		req := w.request("/a")
		req.Wait = -1
		res, err := m.RemoveAll(ctx, req)
		must(t, err)
		w.wantLine(log.String(), "outcome=incomplete", "path=/a", "job=delete-")
		failed, err := m.RemoveAll(ctx, w.request("/b"))
		if err != nil || failed.State != job.Failed {
			t.Errorf("%+v, %v", failed, err)
		}
		w.wantLine(log.String(), "outcome=error", "path=/b", "job=delete-")

		// What sweeps say when they stop.
		claimed := w.claim(w.removal.Jobs(), w.detach("/c"))
		cancelling, reg, _ := w.watched(func(c *removal.Config) {
			c.Step = func(_ context.Context, step string) error {
				if step == "sweep.between" {
					cancel(w, claimed.row.ID)
				}
				return nil
			}
		})
		if err := cancelling.Sweep(ctx, claimed); !errors.Is(err, job.ErrCancelled) {
			t.Errorf("cancelled: %v", err)
		}
		if n := w.incomplete(reg, "cancelled"); n != 1 {
			t.Errorf("cancelled counts %v", n)
		}
		yielding, reg, log := w.watched(nil)
		claimed = w.claim(w.removal.Jobs(), res.Job)
		claimed.due, claimed.yield = true, true
		if err := yielding.Sweep(ctx, claimed); !errors.Is(err, job.ErrYield) {
			t.Errorf("yielded: %v", err)
		}
		if n := w.incomplete(reg, "quantum"); n != 1 {
			t.Errorf("quantum counts %v", n)
		}
		claimed.due, claimed.yield = false, false
		if err := yielding.Sweep(ctx, claimed); !errors.Is(err, job.ErrEnded) {
			t.Errorf("ended: %v", err)
		}
		w.wantLine(log.String(), "outcome=ok", "path=/a", "nodes=31")
		w.check()
	})
}

// incomplete is how often a delete stopped for a reason.
func (w *world) incomplete(reg *prometheus.Registry, reason string) (n float64) {
	w.t.Helper()
	families, err := reg.Gather()
	must(w.t, err)
	for _, f := range families {
		if f.GetName() != "lethe_delete_dir_recursive_incomplete_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == reason {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// wantLine expects one line about a delete that has all of the texts.
func (w *world) wantLine(log string, texts ...string) {
	w.t.Helper()
	n := 0
	for line := range strings.Lines(log) {
		if !slices.ContainsFunc(append(texts, "msg=delete "), func(text string) bool { return !strings.Contains(line, text) }) {
			n++
		}
	}
	if n != 1 {
		w.t.Errorf("%d lines with %q in\n%s", n, texts, log)
	}
}
