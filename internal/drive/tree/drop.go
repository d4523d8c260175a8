package tree

import (
	"context"

	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	dropLock sqldb.Statement = "DELETE FROM fs_lock WHERE fs_id = ?"
	dropIDs  sqldb.Statement = "DELETE FROM fs_ids WHERE fs_id = ?"
)

// DropDrive removes the rows of a drive that has nothing any more. The caller holds the
// move lock and the root exclusively, and has seen root and trash empty after that.
func (t *Tree) DropDrive(ctx context.Context, tx *sqldb.Tx, fs FS) error {
	for _, ino := range []Inode{Root, Trash} {
		if _, err := tx.Exec(ctx, deleteInode, int64(fs), int64(ino)); err != nil {
			return err
		}
	}
	for _, s := range []sqldb.Statement{dropLock, dropIDs} {
		if _, err := tx.Exec(ctx, s, int64(fs)); err != nil {
			return err
		}
	}
	return nil
}
