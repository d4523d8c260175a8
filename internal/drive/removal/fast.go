package removal

import (
	"context"
	"errors"
	"slices"

	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// errDetach says that a tree is not for the fast path: it is too big, or its locks are not
// to be had. Nothing was changed.
var errDetach = errors.New("removal: not in one transaction")

// fast removes a tree of at most BatchSize nodes in one transaction, without a job. Each
// level of directories is locked before its children are read. errDetach, tree.ErrMoved.
func (m *Removal) fast(ctx context.Context, req Request, was tree.Node) (counts Counts, err error) {
	contended := false
	body := func(tx *sqldb.Tx) error {
		counts = Counts{Transactions: 1}
		at, err := m.target(ctx, tx, req)
		if err != nil {
			return err
		}
		node := at.Last()
		if node.Kind != tree.Directory {
			return tree.ErrMoved
		}
		was = node
		if err := m.step(ctx, "fast.resolved"); err != nil {
			return err
		}
		if err := m.tree.LockShared(ctx, tx, req.FS, node.Parent); err != nil {
			return err
		}
		if err := m.tree.RemoveDentry(ctx, tx, req.FS, node); err != nil {
			return err
		}
		dirs, below, err := m.lockTree(ctx, tx, req.FS, node.Inode)
		if err != nil {
			return err
		}
		if err := m.step(ctx, "fast.locked"); err != nil {
			return err
		}
		freed, err := m.removeTree(ctx, tx, req.FS, dirs, below)
		if err != nil {
			return err
		}
		counts.Directories, counts.Bytes = int64(len(dirs)), freed.Bytes
		counts.Files = int64(len(below)) - (counts.Directories - 1)
		if err := m.feed.Publish(ctx, tx, int64(req.FS), reset(req, node)); err != nil {
			return err
		}
		if err := m.mark(ctx, tx, req.FS); err != nil {
			return err
		}
		return m.step(ctx, "fast.marked")
	}
	err = m.sweeper.Tx(ctx, func(tx *sqldb.Tx) error {
		err := body(tx)
		if tx.Dialect().Classify(err) == sqldb.ClassLockWait {
			contended = true
			return errDetach // the detach needs none of the locks that are hard to get
		}
		return err
	}, sqldb.LockWait(fastLockWait), sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		left, err := m.tree.LockDirectories(ctx, tx, req.FS, []tree.Inode{was.Inode})
		return len(left) == 0, err
	}))
	if contended {
		m.metrics.incomplete.WithLabelValues("lock_wait").Inc()
	}
	return counts, err
}

// lockTree locks all directories from dir down, each level by id before its children are
// read, and returns them (dir first) and all entries below.
func (m *Removal) lockTree(ctx context.Context, tx *sqldb.Tx, fs tree.FS, dir tree.Inode) (dirs []tree.Inode, below []tree.Entry, err error) {
	for level := []tree.Inode{dir}; len(level) > 0; {
		slices.Sort(level)
		got, err := m.tree.LockDirectories(ctx, tx, fs, level)
		if err != nil {
			return nil, nil, err
		}
		if len(got) != len(level) {
			return nil, nil, tree.ErrMoved
		}
		dirs = append(dirs, level...)
		if err := m.step(ctx, "fast.level"); err != nil {
			return nil, nil, err
		}
		var next []tree.Inode
		for part := range slices.Chunk(level, m.batch) {
			room := m.cfg.BatchSize - 1 - len(below)
			entries, err := m.tree.Children(ctx, tx, fs, part, room+1)
			if err != nil {
				return nil, nil, err
			}
			if len(entries) > room {
				return nil, nil, errDetach
			}
			below = append(below, entries...)
			for _, e := range entries {
				if e.Dir {
					next = append(next, e.Inode)
				}
			}
		}
		level = next
	}
	return dirs, below, nil
}

// removeTree removes everything below dirs, all of which the transaction holds, and dirs.
func (m *Removal) removeTree(ctx context.Context, tx *sqldb.Tx, fs tree.FS, dirs []tree.Inode, below []tree.Entry) (Freed, error) {
	counts := map[tree.Inode]int64{}
	filled := map[tree.Inode]int{} // files of each directory
	var inner, parents []tree.Inode
	for _, e := range below {
		if e.Dir {
			inner, parents = append(inner, e.Inode), append(parents, e.Parent)
		} else {
			counts[e.Inode]++
			filled[e.Parent]++
		}
	}
	with := make([]tree.Inode, 0, len(filled))
	for d := range filled {
		with = append(with, d)
	}
	slices.Sort(with)
	for part := range slices.Chunk(with, m.batch) {
		n := 0
		for _, d := range part {
			n += filled[d]
		}
		if err := exactly(n, m.cfg.lax)(m.tree.DeleteFiles(ctx, tx, fs, tree.Range{Parents: part})); err != nil {
			return Freed{}, err
		}
	}
	if len(inner) > 0 {
		slices.Sort(inner)
		slices.Sort(parents)
		if err := exactly(len(inner), m.cfg.lax)(m.tree.DeleteDirectoryDentries(ctx, tx, fs, inner, slices.Compact(parents))); err != nil {
			return Freed{}, err
		}
	}
	freed, err := m.Unlink(ctx, tx, fs, counts)
	if err != nil {
		return Freed{}, err
	}
	dirs = slices.Sorted(slices.Values(dirs))
	return freed, m.RemoveDirectories(ctx, tx, fs, dirs)
}

// reset is the one event of a subtree that came or went.
func reset(req Request, node tree.Node) feed.Event {
	return feed.Event{Kind: feed.Reset, Parent: int64(node.Parent), Name: node.Name, Inode: int64(node.Inode), Revision: node.Revision, Path: req.Path.String(), Actor: req.Actor}
}
