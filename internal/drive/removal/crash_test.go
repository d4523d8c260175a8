package removal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// bushy is a tree with files, links and copies inside and outside.
func (w *world) bushy(top string) {
	w.t.Helper()
	for _, d := range []string{"", "/a", "/a/b", "/a/b/c", "/d"} {
		w.put(top+d+"/1", top+d+"/2", top+d+"/3")
	}
	w.mkdir(top + "/a/e/e")
	w.link(top+"/1", top+"/a/link")
	w.link(top+"/a/b/1", "/outside")
	w.copy(top+"/a/2", top+"/d/copy")
	w.copy(top+"/d/1", "/copied")
}

var errCrash = errors.New("crash")

// TestCrash ends a delete at every step that it passes, as a crash would, and runs it
// again: nothing alive is touched, nothing is left.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, server := range sqldbtest.Servers(t) {
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			base := newWorld(t, server, removal.Config{BatchSize: 4})
			stride := 3 // the servers' commits take long
			if server.Name == sqldb.SQLite {
				stride = 1
			}
			for n, more := 1, true; more; n += stride {
				w := base.beside(t, n)
				w.bushy("/t")
				w.putIn(w.other, "/t/a", false)
				passed, at := 0, ""
				m := w.with(func(c *removal.Config) {
					c.Step = func(_ context.Context, step string) error {
						if passed++; passed == n {
							at = step
							return errCrash
						}
						return nil
					}
				})
				id, _, err := m.Detach(t.Context(), w.request("/t"))
				if err == nil {
					err = m.Sweep(t.Context(), w.claim(w.removal.Jobs(), id))
				}
				if more = errors.Is(err, errCrash); !more && !errors.Is(err, job.ErrEnded) {
					t.Fatalf("step %d: %v", n, err)
				}
				w.check()
				again := w.removal
				switch {
				case id == 0 || strings.HasPrefix(at, "detach"):
					id = w.detach("/t")
					w.sweep(id)
				case w.job(id).State == job.Running: // another server takes over
					_, err := w.db.Exec(t.Context(), "UPDATE drive_delete_job SET heartbeat_at = 0 WHERE id = ?", int64(id))
					must(t, err)
					if err := again.Sweep(t.Context(), w.claim(again.Jobs(), id)); !errors.Is(err, job.ErrEnded) {
						t.Fatalf("again after %s: %v", at, err)
					}
				}
				if j := w.job(id); j.State != job.Succeeded || j.Counts.Files != 17 || j.Counts.Directories != 7 {
					t.Errorf("after %s: %s, %+v counted", at, j.State, j.Counts)
				}
				w.wantPaths("/copied", "/outside")
				if got := w.read("/outside") + w.read("/copied"); got != body("/t/a/b/1", false)+body("/t/d/1", false) {
					t.Errorf("after %s: what stays reads %q", at, got)
				}
				w.check()
				if t.Failed() {
					t.Fatalf("after step %d, %s", n, at)
				}
			}
		})
	}
}

// TestCrashAfterEveryBatch ends every run when it has committed one transaction. Each of
// them made progress: the job goes on for as long as it takes, and counts all of them.
func TestCrashAfterEveryBatch(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 2}, func(t *testing.T, w *world) {
		w.bushy("/t")
		m := w.with(func(c *removal.Config) {
			c.Step = func(_ context.Context, step string) error {
				if step == "sweep.between" {
					return errCrash
				}
				return nil
			}
		})
		id := w.detach("/t")
		runs := int64(0)
		for w.job(id).State != job.Succeeded {
			runs++
			if err := m.Sweep(t.Context(), w.claim(m.Jobs(), id)); !errors.Is(err, errCrash) {
				t.Fatalf("run %d: %v", runs, err)
			}
			_, err := w.db.Exec(t.Context(), "UPDATE drive_delete_job SET heartbeat_at = 0 WHERE id = ? AND state = 'RUNNING'", int64(id))
			must(t, err)
		}
		want := removal.Counts{Files: 17, Directories: 7, Bytes: w.job(id).Counts.Bytes, Transactions: runs}
		if diff := cmp.Diff(want, w.job(id).Counts); diff != "" || runs < 10 {
			t.Errorf("%d runs (-want +got):\n%s", runs, diff)
		}
		w.check()
	})
}

// TestCrashFast is TestCrash of the fast path: all or nothing.
func TestCrashFast(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{}, func(t *testing.T, w *world) {
		w.bushy("/t")
		before := w.paths(w.fs, "/")
		for n, more := 1, true; more; n++ {
			passed := 0
			m := w.with(func(c *removal.Config) {
				c.Step = func(context.Context, string) error {
					if passed++; passed == n {
						return errCrash
					}
					return nil
				}
			})
			_, err := m.RemoveAll(t.Context(), w.request("/t"))
			if more = errors.Is(err, errCrash); more {
				w.wantPaths(before...)
			} else {
				must(t, err)
			}
			w.check()
		}
		w.wantPaths("/copied", "/outside")
	})
}

// TestCreateMeanwhile lets a create that resolved before the delete go on at every step of
// it: what it made is swept with its object, or lies in a chain that is whole.
func TestCreateMeanwhile(t *testing.T) {
	t.Parallel()
	for _, server := range sqldbtest.Servers(t) {
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			base := newWorld(t, server, removal.Config{BatchSize: 50})
			n := 0
			for way, steps := range map[string][]string{
				"fast":  {"fast.resolved", "fast.level", "fast.locked", "fast.marked"},
				"sweep": {"sweep.begin", "sweep.gathered", "sweep.locked", "sweep.read", "sweep.deleted", "sweep.between", "sweep.closeread", "sweep.closelocked", "sweep.childless", "sweep.closed", "sweep.rootlocked", "sweep.rootchildless"},
			} {
				for _, step := range steps {
					for _, dir := range []string{"/t", "/t/a/b"} {
						n++
						t.Run(fmt.Sprintf("%s in %s", step, strings.ReplaceAll(dir, "/", ".")), func(t *testing.T) {
							w := base.beside(t, n)
							w.put("/t/1", "/t/a/1", "/t/a/b/1", "/t/a/b/c/1")
							c := w.begin("resolved", 1, "", create(dir+"/n1/n2/late"))
							once := false
							m := w.with(func(cfg *removal.Config) {
								cfg.Step = func(_ context.Context, at string) error {
									if at == step && !once {
										once = true
										c.goOn()
										c.ended()
									}
									return nil
								}
							})
							if way == "fast" {
								_, err := m.Fast(t.Context(), w.request("/t"))
								must(t, err)
							} else {
								id := w.detach("/t")
								if err := m.Sweep(t.Context(), w.claim(w.removal.Jobs(), id)); !errors.Is(err, job.ErrEnded) {
									t.Fatal(err)
								}
							}
							if !once {
								t.Fatalf("%s was not passed", step)
							}
							must(t, c.end())
							w.check()
							if got := w.paths(w.fs, "/"); len(got) > 0 { // then all of the way, and nothing of before
								if last := got[len(got)-1]; last != dir+"/n1/n2/late" || w.read(last) != body(last, false) {
									t.Errorf("left are %q", got)
								}
							}
						})
					}
				}
			}
		})
	}
}

// TestCancel stops a sweep half way: it is partial, and a retry ends it.
func TestCancel(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 5}, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.plant(w.fs, "/t", names("f", 40)...)
		id := w.detach("/t")
		r := w.claim(w.removal.Jobs(), id)
		batches := 0
		m := w.with(func(c *removal.Config) {
			c.Step = func(_ context.Context, step string) error {
				if step == "sweep.between" {
					if batches++; batches == 3 {
						if _, err := w.removal.Cancel(ctx, w.fs, id); err != nil {
							t.Error(err)
						}
					}
				}
				return nil
			}
		})
		if err := m.Sweep(ctx, r); !errors.Is(err, job.ErrCancelled) {
			t.Errorf("the sweep ended with %v", err)
		}
		j := w.job(id)
		if !j.Partial() || j.Restorable() {
			t.Errorf("the job is %s, epoch %d", j.State, j.LeaseEpoch)
		}
		if n := w.rows("file_nodes", w.fs); n != 40-15+1 {
			t.Errorf("%d names are left", n)
		}
		w.check()
		list, _, err := w.removal.Trash(ctx, w.fs, 0, 10)
		must(t, err)
		if len(list) != 1 || !list[0].Partial() {
			t.Errorf("the trash lists %+v", list)
		}
		_, err = w.removal.Restore(ctx, w.fs, id, nil, "")
		wantKind(t, err, fault.Conflict, removal.CodeNotInTrash)
		_, err = w.removal.Ack(ctx, w.fs, id)
		must(t, err)
		_, err = w.removal.Cancel(ctx, w.other, id) // another drive's
		wantKind(t, err, fault.NotFound, job.CodeNoSuchJob)
		_, err = w.removal.Empty(ctx, w.fs, id)
		must(t, err)
		w.start()
		w.awaitJob(id)
		w.wantEmpty()
		w.check()
	})
}

// TestYield gives others their turn and ends all the same.
func TestYield(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 5}, func(t *testing.T, w *world) {
		w.plant(w.fs, "/t", names("f", 12)...)
		id := w.detach("/t")
		for runs := 1; ; runs++ {
			r := w.claim(w.removal.Jobs(), id)
			r.due, r.yield = true, true
			err := w.removal.Sweep(t.Context(), r)
			if errors.Is(err, job.ErrEnded) {
				if runs < 3 {
					t.Errorf("%d runs", runs)
				}
				break
			}
			if !errors.Is(err, job.ErrYield) {
				t.Fatal(err)
			}
			row, err := w.removal.Jobs().Finish(t.Context(), r.row.Lease(), err)
			must(t, err)
			if row.State != job.Pending {
				t.Fatalf("%+v", row)
			}
		}
		if j := w.job(id); j.Counts.Nodes() != 13 {
			t.Errorf("%+v", j.Counts)
		}
		w.check()
	})
}

// TestDamage fails a sweep that meets rows which contradict each other, three times without
// progress, and deletes nothing on their word.
func TestDamage(t *testing.T) {
	t.Parallel()
	const shared = "more files than references"
	for name, damage := range map[string]sqldb.Statement{
		"no links":  "UPDATE inodes SET nlink = 0 WHERE fs_id = ? AND kind = 2",
		"no inodes": "DELETE FROM inodes WHERE fs_id = ? AND kind = 2",
		shared:      "UPDATE inodes SET content_id = (SELECT MAX(content_id) FROM contents) WHERE fs_id = ? AND kind = 2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, removal.Config{BatchSize: 50}, func(t *testing.T, w *world) {
				for _, n := range names("f", 5) {
					w.putIn(w.fs, "/t/"+n, false)
				}
				id := w.detach("/t")
				n, err := w.db.Exec(t.Context(), damage, int64(w.fs))
				if err != nil || n != 5 {
					t.Fatal(n, err)
				}
				err = w.removal.Sweep(t.Context(), w.claim(w.removal.Jobs(), id))
				if err == nil || errors.Is(err, job.ErrEnded) || name != shared && !errors.Is(err, removal.ErrDamaged) {
					t.Errorf("the sweep ended with %v", err)
				}
				if names, contents := w.rows("file_nodes", w.fs), w.rows("contents", w.fs); names != 6 || contents != 5 {
					t.Errorf("%d names and %d contents are left", names, contents)
				}
			})
		})
	}
}
