package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lethe-project/lethe/internal/job"
)

// Trees are the half of deletes that is swept from the drive: this file makes them, deletes
// them through whichever server answers, and says what must remain.

// parents hold the trees, and much that stays beside them.
var parents = []string{"/p0", "/p1", "/p2", "/p3"}

// tree is a directory that will be deleted.
type tree struct {
	path   string
	inode  int64
	nodes  int // made in it; writers add a few
	match  bool
	async  bool
	answer string // the job that an answer named, if any did

	files  map[string]string // path → bytes; never changed
	empty  []string          // directories
	links  [][2]string       // file, second name
	copies [][2]string
}

// small says that one transaction may delete it, without a job.
func (t *tree) small() bool { return t.nodes <= sweepBatch }

func (t *tree) file(format string, args ...any) string {
	name := t.path + "/" + fmt.Sprintf(format, args...)
	t.files[name] = bytesOf(name, len(t.files)%4 == 0)
	return name
}

// bytesOf are bytes that no other name has; those of an object do not fit into a row.
func bytesOf(name string, object bool) string {
	if object {
		return strings.Repeat(name+"\n", 2*inlineBytes/len(name)+2)
	}
	return name[max(0, len(name)-inlineBytes):]
}

// treeShapes are what trees look like; all but the first are larger than a batch.
var treeShapes = []struct {
	name string
	grow func(t *tree)
}{
	{"small", func(t *tree) {
		for i := range 8 {
			t.file("d%d/f%d", i%3, i)
		}
	}},
	{"flat", func(t *tree) {
		for i := range 150 {
			t.file("f%03d", i)
		}
	}},
	{"deep", func(t *tree) {
		at := ""
		for i := range 60 {
			at += fmt.Sprintf("d%d/", i)
			if i%2 == 1 {
				t.file("%sf", at)
			}
		}
	}},
	{"bushy", func(t *tree) {
		for i := range 64 { // the leaves of a binary tree
			t.file("%d/%d/%d/%d/%d/%d/f", i&1, i>>1&1, i>>2&1, i>>3&1, i>>4&1, i>>5&1)
		}
	}},
	{"wide", func(t *tree) {
		for i := range 120 {
			t.file("d%02d/f%d", i/10, i%10)
		}
	}},
	{"linked", func(t *tree) {
		for i := range 40 {
			f := t.file("d%d/f%02d", i%5, i)
			switch i % 4 {
			case 0: // in the tree, in one directory and in another
				t.links = append(t.links, [2]string{f, f + "-link"}, [2]string{f, fmt.Sprintf("%s/d%d/of-%02d", t.path, (i+1)%5, i)})
			case 1: // out of it
				t.links = append(t.links, [2]string{f, fmt.Sprintf("%s-kept-link-%02d", t.path, i)})
			case 2:
				t.copies = append(t.copies, [2]string{f, f + "-copy"})
			default:
				t.copies = append(t.copies, [2]string{f, fmt.Sprintf("%s-kept-copy-%02d", t.path, i)})
			}
		}
	}},
	{"empty directories", func(t *tree) {
		for i := range 70 {
			t.empty = append(t.empty, fmt.Sprintf("%s/e%d/d%02d", t.path, i%7, i))
		}
	}},
}

func newTree(number int) *tree {
	t := &tree{
		path: fmt.Sprintf("%s/tree-%02d", parents[number%len(parents)], number), files: map[string]string{},
		match: number%3 == 0, async: number%2 == 0,
	}
	treeShapes[number%len(treeShapes)].grow(t)
	inside := map[string]bool{}
	for _, path := range slices.Concat(slices.Collect(maps.Keys(t.files)), t.empty, t.others()) {
		for ; strings.HasPrefix(path+"/", t.path+"/"); path = path[:strings.LastIndexByte(path, '/')] {
			inside[path] = true
		}
	}
	t.nodes = len(inside)
	return t
}

// others are the names that links and copies make.
func (t *tree) others() (names []string) {
	for _, pair := range slices.Concat(t.links, t.copies) {
		names = append(names, pair[1])
	}
	return names
}

// kept are the files outside that share bytes with those inside.
func (t *tree) kept() map[string]string {
	all := map[string]string{}
	for _, pair := range slices.Concat(t.links, t.copies) {
		if !strings.HasPrefix(pair[1], t.path+"/") {
			all[pair[1]] = t.files[pair[0]]
		}
	}
	return all
}

// plant makes trees, and returns what stays of what it made.
func (w *world) plant(trees []*tree) (stays map[string]string) {
	w.t.Helper()
	stays = map[string]string{}
	var puts, rest []func(ctx context.Context, n *node) error
	ask := func(list *[]func(ctx context.Context, n *node) error, method, target, body string) {
		*list = append(*list, func(ctx context.Context, n *node) error {
			if x := w.ask(ctx, n, siblingObject, method, target, body); x.status/100 != 2 {
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

// settleTrees waits until no delete is on its way, the collector is through, and all is
// counted; it fails the test for a job that did not succeed.
func (w *world) settleTrees(limit time.Duration) {
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
		if n := w.count(`SELECT COUNT(*) FROM file_gc_tasks`); n > 0 {
			open = append(open, fmt.Sprintf("%d objects to collect", n))
		}
		if n := w.count(`SELECT COUNT(*) FROM usage_delta`); n > 0 {
			open = append(open, fmt.Sprintf("%d changes to count", n))
		}
		if len(open) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-over:
			w.t.Fatalf("not over after %s of calm: %s", limit, strings.Join(open, "; "))
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
