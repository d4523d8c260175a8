package drive

import (
	"context"

	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// CodeDriveNotEmpty is the code of a drive that cannot be dropped.
const CodeDriveNotEmpty fault.Code = "DriveNotEmpty"

// DropDriveIn removes a drive, as a step of the transaction that drops its tenant; one with
// files, or with anything in its trash or being swept, is fault.Conflict. Uploads under way
// are aborted. It holds the root exclusively while it looks, so that a create is before it,
// and seen, or comes later and finds no drive.
func (d *Drive) DropDriveIn(ctx context.Context, tx *sqldb.Tx, fs tree.FS) error {
	if err := d.tree.MoveLock(ctx, tx, fs, true); err != nil {
		return err
	}
	if _, err := d.tree.LockDirectories(ctx, tx, fs, []tree.Inode{tree.Root, tree.Trash}); err != nil {
		return err
	}
	for _, dir := range []tree.Inode{tree.Root, tree.Trash} {
		empty, err := d.tree.Childless(ctx, tx, fs, dir)
		if err != nil {
			return err
		}
		if !empty {
			return fault.New("drive.DropDrive", fault.Conflict, CodeDriveNotEmpty, "the drive has files, or deleted ones that are not gone yet: delete them first")
		}
	}
	_, reserved, err := d.content.AbortIn(ctx, tx, int64(fs), []int64{int64(tree.Root)})
	if err != nil {
		return err
	}
	if err := d.feed.Add(ctx, tx, int64(fs), feed.Delta{Reserved: -reserved}); err != nil {
		return err
	}
	if err := d.tree.DropDrive(ctx, tx, fs); err != nil {
		return err
	}
	return d.feed.DropDrive(ctx, tx, int64(fs))
}
