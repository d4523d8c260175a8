package tree_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive/drivetest"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Creates, renames, links and removals that are stopped in the middle of each other, as
// the lock protocol was proved with. What each does is fixed: on the servers, and on
// SQLite, where one writer follows the other. The controls leave one lock out and must
// break where it is needed.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	servers := []sqldb.Name{sqldb.Postgres, sqldb.MySQL}
	for _, tt := range []struct {
		name    string
		left    left
		breaks  string       // what a control breaks, in the words of drivetest, or "missed"
		on      []sqldb.Name // where it does
		fill    []string
		run     func(w *world) string
		servers string // what happens there
		sqlite  string
		exists  string // a path that is there at the end
	}{
		{
			name: "two creates in one directory", fill: []string{"/A/"},
			run: func(w *world) string {
				c := w.begin("create.inserted", 1, func(h hook) error { return w.make(h, "/A/f") })
				first := c.state()
				d := w.begin("", 0, func(h hook) error { return w.make(h, "/A/g") })
				return "create " + first + ", another " + d.state() + "; create " + c.end() + ", another " + d.end()
			},
			servers: "create there, another ok; create ok, another ok",
			sqlite:  "create there, another blocked; create ok, another ok",
			exists:  "/A/g",
		},
		{
			name: "S4 missing parents, their parent removed after the resolve", fill: []string{"/A/"},
			run:     func(w *world) string { return createBesideRmdir(w, "create.resolved", "/A/n1/n2/f", "") },
			servers: "create there, rmdir ok; create ok, rmdir ok",
			sqlite:  "create there, rmdir blocked; create ok, rmdir not empty",
			exists:  "/A/n1/n2/f",
		},
		{
			name: "S4b missing parents uncommitted, rmdir of their parent", fill: []string{"/A/"},
			run:     func(w *world) string { return createBesideRmdir(w, "create.inserted", "/A/n1/n2/f", "") },
			servers: "create there, rmdir blocked; create ok, rmdir not empty",
			sqlite:  "create there, rmdir blocked; create ok, rmdir not empty",
			exists:  "/A/n1/n2/f",
		},
		{
			name: "S4c rmdir knows that there is no child, a create arrives", fill: []string{"/A/"},
			run:     func(w *world) string { return createBesideRmdir(w, "create.resolved", "/A/n1/f", "rmdir.childless") },
			servers: "create there, rmdir there; create blocked; rmdir ok, create ok",
			sqlite:  "create there, rmdir blocked; create ok, rmdir not empty",
			exists:  "/A/n1/f",
		},
		{
			name: "S5x rmdir is one statement", left: left{removeIfChildless: true}, fill: []string{"/A/"},
			breaks: "dentry without parent", on: []sqldb.Name{sqldb.Postgres},
			run: func(w *world) string { return createBesideRmdir(w, "create.inserted", "/A/f", "") },
		},
		{
			name: "S6 a link uncommitted, the other name unlinked", fill: []string{"/A/f", "/E/e"},
			run:     linkBesideUnlink,
			servers: "link there, unlink blocked; link ok, unlink ok",
			sqlite:  "link there, unlink blocked; link ok, unlink ok",
			exists:  "/E/h",
		},
		{
			name: "S6x links are counted", left: left{recount: true}, fill: []string{"/A/f", "/E/e"},
			breaks: "dentry without inode", on: []sqldb.Name{sqldb.Postgres},
			run: linkBesideUnlink,
		},
		{
			name: "a link resolved, the file unlinked", fill: []string{"/A/f", "/E/e"},
			run: func(w *world) string {
				l := w.begin("link.resolved", 1, func(h hook) error { return w.alias(h, "/A/f", "/E/h") })
				out := "link " + l.state()
				u := w.begin("", 0, func(h hook) error { return w.unlink(h, "/A/f") })
				return out + ", unlink " + u.state() + "; link " + l.end() + ", unlink " + u.end()
			},
			servers: "link there, unlink ok; link not found, unlink ok",
			sqlite:  "link there, unlink blocked; link ok, unlink ok",
		},
		{
			name: "S8 fast path, a create in an inner directory", fill: []string{"/A/f", "/A/B/x"},
			run:     createBesideFast,
			servers: "create there, fast there; create blocked; fast ok, create ok",
			sqlite:  "create there, fast blocked; create ok, fast ok",
		},
		{
			name: "S8x the fast path reads, then locks", left: left{readBeforeLock: true}, fill: []string{"/A/f", "/A/B/x"},
			breaks: "inode without dentry", on: servers,
			run: createBesideFast,
		},
		{
			name: "S9 fast path, a directory renamed out", fill: []string{"/A/f", "/A/B/x", "/E/e"},
			run:     renameBesideFast,
			servers: "rename there, fast there; rename blocked; fast ok, rename not found",
			sqlite:  "rename there, fast blocked; rename ok, fast ok",
		},
		{
			name: "S9x the rename does not hold where it takes from", left: left{sourceUnlocked: true}, fill: []string{"/A/f", "/A/B/x", "/E/e"},
			breaks: "missed", on: servers,
			run: renameBesideFast,
		},
		{
			name: "two directories renamed into each other", fill: []string{"/A/x", "/B/y"},
			run:     renameIntoEachOther,
			servers: "rename there, another blocked; rename ok, another not found",
			sqlite:  "rename there, another blocked; rename ok, another not found",
			exists:  "/B/A/x",
		},
		{
			name: "renames do not exclude each other", left: left{movesFree: true}, fill: []string{"/A/x", "/B/y"},
			breaks: "unreachable", on: servers,
			run: renameIntoEachOther,
		},
		{
			name: "S10 a tree deleted three times", fill: []string{"/A/f", "/A/B/x"},
			run: func(w *world) string {
				d := w.begin("detach.moved", 1, func(h hook) error { return w.detach(h, "/A", "1") })
				first := d.state()
				d2 := w.begin("", 0, func(h hook) error { return w.detach(h, "/A", "2") })
				f := w.begin("", 0, func(h hook) error { return w.fast(h, "/A") })
				return "detach " + first + ", another " + d2.state() + ", fast " + f.state() + "; detach " + d.end() + ", another " + d2.end() + ", fast " + f.end()
			},
			servers: "detach there, another blocked, fast blocked; detach ok, another not found, fast not found",
			sqlite:  "detach there, another blocked, fast blocked; detach ok, another not found, fast not found",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			each(t, func(b *bench) {
				engine := b.db.Dialect().Name
				if tt.breaks != "" && engine == sqldb.SQLite {
					return // one writer: the control cannot break
				}
				want := tt.servers
				if engine == sqldb.SQLite {
					want = tt.sqlite
				}
				b.populate(tt.fill...)
				w := &world{bench: b, left: tt.left}
				got := tt.run(w)
				found := drivetest.Find(b.t, b.db, int64(w.fs))
				if w.missed.Load() > 0 {
					found = append(found, "missed")
				}
				if tt.breaks != "" {
					breaks := func(s string) bool { return strings.HasPrefix(s, tt.breaks) }
					if slices.Contains(tt.on, engine) && !slices.ContainsFunc(found, breaks) {
						b.t.Errorf("the control holds: %s, found %q", got, found)
					}
					return // elsewhere it held when it was tried; nothing rests on it
				}
				if tt.exists != "" {
					w.at(tt.exists)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					b.t.Errorf("(-want +got):\n%s", diff)
				}
				if len(found) > 0 {
					b.t.Errorf("found %q", found)
				}
			})
		})
	}
}

func createBesideRmdir(w *world, createAt, path, rmdirAt string) string {
	c := w.begin(createAt, 1, func(h hook) error { return w.make(h, path) })
	out := "create " + c.state()
	r := w.begin(rmdirAt, 1, func(h hook) error { return w.rmdir(h, "/A") })
	state := r.state()
	if out += ", rmdir " + state; state != "there" {
		return out + "; create " + c.end() + ", rmdir " + r.end()
	}
	return out + "; create " + c.on() + "; rmdir " + r.end() + ", create " + c.end()
}

func linkBesideUnlink(w *world) string {
	l := w.begin("link.counted", 1, func(h hook) error { return w.alias(h, "/A/f", "/E/h") })
	out := "link " + l.state()
	u := w.begin("", 0, func(h hook) error { return w.unlink(h, "/A/f") })
	return out + ", unlink " + u.state() + "; link " + l.end() + ", unlink " + u.end()
}

func createBesideFast(w *world) string {
	c := w.begin("create.resolved", 1, func(h hook) error { return w.make(h, "/A/B/new") })
	out := "create " + c.state()
	f := w.begin("fast.read", 2, func(h hook) error { return w.fast(h, "/A") })
	state := f.state()
	if out += ", fast " + state; state != "there" {
		return out + "; create " + c.end() + ", fast " + f.end()
	}
	return out + "; create " + c.on() + "; fast " + f.end() + ", create " + c.end()
}

func renameBesideFast(w *world) string {
	r := w.begin("rename.resolved", 1, func(h hook) error { return w.renameDir(h, "/A/B", "/E/B") })
	out := "rename " + r.state()
	f := w.begin("fast.read", 1, func(h hook) error { return w.fast(h, "/A") })
	state := f.state()
	if out += ", fast " + state; state != "there" {
		return out + "; rename " + r.end() + ", fast " + f.end()
	}
	return out + "; rename " + r.on() + "; fast " + f.end() + ", rename " + r.end()
}

func renameIntoEachOther(w *world) string {
	a := w.begin("rename.resolved", 1, func(h hook) error { return w.renameDir(h, "/A", "/B/A") })
	out := "rename " + a.state()
	b := w.begin("", 0, func(h hook) error { return w.renameDir(h, "/B", "/A/B") })
	return out + ", another " + b.state() + "; rename " + a.end() + ", another " + b.end()
}

// Attributes of a directory change while entries are made in it, on PostgreSQL: a stream
// of creates would keep an ordinary shared lock for ever.
func TestAttributesBesideCreates(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		if b.db.Dialect().Name != sqldb.Postgres {
			return // the shared lock is one of the whole row here
		}
		b.populate("/d/")
		d := b.at("/d").Inode
		w := &world{bench: b}
		c := w.begin("create.inserted", 1, func(h hook) error { return w.make(h, "/d/f") })
		if got := c.state(); got != "there" {
			b.t.Fatalf("create %s", got)
		}
		m := w.begin("", 0, func(hook) error {
			return b.try(func(ctx context.Context, tx *sqldb.Tx) error {
				return b.SetMode(ctx, tx, b.fs, d, 0o700, time.Now().UnixMilli())
			})
		})
		changed := m.state()
		rm := w.begin("", 0, func(h hook) error { return w.rmdir(h, "/d") })
		if got := changed + ", rmdir " + rm.state() + ", create " + c.end() + ", rmdir " + rm.end(); got != "ok, rmdir blocked, create ok, rmdir not empty" {
			b.t.Errorf("chmod %s", got)
		}
		if n := b.at("/d"); n.Mode != 0o700 || n.Kind != tree.Directory {
			b.t.Errorf("%+v", n)
		}
		b.check()
	})
}
