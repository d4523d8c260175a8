package tree_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// Nothing on a request path, in a sweep or in a reconcile reads more of a drive than it
// was asked for. The drive has a directory of 5,000 files beside 1,000 of 2, and a second
// one is as large, so that a drive is not the whole table.
func TestPlans(t *testing.T) {
	t.Parallel()
	var nodes []tree.Node
	var dirs, files []tree.Inode
	add := func(parent tree.Inode, kind tree.Kind, i int) tree.Inode {
		ino := tree.Inode(100 + len(nodes))
		nodes = append(nodes, tree.Node{Parent: parent, Name: fmt.Sprintf("n%05d", i), Inode: ino, Kind: kind})
		if kind == tree.Directory {
			dirs = append(dirs, ino)
		} else {
			files = append(files, ino)
		}
		return ino
	}
	large := add(tree.Root, tree.Directory, 0)
	for i := range 5_000 {
		add(large, tree.File, i)
	}
	for i := range 1000 {
		small := add(tree.Root, tree.Directory, i+1)
		add(small, tree.File, 0)
		add(small, tree.File, 1)
	}
	row := func(format string, values func(tree.Node) []any) func(int) string {
		return func(i int) string { // one row of each drive after the other
			return fmt.Sprintf(format, append([]any{7 + i%2}, values(nodes[i/2])...)...)
		}
	}
	sqldbtest.Plans(t, sqldbtest.PlanTest{
		Owners: []sqldb.Migrations{tree.Migrations},
		Rows: []sqldbtest.Rows{
			{
				Into: "file_nodes (fs_id, parent_id, name, inode_id, is_directory)", N: 2 * len(nodes),
				Values: row("(%d,%d,'%s',%d,%d)", func(n tree.Node) []any {
					return []any{n.Parent, n.Name, n.Inode, map[bool]int{true: 1}[n.Kind == tree.Directory]}
				}),
			},
			{
				Into: "inodes (fs_id, inode_id, kind, mode, size, nlink, revision, created_at, modified_at, changed_at)", N: 2 * len(nodes),
				Values: row("(%d,%d,%d,0,0,1,1,0,0,0)", func(n tree.Node) []any { return []any{n.Inode, n.Kind} }),
			},
			{
				Into: "file_tags (fs_id, inode_id, name, value)", N: 2 * len(nodes),
				Values: row("(%d,%d,'n00000','v')", func(n tree.Node) []any { return []any{n.Inode} }),
			},
		},
		Shared:  []string{"file_nodes.fs_id", "inodes.fs_id", "file_tags.fs_id"},
		Queries: queries(dirs, files),
	})
}

func ids(of []tree.Inode) sqldb.IDs {
	list := make(sqldb.IDs, len(of))
	for i, ino := range of {
		list[i] = int64(ino)
	}
	slices.Sort(list)
	return list
}

func queries(dirs, files []tree.Inode) []sqldbtest.Query {
	fs, dir, file, name := int64(7), int64(dirs[0]), int64(files[0]), "n00000"
	request := []sqldbtest.Query{
		{Name: "get", Text: tree.StatementGet, Args: []any{fs, file}},
		{Name: "list", Text: tree.StatementList, Args: []any{fs, dir, "n00100", 1000}},
		{Name: "list of a small one", Text: tree.StatementList, Args: []any{fs, int64(dirs[5]), "", 1000}},
		{Name: "lock shared", Text: tree.StatementLockShared, Args: []any{ids(dirs[:2]), fs}},
		{Name: "lock one shared", Text: tree.StatementLockShared, Args: []any{ids(dirs[:1]), fs}},
		{Name: "lock", Text: tree.StatementLock, Args: []any{ids(files[:1]), fs}},
		{Name: "lock a directory", Text: tree.StatementLockKinds, Args: []any{ids(dirs[:1]), fs}},
		{Name: "lock a leaf", Text: tree.StatementLockLeaves, Args: []any{ids(files[:1]), fs}},
		{Name: "dentries", Text: tree.StatementDentries, Args: []any{fs, file, 100}},
		{Name: "childless", Text: tree.StatementChildless, Args: []any{fs, dir}},
		{Name: "remove", Text: tree.StatementRemove, Args: []any{fs, dir, name, file}},
		{Name: "move", Text: tree.StatementMove, Args: []any{dir, "new", fs, dir, name, file}},
		{Name: "link", Text: tree.StatementRaise, Args: []any{1, fs, file}},
		{Name: "content", Text: tree.StatementUpdate, Args: []any{1, 1, 1, 1, fs, file}},
		{Name: "mode", Text: tree.StatementMode, Args: []any{1, 1, fs, file}},
		{Name: "touch", Text: tree.StatementTouch, Args: []any{1, 1, fs, dir, 1}},
		{Name: "tags", Text: tree.StatementTags, Args: []any{fs, file}},
		{Name: "tag", Text: tree.StatementTag, Args: []any{"v", fs, file, name}},
		{Name: "untag", Text: tree.StatementRemoveTag, Args: []any{fs, file, name}},
		{Name: "climb", Text: tree.Up, Args: []any{fs, dir}},
		{Name: "delete one inode", Text: tree.StatementInode, Args: []any{fs, file}},
		{Name: "lower one's links", Text: tree.StatementLowerOne, Args: []any{1, fs, file}},
		{Name: "delete one's tags", Text: tree.StatementDeleteTagsOf, Args: []any{fs, file}},
		{Name: "note tag", Text: tree.StatementNoteTags, Args: []any{1, fs, file}},
		{Name: "set times", Text: tree.StatementTimes, Args: []any{1, 1, fs, file}},
		{Name: "has entry", Text: tree.StatementEntryIs, Args: []any{fs, dir, name, file}},
	}
	for _, n := range []int{1, 3, 16} {
		args := make([]any, 0, n+2)
		for range n {
			args = append(args, name)
		}
		request = append(request, sqldbtest.Query{Name: "resolve", Text: tree.Down[n-1], Args: append(args, fs, int64(tree.Root))})
	}
	const batch = 500
	some, these := ids(dirs[1:batch+1]), ids(files[:batch])
	few := some[:50] // for more of so few rows it is cheaper to read the index
	sweep := []sqldbtest.Query{
		{Name: "children", Text: tree.StatementChildren, Args: []any{some, fs, batch + 1}},
		{Name: "children of a large one", Text: tree.StatementChildren, Args: []any{ids(dirs[:1]), fs, batch + 1}},
		{Name: "slice", Text: tree.StatementSlice, Args: []any{fs, dir, "n00100", batch + 1}},
		{Name: "lock directories", Text: tree.StatementLockKinds, Args: []any{some, fs}},
		{Name: "lock files", Text: tree.StatementLock, Args: []any{these, fs}},
		{Name: "leaves", Text: tree.StatementLeavesOf, Args: []any{fs, some}, Engine: sqldb.SQLite},
		{Name: "leaves between", Text: tree.StatementLeaves, Args: []any{fs, dir, "n00100", "n01000"}, Engine: sqldb.SQLite},
		{Name: "files", Text: tree.StatementFilesOf, Args: []any{fs, some}},
		{Name: "files between", Text: tree.StatementFiles, Args: []any{fs, dir, "n00100", "n01000"}},
		{Name: "lock leaves", Text: tree.StatementLockLeaves, Args: []any{these, fs}},
		{Name: "delete files", Text: tree.StatementDeleteOf, Args: []any{fs, some}},
		{Name: "delete files between", Text: tree.StatementDelete, Args: []any{fs, dir, "n00100", "n01000"}},
		{Name: "directories", Text: tree.StatementDirectories, Args: []any{fs, few}},
		{Name: "delete directories", Text: tree.StatementDeleteDirs, Args: []any{fs, few, few}},
		{Name: "delete inodes", Text: tree.StatementInodes, Args: []any{fs, these}},
		{Name: "lower links", Text: tree.StatementLower, Args: []any{1, fs, these}},
		{Name: "delete tags", Text: tree.StatementDeleteTags, Args: []any{fs, these}},
		{Name: "parents after", Text: tree.StatementParentsAfter, Args: []any{fs, dir, batch}},
		{Name: "inodes after", Text: tree.StatementInodesAfter, Args: []any{fs, dir, batch}},
		{Name: "present", Text: tree.StatementPresent, Args: []any{fs, these}},
		{Name: "sizes", Text: tree.StatementSizes, Args: []any{fs, these}},
		{Name: "named", Text: tree.StatementNamed, Args: []any{fs, these}},
		{Name: "has entry, reconcile", Text: tree.StatementEntryIs, Args: []any{fs, dir, name, file}},
		{Name: "delete trashed", Text: tree.StatementDeleteTrashed, Args: []any{fs, sqldb.Strings{"1", "2", "n00003"}}},
	}
	for i := range sweep {
		sweep[i].Sweeper = true
	}
	return append(request, sweep...)
}
