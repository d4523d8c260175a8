package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Trees are the half of deletes that is swept from the drive: this file makes them, deletes
// them through whichever server answers, and says what must remain of their jobs.

// plant makes trees, and returns what stays of what it made.
func (w *world) plant(trees []*tree) (stays map[string]string) {
	w.t.Helper()
	stays = map[string]string{}
	var puts, rest []func(ctx context.Context, n *node) error
	ask := func(list *[]func(ctx context.Context, n *node) error, method, target, body string) {
		*list = append(*list, func(ctx context.Context, n *node) error {
			x := w.ask(ctx, n, siblingObject, method, target, body)
			for x.status == http.StatusServiceUnavailable && x.retryAfter && ctx.Err() == nil { // surely not made
				<-time.After(100 * time.Millisecond)
				x = w.ask(ctx, n, siblingObject, method, target, body)
			}
			if x.status/100 != 2 {
				return fmt.Errorf("make: %s", x)
			}
			return nil
		})
	}
	for _, t := range trees {
		for path, body := range t.files {
			ask(&puts, http.MethodPut, fsTarget(path, ""), body)
		}
		for _, path := range t.empty {
			ask(&puts, http.MethodPost, fsTarget(path, "op=mkdir"), `{"parents":true}`)
		}
		for _, pair := range t.links {
			ask(&rest, http.MethodPost, fsTarget(pair[0], "op=link"), toBody(pair[1]))
		}
		for _, pair := range t.copies {
			ask(&rest, http.MethodPost, fsTarget(pair[0], "op=copy"), toBody(pair[1]))
		}
		maps.Copy(stays, t.kept())
		// Names that the trees' begin or continue.
		for _, path := range []string{t.path + "x/f", t.path + ".txt", strings.TrimSuffix(t.path, t.path[len(t.path)-1:]) + "_", strings.ToUpper(t.path) + "/f"} {
			if _, made := stays[path]; !made {
				stays[path] = bytesOf(path, true)
				ask(&puts, http.MethodPut, fsTarget(path, ""), stays[path])
			}
		}
	}
	for _, list := range [][]func(ctx context.Context, n *node) error{puts, rest} {
		group, ctx := errgroup.WithContext(w.t.Context())
		group.SetLimit(8)
		for i, do := range list {
			group.Go(func() error { return do(ctx, w.nodes[i%len(w.nodes)]) })
		}
		if err := group.Wait(); err != nil {
			w.t.Fatal(err)
		}
	}
	d := w.at(w.nodes[0])
	for _, t := range trees {
		e, err := d.Stat(w.t.Context(), t.path)
		if err != nil {
			w.t.Fatal(err)
		}
		t.inode = e.Inode
	}
	return stays
}

// deleting is the deletes that clients have begun.
type deleting struct {
	group errgroup.Group

	mu    sync.Mutex
	again map[string]string // what was made where trees had been: path → bytes
}

// begin deletes a tree, first through the server first and then through any, until the
// answer is clear. Where the request named the tree's inode, another one takes its place
// then, which the same request must not touch.
func (d *deleting) begin(ctx context.Context, w *world, t *tree, first int) {
	d.group.Go(func() error {
		header := []string{"Prefer", "wait=5"}
		if t.async {
			header[1] = "respond-async"
		}
		if t.match {
			header = append(header, "If-Match", fmt.Sprintf("%q", fmt.Sprint(t.inode)))
		}
		target := fsTarget(t.path, "recursive=true")
		x, doubt, err := w.persist(ctx, first, treeDelete, http.MethodDelete, target, "", header...)
		if err != nil {
			return err
		}
		if x.status != http.StatusOK && x.status != http.StatusAccepted && (x.status != http.StatusNotFound || !doubt) {
			return fmt.Errorf("delete: %s", x)
		}
		var removed struct{ Job string }
		if json.Unmarshal([]byte(x.body), &removed) == nil {
			t.answer = removed.Job
		}
		if !t.match {
			return nil
		}
		path := t.path + "/again"
		made := bytesOf(path, true)
		if x, _, err = w.persist(ctx, first, siblingObject, http.MethodPut, fsTarget(path, ""), made); err != nil {
			return err
		}
		if x.status/100 != 2 {
			return fmt.Errorf("where a tree was: %s", x)
		}
		d.mu.Lock()
		d.again[path] = made
		d.mu.Unlock()
		if x, _, err = w.persist(ctx, first, treeDelete, http.MethodDelete, target, "", header...); err != nil {
			return err
		}
		if x.status != http.StatusPreconditionFailed {
			return fmt.Errorf("a delete of the tree before: %s", x)
		}
		return nil
	})
}

// After an outage the collector waits for half a minute, which shows nothing here.
const collectNow sqldb.Statement = `UPDATE file_gc_tasks SET due_at = 0 WHERE last_error <> '' AND due_at > 0`

// settleTrees waits until no delete is on its way, the collector is through, and all is
// counted; it fails the test for a job that did not succeed. It returns what came last.
func (w *world) settleTrees(limit time.Duration) (last string) {
	w.t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(limit); ; {
		var open []string
		for _, r := range w.treeJobs() {
			switch {
			case r.state == job.Succeeded:
			case r.state.Ended():
				w.t.Fatalf("%+v", r)
			default:
				open = append(open, fmt.Sprintf("%+v", r))
			}
		}
		if _, err := w.sql.Exec(w.t.Context(), collectNow); err != nil {
			w.t.Fatal(err)
		}
		if n := w.count(`SELECT COUNT(*) FROM file_gc_tasks`); n > 0 {
			open = append(open, fmt.Sprintf("%d objects to collect", n))
		}
		if n := w.count(`SELECT COUNT(*) FROM usage_delta`); n > 0 {
			open = append(open, fmt.Sprintf("%d changes to count", n))
		}
		if len(open) == 0 {
			return last
		}
		last = strings.Join(open, "; ")
		select {
		case <-tick.C:
		case <-over:
			w.t.Fatalf("not over after %s of calm: %s", limit, last)
		}
	}
}

// jobProblems says what is wrong with the rows of deletes: a large tree that was deleted
// has exactly one, a small one at most one, nothing else has any.
func jobProblems(trees []*tree, rows []treeRow) (problems []string) {
	byRoot := map[int64][]treeRow{}
	for _, r := range rows {
		byRoot[r.root] = append(byRoot[r.root], r)
		if r.state != job.Succeeded {
			problems = append(problems, fmt.Sprintf("the job of %s is %s: %s", r.path, r.state, r.problem))
		}
	}
	for _, t := range trees {
		of := byRoot[t.inode]
		delete(byRoot, t.inode)
		if len(of) > 1 || len(of) == 0 && !t.small() {
			problems = append(problems, fmt.Sprintf("the tree %s of %d nodes has %d jobs", t.path, t.nodes, len(of)))
			continue
		}
		if len(of) == 0 {
			continue
		}
		if of[0].path != t.path {
			problems = append(problems, fmt.Sprintf("the job of %s says %s", t.path, of[0].path))
		}
		if name := fmt.Sprintf("delete-%d", of[0].id); t.answer != "" && t.answer != name {
			problems = append(problems, fmt.Sprintf("the delete of %s was answered with %s and is %s", t.path, t.answer, name))
		}
	}
	for _, of := range byRoot {
		problems = append(problems, fmt.Sprintf("a job of what nobody deleted: %+v", of))
	}
	return problems
}
