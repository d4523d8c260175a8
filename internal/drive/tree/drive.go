package tree

import (
	"context"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// CodeNoSuchDrive is the code of a drive that was never made.
const CodeNoSuchDrive fault.Code = "NoSuchDrive"

func noSuchDrive() error {
	return fault.New("tree", fault.NotFound, CodeNoSuchDrive, "this tenant has no drive")
}

// rootMode is the permission bits of a new root.
const rootMode = 0o755

const (
	addDrive sqldb.Statement = "{insert ignore} fs_lock (fs_id, created_at) VALUES (?, ?) {ignore}"
	addIDs   sqldb.Statement = "{insert ignore} fs_ids (fs_id, next_id) VALUES (?, ?) {ignore}"
	addRoot  sqldb.Statement = `{insert ignore} inodes (fs_id, inode_id, kind, mode, size, nlink, revision, created_at, modified_at, changed_at)
		VALUES (?, ?, ?, ?, 0, 1, 1, ?, ?, ?) {ignore}`
)

// CreateDrive makes the root, the trash, the move lock and the ids of a drive. One that
// is there stays as it is.
func (t *Tree) CreateDrive(ctx context.Context, tx *sqldb.Tx, fs FS) error {
	now := milliseconds()
	if _, err := tx.Exec(ctx, addDrive, int64(fs), now); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, addIDs, int64(fs), int64(first)); err != nil {
		return err
	}
	for _, ino := range []Inode{Root, Trash} {
		if _, err := tx.Exec(ctx, addRoot, int64(fs), int64(ino), int64(Directory), rootMode, now, now, now); err != nil {
			return err
		}
	}
	return nil
}

func milliseconds() int64 { return time.Now().UnixMilli() }
