package drive

import (
	"strconv"
	"time"

	"github.com/lethe-project/lethe/internal/drive/tree"
)

// Kind is the type of an entry as clients spell it.
type Kind string

// The kinds.
const (
	Directory Kind = "directory"
	File      Kind = "file"
	Symlink   Kind = "symlink"
)

// Entry is what clients see of a file, directory or symbolic link.
type Entry struct {
	Path     string // absolute, where it was found after links were followed
	Name     string // empty for the root
	Kind     Kind
	Inode    tree.Inode
	Size     int64 // bytes; of a symbolic link, of its target
	Mode     uint32
	NLink    int64
	Revision int64
	Target   string // of a symbolic link
	SHA256   string // of a file's content in hexadecimal, where the operation knew it
	Created  time.Time
	Modified time.Time
	Changed  time.Time
}

// ETag is `"<inode>-<revision>"`, of a directory `"<inode>"`: it changes with the identity
// and, of anything but a directory, with every change.
func (e Entry) ETag() string { return etag(e.Inode, e.Revision, e.Kind == Directory) }

func etagOf(n tree.Node) string { return etag(n.Inode, n.Revision, n.Kind == tree.Directory) }

func etag(ino tree.Inode, revision int64, directory bool) string {
	text := `"` + strconv.FormatInt(int64(ino), 10)
	if !directory {
		text += "-" + strconv.FormatInt(revision, 10)
	}
	return text + `"`
}

func entryOf(path tree.Path, n tree.Node) Entry {
	e := Entry{
		Path: path.String(), Name: path.Base(), Inode: n.Inode, Size: n.Size, Mode: n.Mode, NLink: n.NLink,
		Revision: n.Revision, Target: n.Target,
		Created: time.UnixMilli(n.Created), Modified: time.UnixMilli(n.Modified), Changed: time.UnixMilli(n.Changed),
	}
	switch n.Kind {
	case tree.Directory:
		e.Kind = Directory
	case tree.File:
		e.Kind = File
	case tree.Symlink:
		e.Kind, e.Size = Symlink, int64(len(n.Target))
	}
	return e
}
