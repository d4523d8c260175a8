package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/lethe-project/lethe/internal/drive/drivetest"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

const (
	deletesOfARound = 20
	// The way to the database, so that a sweep takes seconds and harm comes to it.
	databaseLatency = time.Millisecond
	// Writes in ten minutes of chaos on both databases; shorter ones have their share.
	leastWrites = 10_000
)

// TestTreeChaos is TestChaos for trees of the drive, which are deleted while others write
// beside them: the same harm, and nothing of it shows to them.
func TestTreeChaos(t *testing.T) {
	total, seed := settings(t)
	onServers(t, func(t *testing.T, db sqldbtest.Server) {
		writes, harmed := 0, 0
		least := int(leastWrites * total / 2 / (10 * time.Minute))
		rounds(t, total/2, seed, func(t *testing.T, length time.Duration, seed uint64) {
			v := runTreeRound(t, db, length, seed)
			writes, harmed = writes+v.writes, harmed+len(v.excused)
		}, func() string {
			switch {
			case writes < least:
				return fmt.Sprintf("%d writes beside the deletes, want %d", writes, least)
			case harmed == 0:
				return "no request met any harm"
			}
			return ""
		})
	})
}

func runTreeRound(t *testing.T, db sqldbtest.Server, length time.Duration, seed uint64) answered {
	t.Helper()
	w := newWorld(t, db, config{latency: 20 * time.Millisecond, drive: true})
	events := plan{nodes: len(w.nodes), drops: deletesOfARound, length: length, timeout: w.cfg.timeout}.schedule(seed)
	trees := make([]*tree, deletesOfARound)
	nodes := 0
	for i := range trees {
		trees[i] = newTree(i)
		nodes += trees[i].nodes
	}
	planted := time.Now()
	stays := w.plant(trees)
	w.drive.log = nil
	for _, n := range w.nodes {
		n.database.far(databaseLatency)
	}
	t.Logf("%s=%d, %s, %d events, %d trees of %d nodes, made in %s", envSeed, seed, length, len(events), len(trees), nodes, time.Since(planted).Round(time.Millisecond))
	for _, e := range events {
		t.Log(e)
	}

	ctx, cancel := context.WithTimeout(t.Context(), length+2*patience)
	defer cancel()
	deletes := &deleting{again: map[string]string{}}
	writers := make([]*writer, siblingWriters)
	stop := make(chan struct{})
	var writing errgroup.Group
	for i := range writers {
		writers[i] = newWriter(w, i, seed, trees)
		writing.Go(func() error { return writers[i].run(ctx, stop) })
	}
	start := time.Now()
	for _, e := range events {
		w.pause(start.Add(e.at))
		if e.what == drop {
			deletes.begin(ctx, w, trees[e.number], e.node)
			continue
		}
		w.apply(e)
	}
	w.pause(start.Add(length))
	close(stop)
	w.calm()
	calm := time.Now()
	if err := writing.Wait(); err != nil {
		t.Error(err)
	}
	if err := deletes.group.Wait(); err != nil {
		t.Error(err)
	}
	answeredAll := time.Since(calm)
	last := w.settleTrees(length + patience)
	t.Logf("all clients had their answers %s after the chaos; all was swept, collected and counted after %s, at last: %s",
		answeredAll.Round(time.Millisecond), time.Since(calm).Round(time.Millisecond), last)

	v := answers{w.drive.log, w.notes, w.watch.seen()}.check()
	w.complain("answers", v.violations)
	maps.Copy(stays, deletes.again)
	w.wantTrees(trees, stays, writers)
	jobs, broken := w.treeJobs(), 0
	for _, r := range jobs {
		if r.epoch > 1 {
			broken++
		}
	}
	t.Logf("%d writes beside %d deletes with %d jobs, %d of them continued by another run; requests without a good answer: %v; harm of the store: %s",
		v.writes, len(trees), len(jobs), broken, v.excused, w.store.harm())
	for _, x := range v.unknown {
		t.Log(x)
	}
	return v
}

// complain fails the test for problems.
func (w *world) complain(what string, problems []string) {
	w.t.Helper()
	if len(problems) > 0 {
		more := ""
		if n := len(problems); n > 20 {
			problems, more = problems[:20], fmt.Sprintf("\nand %d more", n-20)
		}
		w.t.Errorf("%s:\n%s%s", what, strings.Join(problems, "\n"), more)
	}
}

// wantTrees asserts that of the deleted trees nothing is left, and of all else everything.
func (w *world) wantTrees(trees []*tree, stays map[string]string, writers []*writer) {
	w.t.Helper()
	for _, p := range w.treeProblems(trees, stays, writers) {
		w.complain(p.what, p.found)
	}
}

// finding is what one look has found wrong.
type finding struct {
	what  string
	found []string
}

// treeProblems looks at a settled drive from all sides; only looks that found something
// are in its answer.
func (w *world) treeProblems(trees []*tree, stays map[string]string, writers []*writer) (all []finding) {
	w.t.Helper()
	ctx := w.t.Context()
	add := func(what string, found ...string) {
		if len(found) > 0 {
			all = append(all, finding{what, found})
		}
	}
	add("jobs", jobProblems(trees, w.treeJobs())...)
	for _, n := range w.nodes {
		add(fmt.Sprintf("what server %d shows", n.number), leftovers(w.visible(n), stays, writers)...)
	}
	d := w.at(w.nodes[0])
	if report, err := d.Check(ctx); err != nil {
		add("check", err.Error())
	} else if !report.OK {
		add("check", fmt.Sprintf("%+v", report))
	}
	found, err := d.DryReconcile(ctx)
	if err != nil {
		add("reconcile", err.Error())
	}
	for _, class := range slices.Sorted(maps.Keys(found)) {
		if found[class] != 0 {
			add("reconcile", fmt.Sprintf("%d of %s", found[class], class))
		}
	}
	if metric, lines := w.orphansFound(); metric != 0 || lines != 0 {
		add("metrics", fmt.Sprintf("orphans found: %v, lines about it in logs: %d", metric, lines))
	}
	keys, err := w.drive.keys(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if diff := cmp.Diff(w.objectRows(), keys); diff != "" {
		add("objects (-rows +bucket)", diff)
	}
	add("rows", drivetest.Find(w.t, w.sql, w.count(`SELECT MIN(fs_id) FROM fs_lock`))...)
	return all
}
