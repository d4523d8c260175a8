package tree

import (
	"context"
	"database/sql"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// What only the trash, the reconciler and a dry run need: the first two look at rows that no
// path leads to.
// named asks for a column that the index does not have, and for no DISTINCT: MariaDB would
// rather read all of a drive in an index that answers alone.
const (
	parentsAfter sqldb.Statement = "SELECT parent_id FROM file_nodes {key} WHERE fs_id = ? AND parent_id > ? ORDER BY parent_id, name LIMIT ?"
	inodesAfter  sqldb.Statement = "SELECT inode_id, kind FROM inodes {key} WHERE fs_id = ? AND inode_id > ? ORDER BY inode_id LIMIT ?"
	present      sqldb.Statement = "SELECT inode_id FROM inodes {key} WHERE {keys:fs_id,inode_id}"
	sizes        sqldb.Statement = "SELECT inode_id, size, nlink FROM inodes {key} WHERE {keys:fs_id,inode_id}"
	named        sqldb.Statement = "SELECT inode_id FROM file_nodes {index:file_nodes_inode} WHERE {keys:fs_id,inode_id} AND inode_id > 0{on mysql} AND is_directory >= 0{end}"
	entryIs      sqldb.Statement = "SELECT COUNT(*) FROM file_nodes {key} WHERE fs_id = ? AND parent_id = ? AND name = ? AND inode_id = ?"

	deleteTrashed sqldb.Statement = "{delete:file_nodes} WHERE fs_id = ? AND parent_id = 2 AND name {in} AND is_directory = 0"
)

// ParentsAfter reads the parents of up to limit entries of a drive, ascending, those of
// directories after the one given: one for every entry.
func (t *Tree) ParentsAfter(ctx context.Context, r sqldb.Reader, fs FS, after Inode, limit int) (parents []Inode, err error) {
	err = each(ctx, r, parentsAfter, []any{int64(fs), int64(after), limit}, func(rows *sql.Rows) error {
		var ino Inode
		err := rows.Scan(&ino)
		parents = append(parents, ino)
		return err
	})
	return parents, err
}

// InodesAfter reads up to limit inodes of a drive, ascending: their ids and kinds.
func (t *Tree) InodesAfter(ctx context.Context, r sqldb.Reader, fs FS, after Inode, limit int) (nodes []Node, err error) {
	err = each(ctx, r, inodesAfter, []any{int64(fs), int64(after), limit}, func(rows *sql.Rows) error {
		var n Node
		err := rows.Scan(&n.Inode, &n.Kind)
		nodes = append(nodes, n)
		return err
	})
	return nodes, err
}

// Present returns those of ids that are inodes.
func (t *Tree) Present(ctx context.Context, r sqldb.Reader, fs FS, ids []Inode) (map[Inode]bool, error) {
	return t.having(ctx, r, present, fs, ids)
}

// Sizes reads inodes without a lock: their ids, sizes and numbers of links. Those that are
// not there any more are left out.
func (t *Tree) Sizes(ctx context.Context, r sqldb.Reader, fs FS, ids []Inode) (nodes []Node, err error) {
	err = chunks(t.db.Dialect(), sorted(ids), func(part sqldb.IDs) error {
		return each(ctx, r, sizes, []any{int64(fs), part}, func(rows *sql.Rows) error {
			var n Node
			err := rows.Scan(&n.Inode, &n.Size, &n.NLink)
			nodes = append(nodes, n)
			return err
		})
	})
	return nodes, err
}

// Named returns those of ids that some entry names.
func (t *Tree) Named(ctx context.Context, r sqldb.Reader, fs FS, ids []Inode) (map[Inode]bool, error) {
	return t.having(ctx, r, named, fs, ids)
}

func (t *Tree) having(ctx context.Context, r sqldb.Reader, s sqldb.Statement, fs FS, ids []Inode) (map[Inode]bool, error) {
	out := make(map[Inode]bool, len(ids))
	err := chunks(t.db.Dialect(), sorted(ids), func(part sqldb.IDs) error {
		return each(ctx, r, s, []any{int64(fs), part}, func(rows *sql.Rows) error {
			var ino Inode
			err := rows.Scan(&ino)
			out[ino] = true
			return err
		})
	})
	return out, err
}

// HasEntry tells whether an entry is there as it was read.
func (t *Tree) HasEntry(ctx context.Context, r sqldb.Reader, fs FS, e Entry) (bool, error) {
	n := 0
	err := r.QueryRow(ctx, entryIs, int64(fs), int64(e.Parent), e.Name, int64(e.Inode)).Scan(&n)
	return n == 1, err
}

// HangInTrash gives a directory that no entry names one in the trash, so that a sweep can
// take it.
func (t *Tree) HangInTrash(ctx context.Context, tx *sqldb.Tx, fs FS, name string, dir Inode) error {
	_, err := tx.Exec(ctx, insertName, int64(fs), int64(Trash), name, int64(dir), 1)
	return taken(tx, err)
}

// DeleteTrashed removes entries of files from the trash by name, and returns how many
// they were.
func (t *Tree) DeleteTrashed(ctx context.Context, tx *sqldb.Tx, fs FS, names []string) (total int64, err error) {
	for len(names) > 0 {
		n := min(len(names), tx.Dialect().MaxList)
		hit, err := tx.Exec(ctx, deleteTrashed, int64(fs), sqldb.Strings(names[:n]))
		if err != nil {
			return total, err
		}
		total += hit
		names = names[n:]
	}
	return total, nil
}
