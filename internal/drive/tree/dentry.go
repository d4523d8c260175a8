package tree

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	inodeValues  = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	dentryValues = "(?, ?, ?, ?, ?)"

	insertInode sqldb.Statement = `INSERT INTO inodes
		(fs_id, inode_id, kind, mode, size, nlink, revision, content_id, target, created_at, modified_at, changed_at) VALUES ` + inodeValues
	insertName   sqldb.Statement = "INSERT INTO file_nodes (fs_id, parent_id, name, inode_id, is_directory) VALUES " + dentryValues
	raiseLinks   sqldb.Statement = "UPDATE inodes SET nlink = nlink + 1, changed_at = ? WHERE fs_id = ? AND inode_id = ? AND kind <> 1 AND nlink > 0"
	removeDentry sqldb.Statement = "DELETE FROM file_nodes WHERE fs_id = ? AND parent_id = ? AND name = ? AND inode_id = ?"
	moveDentry   sqldb.Statement = "UPDATE file_nodes SET parent_id = ?, name = ? WHERE fs_id = ? AND parent_id = ? AND name = ? AND inode_id = ?"
	// The order keeps PostgreSQL at the key: one entry, any, is found soonest by a scan if
	// most rows are of this directory.
	anyChild sqldb.Statement = "SELECT inode_id FROM file_nodes {key} WHERE fs_id = ? AND parent_id = ? ORDER BY name LIMIT 1"
)

// taken says that the name is taken when that is what a duplicate key means. On PostgreSQL
// the transaction is over then, so for every caller ErrExists means to roll back.
func taken(tx *sqldb.Tx, err error) error {
	if tx.Dialect().Classify(err) == sqldb.ClassUnique {
		return fmt.Errorf("%w: %w", ErrExists, err)
	}
	return err
}

// Insert makes an inode and its first dentry; its parent is held. A link count and a
// revision of 0 mean 1, times of 0 mean now. A taken name is ErrExists: the transaction
// rolls back.
func (t *Tree) Insert(ctx context.Context, tx *sqldb.Tx, fs FS, node Node) error {
	return t.InsertAll(ctx, tx, fs, []Node{node})
}

// InsertAll is Insert of several nodes, two statements in all. They may be each other's
// parents; of the others' parents each is held.
func (t *Tree) InsertAll(ctx context.Context, tx *sqldb.Tx, fs FS, nodes []Node) error {
	now := milliseconds()
	var inodes, dentries []any
	for _, n := range nodes {
		dentries = append(dentries, int64(fs), int64(n.Parent), n.Name, int64(n.Inode), isDirectory(n.Kind))
		inodes = append(
			inodes, int64(fs), int64(n.Inode), int64(n.Kind), int64(n.Mode), n.Size, max(n.NLink, 1), max(n.Revision, 1),
			sql.NullInt64{Int64: n.Content, Valid: n.Content != 0}, sql.NullString{String: n.Target, Valid: n.Kind == Symlink},
			orNow(n.Created, now), orNow(n.Modified, now), orNow(n.Changed, now),
		)
	}
	if err := insert(ctx, tx, insertInode, inodeValues, inodes); err != nil {
		return err // an id that was used is nobody's name
	}
	return taken(tx, insert(ctx, tx, insertName, dentryValues, dentries))
}

// insert runs the insert of one row for all rows of args, as many at once as the engine
// takes.
func insert(ctx context.Context, tx *sqldb.Tx, one sqldb.Statement, values string, args []any) error {
	width := strings.Count(values, "?")
	for len(args) > 0 {
		n := min(len(args)/width, tx.Dialect().MaxInsert)
		s := one + sqldb.Statement(strings.Repeat(", "+values, n-1))
		if _, err := tx.Exec(ctx, s, args[:n*width]...); err != nil {
			return err
		}
		args = args[n*width:]
	}
	return nil
}

func isDirectory(k Kind) int64 {
	if k == Directory {
		return 1
	}
	return 0
}

func orNow(at, now int64) int64 {
	if at == 0 {
		return now
	}
	return at
}

// Link gives a file or symbolic link one more name; the parent is held. A taken name is
// ErrExists: the transaction rolls back. A file that is gone, or a directory, is ErrMoved.
func (t *Tree) Link(ctx context.Context, tx *sqldb.Tx, fs FS, parent Inode, name string, file Inode) error {
	if _, err := tx.Exec(ctx, insertName, int64(fs), int64(parent), name, int64(file), 0); err != nil {
		return taken(tx, err)
	}
	return must(tx.Exec(ctx, raiseLinks, milliseconds(), int64(fs), int64(file)))
}

// RemoveDentry removes the entry that was resolved, by parent, name and inode; the parent
// is held. Another one, or none, is ErrMoved.
func (t *Tree) RemoveDentry(ctx context.Context, tx *sqldb.Tx, fs FS, node Node) error {
	return must(tx.Exec(ctx, removeDentry, int64(fs), int64(node.Parent), node.Name, int64(node.Inode)))
}

// Move gives the entry that was resolved another parent and name; both parents are held
// (the trash needs not). Another entry there, or none, is ErrMoved; a taken name is
// ErrExists: the transaction rolls back.
func (t *Tree) Move(ctx context.Context, tx *sqldb.Tx, fs FS, from Node, toParent Inode, toName string) error {
	n, err := tx.Exec(ctx, moveDentry, int64(toParent), toName, int64(fs), int64(from.Parent), from.Name, int64(from.Inode))
	return taken(tx, must(n, err))
}

// Childless tells whether a directory, which the caller took for itself by an earlier
// statement, has no entry.
func (t *Tree) Childless(ctx context.Context, tx *sqldb.Tx, fs FS, dir Inode) (bool, error) {
	var child int64
	err := tx.QueryRow(ctx, anyChild, int64(fs), int64(dir)).Scan(&child)
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return false, err
}
