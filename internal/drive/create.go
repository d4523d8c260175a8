package drive

import (
	"context"
	"time"

	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// creation is a new entry: its inode without ids and times, and the bytes of a file.
type creation struct {
	op    string
	leaf  tree.Node
	bytes *payload
	base  tree.Inode // of an upload: must be alive and visible; 0 for none
	actor string
}

// create makes what is missing at a spot in one transaction: directories on the way, and
// the leaf last.
func (d *Drive) create(ctx context.Context, fs tree.FS, at spot, c creation) (Entry, error) {
	ids, err := d.tree.NewIDs(ctx, fs, len(at.missing))
	if err != nil {
		return Entry{}, err
	}
	now := time.Now().UnixMilli()
	nodes := make([]tree.Node, len(at.missing))
	parent := at.dir
	for i, missing := range at.missing {
		n := tree.Node{Kind: tree.Directory, Mode: defaultDirectoryMode}
		if i == len(nodes)-1 {
			n = c.leaf
		}
		n.Parent, n.Name, n.Inode = parent, missing, tree.Inode(ids[i])
		n.NLink, n.Revision = 1, 1
		n.Created, n.Modified, n.Changed = now, now, now
		nodes[i] = n
		parent = n.Inode
	}
	leaf := nodes[len(nodes)-1]
	delta := feed.Delta{}
	if leaf.Kind != tree.Directory {
		delta = feed.Delta{Bytes: leaf.Size, Files: 1}
	}
	if c.bytes != nil {
		delta.Reserved = -c.bytes.reserved
	}
	err = d.tx(ctx, c.op, func(tx *sqldb.Tx) error {
		if err := d.after(d.hold(ctx, tx, fs, at.dir, c.base), c.op, "locked"); err != nil {
			return err
		}
		if err := d.after(d.tree.InsertAll(ctx, tx, fs, nodes), c.op, "inserted"); err != nil {
			return err
		}
		if c.bytes != nil {
			if err := d.after(c.bytes.name(ctx, tx), c.op, "named"); err != nil {
				return err
			}
		}
		if err := d.after(d.feed.Add(ctx, tx, int64(fs), delta), c.op, "counted"); err != nil {
			return err
		}
		events := make([]feed.Event, len(nodes))
		path := at.path
		for i := len(nodes) - 1; i >= 0; i-- {
			events[i] = eventOf(feed.Create, path, nodes[i], c.actor)
			path = path.Parent()
		}
		return d.after(d.feed.Publish(ctx, tx, int64(fs), events...), c.op, "published")
	}, sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		if _, err := d.tree.LockDirectories(ctx, tx, fs, []tree.Inode{at.dir}); err != nil { // waits until it is decided
			return false, err
		}
		_, found, err := d.tree.Get(ctx, tx, fs, leaf.Inode)
		return found, err
	}))
	if err != nil {
		return Entry{}, err
	}
	d.tree.TouchDirectory(ctx, fs, at.dir)
	return entryOf(at.path, leaf), nil
}

// hold locks the directory that gets or keeps an entry and, for an upload, the one that it
// is bound to, which must still hang under the root: an upload never resurrects a tree.
func (d *Drive) hold(ctx context.Context, tx *sqldb.Tx, fs tree.FS, dir, base tree.Inode) error {
	if base == 0 {
		return d.tree.LockShared(ctx, tx, fs, dir)
	}
	if err := d.tree.LockShared(ctx, tx, fs, dir, base); err != nil {
		return err
	}
	_, visible, err := d.tree.IsBelow(ctx, tx, fs, base, tree.Root)
	if err == nil && !visible {
		return tree.ErrMoved
	}
	return err
}

// readBack is the look whether the entry at a spot is that inode, once the change of its
// directory is decided.
func (d *Drive) readBack(ctx context.Context, tx *sqldb.Tx, fs tree.FS, at spot, ino tree.Inode) (bool, error) {
	if _, err := d.tree.LockDirectories(ctx, tx, fs, []tree.Inode{at.dir}); err != nil {
		return false, err
	}
	found, err := d.tree.Resolve(ctx, tx, fs, at.path)
	switch {
	case err != nil:
		return false, err
	case found.Exists():
		if last := found.Last(); last.Parent == at.dir {
			return last.Inode == ino, nil
		}
	case len(found.Missing) == 1 && found.Last().Inode == at.dir:
		return false, nil
	}
	return false, errChangedAgain // the directory was moved since
}

func eventOf(kind feed.Kind, path tree.Path, n tree.Node, actor string) feed.Event {
	return feed.Event{
		Kind: kind, Parent: int64(n.Parent), Name: path.Base(), Inode: int64(n.Inode), Revision: n.Revision,
		Path: path.String(), Actor: actor,
	}
}
