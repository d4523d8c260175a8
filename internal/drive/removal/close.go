package removal

import (
	"context"
	"slices"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// closeAll removes emptied directories from the tail of done, a batch at once.
func (s *sweep) closeAll(ctx context.Context) error {
	for len(s.done) > 0 {
		at := max(0, len(s.done)-s.m.batch)
		set := sortedSet(s.done[at:])
		s.done = s.done[:at]
		set = slices.DeleteFunc(set, func(d tree.Inode) bool { return d == s.job.Root })
		if len(set) == 0 {
			continue
		}
		got, err := s.tx(ctx, func(tx *sqldb.Tx) (Counts, error) { return s.close(ctx, tx, set) })
		if err != nil {
			return err
		}
		s.m.metrics.lifts.Inc()
		s.dirs += got.Directories
		if got.Directories == 0 {
			s.done = s.done[:0] // what is above cannot leave either; the next pass sees it
		}
		if err := s.attend(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close removes those of set that have no child, or only children that leave with them.
func (s *sweep) close(ctx context.Context, tx *sqldb.Tx, set []tree.Inode) (c Counts, err error) {
	m, fs := s.m, s.job.FS
	parent, err := s.lockSet(ctx, tx, set)
	if err != nil {
		return c, err
	}
	ids := make([]tree.Inode, 0, len(parent))
	for d := range parent {
		ids = append(ids, d)
	}
	slices.Sort(ids)
	if len(ids) == 0 {
		return c, nil
	}
	// Read after the lock: nobody adds or removes an entry of these any more.
	entries, err := m.tree.Children(ctx, tx, fs, ids, len(ids)+1)
	if err != nil {
		return c, err
	}
	if err := m.step(ctx, "sweep.childless"); err != nil {
		return c, err
	}
	if len(entries) > len(ids) {
		return c, nil // new entries in plenty: the next pass drains them
	}
	stays := map[tree.Inode]bool{}
	for _, e := range entries {
		if e.Dir && parent[e.Inode] == e.Parent {
			continue // it leaves, unless one below it keeps it
		}
		for d := e.Parent; parent[d] != 0 && !stays[d]; d = parent[d] {
			stays[d] = true
		}
	}
	leave := slices.DeleteFunc(ids, func(d tree.Inode) bool { return stays[d] })
	if len(leave) == 0 {
		return c, nil
	}
	parents := make([]tree.Inode, len(leave))
	for i, d := range leave {
		parents[i] = parent[d]
	}
	if err := exactly(len(leave), m.cfg.lax)(m.tree.DeleteDirectoryDentries(ctx, tx, fs, leave, sortedSet(parents))); err != nil {
		return c, err
	}
	if err := m.RemoveDirectories(ctx, tx, fs, leave); err != nil {
		return c, err
	}
	c.Directories = int64(len(leave))
	return c, m.step(ctx, "sweep.closed")
}

// lockSet locks directories and their parents, and returns the parent of each that is
// there and still hangs where it hung, in this tree.
func (s *sweep) lockSet(ctx context.Context, tx *sqldb.Tx, set []tree.Inode) (map[tree.Inode]tree.Inode, error) {
	m := s.m
	hang, err := m.tree.DirectoriesOf(ctx, tx, s.job.FS, set) // plain: it says which parents to lock
	if err != nil {
		return nil, err
	}
	parent := make(map[tree.Inode]tree.Inode, len(hang))
	lock := slices.Clone(set)
	for _, e := range hang {
		parent[e.Inode] = e.Parent
		lock = append(lock, e.Parent)
	}
	if err := m.step(ctx, "sweep.closeread"); err != nil {
		return nil, err
	}
	if !m.cfg.lax.noCloseLock {
		got, err := m.tree.LockDirectories(ctx, tx, s.job.FS, sortedSet(lock))
		if err != nil {
			return nil, err
		}
		held := make(map[tree.Inode]bool, len(got))
		for _, d := range got {
			held[d] = true
		}
		for d, p := range parent {
			// One below the trash is a job of its own.
			if !held[d] || !held[p] || p == tree.Trash && !m.cfg.lax.noBarrier {
				delete(parent, d)
			}
		}
	}
	return parent, m.step(ctx, "sweep.closelocked")
}
