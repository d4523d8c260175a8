package drive

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	defaultFileMode      = 0o644
	defaultDirectoryMode = 0o755
	permissions          = 0o7777 // the bits that Chmod sets
	// freshness is how long a write may have lasted whose path is not resolved once more.
	// The locks prove the directory either way; this keeps a slow write from following one
	// that was moved since.
	freshness = time.Second
)

// PutOptions of Put.
type PutOptions struct {
	Body           io.Reader
	Size           int64  // of the body in bytes, -1 when it is not known
	SHA256         string // expected, in hexadecimal; empty for none
	IfMatch        string // value of an If-Match header; empty for none
	IfNoneMatchAny bool   // If-None-Match: *, the file must be new
	Mode           uint32 // permission bits of a new file, 0 means 0644
	Actor          string
}

// Put writes a whole file, atomically; missing parents are made with it. created is false
// when an existing file got new content: it keeps its identity, so that all its hard links
// see it.
func (d *Drive) Put(ctx context.Context, fs tree.FS, path string, opts PutOptions) (e Entry, created bool, err error) {
	const op = "drive.Put"
	target, err := parse(op, path)
	if err != nil {
		return Entry{}, false, err
	}
	// What can not work is refused before the body is read.
	want := placement{op: op, path: target, ifMatch: opts.IfMatch, ifNoneMatchAny: opts.IfNoneMatchAny, mode: opts.Mode, actor: opts.Actor}
	var at spot
	err = d.again(ctx, op, func() (err error) {
		at, err = d.target(ctx, fs, want)
		return err
	})
	if err != nil {
		return Entry{}, false, err
	}
	began := time.Now()
	written, err := d.write(ctx, op, fs, at, opts.Body, opts.Size, opts.SHA256)
	if err != nil {
		return Entry{}, false, err
	}
	resolved := &at
	if time.Since(began) > freshness {
		resolved = nil
	}
	if e, created, err = d.place(ctx, fs, want, d.pending(fs, written), resolved); err != nil {
		return Entry{}, false, d.giveUp(ctx, written, err)
	}
	return e, created, nil
}

func parse(op, path string) (tree.Path, error) {
	p, err := tree.ParsePath(path)
	return p, fault.E(op, fault.Invalid, err)
}

// write streams a body into a content that nothing names yet, as far as the quota allows.
// at is where it goes; size is -1 when it is not known.
func (d *Drive) write(ctx context.Context, op string, fs tree.FS, at spot, body io.Reader, size int64, sha256 string) (content.Pending, error) {
	opts := content.WriteOptions{ExpectSHA256: sha256}
	bounded := false // by a quota that is not checked yet
	if size >= 0 {
		opts.ExpectSize = &size
		if err := d.feed.CheckQuota(ctx, d.db, int64(fs), growth(at, size)); err != nil {
			return content.Pending{}, err
		}
	} else {
		u, err := d.feed.Usage(ctx, d.db, int64(fs))
		if err != nil {
			return content.Pending{}, err
		}
		bounded = u.QuotaBytes > 0 || u.QuotaFiles > 0
		if u.QuotaBytes > 0 { // an endless body ends where the quota does
			opts.MaxSize = max(u.QuotaBytes-u.Bytes-u.Reserved+at.node.Size, 1)
		}
	}
	written, err := d.content.Write(ctx, int64(fs), body, opts)
	if fault.Is(err, content.CodeTooLarge) {
		return content.Pending{}, fault.Wrap(op, fault.Full, feed.CodeQuotaExceeded, err, "the drive's quota has room for %d bytes only", opts.MaxSize)
	}
	if err == nil && bounded {
		if err := d.feed.CheckQuota(ctx, d.db, int64(fs), growth(at, written.Size)); err != nil {
			return content.Pending{}, d.giveUp(ctx, written, err)
		}
	}
	return written, err
}

// giveUp hands written bytes to the collector at once, unless the failed operation may
// have been committed. What is not handed over here becomes due by itself.
func (d *Drive) giveUp(ctx context.Context, written content.Pending, cause error) error {
	if errors.Is(cause, content.ErrCollected) {
		return fault.Wrap("drive.Put", fault.Busy, CodeWriteExpired, cause, "the bytes came too slowly, nothing was changed, try again")
	}
	if !errors.Is(cause, sqldb.ErrCommitUnknown) {
		if err := d.content.Abandon(ctx, written); err != nil {
			d.log.WarnContext(ctx, "written bytes were not abandoned", "cause", cause, "error", err)
		}
	}
	return cause
}

// growth is what a file of size bytes at a spot adds to the usage.
func growth(at spot, size int64) feed.Delta {
	if at.found() {
		return feed.Delta{Bytes: size - at.node.Size}
	}
	return feed.Delta{Bytes: size, Files: 1}
}

// payload is a content that a file is to get.
type payload struct {
	id       int64
	size     int64
	sha256   string
	reserved int64 // of the upload that made it
	// name is the step that takes the reference.
	name func(ctx context.Context, tx *sqldb.Tx) error
}

func (d *Drive) pending(fs tree.FS, p content.Pending) payload {
	return payload{id: p.ID, size: p.Size, sha256: p.SHA256, reserved: p.Reserved, name: func(ctx context.Context, tx *sqldb.Tx) error {
		return d.content.Commit(ctx, tx, int64(fs), p, 1)
	}}
}

// placement says where a content goes, and under which conditions.
type placement struct {
	op             string
	path           tree.Path
	ifMatch        string
	ifNoneMatchAny bool
	noReplace      bool
	appended       bool // what ifMatch does not hold for is a concurrent change, not the client's condition
	mode           uint32
	actor          string
	base           tree.Inode // of an upload: must be alive and visible; 0 for none
	rest           tree.Path  // below base
}

// target resolves where a content goes and refuses what can not be replaced.
func (d *Drive) target(ctx context.Context, fs tree.FS, want placement) (spot, error) {
	path := want.path
	if want.base != 0 {
		var err error
		if path, err = d.uploadTarget(ctx, fs, want); err != nil {
			return spot{}, err
		}
	}
	at, err := d.walk(ctx, d.db, want.op, fs, path, true)
	if err != nil {
		return spot{}, err
	}
	return at, want.check(at)
}

func (want placement) check(at spot) error {
	switch {
	case at.found() && at.node.Kind == tree.Directory:
		return isDirectory(want.op, want.path)
	case at.found() && want.ifNoneMatchAny:
		return unmet(want.op, "%s exists already", want.path)
	case at.found() && want.noReplace:
		return exists(want.op, want.path)
	}
	return want.require(at.node, at.found())
}

// require checks the condition on what is there.
func (want placement) require(node tree.Node, found bool) error {
	err := require(want.op, want.ifMatch, node, found, want.path)
	if err != nil && want.appended {
		return fault.Wrap(want.op, fault.Conflict, CodeConcurrentChange, err, "%s was changed meanwhile, nothing was appended", want.path)
	}
	return err
}

// place makes a content a file, or the new content of the file that is there. resolved, if
// given, serves the first try.
func (d *Drive) place(ctx context.Context, fs tree.FS, want placement, b payload, resolved *spot) (e Entry, created bool, err error) {
	err = d.again(ctx, want.op, func() (err error) {
		var at spot
		if resolved != nil {
			at, resolved = *resolved, nil
		} else if at, err = d.target(ctx, fs, want); err != nil {
			return err
		}
		if created = !at.found(); created {
			e, err = d.create(ctx, fs, at, creation{op: want.op, leaf: fileNode(b, want.mode), bytes: &b, base: want.base, actor: want.actor})
		} else {
			e, err = d.replace(ctx, fs, want, at, b)
		}
		return err
	})
	e.SHA256 = b.sha256
	return e, created, err
}

func fileNode(b payload, mode uint32) tree.Node {
	if mode &= permissions; mode == 0 {
		mode = defaultFileMode
	}
	return tree.Node{Kind: tree.File, Mode: mode, Size: b.size, Content: b.id}
}

// replace swaps the content of the file at a spot.
func (d *Drive) replace(ctx context.Context, fs tree.FS, want placement, at spot, b payload) (Entry, error) {
	var node tree.Node
	err := d.tx(ctx, want.op, func(tx *sqldb.Tx) (err error) {
		if err := d.after(d.hold(ctx, tx, fs, at.dir, want.base), want.op, "locked"); err != nil {
			return err
		}
		if node, err = d.lockFile(ctx, tx, fs, at); err != nil {
			return err
		}
		if err := d.at(want.op, "file"); err != nil {
			return err
		}
		if err := want.require(node, true); err != nil {
			return err
		}
		old := node.Content
		if old == b.id { // copied onto what shares it already
			return nil
		}
		grown := feed.Delta{Bytes: b.size - node.Size, Reserved: -b.reserved}
		node.Content, node.Size, node.Revision, node.Modified = b.id, b.size, node.Revision+1, time.Now().UnixMilli()
		node.Changed = node.Modified
		if err := d.after(d.tree.UpdateFile(ctx, tx, fs, node.Inode, b.id, b.size, node.Modified), want.op, "updated"); err != nil {
			return err
		}
		if err := d.after(d.exchange(ctx, tx, fs, old, b), want.op, "named"); err != nil {
			return err
		}
		if err := d.after(d.feed.Add(ctx, tx, int64(fs), grown), want.op, "counted"); err != nil {
			return err
		}
		return d.after(d.feed.Publish(ctx, tx, int64(fs), eventOf(feed.Write, at.path, node, want.actor)), want.op, "published")
	}, sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		now, err := d.lockFile(ctx, tx, fs, at)
		if err == nil && now.Content != b.id && now.Revision != at.node.Revision {
			err = errChangedAgain
		}
		return now.Content == b.id, err
	}))
	return entryOf(at.path, node), err
}

// errChangedAgain says that what was read back tells nothing any more.
var errChangedAgain = errors.New("drive: changed again since")

// lockFile locks the file at a spot and returns it as it is now.
func (d *Drive) lockFile(ctx context.Context, tx *sqldb.Tx, fs tree.FS, at spot) (tree.Node, error) {
	locked, err := d.tree.LockFiles(ctx, tx, fs, []tree.Inode{at.node.Inode})
	if err != nil {
		return tree.Node{}, err
	}
	if len(locked) == 0 {
		return tree.Node{}, tree.ErrMoved
	}
	node := locked[0]
	node.Parent, node.Name = at.node.Parent, at.node.Name
	return node, nil
}

// exchange names the new content and lets the old one go, the smaller id first: two copies
// onto each other's source lock both contents in one order.
func (d *Drive) exchange(ctx context.Context, tx *sqldb.Tx, fs tree.FS, old int64, b payload) error {
	release := func() error {
		if old == 0 {
			return nil
		}
		return d.content.Unref(ctx, tx, int64(fs), map[int64]int64{old: 1})
	}
	if old < b.id {
		if err := release(); err != nil {
			return err
		}
		return b.name(ctx, tx)
	}
	if err := b.name(ctx, tx); err != nil {
		return err
	}
	return release()
}
