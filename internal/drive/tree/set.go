package tree

import (
	"context"
	"database/sql"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Entry is a dentry as the set steps see it.
type Entry struct {
	Parent, Inode Inode
	Name          string
	Dir           bool
}

// Range is the entries of whole directories, or of a part of one.
type Range struct {
	Parents []Inode
	Slice   *Slice // nil: all of Parents
}

// Slice is the entries of one directory with After < name <= Upto.
type Slice struct {
	Parent      Inode
	After, Upto string
}

// Set statements keep to the keys on every engine and with any statistics. On PostgreSQL
// some do so only on the connections of sqldb.DB.Sweeper.
const (
	children sqldb.Statement = `{on postgres}SELECT f.parent_id, f.inode_id, f.is_directory FROM unnest({array}) u(i)
		CROSS JOIN LATERAL (SELECT parent_id, inode_id, is_directory FROM file_nodes WHERE parent_id = u.i AND fs_id = ? LIMIT ?) f LIMIT {again}{else}
		SELECT parent_id, inode_id, is_directory FROM file_nodes {key} WHERE parent_id {in} AND fs_id = ? ORDER BY parent_id LIMIT ?{end}`
	slice sqldb.Statement = `SELECT inode_id, name, is_directory FROM file_nodes {key}
		WHERE fs_id = ? AND parent_id = ? AND name > ? ORDER BY name LIMIT ?`

	deleteOf      sqldb.Statement = "{delete:file_nodes} WHERE {keys:fs_id,parent_id} AND is_directory = 0"
	deleteBetween sqldb.Statement = "{delete:file_nodes} WHERE fs_id = ? AND parent_id = ? AND name > ? AND name <= ? AND is_directory = 0"

	directoriesOf sqldb.Statement = `SELECT parent_id, inode_id, name, is_directory FROM file_nodes {index:file_nodes_inode}
		WHERE {keys:fs_id,inode_id} AND inode_id > 0 AND is_directory = 1`
	// The sum keeps the list of parents a filter: as a second key of the index it would be
	// a look for every pair.
	deleteDirectories sqldb.Statement = `{delete:file_nodes,file_nodes_inode} WHERE {keys:fs_id,inode_id} AND inode_id > 0 AND parent_id + 0 {in} AND is_directory = 1`

	deleteInodes sqldb.Statement = "{delete:inodes} WHERE {keys:fs_id,inode_id}"
	lowerLinks   sqldb.Statement = "UPDATE inodes {key} SET nlink = nlink - ?, changed_at = {now} WHERE {keys:fs_id,inode_id}"
	deleteTags   sqldb.Statement = "{delete:file_tags} WHERE {keys:fs_id,inode_id}"

	// The same of one inode, as requests do it on connections that are not the sweeper's.
	deleteInode  sqldb.Statement = "DELETE FROM inodes WHERE fs_id = ? AND inode_id = ?"
	lowerLink    sqldb.Statement = "UPDATE inodes SET nlink = nlink - ?, changed_at = {now} WHERE fs_id = ? AND inode_id = ?"
	deleteTagsOf sqldb.Statement = "DELETE FROM file_tags WHERE fs_id = ? AND inode_id = ?"
)

// Children reads up to limit entries of directories, ascending ids, without a lock. They
// come grouped by directory in the order of dirs, without their names: if there are limit of
// them, the last directory may have more.
func (t *Tree) Children(ctx context.Context, r sqldb.Reader, fs FS, dirs []Inode, limit int) ([]Entry, error) {
	var out []Entry
	err := chunks(t.db.Dialect(), dirs, func(ids sqldb.IDs) error {
		if len(out) >= limit {
			return nil
		}
		var e Entry
		return entries(ctx, r, &out, &e, []any{&e.Parent, &e.Inode}, children, ids, int64(fs), limit-len(out))
	})
	return out, err
}

// Slice reads up to limit entries of a directory by name, those after the name after,
// without a lock.
func (t *Tree) Slice(ctx context.Context, r sqldb.Reader, fs FS, dir Inode, after string, limit int) ([]Entry, error) {
	var out []Entry
	e := Entry{Parent: dir}
	err := entries(ctx, r, &out, &e, []any{&e.Inode, &e.Name}, slice, int64(fs), int64(dir), after, limit)
	return out, err
}

// entries appends to out what e is in every row of a query: dest are the places in it of
// all columns but the last, which says whether it is a directory.
func entries(ctx context.Context, r sqldb.Reader, out *[]Entry, e *Entry, dest []any, s sqldb.Statement, args ...any) error {
	var dir int64
	dest = append(dest, &dir)
	return each(ctx, r, s, args, func(rows *sql.Rows) error {
		err := rows.Scan(dest...)
		e.Dir = dir == 1
		*out = append(*out, *e)
		return err
	})
}

// DeleteFiles removes the range's entries that are no directories and returns how many
// they were: as many as FilesIn returned, else the transaction rolls back.
func (t *Tree) DeleteFiles(ctx context.Context, tx *sqldb.Tx, fs FS, in Range) (int64, error) {
	if s := in.Slice; s != nil {
		return tx.Exec(ctx, deleteBetween, int64(fs), int64(s.Parent), s.After, s.Upto)
	}
	return hit(tx, in.Parents, func(ids sqldb.IDs) (int64, error) {
		return tx.Exec(ctx, deleteOf, int64(fs), ids)
	})
}

// DirectoriesOf returns the entries by which directories hang in the tree.
func (t *Tree) DirectoriesOf(ctx context.Context, tx *sqldb.Tx, fs FS, ids []Inode) ([]Entry, error) {
	var out []Entry
	err := chunks(tx.Dialect(), sorted(ids), func(part sqldb.IDs) error {
		var e Entry
		return entries(ctx, tx, &out, &e, []any{&e.Parent, &e.Inode, &e.Name}, directoriesOf, int64(fs), part)
	})
	return out, err
}

// DeleteDirectoryDentries removes the entries of directories that hang under any of
// parents, all of which are held, and returns how many they were.
func (t *Tree) DeleteDirectoryDentries(ctx context.Context, tx *sqldb.Tx, fs FS, ids, parents []Inode) (int64, error) {
	parents = sorted(parents)
	return hit(tx, sorted(ids), func(part sqldb.IDs) (int64, error) {
		return hit(tx, parents, func(under sqldb.IDs) (int64, error) {
			return tx.Exec(ctx, deleteDirectories, int64(fs), part, under)
		})
	})
}

// DeleteInodes removes inodes, which are held exclusively, and returns how many they were.
func (t *Tree) DeleteInodes(ctx context.Context, tx *sqldb.Tx, fs FS, ids []Inode) (int64, error) {
	if len(ids) == 1 {
		return tx.Exec(ctx, deleteInode, int64(fs), int64(ids[0]))
	}
	return hit(tx, sorted(ids), func(part sqldb.IDs) (int64, error) {
		return tx.Exec(ctx, deleteInodes, int64(fs), part)
	})
}

// LowerLinks lowers the link count of each of the inodes, which are held exclusively, and
// returns how many they were.
func (t *Tree) LowerLinks(ctx context.Context, tx *sqldb.Tx, fs FS, ids []Inode, by int64) (int64, error) {
	if len(ids) == 1 {
		return tx.Exec(ctx, lowerLink, by, int64(fs), int64(ids[0]))
	}
	return hit(tx, sorted(ids), func(part sqldb.IDs) (int64, error) {
		return tx.Exec(ctx, lowerLinks, by, int64(fs), part)
	})
}

// DeleteTags removes all tags of inodes.
func (t *Tree) DeleteTags(ctx context.Context, tx *sqldb.Tx, fs FS, ids []Inode) error {
	if len(ids) == 1 {
		_, err := tx.Exec(ctx, deleteTagsOf, int64(fs), int64(ids[0]))
		return err
	}
	_, err := hit(tx, sorted(ids), func(part sqldb.IDs) (int64, error) {
		return tx.Exec(ctx, deleteTags, int64(fs), part)
	})
	return err
}

// hit sums what a write hits over lists of the length that the engine takes.
func hit(tx *sqldb.Tx, ids []Inode, write func(sqldb.IDs) (int64, error)) (total int64, err error) {
	err = chunks(tx.Dialect(), ids, func(part sqldb.IDs) error {
		n, err := write(part)
		total += n
		return err
	})
	return total, err
}
