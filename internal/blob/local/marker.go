package local

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/lethe-project/lethe/internal/blob"
)

// markerName is the file that tells a storage root from an empty directory in its
// place, such as a mount point without its disk. It is no key and is never listed.
const markerName = ".lethe-root"

// Marker returns the mark of this root; an error of class NotExist when it has none.
func (b *Bucket) Marker(context.Context) (string, error) {
	f, err := b.root.open(markerName, os.O_RDONLY)
	if err != nil {
		return "", b.wrap("marker", markerName, err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(f)
	if err != nil {
		return "", b.wrap("marker", markerName, err)
	}
	return strings.TrimSpace(string(data)), nil
}

// MakeMarker marks the root and returns the mark. A root that has one keeps it.
func (b *Bucket) MakeMarker(ctx context.Context) (string, error) {
	mark := rand.Text()
	temp := tempPrefix + mark
	failed := func(err error) (string, error) { return "", b.wrap("marker", markerName, err) }
	d, err := b.root.openDir(".")
	if err != nil {
		return failed(err)
	}
	defer func() { _ = d.Close() }()
	f, err := openIn(d, temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = unlink(d, temp) }() // left over, it is as harmless as any temporary name
	_, err = f.WriteString(mark + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return failed(err)
	}
	err = link(d, temp, markerName)
	if errors.Is(err, fs.ErrExist) {
		return b.Marker(ctx)
	}
	if err != nil {
		return failed(err)
	}
	return mark, nil
}

var _ blob.Marked = (*Bucket)(nil)

// reserved reports whether a cleaned name is the bucket's own and no key.
func reserved(name string) bool {
	return name == markerName || strings.HasPrefix(name[strings.LastIndexByte(name, '/')+1:], tempPrefix)
}
