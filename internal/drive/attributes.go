package drive

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Bounds of tags.
const (
	MaxTags     = 128  // of one request
	maxTagsOf   = 1000 // of one entry: all of them are read and answered at once
	maxTagName  = 255  // bytes
	maxTagValue = 1024 // bytes
)

// Chmod sets the permission bits of what path names, following links. They are kept for
// clients; the server decides by tokens.
func (d *Drive) Chmod(ctx context.Context, fs tree.FS, path string, mode uint32, change Change) (Entry, error) {
	const op = "drive.Chmod"
	if mode&^permissions != 0 {
		return Entry{}, fault.New(op, fault.Invalid, "InvalidMode", "a mode is 0 to 7777, octal")
	}
	return d.attribute(ctx, op, fs, path, change, func(tx *sqldb.Tx, ino tree.Inode, now int64) error {
		return d.tree.SetMode(ctx, tx, fs, ino, mode, now)
	})
}

// attribute changes something of an inode under its lock and publishes that.
func (d *Drive) attribute(ctx context.Context, op string, fs tree.FS, path string, change Change, set func(tx *sqldb.Tx, ino tree.Inode, now int64) error) (e Entry, err error) {
	p, err := parse(op, path)
	if err != nil {
		return Entry{}, err
	}
	err = d.again(ctx, op, func() error {
		at, err := d.find(ctx, d.db, op, fs, p, true)
		if err != nil {
			return err
		}
		node, revision := at.node, int64(0) // after and before the change
		err = d.tx(ctx, op, func(tx *sqldb.Tx) (err error) {
			if node, err = d.lockInode(ctx, tx, fs, at); err != nil {
				return err
			}
			if err := d.at(op, "locked"); err != nil {
				return err
			}
			if err := require(op, change.IfMatch, node, true, p); err != nil {
				return err
			}
			revision = node.Revision
			now := time.Now().UnixMilli()
			if err := d.after(set(tx, node.Inode, now), op, "changed"); err != nil {
				return err
			}
			changed, found, err := d.tree.Get(ctx, tx, fs, node.Inode)
			if err != nil || !found {
				return err
			}
			changed.Parent, changed.Name = node.Parent, node.Name
			node = changed
			return d.after(d.feed.Publish(ctx, tx, int64(fs), eventOf(feed.Attrib, at.path, node, change.Actor)), op, "published")
		}, sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
			now, err := d.lockInode(ctx, tx, fs, at)
			if err == nil && now.Revision != revision && now.Revision != node.Revision {
				err = errChangedAgain
			}
			return now.Revision == node.Revision, err
		}))
		e = entryOf(at.path, node)
		return err
	})
	return e, err
}

// lockInode locks the inode at a spot, whatever it is, and returns it as it is now.
func (d *Drive) lockInode(ctx context.Context, tx *sqldb.Tx, fs tree.FS, at spot) (tree.Node, error) {
	if at.node.Kind != tree.Directory {
		return d.lockFile(ctx, tx, fs, at)
	}
	locked, err := d.tree.LockDirectories(ctx, tx, fs, []tree.Inode{at.node.Inode})
	if err != nil {
		return tree.Node{}, err
	}
	if len(locked) == 0 {
		return tree.Node{}, tree.ErrMoved
	}
	node, found, err := d.tree.Get(ctx, tx, fs, at.node.Inode)
	if err == nil && !found {
		err = tree.ErrMoved
	}
	node.Parent, node.Name = at.node.Parent, at.node.Name
	return node, err
}

// Tags returns the tags of what path names, following links.
func (d *Drive) Tags(ctx context.Context, fs tree.FS, path string) (map[string]string, error) {
	at, err := d.look(ctx, "drive.Tags", fs, path, true)
	if err != nil {
		return nil, err
	}
	return d.tree.Tags(ctx, d.db, fs, at.node.Inode)
}

// TagOptions of Tag.
type TagOptions struct {
	Set     map[string]string // names of 1 to 255 bytes, values up to 1,024; UTF-8
	Remove  []string          // missing ones are no error
	IfMatch string
	Actor   string
}

// Tag changes tags of what path names, all or none, and returns all of them afterwards.
func (d *Drive) Tag(ctx context.Context, fs tree.FS, path string, opts TagOptions) (tags map[string]string, err error) {
	const op = "drive.Tag"
	if err := checkTags(op, opts); err != nil {
		return nil, err
	}
	_, err = d.attribute(ctx, op, fs, path, Change{IfMatch: opts.IfMatch, Actor: opts.Actor}, func(tx *sqldb.Tx, ino tree.Inode, now int64) (err error) {
		for _, name := range opts.Remove {
			if _, err := d.tree.RemoveTag(ctx, tx, fs, ino, name, now); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(opts.Set)) {
			if err := d.tree.SetTag(ctx, tx, fs, ino, name, opts.Set[name], now); err != nil {
				return err
			}
		}
		if tags, err = d.tree.Tags(ctx, tx, fs, ino); err == nil && len(opts.Set) > 0 && len(tags) > maxTagsOf {
			err = fault.New(op, fault.Conflict, CodeTooManyTags, "%s would have more than %d tags", path, maxTagsOf)
		}
		return err
	})
	return tags, err
}

func checkTags(op string, opts TagOptions) error {
	if n := len(opts.Set) + len(opts.Remove); n == 0 || n > MaxTags {
		return fault.New(op, fault.Invalid, CodeInvalidTag, "a request changes 1 to %d tags", MaxTags)
	}
	text := func(s string, most int) bool {
		return len(s) <= most && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
	}
	for _, name := range opts.Remove {
		if name == "" || !text(name, maxTagName) {
			return fault.New(op, fault.Invalid, CodeInvalidTag, "a tag's name has 1 to %d bytes of UTF-8 without NUL", maxTagName)
		}
	}
	for name, value := range opts.Set {
		if name == "" || !text(name, maxTagName) || !text(value, maxTagValue) {
			return fault.New(op, fault.Invalid, CodeInvalidTag, "a tag's name has 1 to %d bytes of UTF-8 without NUL, its value at most %d", maxTagName, maxTagValue)
		}
	}
	return nil
}
