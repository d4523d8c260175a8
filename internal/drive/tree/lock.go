package tree

import (
	"context"
	"database/sql"
	"errors"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// A lock of several rows takes them by ascending id, whatever the statistics say: on
// PostgreSQL each is a look by key of its own, in the order of the array.
const (
	lockMovesShared sqldb.Statement = "SELECT created_at FROM fs_lock WHERE fs_id = ? {for share}"
	lockMoves       sqldb.Statement = "SELECT created_at FROM fs_lock WHERE fs_id = ? {for update}"

	lockShared sqldb.Statement = `{on postgres}SELECT n.inode_id, n.kind FROM unnest({array}) u(i)
		CROSS JOIN LATERAL (SELECT n.inode_id, n.kind FROM inodes n WHERE n.inode_id = u.i AND n.fs_id = ? {for key share}) n{else}
		SELECT n.inode_id, n.kind FROM inodes n {key} WHERE n.inode_id {in} AND n.fs_id = ? ORDER BY n.inode_id {for key share}{end}`

	lockKinds sqldb.Statement = `{on postgres}SELECT n.inode_id, n.kind FROM unnest({array}) u(i)
		CROSS JOIN LATERAL (SELECT n.inode_id, n.kind FROM inodes n WHERE n.inode_id = u.i AND n.fs_id = ? {for update}) n{else}
		SELECT n.inode_id, n.kind FROM inodes n {key} WHERE n.inode_id {in} AND n.fs_id = ? ORDER BY n.inode_id {for update}{end}`

	lockExclusive sqldb.Statement = `{on postgres}SELECT ` + columns + ` FROM unnest({array}) u(i)
		CROSS JOIN LATERAL (SELECT * FROM inodes n WHERE n.inode_id = u.i AND n.fs_id = ? {for update}) n{else}
		SELECT ` + columns + ` FROM inodes n {key} WHERE n.inode_id {in} AND n.fs_id = ? ORDER BY n.inode_id {for update}{end}`
)

// MoveLock takes the drive's move lock until the transaction ends: exclusive to move a
// directory to another parent, shared to detach one. What was resolved before is to be
// resolved again. A drive that does not exist is fault.NotFound with CodeNoSuchDrive.
func (t *Tree) MoveLock(ctx context.Context, tx *sqldb.Tx, fs FS, exclusive bool) error {
	s := lockMovesShared
	if exclusive {
		s = lockMoves
	}
	var created int64
	err := tx.QueryRow(ctx, s, int64(fs)).Scan(&created)
	if errors.Is(err, sql.ErrNoRows) {
		return noSuchDrive()
	}
	return err
}

// LockShared holds directories so that they stay alive, and nobody sweeps them, until the
// transaction ends. One that is not alive or no directory is ErrMoved.
func (t *Tree) LockShared(ctx context.Context, tx *sqldb.Tx, fs FS, dirs ...Inode) error {
	dirs = sorted(dirs)
	alive := 0
	err := chunks(tx.Dialect(), dirs, func(ids sqldb.IDs) error {
		return each(ctx, tx, lockShared, []any{ids, int64(fs)}, func(rows *sql.Rows) error {
			var ino Inode
			var kind Kind
			err := rows.Scan(&ino, &kind)
			if kind == Directory {
				alive++
			}
			return err
		})
	})
	if err == nil && alive != len(dirs) {
		return ErrMoved
	}
	return err
}

// LockDirectories takes directories for oneself, so that nobody adds, removes or moves an
// entry of theirs until the transaction ends. It returns, ascending, those that are still
// there. What they contain is to be read by a later statement.
func (t *Tree) LockDirectories(ctx context.Context, tx *sqldb.Tx, fs FS, dirs []Inode) ([]Inode, error) {
	var there []Inode
	err := chunks(tx.Dialect(), sorted(dirs), func(part sqldb.IDs) error {
		return each(ctx, tx, lockKinds, []any{part, int64(fs)}, func(rows *sql.Rows) error {
			var ino Inode
			var kind Kind
			err := rows.Scan(&ino, &kind)
			if kind == Directory {
				there = append(there, ino)
			}
			return err
		})
	})
	return there, err
}

// LockFiles takes inodes for oneself and returns, ascending, whole those that are still
// there: what is computed from them holds until the transaction ends.
func (t *Tree) LockFiles(ctx context.Context, tx *sqldb.Tx, fs FS, ids []Inode) ([]Node, error) {
	var out []Node
	err := chunks(tx.Dialect(), sorted(ids), func(part sqldb.IDs) error {
		return each(ctx, tx, lockExclusive, []any{part, int64(fs)}, func(rows *sql.Rows) error {
			var at row
			err := rows.Scan(at.dest()...)
			out = append(out, at.node())
			return err
		})
	})
	return out, err
}
