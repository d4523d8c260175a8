package tree

import (
	"context"
	"database/sql"
	"maps"
	"sync"
	"time"

	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	updateFile sqldb.Statement = `UPDATE inodes SET content_id = ?, size = ?, revision = revision + 1, modified_at = ?, changed_at = ?
		WHERE fs_id = ? AND inode_id = ? AND kind = 2 AND nlink > 0`
	setMode  sqldb.Statement = "UPDATE inodes SET mode = ?, revision = revision + 1, changed_at = ? WHERE fs_id = ? AND inode_id = ?"
	setTimes sqldb.Statement = "UPDATE inodes SET modified_at = ?, revision = revision + 1, changed_at = ? WHERE fs_id = ? AND inode_id = ?"
	touchDir sqldb.Statement = "UPDATE inodes SET modified_at = ?, changed_at = ? WHERE fs_id = ? AND inode_id = ? AND kind = 1 AND modified_at < ?"
)

// UpdateFile gives a file another content (0 for none) of size bytes; now is in
// milliseconds since the Unix epoch. What is no file any more is ErrMoved.
func (t *Tree) UpdateFile(ctx context.Context, tx *sqldb.Tx, fs FS, ino Inode, content, size, now int64) error {
	key := sql.NullInt64{Int64: content, Valid: content != 0}
	return must(tx.Exec(ctx, updateFile, key, size, now, now, int64(fs), int64(ino)))
}

// SetMode sets the permission bits. An inode that is gone is ErrMoved.
func (t *Tree) SetMode(ctx context.Context, tx *sqldb.Tx, fs FS, ino Inode, mode uint32, now int64) error {
	return must(tx.Exec(ctx, setMode, int64(mode), now, int64(fs), int64(ino)))
}

// Touch sets the time of the last modification. An inode that is gone is ErrMoved.
func (t *Tree) Touch(ctx context.Context, tx *sqldb.Tx, fs FS, ino Inode, modified, now int64) error {
	return must(tx.Exec(ctx, setTimes, modified, now, int64(fs), int64(ino)))
}

const (
	touchEvery = time.Second
	touchKept  = 4096 // directories remembered before the old ones are forgotten
)

// touches remembers which directories got their time lately.
type touches struct {
	mu   sync.Mutex
	last map[touched]time.Time
}

type touched struct {
	fs  FS
	dir Inode
}

func (t *touches) due(which touched, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.last[which]) < touchEvery {
		return false
	}
	if len(t.last) >= touchKept {
		maps.DeleteFunc(t.last, func(_ touched, at time.Time) bool { return now.Sub(at) >= touchEvery })
	}
	if t.last == nil || len(t.last) >= touchKept {
		t.last = map[touched]time.Time{}
	}
	t.last[which] = now
	return true
}

// TouchDirectory moves a directory's times after the commit that changed its entries, at
// most once a second: a create that wrote its parent would make all others wait. It is
// best effort, waits a second at most, and is not called inside a transaction.
func (t *Tree) TouchDirectory(ctx context.Context, fs FS, dir Inode) {
	if !t.touches.due(touched{fs, dir}, time.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, touchEvery)
	defer cancel()
	now := milliseconds()
	_, _ = t.db.Exec(ctx, touchDir, now, now, int64(fs), int64(dir), now)
}
