// Package local is a Bucket in a directory of the local file system.
//
// Keys are slash-separated paths below the directory; "//", "." and ".." are cleaned
// away first.
//
// Invariants:
//   - No symbolic link below the root is followed: a link would make one table's key name
//     another table's file. The root itself may be a link; it is resolved once, by Open.
//   - Nothing is ever overwritten. Put writes a temporary name beside the final one
//     and links it there; the link fails when the name is taken.
//   - What Put has acknowledged survives a loss of power: the file, its name and the
//     directories made for it are synced. Deletes are not synced. A journaling file
//     system keeps unlinks in order, so a crash can bring back only the newest of them,
//     and deleting again is harmless.
//   - Temporary names are never listed and are no keys. Their writer holds a lock on
//     them, so that those a crash left behind are told apart and go with their directory.
//
// Failure model: a full disk, an I/O error and the lack of descriptors are trouble of
// the store as a whole (Unavailable); missing permissions and paths through a link are
// Denied; names the file system cannot hold are Invalid to write and absent to
// everything else.
package local

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"

	"github.com/lethe-project/lethe/internal/blob"
)

const (
	tempPrefix = ".lethe-tmp-"
	dirMode    = 0o755
	fileMode   = 0o644
)

// Bucket is a directory of the local file system. It implements blob.Bucket and
// blob.DirPruner.
type Bucket struct {
	root *root

	// parents is held shared while a file is created in a directory, and exclusively
	// while directories are made and synced: nobody writes into a directory whose own
	// name is not durable yet.
	parents sync.RWMutex

	crc crcCache
}

var (
	_ blob.Bucket    = (*Bucket)(nil)
	_ blob.DirPruner = (*Bucket)(nil)
	_ blob.Ranger    = (*Bucket)(nil)
)

// Open returns the bucket in dir, which is made if it is missing.
func Open(dir string) (*Bucket, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	root, err := openRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	return &Bucket{root: root}, nil
}

// Close releases the directory. Calls under way end normally.
func (b *Bucket) Close() error { return b.root.close() }

// Open streams a file.
func (b *Bucket) Open(_ context.Context, key blob.Key) (io.ReadCloser, blob.Info, error) {
	name, ok := clean(key)
	if !ok {
		return nil, blob.Info{}, noObject("open", key)
	}
	// Without O_NONBLOCK a FIFO of that name would hold the caller for ever.
	f, err := b.root.open(name, os.O_RDONLY|syscall.O_NONBLOCK)
	if err != nil {
		return nil, blob.Info{}, b.wrap("open", key, err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errNoFile
	}
	if err != nil {
		_ = f.Close()
		return nil, blob.Info{}, b.wrap("open", key, err)
	}
	return f, blob.Info{Key: key, Size: st.Size(), ModTime: st.ModTime()}, nil
}

// OpenRange streams a part of a file.
func (b *Bucket) OpenRange(ctx context.Context, key blob.Key, offset, length int64) (io.ReadCloser, error) {
	body, _, err := b.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	f := body.(*os.File)
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, offset, length), f}, nil
}

// Stat describes a file.
func (b *Bucket) Stat(_ context.Context, key blob.Key) (blob.Info, error) {
	name, ok := clean(key)
	if !ok {
		return blob.Info{}, noObject("stat", key)
	}
	st, err := b.root.stat(name)
	if err == nil && !st.regular() {
		err = errNoFile
	}
	if err != nil {
		return blob.Info{}, b.wrap("stat", key, err)
	}
	return info(key, st), nil
}

func info(key blob.Key, st status) blob.Info {
	return blob.Info{Key: key, Size: st.size, ModTime: st.mod}
}

// clean returns the path of key below the root. ok is false for what can be no file's
// name: the root itself, a NUL byte, a temporary name, the marker.
func clean(key blob.Key) (name string, ok bool) {
	if strings.IndexByte(string(key), 0) >= 0 {
		return "", false
	}
	name = path.Clean("/" + string(key))[1:]
	if name == "" || reserved(name) {
		return "", false
	}
	return name, true
}
