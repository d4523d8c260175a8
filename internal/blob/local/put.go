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

// Put creates a file and its parents.
func (b *Bucket) Put(ctx context.Context, key blob.Key, body io.Reader) error {
	name, ok := clean(key)
	if !ok {
		return &blob.Error{Op: "put", Key: key, Class: blob.Invalid, Err: errNoName}
	}
	f, temp, err := b.createTemp(path.Dir(name))
	if err != nil {
		return b.wrap("put", key, err)
	}
	// While the temporary file stands its directory is not empty, and cannot be pruned.
	defer func() {
		_ = b.root.Remove(temp)
		_ = f.Close()
	}()
	if _, err := io.Copy(f, ctxReader{ctx, body}); err != nil {
		return b.wrap("put", key, err)
	}
	if err := f.Sync(); err != nil {
		return b.wrap("put", key, err)
	}
	if err := b.root.Link(temp, name); err != nil {
		return b.wrap("put", key, err)
	}
	if isCRC(path.Base(name)) {
		b.crc.forget(path.Dir(name))
	}
	if err := b.syncDir(path.Dir(name)); err != nil {
		return b.wrap("put", key, err)
	}
	return nil
}

// createTemp makes a locked temporary file in dir, and dir itself if it is missing.
func (b *Bucket) createTemp(dir string) (*os.File, string, error) {
	var last error
	for range createTries {
		temp := path.Join(dir, tempPrefix+rand.Text())
		b.parents.RLock()
		f, err := b.root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
		b.parents.RUnlock()
		if errors.Is(err, fs.ErrNotExist) {
			last = err
			if err := b.makeParents(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, "", err
			}
			continue
		}
		if err != nil {
			return nil, "", err
		}
		if err := tryLock(f); err == nil {
			if _, err := b.root.Lstat(temp); err == nil {
				return f, temp, nil
			}
		}
		// Taken for a leftover between the create and the lock.
		last = fs.ErrNotExist
		_ = f.Close()
	}
	return nil, "", fmt.Errorf("directory vanishes as often as it is made: %w", last)
}

// makeParents makes dir and everything above it, and makes their names durable.
func (b *Bucket) makeParents(dir string) error {
	b.parents.Lock()
	defer b.parents.Unlock()
	for i := 0; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		err := b.root.Mkdir(dir[:i], dirMode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := b.syncDir(path.Dir(dir[:i])); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bucket) syncDir(dir string) error {
	f, err := b.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
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
