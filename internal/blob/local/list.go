package local

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/lethe-project/lethe/internal/blob"
)

// listChunk is how many directory entries are read at a time.
const listChunk = 1024

// List calls fn for everything below the root that is no directory and whose path
// begins with prefix, in the order in which the file system returns names, the files of
// a directory before its subdirectories. It holds one chunk of entries and the names of
// subdirectories not yet entered; links are listed and never followed.
func (b *Bucket) List(ctx context.Context, prefix blob.Key, fn func(blob.Info) error) error {
	if strings.IndexByte(string(prefix), 0) >= 0 {
		return nil
	}
	p := path.Clean("/" + string(prefix))[1:]
	if p != "" && strings.HasSuffix(string(prefix), "/") {
		p += "/"
	}
	dir, _ := path.Split(p)
	err := b.walk(ctx, strings.TrimSuffix(dir, "/"), p[len(dir):], fn)
	if errors.Is(err, blob.ErrStop) {
		return nil
	}
	return err
}

// walk lists what lies in dir ("" is the root) under names that begin with base.
func (b *Bucket) walk(ctx context.Context, dir, base string, fn func(blob.Info) error) error {
	subs, err := b.files(ctx, dir, base, fn)
	if err != nil {
		return err
	}
	for _, sub := range subs {
		if err := b.walk(ctx, path.Join(dir, sub), "", fn); err != nil {
			return err
		}
	}
	return nil
}

// files lists the files of one directory and returns its subdirectories.
func (b *Bucket) files(ctx context.Context, dir, base string, fn func(blob.Info) error) (subs []string, err error) {
	failed := func(err error) error {
		e := b.wrap("list", blob.Key(dir), err)
		if e.Class == blob.NotExist {
			return nil // gone since its parent was read, or a prefix of nothing
		}
		return e
	}
	d, err := b.root.openDir(path.Join(".", dir))
	if err != nil {
		return nil, failed(err)
	}
	defer func() { _ = d.Close() }()
	for {
		if ctx.Err() != nil {
			return nil, failed(context.Cause(ctx))
		}
		entries, err := d.ReadDir(listChunk)
		for _, entry := range entries {
			name := entry.Name()
			switch {
			case !strings.HasPrefix(name, base), strings.HasPrefix(name, tempPrefix), dir == "" && name == markerName:
				continue
			case entry.IsDir():
				subs = append(subs, name)
				continue
			}
			st, err := statIn(d, name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, failed(err)
			}
			if err := fn(info(blob.Key(path.Join(dir, name)), st)); err != nil {
				return nil, err
			}
		}
		if errors.Is(err, io.EOF) {
			return subs, nil
		}
		if err != nil {
			return nil, failed(err)
		}
	}
}
