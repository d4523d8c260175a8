package tree

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	// maxDepth bounds a walk to the root: paths are shorter, renamed chains may not be.
	maxDepth = 1 << 15
	// maxLinks is how many names of a file PathOf looks at.
	maxLinks = 100
)

// upStatement climbs 16 directories. A directory has one dentry, which the index finds.
var upStatement = func() sqldb.Statement {
	var what, lateral, joins strings.Builder
	below := "r.inode_id"
	for i := 1; i <= hops; i++ {
		if i > 1 {
			what.WriteString(", ")
		}
		fmt.Fprintf(&what, "f%d.parent_id, f%d.name", i, i)
		fmt.Fprintf(&lateral, ` LEFT JOIN LATERAL (SELECT parent_id, name FROM file_nodes f
			WHERE f.fs_id = r.fs_id AND f.inode_id = %s AND f.inode_id > 0 AND f.is_directory = 1 LIMIT 1) f%d ON true`, below, i)
		fmt.Fprintf(&joins, ` LEFT JOIN file_nodes f%d {index:file_nodes_inode}
			ON f%d.fs_id = r.fs_id AND f%d.inode_id = %s AND f%d.is_directory = 1`, i, i, i, below, i)
		below = fmt.Sprintf("f%d.parent_id", i)
	}
	return sqldb.Statement("SELECT " + what.String() + " FROM (SELECT {on postgres}?::bigint AS fs_id, ?::bigint AS inode_id) r" + lateral.String() +
		"{else}? AS fs_id, ? AS inode_id) r" + joins.String() + "{end} LIMIT 1")
}()

const dentriesOf sqldb.Statement = `SELECT parent_id, name FROM file_nodes {index:file_nodes_inode} WHERE fs_id = ? AND inode_id = ? AND inode_id > 0 LIMIT ?`

// climb walks from a directory to the root and returns the names passed, deepest first,
// and the directories, with the first one and the last one that is there. It stops at a
// directory without a dentry, which is the root in a tree that is visible.
func climb(ctx context.Context, r sqldb.Reader, fs FS, dir Inode) (names []string, dirs []Inode, err error) {
	dirs = []Inode{dir}
	for len(dirs) < maxDepth {
		var parents [hops]sql.NullInt64
		var found [hops]sql.NullString
		dest := make([]any, 0, 2*hops)
		for i := range hops {
			dest = append(dest, &parents[i], &found[i])
		}
		if dir == Root || dir == Trash {
			return names, dirs, nil
		}
		if err := r.QueryRow(ctx, upStatement, int64(fs), int64(dir)).Scan(dest...); err != nil {
			return nil, nil, err
		}
		for i := range hops {
			if !parents[i].Valid {
				return names, dirs, nil
			}
			dir = Inode(parents[i].Int64)
			names, dirs = append(names, found[i].String), append(dirs, dir)
		}
	}
	return nil, nil, fmt.Errorf("tree: inode %d of drive %d is more than %d directories deep", dir, fs, maxDepth)
}

// IsBelow walks up from dir: below tells whether maybeAncestor is dir or lies above it,
// visible whether the way leads to the root rather than to the trash or nowhere. Under the
// exclusive move lock both stay so.
func (t *Tree) IsBelow(ctx context.Context, tx *sqldb.Tx, fs FS, dir, maybeAncestor Inode) (below, visible bool, err error) {
	_, dirs, err := climb(ctx, tx, fs, dir)
	if err != nil {
		return false, false, err
	}
	return slices.Contains(dirs, maybeAncestor), dirs[len(dirs)-1] == Root, nil
}

// PathOf returns a path that leads to an inode now; visible is false when none does: it
// is not there, or only in the trash. Of a file with very many names it looks at some.
// The path may be longer than MaxPath.
func (t *Tree) PathOf(ctx context.Context, r sqldb.Reader, fs FS, ino Inode) (path Path, visible bool, err error) {
	if ino == Root {
		return Path{}, true, nil
	}
	var entries []Entry
	err = each(ctx, r, dentriesOf, []any{int64(fs), int64(ino), maxLinks}, func(rows *sql.Rows) error {
		var e Entry
		err := rows.Scan(&e.Parent, &e.Name)
		entries = append(entries, e)
		return err
	})
	if err != nil {
		return Path{}, false, err
	}
	for _, e := range entries {
		names, dirs, err := climb(ctx, r, fs, e.Parent)
		if err != nil {
			return Path{}, false, err
		}
		if dirs[len(dirs)-1] == Root {
			slices.Reverse(names)
			return Path{names: append(names, e.Name)}, true, nil
		}
	}
	return Path{}, false, nil
}
