package tree_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive/drivetest"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// bench is one database with two drives; tests work on the first.
type bench struct {
	*tree.Tree
	t  *testing.T
	db *sqldb.DB
	fs tree.FS
}

// each runs fn on every database, on an empty drive beside one that has names and inodes
// of its own, which must stay as it is.
func each(t *testing.T, fn func(b *bench)) {
	t.Helper()
	sqldbtest.Each(t, []sqldb.Migrations{tree.Migrations}, func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		other := &bench{Tree: tree.New(db), t: t, db: db, fs: 8}
		other.create()
		other.populate("/a/b/c", "/a/f", "/A/B/x", "/A/f", "/E/e", "/x")
		other.link("/a/f", "/a/b/g")
		other.tag("/a/f", "k", "v")
		before := other.rows()
		b := &bench{Tree: tree.New(db), t: t, db: db, fs: 7}
		b.create()
		fn(b)
		if diff := cmp.Diff(before, other.rows()); diff != "" {
			t.Errorf("the other drive changed (-before +after):\n%s", diff)
		}
	})
}

func (b *bench) create() {
	b.t.Helper()
	b.tx(func(ctx context.Context, tx *sqldb.Tx) error { return b.CreateDrive(ctx, tx, b.fs) })
}

// tx commits fn or fails the test.
func (b *bench) tx(fn func(ctx context.Context, tx *sqldb.Tx) error) {
	b.t.Helper()
	if err := b.try(fn); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) try(fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	return b.db.Tx(b.t.Context(), func(tx *sqldb.Tx) error { return fn(b.t.Context(), tx) })
}

func (b *bench) check() {
	b.t.Helper()
	drivetest.Check(b.t, b.db, int64(b.fs))
}

// rows is everything that the drive's tables hold.
func (b *bench) rows() (out []string) {
	b.t.Helper()
	for _, s := range []sqldb.Statement{
		"SELECT parent_id, name, inode_id FROM file_nodes WHERE fs_id = ? ORDER BY parent_id, name",
		"SELECT inode_id, kind, nlink * 1000 + revision FROM inodes WHERE fs_id = ? ORDER BY inode_id",
		"SELECT inode_id, name, value FROM file_tags WHERE fs_id = ? ORDER BY inode_id, name",
		"SELECT next_id, 0, 0 FROM fs_ids WHERE fs_id = ?",
	} {
		rows, err := b.db.Query(b.t.Context(), s, int64(b.fs))
		if err != nil {
			b.t.Fatal(err)
		}
		for rows.Next() {
			var x, y, z string
			if err := rows.Scan(&x, &y, &z); err != nil {
				b.t.Fatal(err)
			}
			out = append(out, x+" "+y+" "+z)
		}
		if err := rows.Err(); err != nil {
			b.t.Fatal(err)
		}
		if err := rows.Close(); err != nil {
			b.t.Fatal(err)
		}
	}
	return out
}

func (b *bench) path(text string) tree.Path {
	b.t.Helper()
	p, err := tree.ParsePath(text)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *bench) resolve(text string) tree.Resolved {
	b.t.Helper()
	r, err := b.Resolve(b.t.Context(), b.db, b.fs, b.path(text))
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// at returns the node of a path that must exist.
func (b *bench) at(text string) tree.Node {
	b.t.Helper()
	r := b.resolve(text)
	if !r.Exists() {
		b.t.Fatalf("%s: %q is missing", text, r.Missing)
	}
	return r.Last()
}

func (b *bench) id() tree.Inode {
	b.t.Helper()
	id, err := b.NewID(b.t.Context(), b.fs)
	if err != nil {
		b.t.Fatal(err)
	}
	return tree.Inode(id)
}

// populate makes files, with the directories that they lack; a path that ends with a
// slash is an empty directory.
func (b *bench) populate(paths ...string) {
	b.t.Helper()
	for _, text := range paths {
		r := b.resolve(text)
		parent := r.Last().Inode
		var nodes []tree.Node
		for i, name := range r.Missing {
			kind := tree.Directory
			if i == len(r.Missing)-1 && !strings.HasSuffix(text, "/") {
				kind = tree.File
			}
			nodes = append(nodes, tree.Node{Parent: parent, Name: name, Inode: b.id(), Kind: kind, Mode: 0o644})
			parent = nodes[i].Inode
		}
		b.tx(func(ctx context.Context, tx *sqldb.Tx) error {
			if err := b.LockShared(ctx, tx, b.fs, r.Last().Inode); err != nil {
				return err
			}
			return b.InsertAll(ctx, tx, b.fs, nodes)
		})
	}
}

func (b *bench) link(from, to string) {
	b.t.Helper()
	file, dir := b.at(from), b.at(b.path(to).Parent().String())
	b.tx(func(ctx context.Context, tx *sqldb.Tx) error {
		if err := b.LockShared(ctx, tx, b.fs, dir.Inode); err != nil {
			return err
		}
		return b.Link(ctx, tx, b.fs, dir.Inode, b.path(to).Base(), file.Inode)
	})
}

func (b *bench) tag(path, name, value string) {
	b.t.Helper()
	ino := b.at(path).Inode
	b.tx(func(ctx context.Context, tx *sqldb.Tx) error { return b.SetTag(ctx, tx, b.fs, ino, name, value, 1) })
}

// names is what List answers, page by page.
func (b *bench) names(dir tree.Inode, page int) (out []string) {
	b.t.Helper()
	for after := ""; ; {
		nodes, err := b.List(b.t.Context(), b.db, b.fs, dir, after, page)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, n := range nodes {
			if n.Parent != dir || n.NLink < 1 || n.Revision < 1 {
				b.t.Errorf("not a whole node: %+v", n)
			}
			out = append(out, n.Name)
		}
		if len(nodes) < page {
			return out
		}
		after = out[len(out)-1]
	}
}

func numbered(format string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	slices.Sort(out)
	return out
}
