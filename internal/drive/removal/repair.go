package removal

import (
	"context"
	"slices"
	"strconv"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// What nothing reaches is repaired by hanging it into the trash with a job: an ordinary
// sweep then takes it, at any size, with all it owns, and until then it can be restored.
// Files that no entry names go at once. Pages are plain reads; under the lock each finding
// is looked at again, in statements of their own: nobody adds an entry to a directory that
// is gone, and a create is seen whole or not at all.

// trashPage looks for entries of the trash without a job.
func (a *audit) trashPage(ctx context.Context, at place) (string, error) {
	m := a.m
	entries, err := m.tree.Slice(ctx, m.sweeper, a.fs, tree.Trash, at.cursor, m.batch)
	if err != nil || len(entries) == 0 {
		return "", err
	}
	roots, err := m.owned(ctx, m.sweeper, a.fs, entries)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if roots[e.Name] == e.Inode {
			continue
		}
		stray := false
		err := a.tx(ctx, func(tx *sqldb.Tx) error {
			// A detach commits entry and job together, an end both away.
			now, err := m.owned(ctx, tx, a.fs, []tree.Entry{e})
			if err != nil {
				return err
			}
			there, err := m.tree.HasEntry(ctx, tx, a.fs, e)
			if err != nil {
				return err
			}
			stray = there && now[e.Name] != e.Inode
			if !stray || !a.repair {
				return nil
			}
			kind := FileJob
			if e.Dir {
				kind = TreeJob
			}
			id, err := a.adopt(ctx, tx, kind, e.Inode)
			if err != nil {
				return err
			}
			return m.tree.Move(ctx, tx, a.fs, tree.Node{Parent: tree.Trash, Name: e.Name, Inode: e.Inode}, tree.Trash, entryName(id))
		})
		if err != nil {
			return "", err
		}
		if stray {
			a.note(DetachedRoots, 1)
		}
	}
	if len(entries) < m.batch {
		return "", nil
	}
	return entries[len(entries)-1].Name, nil
}

// dentryPage looks for directories that are gone and have entries.
func (a *audit) dentryPage(ctx context.Context, at place) (string, error) {
	m := a.m
	parents, err := m.tree.ParentsAfter(ctx, m.sweeper, a.fs, tree.Inode(at.number()), m.batch)
	if err != nil || len(parents) == 0 {
		return "", err
	}
	there, err := m.tree.Present(ctx, m.sweeper, a.fs, parents)
	if err != nil {
		return "", err
	}
	for _, p := range slices.Compact(slices.Clone(parents)) {
		if there[p] || p == tree.Root || p == tree.Trash {
			continue
		}
		found := 0
		if err := a.tx(ctx, func(tx *sqldb.Tx) (err error) { found, err = a.rehang(ctx, tx, p); return err }); err != nil {
			return "", err
		}
		a.note(Dentries, found)
	}
	if len(parents) < m.batch {
		return "", nil
	}
	// The last one's other entries have the same parent: there is nothing more to learn.
	return strconv.FormatInt(int64(parents[len(parents)-1]), 10), nil
}

// rehang makes a directory that is gone anew, in the trash, and returns how many entries
// it has, as far as one page shows.
func (a *audit) rehang(ctx context.Context, tx *sqldb.Tx, dir tree.Inode) (int, error) {
	m := a.m
	if held, err := m.tree.LockDirectories(ctx, tx, a.fs, []tree.Inode{dir}); err != nil || len(held) > 0 {
		return 0, err
	}
	entries, err := m.tree.Children(ctx, tx, a.fs, []tree.Inode{dir}, m.batch)
	if err != nil || len(entries) == 0 || !a.repair {
		return len(entries), err
	}
	named, err := m.tree.DirectoriesOf(ctx, tx, a.fs, []tree.Inode{dir})
	if err != nil {
		return 0, err
	}
	if err := a.holdParents(ctx, tx, named); err != nil {
		return 0, err
	}
	for _, e := range named { // a name that led nowhere
		if err := m.tree.RemoveDentry(ctx, tx, a.fs, tree.Node{Parent: e.Parent, Name: e.Name, Inode: dir}); err != nil {
			return 0, err
		}
	}
	id, err := a.adopt(ctx, tx, TreeJob, dir)
	if err != nil {
		return 0, err
	}
	return len(entries), m.tree.Insert(ctx, tx, a.fs, tree.Node{Parent: tree.Trash, Name: entryName(id), Inode: dir, Kind: tree.Directory, Mode: 0o755})
}

// holdParents holds the directories that entries are in, as whoever removes an entry does.
// One that is gone, or is none, nobody can add an entry to.
func (a *audit) holdParents(ctx context.Context, tx *sqldb.Tx, entries []tree.Entry) error {
	var parents []tree.Inode
	for _, e := range entries {
		if e.Parent != tree.Trash {
			parents = append(parents, e.Parent)
		}
	}
	_, err := a.m.tree.LockDirectories(ctx, tx, a.fs, parents)
	return err
}

// inodePage looks for inodes that no entry names.
func (a *audit) inodePage(ctx context.Context, at place) (string, error) {
	m := a.m
	nodes, err := m.tree.InodesAfter(ctx, m.sweeper, a.fs, tree.Inode(at.number()), m.batch)
	if err != nil || len(nodes) == 0 {
		return "", err
	}
	ids := make([]tree.Inode, len(nodes))
	for i, n := range nodes {
		ids[i] = n.Inode
	}
	named, err := m.tree.Named(ctx, m.sweeper, a.fs, ids)
	if err != nil {
		return "", err
	}
	var files, dirs []tree.Inode
	for _, n := range nodes {
		switch {
		case named[n.Inode] || n.Inode == tree.Root || n.Inode == tree.Trash:
		case n.Kind == tree.Directory:
			dirs = append(dirs, n.Inode)
		default:
			files = append(files, n.Inode)
		}
	}
	if err := a.stranded(ctx, Files, files, a.dropFiles); err != nil {
		return "", err
	}
	if err := a.stranded(ctx, Directories, dirs, a.hangDirectories); err != nil {
		return "", err
	}
	if len(nodes) < m.batch {
		return "", nil
	}
	return strconv.FormatInt(int64(ids[len(ids)-1]), 10), nil
}

// stranded locks inodes, looks again for names, and repairs those that have none.
func (a *audit) stranded(ctx context.Context, c Class, ids []tree.Inode, repair func(context.Context, *sqldb.Tx, []tree.Node) error) error {
	if len(ids) == 0 {
		return nil
	}
	found := 0
	err := a.tx(ctx, func(tx *sqldb.Tx) error {
		found = 0
		nodes, err := a.m.tree.LockFiles(ctx, tx, a.fs, ids)
		if err != nil {
			return err
		}
		named, err := a.m.tree.Named(ctx, tx, a.fs, ids)
		if err != nil {
			return err
		}
		nodes = slices.DeleteFunc(nodes, func(n tree.Node) bool { return named[n.Inode] })
		if found = len(nodes); found == 0 || !a.repair {
			return nil
		}
		return repair(ctx, tx, nodes)
	})
	if err == nil {
		a.note(c, found)
	}
	return err
}

func (a *audit) dropFiles(ctx context.Context, tx *sqldb.Tx, nodes []tree.Node) error {
	links := make(map[tree.Inode]int64, len(nodes))
	for _, n := range nodes {
		links[n.Inode] = n.NLink // all that it believes to have
	}
	_, err := a.m.Unlink(ctx, tx, a.fs, links)
	return err
}

func (a *audit) hangDirectories(ctx context.Context, tx *sqldb.Tx, nodes []tree.Node) error {
	for _, n := range nodes {
		id, err := a.adopt(ctx, tx, TreeJob, n.Inode)
		if err != nil {
			return err
		}
		if err := a.m.tree.HangInTrash(ctx, tx, a.fs, entryName(id), n.Inode); err != nil {
			return err
		}
	}
	return nil
}

// adopt writes the job of something that has none.
func (a *audit) adopt(ctx context.Context, tx *sqldb.Tx, kind JobKind, root tree.Inode) (job.ID, error) {
	return a.m.insertJob(ctx, tx, newJob{fs: a.fs, kind: kind, node: tree.Node{Inode: root}, actor: "reconcile"})
}

// tx is one look under locks. The fence comes last: a delete holds directories when it
// takes the mark.
func (a *audit) tx(ctx context.Context, look func(tx *sqldb.Tx) error) error {
	err := a.m.again(ctx, func() error {
		return a.m.sweeper.Tx(ctx, func(tx *sqldb.Tx) error {
			if err := look(tx); err != nil {
				return err
			}
			if err := a.m.step(ctx, "reconcile.looked"); err != nil || a.fence == nil {
				return err
			}
			return a.fence(ctx, tx)
		})
	})
	if err == nil && a.repair {
		a.m.wake()
	}
	return err
}
