package tree

import (
	"context"
	"database/sql"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Leaf is the inode of a file or link, as far as its removal needs it.
type Leaf struct {
	Inode   Inode
	NLink   int64 // 0: not read
	Size    int64 // bytes
	Content int64 // key of the content, 0 for none
}

const leafColumns = "n.inode_id, n.nlink, n.size, COALESCE(n.content_id, 0)"

const (
	filesOf      sqldb.Statement = "SELECT inode_id FROM file_nodes {key} WHERE {keys:fs_id,parent_id} AND is_directory = 0"
	filesBetween sqldb.Statement = "SELECT inode_id FROM file_nodes {key} WHERE fs_id = ? AND parent_id = ? AND name > ? AND name <= ? AND is_directory = 0"

	// The same with the inodes, for SQLite.
	leavesOf sqldb.Statement = `SELECT f.inode_id, COALESCE(n.nlink, 0), COALESCE(n.size, 0), COALESCE(n.content_id, 0)
		FROM file_nodes f {key} LEFT JOIN inodes n {key} ON n.fs_id = f.fs_id AND n.inode_id = f.inode_id
		WHERE {keys:f.fs_id,f.parent_id} AND f.is_directory = 0`
	leavesBetween sqldb.Statement = `SELECT f.inode_id, COALESCE(n.nlink, 0), COALESCE(n.size, 0), COALESCE(n.content_id, 0)
		FROM file_nodes f {key} LEFT JOIN inodes n {key} ON n.fs_id = f.fs_id AND n.inode_id = f.inode_id
		WHERE f.fs_id = ? AND f.parent_id = ? AND f.name > ? AND f.name <= ? AND f.is_directory = 0`

	lockLeaves sqldb.Statement = `{on postgres}SELECT ` + leafColumns + ` FROM unnest({array}) u(i)
		CROSS JOIN LATERAL (SELECT n.inode_id, n.nlink, n.size, n.content_id FROM inodes n WHERE n.inode_id = u.i AND n.fs_id = ? {for update}) n{else}
		SELECT ` + leafColumns + ` FROM inodes n {key} WHERE n.inode_id {in} AND n.fs_id = ? ORDER BY n.inode_id {for update}{end}`
)

// FilesIn returns the inodes that the range's entries name and that are no directories,
// once for every entry. The directories are held exclusively, by an earlier statement.
//
// Only their ids are set where others may change a file meanwhile: LockLeaves reads the
// rest. On SQLite, where a transaction is the only one that writes, the inodes come along,
// and what they say holds until it ends; one that is not there has no links.
func (t *Tree) FilesIn(ctx context.Context, tx *sqldb.Tx, fs FS, in Range) ([]Leaf, error) {
	of, between := filesOf, filesBetween
	var at Leaf
	dest := []any{&at.Inode}
	if tx.Dialect().Name == sqldb.SQLite {
		of, between = leavesOf, leavesBetween
		dest = at.dest()
	}
	var out []Leaf
	add := func(rows *sql.Rows) error {
		err := rows.Scan(dest...)
		out = append(out, at)
		return err
	}
	if s := in.Slice; s != nil {
		err := each(ctx, tx, between, []any{int64(fs), int64(s.Parent), s.After, s.Upto}, add)
		return out, err
	}
	err := chunks(tx.Dialect(), in.Parents, func(ids sqldb.IDs) error {
		return each(ctx, tx, of, []any{int64(fs), ids}, add)
	})
	return out, err
}

// LockLeaves takes inodes for oneself and returns, ascending, those that are still there:
// what is computed from them holds until the transaction ends.
func (t *Tree) LockLeaves(ctx context.Context, tx *sqldb.Tx, fs FS, ids []Inode) ([]Leaf, error) {
	out := make([]Leaf, 0, len(ids))
	var at Leaf
	dest := at.dest()
	err := chunks(tx.Dialect(), sorted(ids), func(part sqldb.IDs) error {
		return each(ctx, tx, lockLeaves, []any{part, int64(fs)}, func(rows *sql.Rows) error {
			err := rows.Scan(dest...)
			out = append(out, at)
			return err
		})
	})
	return out, err
}

func (l *Leaf) dest() []any { return []any{&l.Inode, &l.NLink, &l.Size, &l.Content} }
