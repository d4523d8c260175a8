package removal

import (
	"context"
	"errors"

	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const restoreJob sqldb.Statement = `UPDATE drive_delete_job SET state = 'CANCELLED', phase = 'RESTORED', restored_at = {now}, heartbeat_at = NULL, paused = 0, acked_at = NULL, updated_at = {now}
	WHERE id = ? AND fs_id + 0 = ? AND lease_epoch = 0 AND restored_at IS NULL AND NULLIF(state, '') IN ('PENDING', 'CANCELLED', 'FAILED')`

// Restored is where a restore put what it found.
type Restored struct {
	Job   Job
	Path  tree.Path
	Inode tree.Inode

	dir tree.Inode // that it is in
}

// Restore brings a tree or file back, to where it was deleted, or to the path of to if
// that is not nil. What a worker has claimed, what was restored already and a name that
// is taken are fault.Conflict; a directory that is not there any more is fault.NotFound.
func (m *Removal) Restore(ctx context.Context, fs tree.FS, id job.ID, to *tree.Path, actor string) (back Restored, err error) {
	err = m.again(ctx, func() error {
		return m.db.Tx(ctx, func(tx *sqldb.Tx) (err error) {
			back, err = m.restore(ctx, tx, fs, id, to, actor)
			return err
		}, m.confirmRestored(fs, id, &back))
	})
	if err != nil {
		return Restored{}, err
	}
	m.tree.TouchDirectory(ctx, fs, back.dir)
	return back, nil
}

// confirmRestored reads an ambiguous commit back by the time that the transaction wrote into
// the job's row: another restore has another one. The move lock waits for the transaction if
// it is still being decided.
func (m *Removal) confirmRestored(fs tree.FS, id job.ID, back *Restored) sqldb.Option {
	return sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		if err := m.tree.MoveLock(ctx, tx, fs, true); err != nil {
			return false, err
		}
		j, err := m.jobOf(ctx, tx, fs, id)
		return err == nil && j.RestoredAt != 0 && j.RestoredAt == back.Job.RestoredAt, err
	})
}

func (m *Removal) restore(ctx context.Context, tx *sqldb.Tx, fs tree.FS, id job.ID, to *tree.Path, actor string) (back Restored, err error) {
	if err := m.tree.MoveLock(ctx, tx, fs, true); err != nil {
		return back, err
	}
	j, err := m.jobOf(ctx, tx, fs, id)
	if err != nil {
		return back, err
	}
	n, err := tx.Exec(ctx, restoreJob, int64(id), int64(fs)) // decides against workers and other restores
	if err != nil {
		return back, err
	}
	if n != 1 {
		return back, fault.New("removal.Restore", fault.Conflict, CodeNotInTrash, "%s cannot be restored any more: it is %s", m.jobs.Name(id), j.standing())
	}
	parent, name, path, err := m.home(ctx, tx, j, to)
	if err != nil {
		return back, err
	}
	if err := m.tree.LockShared(ctx, tx, fs, parent); err != nil {
		return back, err
	}
	err = m.tree.Move(ctx, tx, fs, tree.Node{Parent: tree.Trash, Name: entryName(id), Inode: j.Root}, parent, name)
	if errors.Is(err, tree.ErrExists) {
		return back, fault.Wrap("removal.Restore", fault.Conflict, CodeExists, err, "%s is taken", path)
	}
	if err != nil {
		return back, err
	}
	if err := m.step(ctx, "restore.moved"); err != nil {
		return back, err
	}
	err = m.feed.Publish(ctx, tx, int64(fs), feed.Event{Kind: feed.Reset, Parent: int64(parent), Name: name, Inode: int64(j.Root), Path: path.String(), Actor: actor})
	if err != nil {
		return back, err
	}
	j, err = m.jobOf(ctx, tx, fs, id)
	return Restored{Job: j, Path: path, Inode: j.Root, dir: parent}, err
}

// standing says in words why a job's tree cannot come back.
func (j Job) standing() string {
	switch {
	case j.RestoredAt != 0:
		return "restored"
	case j.Partial():
		return "deleted in part"
	}
	return string(j.State)
}

// home finds the directory and name that a restore goes to, visible now. Under the
// exclusive move lock it stays visible.
func (m *Removal) home(ctx context.Context, tx *sqldb.Tx, j Job, to *tree.Path) (parent tree.Inode, name string, path tree.Path, err error) {
	if to != nil {
		if to.IsRoot() {
			return 0, "", path, fault.New("removal.Restore", fault.Conflict, CodeExists, "/ is taken")
		}
		at, err := m.tree.Resolve(ctx, tx, j.FS, to.Parent())
		if err != nil {
			return 0, "", path, err
		}
		if !at.Exists() || at.Last().Kind != tree.Directory {
			return 0, "", path, fault.New("removal.Restore", fault.NotFound, CodeNoSuchPath, "there is no directory %s", to.Parent())
		}
		return at.Last().Inode, to.Base(), *to, nil
	}
	above, visible, err := m.tree.PathOf(ctx, tx, j.FS, j.OriginParent)
	if err != nil {
		return 0, "", path, err
	}
	if !visible {
		return 0, "", path, fault.New("removal.Restore", fault.NotFound, CodeNoSuchPath, "the directory that %s was in is gone: say where to restore it", j.Path)
	}
	path, err = above.Join(j.OriginName)
	return j.OriginParent, j.OriginName, path, err
}
