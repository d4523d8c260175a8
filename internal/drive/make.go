package drive

import (
	"context"

	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// MkdirOptions of Mkdir.
type MkdirOptions struct {
	Parents bool   // make missing parents, and take an existing directory as success
	Mode    uint32 // permission bits, 0 means 0755
	Actor   string
}

// Mkdir makes a directory.
func (d *Drive) Mkdir(ctx context.Context, fs tree.FS, path string, opts MkdirOptions) (e Entry, created bool, err error) {
	const op = "drive.Mkdir"
	target, err := parse(op, path)
	if err != nil {
		return Entry{}, false, err
	}
	mode := opts.Mode & permissions
	if mode == 0 {
		mode = defaultDirectoryMode
	}
	err = d.again(ctx, op, func() error {
		at, err := d.walk(ctx, d.db, op, fs, target, true)
		switch {
		case err != nil:
			return err
		case at.found() && opts.Parents && at.node.Kind == tree.Directory:
			e, created = entryOf(at.path, at.node), false
			return nil
		case at.found():
			return exists(op, target)
		case len(at.missing) > 1 && !opts.Parents:
			return notFound(op, at.path.Parent())
		}
		created = true
		e, err = d.create(ctx, fs, at, creation{op: op, leaf: tree.Node{Kind: tree.Directory, Mode: mode}, actor: opts.Actor})
		return err
	})
	return e, created, err
}

// Symlink makes a symbolic link at path with a target of 1 to 4,096 bytes, which need not
// exist. Missing parents are made with it.
func (d *Drive) Symlink(ctx context.Context, fs tree.FS, path, target string, change Change) (e Entry, err error) {
	const op = "drive.Symlink"
	at, err := parse(op, path)
	if err != nil {
		return Entry{}, err
	}
	if err := checkTarget(op, target); err != nil {
		return Entry{}, err
	}
	if err := d.feed.CheckQuota(ctx, d.db, int64(fs), feed.Delta{Files: 1}); err != nil {
		return Entry{}, err
	}
	err = d.again(ctx, op, func() error {
		at, err := d.vacant(ctx, d.db, op, fs, at)
		if err != nil {
			return err
		}
		leaf := tree.Node{Kind: tree.Symlink, Mode: 0o777, Target: target}
		e, err = d.create(ctx, fs, at, creation{op: op, leaf: leaf, actor: change.Actor})
		return err
	})
	return e, err
}

func checkTarget(op, target string) error {
	if target == "" || len(target) > tree.MaxPath {
		return fault.New(op, fault.Invalid, CodeInvalidTarget, "the target of a symbolic link has 1 to %d bytes", tree.MaxPath)
	}
	for _, name := range components(target) {
		if err := tree.CheckName(name); name != ".." && err != nil {
			return fault.Wrap(op, fault.Invalid, CodeInvalidTarget, err, "%s", fault.Public(err))
		}
	}
	return nil
}

// vacant resolves where a new name goes.
func (d *Drive) vacant(ctx context.Context, r sqldb.Reader, op string, fs tree.FS, path tree.Path) (spot, error) {
	at, err := d.walk(ctx, r, op, fs, path, false)
	if err == nil && at.found() {
		err = exists(op, path)
	}
	return at, err
}

// Link gives the file or symbolic link at path another name, whose directory must exist.
func (d *Drive) Link(ctx context.Context, fs tree.FS, path, to string, change Change) (e Entry, err error) {
	const op = "drive.Link"
	from, err := parse(op, path)
	if err != nil {
		return Entry{}, err
	}
	target, err := parse(op, to)
	if err != nil {
		return Entry{}, err
	}
	err = d.again(ctx, op, func() error {
		src, err := d.find(ctx, d.db, op, fs, from, false)
		if err != nil {
			return err
		}
		if src.node.Kind == tree.Directory {
			return isDirectory(op, from)
		}
		dst, err := d.vacant(toTarget(ctx), d.db, op, fs, target)
		if err != nil {
			return err
		}
		if len(dst.missing) > 1 {
			return notFound(op, dst.path.Parent())
		}
		e, err = d.link(ctx, fs, src, dst, change)
		return err
	})
	return e, err
}

func (d *Drive) link(ctx context.Context, fs tree.FS, src, dst spot, change Change) (Entry, error) {
	const op = "drive.Link"
	var node tree.Node
	err := d.tx(ctx, op, func(tx *sqldb.Tx) (err error) {
		if err := d.after(d.tree.LockShared(ctx, tx, fs, dst.dir), op, "locked"); err != nil {
			return err
		}
		if err := d.after(d.tree.Link(ctx, tx, fs, dst.dir, dst.path.Base(), src.node.Inode), op, "linked"); err != nil {
			return err
		}
		if node, err = d.lockFile(ctx, tx, fs, src); err != nil { // it is locked already; this reads it
			return err
		}
		if err := require(op, change.IfMatch, node, true, src.path); err != nil {
			return err
		}
		node.Parent, node.Name = dst.dir, dst.path.Base()
		return d.after(d.feed.Publish(ctx, tx, int64(fs), eventOf(feed.Create, dst.path, node, change.Actor)), op, "published")
	}, sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		return d.readBack(ctx, tx, fs, dst, src.node.Inode)
	}))
	if err != nil {
		return Entry{}, err
	}
	d.tree.TouchDirectory(ctx, fs, dst.dir)
	return entryOf(dst.path, node), nil
}
