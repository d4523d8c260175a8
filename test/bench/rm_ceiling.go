package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// The raw ceiling: what a delete of the same rows costs on the same tables, driver,
// connections and durability when everything is known beforehand. It reads nothing, locks
// nothing first, proves nothing, keeps no job, no usage and no event, and looks for no tags
// and no uploads. How near a sweep comes to it is its ratio.
//
// It comes in two forms that differ by how dentries go: by their keys, parent and name, as
// somebody would who is told a list of files; or by ranges, whole directories or all between
// two names, which nobody may do who has not locked the directories, and which is faster
// where there are many directories.
const (
	byKeys   = "keys"
	byRanges = "ranges"
)

const (
	// rawKeys is of PostgreSQL; on other engines the names stand in the text.
	rawKeys sqldb.Statement = `DELETE FROM file_nodes
		WHERE (fs_id, parent_id, name) IN (SELECT ?::bigint, unnest({array}), unnest(string_to_array(?, ',')))`
	rawSlice sqldb.Statement = "{delete:file_nodes} WHERE fs_id = ? AND parent_id = ? AND name > ? AND name <= ? AND is_directory = 0"
	rawWhole sqldb.Statement = "{delete:file_nodes} WHERE {keys:fs_id,parent_id} AND is_directory = 0"
	rawLinks sqldb.Statement = "UPDATE inodes {key} SET nlink = nlink - 1 WHERE {keys:fs_id,inode_id}"
	rawQueue sqldb.Statement = `INSERT INTO file_gc_tasks (fs_id, object_key, due_at, multipart, claim, claimed_at, attempts, last_error, created_at)
		SELECT fs_id, object_key, {now} + 600000, 0, NULL, NULL, 0, '', {now} FROM contents {key} WHERE {keys:fs_id,content_id}`
	rawInodes      sqldb.Statement = "{delete:inodes} WHERE {keys:fs_id,inode_id}"
	rawContents    sqldb.Statement = "{delete:contents} WHERE {keys:fs_id,content_id}"
	rawDirectories sqldb.Statement = "{delete:file_nodes,file_nodes_inode} WHERE {keys:fs_id,inode_id} AND is_directory = 1"
)

// ceilingStatements is what the report shows, as the engine is sent it for two rows.
func ceilingStatements(db *sqldb.DB) (all []string, err error) {
	two := planted{shape: shape{Dirs: 1, Files: 2}, fs: 1, dirs: 3}
	for _, s := range []execution{
		two.keys(db.Dialect().Name, 0, 2),
		{rawSlice, []any{int64(1), int64(3), "f1", "f2"}},
		{rawWhole, []any{int64(1), sqldb.IDs{3, 4}}},
		{rawLinks, []any{int64(1), sqldb.IDs{3, 4}}},
		{rawQueue, []any{int64(1), sqldb.IDs{3, 4}}},
		{rawInodes, []any{int64(1), sqldb.IDs{3, 4}}},
		{rawContents, []any{int64(1), sqldb.IDs{3, 4}}},
		{rawDirectories, []any{int64(1), sqldb.IDs{3, 4}}},
	} {
		text, _, err := db.Dialect().Render(s.statement, s.args)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// batchRows is the batch of the sweep, and so of the ceiling.
func batchRows(engine sqldb.Name) int {
	if engine == sqldb.MySQL {
		return 500
	}
	return 1000
}

// ceiling removes a planted tree with the raw statements and returns how long that took.
func ceiling(ctx context.Context, db *sqldb.DB, p planted, form string) (time.Duration, error) {
	rows := batchRows(db.Dialect().Name)
	db = db.Sweeper() // as the sweep: on PostgreSQL another planner would now and then scan
	began := time.Now()
	for at := 0; at < p.files(); {
		upto := p.batchEnd(at, rows)
		if err := db.Tx(ctx, func(tx *sqldb.Tx) error { return p.removeFiles(ctx, tx, at, upto, form) }); err != nil {
			return 0, err
		}
		at = upto
	}
	// From the last directory on: a child of a chain stands behind its parent.
	for end := p.Dirs; end > 0; end -= min(rows, end) {
		first := p.dirs + int64(max(0, end-rows))
		ids := sequence(first, p.dirs+int64(end)-first)
		if err := db.Tx(ctx, func(tx *sqldb.Tx) error { return p.removeDirs(ctx, tx, ids) }); err != nil {
			return 0, err
		}
	}
	err := db.Tx(ctx, func(tx *sqldb.Tx) error { return p.removeDirs(ctx, tx, sqldb.IDs{p.root}) })
	return time.Since(began), err
}

// batchEnd is where a batch of files that begins at at ends: whole directories, or a part
// of one that is larger than a batch.
func (p planted) batchEnd(at, rows int) int {
	if p.sliced(rows) {
		return min(at+rows, (at/p.Files+1)*p.Files)
	}
	return min(at+rows/p.Files*p.Files, p.files())
}

func (p planted) sliced(rows int) bool { return p.Dirs == 0 || p.Files > rows }

func (p planted) removeFiles(ctx context.Context, tx *sqldb.Tx, at, upto int, form string) error {
	fs, n := int64(p.fs), int64(upto-at)
	inodes, contents := sequence(p.file+int64(at), n), sequence(p.contents+int64(at), n)
	first := p.ranges(tx.Dialect().Name, at, upto)
	if form == byKeys {
		first = p.keys(tx.Dialect().Name, at, upto)
	}
	return hitting(ctx, tx, n, first,
		execution{rawLinks, []any{fs, inodes}}, execution{rawQueue, []any{fs, contents}},
		execution{rawInodes, []any{fs, inodes}}, execution{rawContents, []any{fs, contents}})
}

// ranges removes the dentries of files between two numbers by ranges.
func (p planted) ranges(engine sqldb.Name, at, upto int) execution {
	fs, from := int64(p.fs), p.parent(at)
	if !p.sliced(batchRows(engine)) {
		return execution{rawWhole, []any{fs, sequence(from, p.parent(upto-1)-from+1)}}
	}
	after := ""
	if at%p.Files != 0 {
		after = p.nameOf(at - 1)
	}
	return execution{rawSlice, []any{fs, from, after, p.nameOf(upto - 1)}}
}

// keys removes them by parent and name.
func (p planted) keys(engine sqldb.Name, at, upto int) execution {
	var names []string
	if engine == sqldb.Postgres {
		var parents sqldb.IDs
		for i := at; i < upto; i++ {
			parents, names = append(parents, p.parent(i)), append(names, p.nameOf(i))
		}
		return execution{rawKeys, []any{int64(p.fs), parents, strings.Join(names, ",")}}
	}
	var terms []string // one a directory
	for i := at; i < upto; i++ {
		names = append(names, quoted(p.nameOf(i)))
		if i+1 == upto || p.parent(i+1) != p.parent(i) {
			terms = append(terms, fmt.Sprintf("(parent_id = %d AND name IN (%s))", p.parent(i), strings.Join(names, ",")))
			names = nil
		}
	}
	return execution{sqldb.Statement("{delete:file_nodes} WHERE fs_id = ? AND (" + strings.Join(terms, " OR ") + ")"), []any{int64(p.fs)}}
}

func (p planted) removeDirs(ctx context.Context, tx *sqldb.Tx, ids sqldb.IDs) error {
	fs := int64(p.fs)
	return hitting(ctx, tx, int64(len(ids)), execution{rawDirectories, []any{fs, ids}}, execution{rawInodes, []any{fs, ids}})
}

// execution is a statement with its arguments.
type execution struct {
	statement sqldb.Statement
	args      []any
}

// hitting fails when a statement hits other than n rows: then it measures something else.
func hitting(ctx context.Context, tx *sqldb.Tx, n int64, all ...execution) error {
	for _, e := range all {
		hit, err := tx.Exec(ctx, e.statement, e.args...)
		if err == nil && hit != n {
			err = errors.New("other rows than planted")
		}
		if err != nil {
			return fmt.Errorf("%.40s: %d of %d rows: %w", e.statement, hit, n, err)
		}
	}
	return nil
}

// sequence is n ids from first on.
func sequence(first, n int64) sqldb.IDs {
	ids := slices.Grow(sqldb.IDs(nil), int(n))
	for i := range n {
		ids = append(ids, first+i)
	}
	return ids
}
