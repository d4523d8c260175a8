package removal_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

func jsonOf(v any) (json.RawMessage, error) { return json.Marshal(v) }

func TestStatements(t *testing.T) {
	t.Parallel()
	sqldbtest.PrepareAll(t, ".", owners, nil)
}

func TestSmallAndLarge(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{}, func(t *testing.T, base *world) {
		base.start()
		for i, tc := range []struct {
			nodes int // the top included
			fast  bool
		}{{2, true}, {999, true}, {1000, true}, {1001, false}, {2500, false}} {
			t.Run(fmt.Sprint(tc.nodes), func(t *testing.T) { // one after the other: commits are counted
				w := base.beside(t, i+1)
				w.put("/keep/a", "/keep/b")
				w.plant(w.fs, "/t", names("f", tc.nodes-1)...)
				before := w.commits.Load()
				res := w.removeAll("/t")
				if n := w.commits.Load() - before; tc.fast && n != 1 {
					t.Errorf("%d commits, want 1", n)
				} else if !tc.fast && n < 3 {
					t.Errorf("%d commits, want more", n)
				}
				if (res.Job == 0) != tc.fast || res.Counts.Nodes() != int64(tc.nodes) || res.Counts.Directories != 1 || (tc.fast && res.Counts.Transactions != 1) {
					t.Errorf("result %+v", res)
				}
				w.wantPaths("/keep/", "/keep/a", "/keep/b")
				w.check()
			})
		}
	})
}

// TestAnswers is what a request is told, in the words of faults and results.
func TestAnswers(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 10}, func(t *testing.T, w *world) {
		ctx := t.Context()
		big := func(top string) tree.Inode { return w.plant(w.fs, top, names("f", 30)...) }
		inode := big("/big")
		w.put("/file", "/d/x")
		_, err := w.removal.RemoveAll(ctx, w.request("/"))
		wantKind(t, err, fault.Invalid, removal.CodeRoot)
		_, err = w.removal.RemoveAll(ctx, w.request("/nothing"))
		wantKind(t, err, fault.NotFound, removal.CodeNoSuchPath)
		_, err = w.removal.RemoveAll(ctx, w.request("/file/below"))
		wantKind(t, err, fault.NotFound, removal.CodeNoSuchPath)

		req := w.request("/big")
		req.Match = func(n tree.Node) bool { return n.Inode == inode+1 }
		_, err = w.removal.RemoveAll(ctx, req)
		wantKind(t, err, fault.Precondition, removal.CodePrecondition)

		req.Match, req.DryRun = nil, true
		res, err := w.removal.RemoveAll(ctx, req)
		must(t, err)
		if res.Counts.Files != 30 || res.Counts.Directories != 1 || res.More || res.Inode != inode || res.Job != 0 {
			t.Errorf("dry run: %+v", res)
		}
		res, err = w.removal.RemoveAll(ctx, w.request("/file"))
		must(t, err)
		if res.Job != 0 || res.State != job.Succeeded || res.Counts.Files != 1 || res.Counts.Nodes() != 1 {
			t.Errorf("file: %+v", res)
		}
		_, err = w.drive.Symlink(ctx, w.fs, "/link", "/d", drive.Change{})
		must(t, err)
		res = w.removeAll("/link") // not what it leads to
		if res.Job != 0 || res.Counts.Nodes() != 1 {
			t.Errorf("link: %+v", res)
		}
		// Nobody sweeps yet: detached is gone for everyone, and says so.
		req = w.request("/big")
		req.Wait = -1
		res, err = w.removal.RemoveAll(ctx, req)
		must(t, err)
		if res.State != job.Pending || res.Job == 0 || res.Inode != inode {
			t.Errorf("async: %+v", res)
		}
		w.wantPaths("/d/", "/d/x")
		_, err = w.removal.RemoveAll(ctx, w.request("/big"))
		wantKind(t, err, fault.NotFound, removal.CodeNoSuchPath)
		// The path is free; a retry that names the inode it meant leaves the new tree alone.
		w.put("/big/new")
		req = w.request("/big")
		req.Match = func(n tree.Node) bool { return n.Inode == inode }
		_, err = w.removal.RemoveAll(ctx, req)
		wantKind(t, err, fault.Precondition, removal.CodePrecondition)
		req = w.request("/d")
		req.Wait = time.Millisecond // done by the request itself, though nobody was there to help
		if res, err = w.removal.RemoveAll(ctx, req); err != nil || res.State != job.Succeeded {
			t.Errorf("small tree: %+v, %v", res, err)
		}
		w.start()
		w.awaitJob(w.onlyJob())
		w.wantPaths("/big/", "/big/new")
		w.check()
	})
}

// onlyJob is the one job of our drive.
func (w *world) onlyJob() job.ID {
	w.t.Helper()
	list, err := w.removal.List(w.t.Context(), w.fs, "", 0, 10)
	must(w.t, err)
	if len(list) != 1 {
		w.t.Fatalf("%d jobs", len(list))
	}
	return list[0].ID
}

// TestNames deletes what looks like patterns, quotes and escapes to other systems.
func TestNames(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 3}, func(t *testing.T, w *world) {
		w.start()
		odd := []string{"%", "_", `\`, "'", `"`, "a\nb", "a_b", "axb", "a%b", `a\_b`, "ä", "日本", strings.Repeat("n", 255), "?", "{in}", "--", ";"}
		var want []string
		for _, top := range []string{"a_b", "axb", "a%b"} {
			for _, n := range odd {
				w.putIn(w.fs, "/"+top+"/"+n+"/"+n, false)
			}
		}
		w.putIn(w.other, "/a_b/x", false)
		w.removeAll("/a_b")
		for _, top := range []string{"axb", "a%b"} {
			want = append(want, "/"+top+"/")
			for _, n := range odd {
				want = append(want, "/"+top+"/"+n+"/", "/"+top+"/"+n+"/"+n)
			}
		}
		w.wantPaths(want...)
		for _, n := range odd { // one by one
			w.removeAll("/axb/" + n)
		}
		w.removeAll("/axb")
		w.removeAll("/a%b")
		w.wantEmpty()
		if got := w.paths(w.other, "/"); len(got) != 2 {
			t.Errorf("the other drive has %q", got)
		}
		w.check()
	})
}

// TestShapes sweeps trees that are hard to walk, with small batches.
func TestShapes(t *testing.T) {
	t.Parallel()
	shapes := map[string]func() []string{
		"inner directories not empty": func() (p []string) {
			for _, a := range names("a", 5) {
				p = append(p, a, a+"/f1")
				for _, b := range names("b", 5) {
					p = append(p, a+"/"+b, a+"/"+b+"/f1", a+"/"+b+"/f2", a+"/"+b+"/c", a+"/"+b+"/c/f1")
				}
			}
			return p
		},
		"more than two batches of subdirectories": func() (p []string) {
			for _, a := range names("a", 60) {
				p = append(p, a, a+"/f1")
			}
			return p
		},
		"subdirectories with two leaves each": func() (p []string) {
			for _, a := range names("a", 51) {
				p = append(p, a, a+"/b1", a+"/b2")
			}
			return p
		},
		"one large directory": func() []string { return append(names("f", 205), names("d", 45)...) },
		"binary": func() (p []string) {
			level := []string{""}
			for range 7 {
				var next []string
				for _, d := range level {
					for _, c := range []string{"a", "b"} {
						n := strings.TrimPrefix(d+"/"+c, "/")
						p, next = append(p, n, n+"/f"), append(next, n)
					}
				}
				level = next
			}
			return p
		},
		"chain": func() (p []string) {
			at := ""
			for range 300 {
				at = strings.TrimPrefix(at+"/d", "/")
				p = append(p, at, at+"/f")
			}
			return p
		},
		"empty": func() []string { return nil },
	}
	each(t, removal.Config{BatchSize: 20}, func(t *testing.T, base *world) {
		n := 0
		for name, shape := range shapes {
			n++
			t.Run(name, func(t *testing.T) {
				w := base.beside(t, n)
				for _, held := range []int{1 << 20, 25} { // with room for all ids, and with little
					w.removal.Hold(held)
					p := shape()
					w.plant(w.fs, "/t", p...)
					w.plant(w.fs, "/keep", "a", "a/f")
					id := w.detach("/t")
					w.sweep(id)
					if j := w.job(id); j.State != job.Succeeded || j.Counts.Nodes() != int64(len(p)+1) {
						t.Errorf("job %s: %+v of %d", j.State, j.Counts, len(p)+1)
					}
					w.wantPaths("/keep/", "/keep/a/", "/keep/a/f")
					w.removal.Hold(1 << 20)
					w.sweep(w.detach("/keep"))
					w.check()
					w.wantEmpty()
				}
			})
		}
	})
}

// TestOwned makes one of everything that an inode owns, and finds none of it afterwards.
func TestOwned(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"fast", "sweep", "one by one"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			each(t, removal.Config{}, func(t *testing.T, w *world) {
				ctx := t.Context()
				w.start()
				w.put("/t/obj", "/t/d/obj2", "/t/inline")
				for _, p := range []string{"/t", "/t/obj", "/t/d"} {
					_, err := w.drive.Tag(ctx, w.fs, p, drive.TagOptions{Set: map[string]string{"k": "v"}})
					must(t, err)
				}
				_, err := w.drive.Symlink(ctx, w.fs, "/t/link", "nowhere", drive.Change{})
				must(t, err)
				up, err := w.drive.InitiateUpload(ctx, w.fs, "/t/d/up", drive.UploadOptions{Size: 100})
				must(t, err)
				_, err = w.drive.PutPart(ctx, w.fs, up.ID, 1, drive.PartOptions{Body: strings.NewReader("part"), Size: 4})
				must(t, err)
				switch way {
				case "fast":
					w.removeAll("/t")
				case "sweep":
					w.sweepBy(w.detach("/t"))
				case "one by one":
					for _, p := range []string{"/t/obj", "/t/inline", "/t/link", "/t/d/obj2", "/t/d", "/t"} {
						_, err := w.drive.Remove(ctx, w.fs, p, drive.RemoveOptions{})
						must(t, err)
					}
				}
				w.wantEmpty()
				// The objects of both files are the collector's now; the upload is over.
				if n := w.rows("file_gc_tasks", w.fs); n < 2 {
					t.Errorf("%d tasks, want one for each object", n)
				}
				_, _, err = w.drive.CompleteUpload(ctx, w.fs, up.ID, drive.CompleteOptions{})
				if fault.KindOf(err) != fault.Conflict {
					t.Errorf("complete under a deleted tree: %v", err)
				}
				w.wantPaths()
				w.check()
			})
		})
	}
}

// sweepBy waits for the workers.
func (w *world) sweepBy(id job.ID) {
	w.t.Helper()
	w.removal.Jobs().Wake()
	w.awaitJob(id)
}

// TestLinksAndCopies shares files and contents between what goes and what stays.
func TestLinksAndCopies(t *testing.T) {
	t.Parallel()
	for _, fast := range []bool{true, false} {
		t.Run(fmt.Sprintf("fast %t", fast), func(t *testing.T) {
			t.Parallel()
			each(t, removal.Config{BatchSize: 8}, func(t *testing.T, w *world) {
				w.start()
				w.put("/t/a", "/t/b", "/t/c")
				w.link("/t/a", "/keep1")   // a name outside
				w.link("/t/b", "/t/b2")    // two names in one batch
				w.copy("/t/a", "/t/acopy") // two users of a content in one batch, one outside
				w.copy("/t/b", "/keep2")   // a user of a content outside
				if !fast {
					for _, n := range names("x", 20) {
						w.put("/t/" + n)
					}
				}
				res := w.removeAll("/t")
				if (res.Job == 0) != fast {
					t.Fatalf("result %+v", res)
				}
				w.wantPaths("/keep1", "/keep2")
				for _, p := range []string{"/keep1", "/keep2"} {
					w.read(p)
				}
				w.check()
				w.removeAll("/keep1")
				w.removeAll("/keep2")
				w.wantEmpty()
			})
		})
	}
}
