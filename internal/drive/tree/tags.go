package tree

import (
	"context"
	"database/sql"

	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	readTags  sqldb.Statement = "SELECT name, value FROM file_tags {key} WHERE fs_id = ? AND inode_id = ? ORDER BY name"
	noteTags  sqldb.Statement = "UPDATE inodes SET revision = revision + 1, changed_at = ? WHERE fs_id = ? AND inode_id = ?"
	changeTag sqldb.Statement = "UPDATE file_tags SET value = ? WHERE fs_id = ? AND inode_id = ? AND name = ?"
	addTag    sqldb.Statement = "INSERT INTO file_tags (fs_id, inode_id, name, value) VALUES (?, ?, ?, ?)"
	removeTag sqldb.Statement = "DELETE FROM file_tags WHERE fs_id = ? AND inode_id = ? AND name = ?"
)

// Tags returns the tags of an inode.
func (t *Tree) Tags(ctx context.Context, r sqldb.Reader, fs FS, ino Inode) (map[string]string, error) {
	tags := map[string]string{}
	err := each(ctx, r, readTags, []any{int64(fs), int64(ino)}, func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		tags[name] = value
		return err
	})
	return tags, err
}

// SetTag sets a tag. It changes the inode's row first, so that a tag never outlives its
// inode. An inode that is gone is ErrMoved.
func (t *Tree) SetTag(ctx context.Context, tx *sqldb.Tx, fs FS, ino Inode, name, value string, now int64) error {
	if err := must(tx.Exec(ctx, noteTags, now, int64(fs), int64(ino))); err != nil {
		return err
	}
	n, err := tx.Exec(ctx, changeTag, value, int64(fs), int64(ino), name)
	if err != nil || n > 0 {
		return err
	}
	_, err = tx.Exec(ctx, addTag, int64(fs), int64(ino), name, value)
	return err
}

// RemoveTag removes a tag and tells whether it was there. An inode that is gone is
// ErrMoved.
func (t *Tree) RemoveTag(ctx context.Context, tx *sqldb.Tx, fs FS, ino Inode, name string, now int64) (bool, error) {
	if err := must(tx.Exec(ctx, noteTags, now, int64(fs), int64(ino))); err != nil {
		return false, err
	}
	n, err := tx.Exec(ctx, removeTag, int64(fs), int64(ino), name)
	return n > 0, err
}
