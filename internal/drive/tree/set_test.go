package tree_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
)

func TestSets(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		// Two directories of 700 and 3 entries, 600 of one each: more than a list of MySQL.
		var nodes []tree.Node
		add := func(parent tree.Inode, kind tree.Kind, name string) tree.Inode {
			nodes = append(nodes, tree.Node{Parent: parent, Name: name, Inode: b.id(), Kind: kind, Size: 1})
			return nodes[len(nodes)-1].Inode
		}
		big, small := add(tree.Root, tree.Directory, "big"), add(tree.Root, tree.Directory, "small")
		var files, dirs []tree.Inode
		for _, name := range numbered("f%04d", 700) {
			files = append(files, add(big, tree.File, name))
		}
		files = append(files, add(small, tree.File, "x"), add(small, tree.Symlink, "y"))
		wide := add(small, tree.Directory, "wide")
		for _, name := range numbered("d%04d", 600) {
			dirs = append(dirs, add(wide, tree.Directory, name))
			files = append(files, add(dirs[len(dirs)-1], tree.File, "one"))
		}
		b.tx(func(ctx context.Context, tx *sqldb.Tx) error { return b.InsertAll(ctx, tx, b.fs, nodes) })
		b.populate("/keep/f")
		b.link("/big/f0000", "/keep/g")
		b.tag("/big/f0001", "k", "v")
		b.tag("/keep/f", "k", "v")

		all := append([]tree.Inode{big, small, wide}, dirs...)
		slices.Sort(all)
		got, err := b.Children(ctx, b.db, b.fs, all, 5000)
		if err != nil || len(got) != 700+3+600+600 {
			b.t.Fatalf("%d children, %v", len(got), err)
		}
		place := func(e tree.Entry) int { return slices.Index(all, e.Parent) }
		if !slices.IsSortedFunc(got, func(x, y tree.Entry) int { return place(x) - place(y) }) {
			b.t.Error("children are not grouped by directory in order")
		}
		some, err := b.Children(ctx, b.db, b.fs, all, 702)
		if err != nil || len(some) != 702 || some[699].Parent != big || some[700].Parent != small {
			b.t.Errorf("%d children, %v", len(some), err)
		}
		part, err := b.Slice(ctx, b.db, b.fs, big, "f0009", 5)
		if err != nil || len(part) != 5 || part[0].Name != "f0010" || part[4].Name != "f0014" || part[0].Dir {
			b.t.Errorf("slice %+v, %v", part, err)
		}
		b.tx(func(ctx context.Context, tx *sqldb.Tx) error {
			hangs, err := b.DirectoriesOf(ctx, tx, b.fs, append(all, files[0]))
			if err != nil || len(hangs) != 603 {
				b.t.Errorf("%d directories hang, %v", len(hangs), err)
			}
			locked, err := b.LockDirectories(ctx, tx, b.fs, append(append([]tree.Inode{9999, big}, all...), files[0]))
			if diff := cmp.Diff(all, locked); err != nil || diff != "" {
				b.t.Errorf("%v, locked (-want +got):\n%s", err, diff)
			}
			// A slice leaves what is outside of it.
			between := tree.Range{Slice: &tree.Slice{Parent: big, After: "f0009", Upto: "f0019"}}
			ten, err := b.FilesIn(ctx, tx, b.fs, between)
			n, deleteErr := b.DeleteFiles(ctx, tx, b.fs, between)
			if len(ten) != 10 || n != 10 || err != nil || deleteErr != nil {
				b.t.Errorf("slice of %d, deleted %d, %v, %v", len(ten), n, err, deleteErr)
			}
			rest, err := b.FilesIn(ctx, tx, b.fs, tree.Range{Parents: all})
			n, deleteErr = b.DeleteFiles(ctx, tx, b.fs, tree.Range{Parents: all})
			if len(rest) != 1292 || n != 1292 || err != nil || deleteErr != nil {
				b.t.Errorf("%d files, deleted %d, %v, %v", len(rest), n, err, deleteErr)
			}
			b.wantLeaves(tx, rest, files)
			whole, err := b.LockFiles(ctx, tx, b.fs, files)
			if len(whole) != 1302 || err != nil || whole[0].NLink != 2 || whole[1].NLink != 1 || whole[1].Size != 1 {
				b.t.Errorf("%d files, %v", len(whole), err)
			}
			for _, step := range []struct {
				name string
				want int64
				do   func() (int64, error)
			}{
				{"lower links", 1, func() (int64, error) { return b.LowerLinks(ctx, tx, b.fs, files[:1], 1) }},
				{"files", 1301, func() (int64, error) { return b.DeleteInodes(ctx, tx, b.fs, files[1:]) }},
				{"dentries in another directory", 0, func() (int64, error) {
					return b.DeleteDirectoryDentries(ctx, tx, b.fs, all, []tree.Inode{big})
				}},
				{"dentries", 603, func() (int64, error) {
					return b.DeleteDirectoryDentries(ctx, tx, b.fs, all, append([]tree.Inode{tree.Root}, all...))
				}},
				{"directories of no drive", 0, func() (int64, error) { return b.DeleteInodes(ctx, tx, 99, all) }},
				{"directories", 603, func() (int64, error) { return b.DeleteInodes(ctx, tx, b.fs, all) }},
			} {
				if n, err := step.do(); err != nil || n != step.want {
					b.t.Errorf("%s: %d, want %d, %v", step.name, n, step.want, err)
				}
			}
			return b.DeleteTags(ctx, tx, b.fs, files[1:])
		})
		b.check()
		if diff := cmp.Diff([]string{"keep"}, b.names(tree.Root, 10)); diff != "" {
			b.t.Errorf("left (-want +got):\n%s", diff)
		}
		if g := b.at("/keep/g"); g.NLink != 1 || g.Inode != files[0] {
			b.t.Errorf("the name outside: %+v", g)
		}
		if tags, err := b.Tags(ctx, b.db, b.fs, b.at("/keep/f").Inode); len(tags) != 1 || err != nil {
			b.t.Errorf("tags of what stays: %v, %v", tags, err)
		}
	})
}

// wantLeaves compares what was found of files with what is said of them under a lock.
func (b *bench) wantLeaves(tx *sqldb.Tx, found []tree.Leaf, files []tree.Inode) {
	b.t.Helper()
	ids := make([]tree.Inode, len(found))
	for i, l := range found {
		ids[i] = l.Inode
	}
	held, err := b.LockLeaves(b.t.Context(), tx, b.fs, append(ids, 9999))
	if err != nil {
		b.t.Fatal(err)
	}
	slices.SortFunc(found, func(a, b tree.Leaf) int { return int(a.Inode - b.Inode) })
	want := slices.Clone(found)
	for i := range want {
		want[i].NLink, want[i].Size = 1, 1
		if want[i].Inode == files[0] {
			want[i].NLink = 2
		}
	}
	if diff := cmp.Diff(want, held); diff != "" {
		b.t.Errorf("held (-want +got):\n%s", diff)
	}
	if read := found[0].NLink != 0; read != (b.db.Dialect().Name == sqldb.SQLite) {
		b.t.Errorf("the look has read the inodes: %v", read)
	} else if diff := cmp.Diff(want, found); read && diff != "" {
		b.t.Errorf("found (-want +got):\n%s", diff)
	}
}
