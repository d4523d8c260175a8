package tree

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// columns of a node, of the table or subquery n. Those of a row that may be missing
// (Resolve) are scanned as they are, so everything is scanned into something nullable.
const columns = "n.inode_id, n.kind, n.mode, n.size, n.nlink, n.revision, n.content_id, n.target, n.created_at, n.modified_at, n.changed_at"

// row takes columns.
type row struct {
	inode, kind, mode, size, nlink, revision, content sql.NullInt64
	target                                            sql.NullString
	created, modified, changed                        sql.NullInt64
}

func (r *row) dest() []any {
	return []any{
		&r.inode, &r.kind, &r.mode, &r.size, &r.nlink, &r.revision, &r.content,
		&r.target, &r.created, &r.modified, &r.changed,
	}
}

func (r *row) node() Node {
	return Node{
		Inode: Inode(r.inode.Int64), Kind: Kind(r.kind.Int64), Mode: uint32(r.mode.Int64),
		Size: r.size.Int64, NLink: r.nlink.Int64, Revision: r.revision.Int64, Content: r.content.Int64,
		Target: r.target.String, Created: r.created.Int64, Modified: r.modified.Int64, Changed: r.changed.Int64,
	}
}

const getNode sqldb.Statement = "SELECT " + columns + " FROM inodes n WHERE n.fs_id = ? AND n.inode_id = ?"

// Get returns an inode. Its Parent and Name are not set: it may have many.
func (t *Tree) Get(ctx context.Context, r sqldb.Reader, fs FS, ino Inode) (node Node, found bool, err error) {
	var at row
	err = r.QueryRow(ctx, getNode, int64(fs), int64(ino)).Scan(at.dest()...)
	if errors.Is(err, sql.ErrNoRows) {
		return Node{}, false, nil
	}
	return at.node(), err == nil, err
}

// The join is one look by key for each entry, in the order of the entries; PostgreSQL
// would otherwise read all inodes for a large page.
const listNodes sqldb.Statement = `{on postgres}SELECT f.name, ` + columns + ` FROM (
	SELECT fs_id, name, inode_id FROM file_nodes WHERE fs_id = ? AND parent_id = ? AND name > ? ORDER BY name LIMIT ?) f
	CROSS JOIN LATERAL (SELECT * FROM inodes n WHERE n.fs_id = f.fs_id AND n.inode_id = f.inode_id LIMIT 1) n ORDER BY f.name{else}
	SELECT f.name, ` + columns + ` FROM file_nodes f {key} CROSS JOIN inodes n {key} ON n.fs_id = f.fs_id AND n.inode_id = f.inode_id
	WHERE f.fs_id = ? AND f.parent_id = ? AND f.name > ? ORDER BY f.name LIMIT ?{end}`

// List returns up to limit entries of a directory by name, those after the name after
// (empty: from the first), as whole nodes. A directory that is not there has none.
func (t *Tree) List(ctx context.Context, r sqldb.Reader, fs FS, dir Inode, after string, limit int) ([]Node, error) {
	var out []Node
	err := each(ctx, r, listNodes, []any{int64(fs), int64(dir), after, limit}, func(rows *sql.Rows) error {
		var name string
		var at row
		if err := rows.Scan(append([]any{&name}, at.dest()...)...); err != nil {
			return err
		}
		node := at.node()
		node.Parent, node.Name = dir, name
		out = append(out, node)
		return nil
	})
	return out, err
}

// each calls fn with every row of a query.
func each(ctx context.Context, r sqldb.Reader, s sqldb.Statement, args []any, fn func(*sql.Rows) error) (err error) {
	rows, err := r.Query(ctx, s, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// sorted returns ids ascending and once each, in a slice of its own.
func sorted(ids []Inode) []Inode {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// chunks calls fn with lists of at most as many ids as the engine takes, in order.
func chunks(d *sqldb.Dialect, ids []Inode, fn func(sqldb.IDs) error) error {
	for part := range slices.Chunk(ids, d.MaxList) {
		list := make(sqldb.IDs, len(part))
		for i, id := range part {
			list[i] = int64(id)
		}
		if err := fn(list); err != nil {
			return err
		}
	}
	return nil
}

// must is the answer of a write that has to hit exactly one row.
func must(n int64, err error) error {
	if err == nil && n != 1 {
		return ErrMoved
	}
	return err
}
