package drive

import (
	"context"

	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// CopyOptions of Copy.
type CopyOptions struct {
	IfMatch   string // compared with the source
	NoReplace bool   // an existing file at the destination is fault.Conflict
	Actor     string
}

// Copy copies a file, which shares its content until one of both is written, or a symbolic
// link, which is not followed and replaces nothing. Missing parents of the destination are
// made with it. A directory is fault.Unsupported: its copy is the client's loop.
func (d *Drive) Copy(ctx context.Context, fs tree.FS, from, to string, opts CopyOptions) (e Entry, created bool, err error) {
	const op = "drive.Copy"
	source, err := parse(op, from)
	if err != nil {
		return Entry{}, false, err
	}
	target, err := parse(op, to)
	if err != nil {
		return Entry{}, false, err
	}
	// The source is resolved with every try: its content may be another one by then.
	err = d.again(ctx, op, func() error {
		src, err := d.find(ctx, d.db, op, fs, source, false)
		if err != nil {
			return err
		}
		if err := require(op, opts.IfMatch, src.node, true, source); err != nil {
			return err
		}
		switch src.node.Kind {
		case tree.Directory:
			return fault.New(op, fault.Unsupported, CodeCopyDirectory, "%s is a directory: copy what is in it, as lethe fs cp -r does", source)
		case tree.Symlink:
			e, err = d.copyLink(ctx, fs, src, target, opts.Actor)
			created = true
			return err
		case tree.File:
		}
		want := placement{op: op, path: target, noReplace: opts.NoReplace, actor: opts.Actor}
		at, err := d.target(toTarget(ctx), fs, want)
		if err != nil {
			return err
		}
		if err := d.feed.CheckQuota(ctx, d.db, int64(fs), growth(at, src.node.Size)); err != nil {
			return err
		}
		b := payload{id: src.node.Content, size: src.node.Size, name: func(ctx context.Context, tx *sqldb.Tx) error {
			return d.content.Ref(ctx, tx, int64(fs), src.node.Content)
		}}
		if created = !at.found(); created {
			leaf := fileNode(b, 0)
			leaf.Mode = src.node.Mode // no bits at all are bits too
			e, err = d.create(ctx, fs, at, creation{op: op, leaf: leaf, bytes: &b, actor: opts.Actor})
		} else {
			e, err = d.replace(ctx, fs, want, at, b)
		}
		return err
	})
	return e, created, err
}

func (d *Drive) copyLink(ctx context.Context, fs tree.FS, src spot, target tree.Path, actor string) (Entry, error) {
	const op = "drive.Copy"
	at, err := d.vacant(toTarget(ctx), d.db, op, fs, target)
	if err != nil {
		return Entry{}, err
	}
	if err := d.feed.CheckQuota(ctx, d.db, int64(fs), feed.Delta{Files: 1}); err != nil {
		return Entry{}, err
	}
	leaf := tree.Node{Kind: tree.Symlink, Mode: src.node.Mode, Target: src.node.Target}
	return d.create(ctx, fs, at, creation{op: op, leaf: leaf, actor: actor})
}
