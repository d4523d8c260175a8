package tree_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

func TestMigrations(t *testing.T) {
	t.Parallel()
	sqldbtest.Migrations(t, tree.Migrations)
}

// Every statement of the room is valid SQL on every engine.
func TestStatementsPrepare(t *testing.T) {
	t.Parallel()
	sqldbtest.PrepareAll(t, ".", []sqldb.Migrations{tree.Migrations}, nil)
	each(t, func(b *bench) {
		for _, s := range append([]sqldb.Statement{tree.Up}, tree.Down...) {
			args, err := b.db.Dialect().Places(s)
			if err == nil {
				err = b.db.Prepare(b.t.Context(), s, args...)
			}
			if err != nil {
				b.t.Errorf("%v\n%s", err, s)
			}
		}
	})
}

func TestResolve(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		deep := "/d" + strings.Join(numbered("/%02d", 40), "")
		b.populate("/a/b/c/f", "/a/f", deep)
		names := []string{"/x'y", `/x"y`, `/x\y`, "/x%", "/x_", "/x\ny", "/é", "/e\u0301", "/X", "/x", "/ x"}
		b.populate(names...)
		for _, tt := range []struct {
			path    string
			exists  bool
			missing []string
			last    tree.Kind
		}{
			{"/", true, nil, tree.Directory},
			{"/a", true, nil, tree.Directory},
			{"/a/b/c/f", true, nil, tree.File},
			{"/A", false, []string{"A"}, tree.Directory},
			{"/a/b/x/y/z", false, []string{"x", "y", "z"}, tree.Directory},
			{"/a/f/x", false, []string{"x"}, 0},
			{deep, true, nil, tree.File},
			{deep[:6*3+2], true, nil, tree.Directory},
			{deep + "/x", false, []string{"x"}, 0},
			{deep[:len(deep)-3] + "/x", false, []string{"x"}, tree.Directory},
		} {
			r := b.resolve(tt.path)
			if r.Exists() != tt.exists || r.Last().Kind != tt.last {
				b.t.Errorf("%s: exists %t, %+v", tt.path, r.Exists(), r.Last())
			}
			if diff := cmp.Diff(tt.missing, slices.Clone(r.Missing)); diff != "" && tt.missing != nil {
				b.t.Errorf("%s: missing (-want +got):\n%s", tt.path, diff)
			}
			if n := len(b.path(tt.path).Names()); len(r.Chain)+len(r.Missing) != n+1 {
				b.t.Errorf("%s: %d nodes and %d missing of %d", tt.path, len(r.Chain), len(r.Missing), n)
			}
			for i, n := range r.Chain[1:] {
				if n.Parent != r.Chain[i].Inode || n.Name != b.path(tt.path).Names()[i] {
					b.t.Errorf("%s: node %d is %+v", tt.path, i, n)
				}
			}
			if r.Exists() && r.Last().Revision != 1 {
				b.t.Errorf("%s is not whole: %+v", tt.path, r.Last())
			}
		}
		ids := map[tree.Inode]bool{}
		for _, name := range names {
			ids[b.at(name).Inode] = true
		}
		if len(ids) != len(names) {
			b.t.Errorf("%d names became %d files", len(names), len(ids))
		}
		if _, err := b.Resolve(b.t.Context(), b.db, 99, b.path("/a")); !fault.Is(err, tree.CodeNoSuchDrive) || fault.KindOf(err) != fault.NotFound {
			b.t.Errorf("another drive: %v", err)
		}
		if _, err := b.Resolve(b.t.Context(), b.db, 99, tree.Path{}); !fault.Is(err, tree.CodeNoSuchDrive) {
			b.t.Errorf("the root of another drive: %v", err)
		}
		b.check()
	})
}

func TestNodesAreWhole(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		dir := tree.Node{Parent: tree.Root, Name: "d", Inode: b.id(), Kind: tree.Directory, Mode: 0o750, NLink: 1, Revision: 1, Created: 1, Modified: 2, Changed: 3}
		file := tree.Node{Parent: dir.Inode, Name: "f", Inode: b.id(), Kind: tree.File, Mode: 0o4644, Size: 1 << 40, NLink: 1, Revision: 5, Content: 77, Created: 4, Modified: 5, Changed: 6}
		link := tree.Node{Parent: dir.Inode, Name: "l", Inode: b.id(), Kind: tree.Symlink, Mode: 0o777, Size: 6, NLink: 1, Revision: 1, Target: "../é/x", Created: 7, Modified: 8, Changed: 9}
		b.tx(func(ctx context.Context, tx *sqldb.Tx) error {
			return b.InsertAll(ctx, tx, b.fs, []tree.Node{dir, file, link})
		})
		got, err := b.List(b.t.Context(), b.db, b.fs, dir.Inode, "", 10)
		if diff := cmp.Diff([]tree.Node{file, link}, got); err != nil || diff != "" {
			b.t.Errorf("%v, List (-want +got):\n%s", err, diff)
		}
		if diff := cmp.Diff(file, b.at("/d/f")); diff != "" {
			b.t.Errorf("Resolve (-want +got):\n%s", diff)
		}
		bare, found, err := b.Get(b.t.Context(), b.db, b.fs, link.Inode)
		link.Parent, link.Name = 0, ""
		if diff := cmp.Diff(link, bare); err != nil || !found || diff != "" {
			b.t.Errorf("%t %v, Get (-want +got):\n%s", found, err, diff)
		}
		if _, found, err := b.Get(b.t.Context(), b.db, 8, file.Inode+1000); found || err != nil {
			b.t.Errorf("an inode of another drive: %t, %v", found, err)
		}
		b.tx(func(ctx context.Context, tx *sqldb.Tx) error {
			if err := b.UpdateFile(ctx, tx, b.fs, file.Inode, 0, 3, 100); err != nil {
				return err
			}
			if err := b.SetMode(ctx, tx, b.fs, file.Inode, 0o600, 101); err != nil {
				return err
			}
			return b.Touch(ctx, tx, b.fs, file.Inode, 50, 102)
		})
		file.Mode, file.Size, file.Content, file.Revision, file.Modified, file.Changed = 0o600, 3, 0, 8, 50, 102
		if diff := cmp.Diff(file, b.at("/d/f")); diff != "" {
			b.t.Errorf("after changes (-want +got):\n%s", diff)
		}
		for name, change := range map[string]func(ctx context.Context, tx *sqldb.Tx) error{
			"content of a directory": func(ctx context.Context, tx *sqldb.Tx) error {
				return b.UpdateFile(ctx, tx, b.fs, dir.Inode, 1, 1, 1)
			},
			"content of nothing": func(ctx context.Context, tx *sqldb.Tx) error { return b.UpdateFile(ctx, tx, b.fs, 9999, 1, 1, 1) },
			"mode of nothing":    func(ctx context.Context, tx *sqldb.Tx) error { return b.SetMode(ctx, tx, b.fs, 9999, 1, 1) },
			"time of nothing":    func(ctx context.Context, tx *sqldb.Tx) error { return b.Touch(ctx, tx, b.fs, 9999, 1, 1) },
		} {
			if err := b.try(change); !errors.Is(err, tree.ErrMoved) {
				b.t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		want := numbered("f%03d", 57)
		for _, name := range want {
			b.populate("/d/" + name)
		}
		b.populate("/d/é", "/d/Z", "/d/sub/x", "/e/")
		want = append(want, "é", "Z", "sub")
		slices.Sort(want) // by bytes
		dir := b.at("/d").Inode
		for _, page := range []int{1, 7, 60, 100} {
			if diff := cmp.Diff(want, b.names(dir, page)); diff != "" {
				b.t.Errorf("pages of %d (-want +got):\n%s", page, diff)
			}
		}
		if got := b.names(b.at("/e").Inode, 10); len(got) != 0 {
			b.t.Errorf("an empty directory has %q", got)
		}
	})
}

// A stat is one statement however deep, a create four with its locks.
func TestStatementCounts(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		path := strings.Join(numbered("/%02d", 16), "")
		b.populate(path, "/d/")
		d, id := b.at("/d").Inode, b.id()
		again := int64(0) // statements of a try that does not count
		for _, step := range []struct {
			name string
			want int64
			do   func() error
		}{
			{"stat of 16 names", 1, func() error { _, err := b.Resolve(ctx, b.db, b.fs, b.path(path)); return err }},
			{"stat of 17 names", 2, func() error { _, err := b.Resolve(ctx, b.db, b.fs, b.path(path+"/x")); return err }},
			{"stat of the root", 1, func() error { _, err := b.Resolve(ctx, b.db, b.fs, b.path("/")); return err }},
			{"list", 1, func() error { _, err := b.List(ctx, b.db, b.fs, d, "", 1000); return err }},
			{"create", 4, func() error {
				return b.try(func(ctx context.Context, tx *sqldb.Tx) error {
					r, err := b.Resolve(ctx, tx, b.fs, b.path("/d/new"))
					if err != nil {
						return err
					}
					if err := b.LockShared(ctx, tx, b.fs, r.Last().Inode); err != nil {
						return err
					}
					return b.Insert(ctx, tx, b.fs, tree.Node{Parent: d, Name: "new", Inode: id, Kind: tree.File})
				})
			}},
			{"ids of a block", 0, func() error { _, err := b.NewIDs(ctx, b.fs, 8); return err }},
			{"touches of one second", 1, func() error {
				for second := false; !second; { // on a slow machine two of them may be farther apart
					fresh, began := tree.New(b.db), time.Now()
					before := b.db.Statements()
					fresh.TouchDirectory(ctx, b.fs, d)
					fresh.TouchDirectory(ctx, b.fs, d)
					if second = time.Since(began) < time.Second; !second {
						again += b.db.Statements() - before
					}
				}
				return nil
			}},
			{"lock of two, given twice", 1, func() error {
				return b.try(func(ctx context.Context, tx *sqldb.Tx) error {
					return b.LockShared(ctx, tx, b.fs, d, tree.Root, d)
				})
			}},
		} {
			before := b.db.Statements()
			if err := step.do(); err != nil {
				b.t.Fatalf("%s: %v", step.name, err)
			}
			if got := b.db.Statements() - before - again; got != step.want {
				b.t.Errorf("%s: %d statements, want %d", step.name, got, step.want)
			}
			again = 0
		}
		b.check()
	})
}

func TestNewIDs(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		second := tree.New(b.db) // another server
		var mu sync.Mutex
		seen := map[int64]bool{}
		var wg sync.WaitGroup
		for i := range 8 {
			from := []*tree.Tree{b.Tree, second}[i%2]
			wg.Go(func() {
				for _, n := range []int{1, 3, 400, 1, 100} {
					ids, err := from.NewIDs(b.t.Context(), b.fs, n)
					if err != nil || len(ids) != n {
						b.t.Errorf("%d ids: %d, %v", n, len(ids), err)
					}
					mu.Lock()
					for _, id := range ids {
						if seen[id] || id < 16 {
							b.t.Errorf("id %d", id)
						}
						seen[id] = true
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		b.create() // again: nothing is handed out twice
		if id := b.id(); seen[int64(id)] {
			b.t.Errorf("id %d a second time", id)
		}
		if _, err := b.NewID(b.t.Context(), 99); !fault.Is(err, tree.CodeNoSuchDrive) {
			b.t.Errorf("ids of no drive: %v", err)
		}
	})
}

func TestClimb(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		deep := "/a" + strings.Join(numbered("/%02d", 40), "") + "/d/"
		b.populate(deep, "/b/f")
		a, far, other := b.at("/a").Inode, b.at(deep).Inode, b.at("/b").Inode
		b.link("/b/f", "/a/g")
		inTrash := b.at("/b")
		file := b.at("/b/f").Inode
		walk := func(dir, ancestor tree.Inode) (got [2]bool) {
			b.tx(func(ctx context.Context, tx *sqldb.Tx) (err error) {
				got[0], got[1], err = b.IsBelow(ctx, tx, b.fs, dir, ancestor)
				return err
			})
			return got
		}
		for _, tt := range []struct {
			name          string
			dir, ancestor tree.Inode
			want          [2]bool
		}{
			{"deep below", far, a, [2]bool{true, true}},
			{"itself", far, far, [2]bool{true, true}},
			{"above", a, far, [2]bool{false, true}},
			{"beside", far, other, [2]bool{false, true}},
			{"of the root", tree.Root, a, [2]bool{false, true}},
			{"below the root", a, tree.Root, [2]bool{true, true}},
			{"the trash", tree.Trash, a, [2]bool{false, false}},
			{"nowhere", 9999, a, [2]bool{false, false}},
		} {
			if got := walk(tt.dir, tt.ancestor); got != tt.want {
				b.t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
		}
		paths := func(want map[tree.Inode]string) {
			b.t.Helper()
			for ino, text := range want {
				p, visible, err := b.PathOf(b.t.Context(), b.db, b.fs, ino)
				if err != nil || visible != (text != "") || (visible && p.String() != text) {
					b.t.Errorf("path of %d: %s %t %v, want %q", ino, p, visible, err, text)
				}
			}
		}
		paths(map[tree.Inode]string{tree.Root: "/", a: "/a", far: strings.TrimSuffix(deep, "/"), other: "/b", tree.Trash: "", 9999: ""})
		b.tx(func(ctx context.Context, tx *sqldb.Tx) error { return b.Move(ctx, tx, b.fs, inTrash, tree.Trash, "1") })
		paths(map[tree.Inode]string{file: "/a/g", other: ""})
		if got := walk(other, tree.Trash); got != [2]bool{true, false} {
			b.t.Errorf("in the trash: %v", got)
		}
		b.check()
	})
}

func TestTags(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.populate("/f")
		f := b.at("/f").Inode
		for _, kv := range [][2]string{{"k", "1"}, {"k", "2"}, {"K", "x"}, {"é'", ""}, {"gone", "1"}} {
			b.tag("/f", kv[0], kv[1])
		}
		for _, want := range []bool{true, false} {
			b.tx(func(ctx context.Context, tx *sqldb.Tx) error {
				got, err := b.RemoveTag(ctx, tx, b.fs, f, "gone", 1)
				if got != want {
					b.t.Errorf("removed: %t, want %t", got, want)
				}
				return err
			})
		}
		got, err := b.Tags(b.t.Context(), b.db, b.fs, f)
		if diff := cmp.Diff(map[string]string{"k": "2", "K": "x", "é'": ""}, got); err != nil || diff != "" {
			b.t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		if rev := b.at("/f").Revision; rev != 8 {
			b.t.Errorf("revision %d after 7 changes", rev)
		}
		err = b.try(func(ctx context.Context, tx *sqldb.Tx) error { return b.SetTag(ctx, tx, b.fs, 9999, "k", "v", 1) })
		if !errors.Is(err, tree.ErrMoved) {
			b.t.Errorf("a tag of nothing: %v", err)
		}
		b.check()
	})
}

func TestMoveLock(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		for _, exclusive := range []bool{false, true} {
			b.tx(func(ctx context.Context, tx *sqldb.Tx) error { return b.MoveLock(ctx, tx, b.fs, exclusive) })
			err := b.try(func(ctx context.Context, tx *sqldb.Tx) error { return b.MoveLock(ctx, tx, 99, exclusive) })
			if !fault.Is(err, tree.CodeNoSuchDrive) {
				b.t.Errorf("exclusive %t, no drive: %v", exclusive, err)
			}
		}
	})
}
