package drive

import (
	"context"
	"errors"
	"io"

	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
)

// Stat describes what path names; follow follows a link that stands last. One statement
// for a path of up to 16 names, unless links are on the way.
func (d *Drive) Stat(ctx context.Context, fs tree.FS, path string, follow bool) (Entry, error) {
	const op = "drive.Stat"
	at, err := d.look(ctx, op, fs, path, follow)
	if err != nil {
		return Entry{}, err
	}
	return entryOf(at.path, at.node), nil
}

// Head is Stat, following links, with the checksum of a file: a statement more.
func (d *Drive) Head(ctx context.Context, fs tree.FS, path string) (e Entry, err error) {
	const op = "drive.Head"
	p, err := parse(op, path)
	if err != nil {
		return Entry{}, err
	}
	was := ""
	err = d.again(ctx, op, func() error {
		at, err := d.find(ctx, d.db, op, fs, p, true)
		if err != nil {
			return err
		}
		e = entryOf(at.path, at.node)
		if at.node.Kind != tree.File {
			return nil
		}
		info, err := d.content.Stat(ctx, d.db, int64(fs), at.node.Content) // ErrGone: it was written anew
		if errors.Is(err, content.ErrGone) && was == e.ETag() {
			return fault.New(op, fault.NotFound, CodeNotFound, "the bytes of %s are gone", at.path)
		}
		was, e.SHA256 = e.ETag(), info.SHA256
		return err
	})
	return e, err
}

// PathOf is where a directory is now; visible is false when it is in the trash, or gone.
func (d *Drive) PathOf(ctx context.Context, fs tree.FS, dir tree.Inode) (path tree.Path, visible bool, err error) {
	return d.tree.PathOf(ctx, d.db, fs, dir)
}

func (d *Drive) look(ctx context.Context, op string, fs tree.FS, path string, follow bool) (at spot, err error) {
	p, err := parse(op, path)
	if err != nil {
		return spot{}, err
	}
	err = d.again(ctx, op, func() (err error) {
		at, err = d.find(ctx, d.db, op, fs, p, follow)
		return err
	})
	return at, err
}

// The most entries of a page, and how many it has when nobody says.
const (
	MaxList     = 10_000
	defaultList = 1000
)

// ListOptions of List.
type ListOptions struct {
	Limit int    // 1 to MaxList, 0 means 1,000
	After string // the next of the page before
}

// List returns a page of a directory in the byte order of names, and where the next one
// begins (empty: this was the last). Pages are stable under concurrent changes: what was
// there all the time comes exactly once. Links in it are not followed.
func (d *Drive) List(ctx context.Context, fs tree.FS, path string, opts ListOptions) (entries []Entry, next string, err error) {
	const op = "drive.List"
	limit := opts.Limit
	switch {
	case limit == 0:
		limit = defaultList
	case limit < 0 || limit > MaxList:
		return nil, "", fault.New(op, fault.Invalid, "InvalidLimit", "a page has 1 to %d entries", MaxList)
	}
	at, err := d.look(ctx, op, fs, path, true)
	if err != nil {
		return nil, "", err
	}
	if at.node.Kind != tree.Directory {
		return nil, "", notDirectory(op, at.path)
	}
	nodes, err := d.tree.List(ctx, d.db, fs, at.node.Inode, opts.After, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(nodes) > limit {
		nodes = nodes[:limit]
		next = nodes[limit-1].Name
	}
	entries = make([]Entry, len(nodes))
	for i, n := range nodes {
		entries[i] = entryOf(at.path, n)
		entries[i].Name = n.Name
		if entries[i].Path = at.path.String() + "/" + n.Name; at.path.IsRoot() {
			entries[i].Path = "/" + n.Name
		}
	}
	return entries, next, nil
}

// Reader is an opened file. It holds nothing and needs no closing.
type Reader struct {
	Entry Entry // as of Open, or of the last Range that found it changed

	d    *Drive
	fs   tree.FS
	path string
	id   int64 // of the content
}

// Open opens a file, following links.
func (d *Drive) Open(ctx context.Context, fs tree.FS, path string) (*Reader, error) {
	r := &Reader{d: d, fs: fs, path: path}
	return r, r.resolve(ctx)
}

func (r *Reader) resolve(ctx context.Context) error {
	const op = "drive.Open"
	at, err := r.d.look(ctx, op, r.fs, r.path, true)
	switch {
	case err != nil:
		return err
	case at.node.Kind == tree.Directory:
		return isDirectory(op, at.path)
	case at.node.Kind != tree.File:
		return fault.New(op, fault.Conflict, CodeNotFile, "%s is not a file", at.path)
	}
	r.Entry, r.id = entryOf(at.path, at.node), at.node.Content
	return nil
}

// Range streams n bytes from off; n < 0 means to the end. When the bytes of Entry are not
// there any more, the path is resolved once more: Entry is what is there now and the error
// fault.Busy with CodeFileChanged, so that nobody sends new bytes under an old ETag; the
// caller looks at Entry and calls again. A file that is gone is fault.NotFound.
func (r *Reader) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	const op = "drive.Range"
	if off < 0 || off > r.Entry.Size {
		return nil, fault.New(op, fault.Invalid, CodeRange, "the file has %d bytes", r.Entry.Size)
	}
	body, info, err := r.d.content.Open(ctx, r.d.db, int64(r.fs), r.id, off, n)
	if err == nil {
		r.Entry.SHA256 = info.SHA256
		return body, nil
	}
	if !errors.Is(err, content.ErrGone) {
		return nil, err
	}
	was := r.Entry
	if err := r.resolve(ctx); err != nil {
		return nil, err
	}
	if r.Entry.ETag() == was.ETag() {
		return nil, fault.Wrap(op, fault.NotFound, CodeNotFound, err, "the bytes of %s are gone", was.Path)
	}
	return nil, &fault.Error{Op: op, Kind: fault.Busy, Code: CodeFileChanged, Message: was.Path + " was changed while it was opened", Err: err}
}
