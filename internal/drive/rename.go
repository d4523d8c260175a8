package drive

import (
	"context"

	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// RenameOptions of Rename.
type RenameOptions struct {
	IfMatch   string // compared with the source
	NoReplace bool   // anything at the destination is fault.Conflict
	Actor     string
}

// Rename moves an entry, atomically. A file or symbolic link replaces one of those, a
// directory an empty directory only; a directory does not go below itself. Two names of
// one file stay both. The directory of the destination must exist.
func (d *Drive) Rename(ctx context.Context, fs tree.FS, from, to string, opts RenameOptions) (e Entry, err error) {
	const op = "drive.Rename"
	source, err := parse(op, from)
	if err != nil {
		return Entry{}, err
	}
	target, err := parse(op, to)
	if err != nil {
		return Entry{}, err
	}
	if source.IsRoot() || target.IsRoot() {
		return Entry{}, isRoot(op)
	}
	m := move{d: d, op: op, fs: fs, source: source, target: target, opts: opts}
	err = d.again(ctx, op, func() error {
		if err := m.resolve(ctx, d.db); err != nil {
			return err
		}
		e, err = m.run(ctx)
		return err
	})
	return e, err
}

// move is one rename.
type move struct {
	d              *Drive
	op             string
	fs             tree.FS
	source, target tree.Path
	opts           RenameOptions

	src, dst spot
}

// resolve finds both ends and refuses what can not be.
func (m *move) resolve(ctx context.Context, r sqldb.Reader) (err error) {
	if m.src, err = m.d.find(ctx, r, m.op, m.fs, m.source, false); err != nil {
		return err
	}
	if err := require(m.op, m.opts.IfMatch, m.src.node, true, m.source); err != nil {
		return err
	}
	if m.dst, err = m.d.walk(toTarget(ctx), r, m.op, m.fs, m.target, false); err != nil {
		return err
	}
	// Asked without a link too: the answer may depend on where the source was found.
	if err := inScope(toTarget(ctx), m.dst.path); err != nil {
		return err
	}
	src, dst := m.src, m.dst
	switch {
	case src.node.Kind == tree.Directory && src.path.Contains(dst.path) && len(src.path.Names()) < len(dst.path.Names()):
		return fault.New(m.op, fault.Conflict, CodeIntoItself, "%s can not be moved into itself", m.source)
	case len(dst.missing) > 1:
		return notFound(m.op, dst.path.Parent())
	case !dst.found():
		return nil
	case m.opts.NoReplace && (dst.dir != src.dir || dst.node.Name != src.node.Name):
		return exists(m.op, m.target)
	case m.same():
		return nil
	case src.node.Kind == tree.Directory && dst.node.Kind != tree.Directory:
		return notDirectory(m.op, m.target)
	case src.node.Kind != tree.Directory && dst.node.Kind == tree.Directory:
		return isDirectory(m.op, m.target)
	case dst.node.Inode == src.dir || dst.path.Contains(src.path): // it contains the source
		return notEmpty(m.op, m.target)
	}
	return nil
}

// same tells whether both ends are one inode: then nothing is to be done (POSIX rename).
func (m *move) same() bool { return m.dst.found() && m.src.node.Inode == m.dst.node.Inode }

// crosses tells whether a directory goes to another parent: then what is above and below
// it changes, under the move lock.
func (m *move) crosses() bool { return m.src.node.Kind == tree.Directory && m.src.dir != m.dst.dir }

func (m *move) run(ctx context.Context) (Entry, error) {
	if m.same() {
		return entryOf(m.dst.path, m.dst.node), nil
	}
	d := m.d
	crossing := m.crosses()
	opts := []sqldb.Option{sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		return d.readBack(ctx, tx, m.fs, m.dst, m.src.node.Inode) // of the ends as they are by then
	})}
	if m.dst.found() && m.dst.node.Kind == tree.Directory {
		opts = append(opts, d.impatient()...)
	}
	err := d.tx(ctx, m.op, func(tx *sqldb.Tx) error {
		if crossing {
			if err := d.after(m.takeMoveLock(ctx, tx), m.op, "move-locked"); err != nil {
				return err
			}
		}
		if err := d.after(d.tree.LockShared(ctx, tx, m.fs, m.src.dir, m.dst.dir), m.op, "locked"); err != nil {
			return err
		}
		return m.change(ctx, tx)
	}, opts...)
	if err != nil {
		if m.dst.found() && m.dst.node.Kind == tree.Directory {
			err = d.contended(ctx, m.op, m.fs, m.dst, err)
		}
		return Entry{}, err
	}
	d.tree.TouchDirectory(ctx, m.fs, m.src.dir)
	if m.dst.dir != m.src.dir {
		d.tree.TouchDirectory(ctx, m.fs, m.dst.dir)
	}
	node := m.src.node
	node.Parent, node.Name = m.dst.dir, m.dst.path.Base()
	return entryOf(m.dst.path, node), nil
}

// takeMoveLock makes sure that no other directory moves, and resolves again: the tree as
// it was before says nothing about cycles and detached trees now.
func (m *move) takeMoveLock(ctx context.Context, tx *sqldb.Tx) error {
	if err := m.d.tree.MoveLock(ctx, tx, m.fs, true); err != nil {
		return err
	}
	if err := m.resolve(ctx, tx); err != nil {
		return err
	}
	if !m.crosses() || m.same() {
		return tree.ErrMoved // it is another operation now
	}
	below, visible, err := m.d.tree.IsBelow(ctx, tx, m.fs, m.dst.dir, m.src.node.Inode)
	switch {
	case err != nil:
		return err
	case below:
		return fault.New(m.op, fault.Conflict, CodeIntoItself, "%s can not be moved into itself", m.source)
	case !visible:
		return tree.ErrMoved
	}
	return nil
}

// change is the rename itself, under the locks of both parents.
func (m *move) change(ctx context.Context, tx *sqldb.Tx) error {
	d, replaced := m.d, m.dst.node
	if m.opts.IfMatch != "" && m.src.node.Kind != tree.Directory { // what was read may be an old revision
		node, err := d.lockFile(ctx, tx, m.fs, m.src)
		if err != nil {
			return err
		}
		if err := require(m.op, m.opts.IfMatch, node, true, m.source); err != nil {
			return err
		}
	}
	if m.dst.found() {
		if err := d.after(d.tree.RemoveDentry(ctx, tx, m.fs, replaced), m.op, "cleared"); err != nil {
			return err
		}
		if replaced.Kind == tree.Directory {
			if err := d.takeEmpty(ctx, tx, m.op, m.fs, m.dst); err != nil {
				return err
			}
		}
	}
	if err := d.after(d.tree.Move(ctx, tx, m.fs, m.src.node, m.dst.dir, m.dst.path.Base()), m.op, "moved"); err != nil {
		return err
	}
	if m.dst.found() {
		var err error
		if replaced.Kind == tree.Directory {
			err = d.removal.RemoveDirectories(ctx, tx, m.fs, []tree.Inode{replaced.Inode})
		} else {
			_, err = d.removal.Unlink(ctx, tx, m.fs, map[tree.Inode]int64{replaced.Inode: 1})
		}
		if err := d.after(err, m.op, "unlinked"); err != nil {
			return err
		}
	}
	node := m.src.node
	node.Parent = m.dst.dir
	event := eventOf(feed.Rename, m.dst.path, node, m.opts.Actor)
	event.From = m.src.path.String()
	return d.after(d.feed.Publish(ctx, tx, int64(m.fs), event), m.op, "published")
}
