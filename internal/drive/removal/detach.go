package removal

import (
	"context"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// detach takes a directory out of the visible tree, whatever is in it, and leaves it to a
// job. From its commit on the path is free.
func (m *Removal) detach(ctx context.Context, req Request) (id job.ID, node tree.Node, err error) {
	err = m.db.Tx(ctx, func(tx *sqldb.Tx) error {
		id = 0
		if !m.cfg.lax.noMoveLock {
			// Moves of directories are exclusive: what is resolved now stays where it is.
			if err := m.tree.MoveLock(ctx, tx, req.FS, false); err != nil {
				return err
			}
		}
		at, err := m.target(ctx, tx, req)
		if err != nil {
			return err
		}
		if node = at.Last(); node.Kind != tree.Directory {
			return tree.ErrMoved
		}
		if err := m.step(ctx, "detach.resolved"); err != nil {
			return err
		}
		if err := m.tree.LockShared(ctx, tx, req.FS, node.Parent); err != nil {
			return err
		}
		if id, err = m.toTrash(ctx, tx, TreeJob, req, node); err != nil {
			return err
		}
		if err := m.step(ctx, "detach.moved"); err != nil {
			return err
		}
		if err := m.feed.Publish(ctx, tx, int64(req.FS), reset(req, node)); err != nil {
			return err
		}
		return m.mark(ctx, tx, req.FS)
	}, m.confirm(req, &node.Parent, &id))
	return id, node, err
}

// toTrash moves a dentry, whose parent the transaction holds, below the trash, and writes
// the job that will take it away.
func (m *Removal) toTrash(ctx context.Context, tx *sqldb.Tx, kind JobKind, req Request, node tree.Node) (job.ID, error) {
	id, err := m.insertJob(ctx, tx, newJob{
		fs: req.FS, kind: kind, node: node, path: req.Path.String(), actor: req.Actor, operation: req.operation, delay: m.cfg.TrashRetention,
	})
	if err != nil {
		return 0, err
	}
	return id, m.tree.Move(ctx, tx, req.FS, node, tree.Trash, entryName(id))
}

// confirm reads an ambiguous commit back by the job that the operation made. A row that is
// not committed yet keeps nobody waiting on every engine; the directory that the operation
// held does.
func (m *Removal) confirm(req Request, parent *tree.Inode, id *job.ID) sqldb.Option {
	return sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		if _, err := m.tree.LockDirectories(ctx, tx, req.FS, []tree.Inode{*parent}); err != nil {
			return false, err
		}
		row, found, err := m.jobs.FindByRequest(ctx, tx, req.operation)
		if found {
			*id = row.ID
		}
		return found, err
	})
}
