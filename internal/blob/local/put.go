package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/lethe-project/lethe/internal/blob"
)

// createTries bounds the races with a PruneDirs that removes the parent just made, or
// that takes a temporary file in the instant before it is locked.
const createTries = 100

// maxName is the longest name of a file in bytes, on the systems that we know.
const maxName = 255

// Put creates a file and its parents.
func (b *Bucket) Put(ctx context.Context, key blob.Key, body io.Reader) error {
	name, ok := clean(key)
	if !ok {
		return &blob.Error{Op: "put", Key: key, Class: blob.Invalid, Err: errNoName}
	}
	base := path.Base(name)
	d, f, temp, err := b.createTemp(path.Dir(name), base)
	if err != nil {
		return b.wrap("put", key, err)
	}
	// While the temporary file stands its directory is not empty, and cannot be pruned.
	published := false
	defer func() {
		if !published {
			_ = unlink(d, temp)
		}
		_ = f.Close()
		_ = d.Close()
	}()
	if _, err := io.Copy(f, ctxReader{ctx, body}); err != nil {
		return b.wrap("put", key, err)
	}
	if err := f.Sync(); err != nil {
		return b.wrap("put", key, err)
	}
	if err := publish(d, temp, base); err != nil {
		return b.wrap("put", key, err)
	}
	published = true
	if isCRC(base) {
		b.crc.forget(path.Dir(name))
	}
	if err := d.Sync(); err != nil {
		return b.wrap("put", key, err)
	}
	return nil
}

// createTemp makes a locked temporary file for base in dir, and dir itself if it is
// missing. It returns the directory too, open. Where it can, the file has base in its name:
// a delete of the key then finds what a writer left that was killed.
func (b *Bucket) createTemp(dir, base string) (d, f *os.File, temp string, err error) {
	var last error
	for range createTries {
		temp = tempPrefix + base
		if errors.Is(last, fs.ErrExist) || len(temp) > maxName {
			temp = tempPrefix + rand.Text()
		}
		d, f, err = b.createIn(dir, temp)
		if errors.Is(err, fs.ErrExist) { // another writer of the key, or a dead one
			last = err
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			last = err
			if err := b.makeParents(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, nil, "", err
			}
			continue
		}
		if err != nil {
			return nil, nil, "", err
		}
		if err := tryLock(f); err == nil {
			if _, err := statIn(d, temp); err == nil {
				return d, f, temp, nil
			}
		}
		// Taken for a leftover between the create and the lock.
		last = fs.ErrNotExist
		_ = f.Close()
		_ = d.Close()
	}
	return nil, nil, "", fmt.Errorf("directory vanishes as often as it is made: %w", last)
}

func (b *Bucket) createIn(dir, temp string) (d, f *os.File, err error) {
	b.parents.RLock()
	defer b.parents.RUnlock()
	if d, err = b.root.openDir(dir); err != nil {
		return nil, nil, err
	}
	if f, err = openIn(d, temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode); err != nil {
		_ = d.Close()
		return nil, nil, err
	}
	return d, f, nil
}

// makeParents makes dir and everything above it, and makes their names durable.
func (b *Bucket) makeParents(dir string) error {
	b.parents.Lock()
	defer b.parents.Unlock()
	for i := 0; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		if err := b.makeDir(dir[:i]); err != nil {
			return err
		}
	}
	return nil
}

// makeDir makes one directory, if it is missing.
func (b *Bucket) makeDir(dir string) error {
	parent, err := b.root.openDir(path.Dir(dir))
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	err = mkdir(parent, path.Base(dir))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return parent.Sync()
}

// ctxReader ends a copy when its context does.
type ctxReader struct {
	ctx context.Context // of the one call it lives in
	r   io.Reader
}

func (r ctxReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}
