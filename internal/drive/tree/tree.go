// Package tree keeps the names and identities of a drive: dentries (a name in a
// directory), inodes (the identity of a file, directory or symbolic link, never used
// again), tags, and the locks under which they change. It is the only SQL on its tables.
//
// The one rule: no transaction adds, removes or moves a dentry of a directory unless it
// already holds that directory's inode row (LockShared, LockDirectories). Lock order:
// MoveLock, directories by id, dentries, files by id. A function that takes a transaction
// is a step of it; ErrMoved says that what was resolved before no longer holds, and that
// the transaction must roll back and the operation resolve again.
package tree

import (
	"embed"
	"errors"
	"sync"

	"github.com/lethe-project/lethe/internal/sqldb"
)

//go:embed migrations
var files embed.FS

// Migrations is the schema of this room.
var Migrations = sqldb.Migrations{Owner: "tree", Files: files}

// FS is the key of a drive. It is never used again.
type FS int64

// Inode is the identity of a file, directory or symbolic link in its drive.
type Inode int64

// The inodes that every drive has. Neither has a dentry, neither is ever removed. The
// entries of Trash are named by the job that deletes them.
const (
	Root  Inode = 1
	Trash Inode = 2
	first Inode = 16 // of those that are handed out
)

// Kind is what an inode is.
type Kind uint8

// The kinds.
const (
	Directory Kind = 1
	File      Kind = 2
	Symlink   Kind = 3
)

// Node is an inode, with the dentry by which it was found. Times are milliseconds since
// the Unix epoch.
type Node struct {
	Parent   Inode // 0 for the root
	Name     string
	Inode    Inode
	Kind     Kind
	Mode     uint32 // permission bits
	Size     int64  // bytes
	NLink    int64
	Revision int64 // goes up with every change of content or attributes
	Content  int64 // key of the content, 0 for none
	Target   string
	Created  int64
	Modified int64
	Changed  int64
}

// ErrMoved says that something which the operation resolved was moved, removed or taken
// meanwhile. Nothing was applied; resolve again in a new transaction.
var ErrMoved = errors.New("tree: the tree changed under the operation")

// ErrExists says that the name is taken in its directory.
var ErrExists = errors.New("tree: the name is taken")

// Tree is the one place with SQL on its tables. It is safe for concurrent use.
type Tree struct {
	db      *sqldb.DB
	blocks  sync.Map // FS → *block
	touches touches
}

// New returns the tree over a migrated database.
func New(db *sqldb.DB) *Tree { return &Tree{db: db} }
