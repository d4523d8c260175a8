package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// shape is a tree below one directory, its root: either Files files in the root itself, or
// Dirs directories of Files files each, side by side or each in the one before it.
type shape struct {
	Name  string
	Dirs  int
	Files int
	Chain bool
}

// parseShape reads flat100k, 100x1000 (directories x files of each) and chain1000x10; k
// and m stand for thousand and million.
func parseShape(name string) (s shape, err error) {
	s.Name = name
	rest, chain := strings.CutPrefix(name, "chain")
	s.Chain = chain
	if flat, ok := strings.CutPrefix(name, "flat"); ok {
		s.Files, err = count(flat)
		return s, err
	}
	dirs, files, ok := strings.Cut(rest, "x")
	if !ok {
		return s, fmt.Errorf("shape %q: want flatN, DxN or chainDxN", name)
	}
	if s.Dirs, err = count(dirs); err == nil {
		s.Files, err = count(files)
	}
	return s, err
}

func count(text string) (int, error) {
	times := 1
	if rest, ok := strings.CutSuffix(text, "k"); ok {
		text, times = rest, 1000
	} else if rest, ok := strings.CutSuffix(text, "m"); ok {
		text, times = rest, 1_000_000
	}
	n, err := strconv.Atoi(text)
	if err == nil && n <= 0 {
		err = fmt.Errorf("%q is no positive number", text)
	}
	return n * times, err
}

func (s shape) files() int { return max(s.Dirs, 1) * s.Files }

// nodes counts the root too.
func (s shape) nodes() int { return s.files() + s.Dirs + 1 }

// planted is a tree that was filled in. Its ids follow each other.
type planted struct {
	shape
	fs       tree.FS
	name     string // below the root of the drive
	root     int64  // inode
	dirs     int64  // inode of the first directory
	file     int64  // inode of the first file
	contents int64  // id of the first content
}

// parent is the directory of a file.
func (p planted) parent(file int) int64 {
	if p.Dirs == 0 {
		return p.root
	}
	return p.dirs + int64(file/p.Files)
}

const (
	firstName = 10_000_000 // so that names have one length, and sort as they count
	fileBytes = 100_000    // as the rows say: there are no objects behind them
	chunkRows = 10_000     // of one INSERT
)

// nameOf is the name of a file in its directory.
func (p planted) nameOf(file int) string { return fmt.Sprintf("f%d", firstName+file%p.Files) }

// plant fills a tree in with a few bulk statements: through the drive's operations a
// million files would take an hour. Every file has a dentry, an inode and a content of its
// own whose bytes are an object, so that each costs a delete all that it can cost.
func plant(ctx context.Context, db *sqldb.DB, fs tree.FS, name string, s shape) (p planted, err error) {
	p = planted{shape: s, fs: fs, name: name}
	err = db.Tx(ctx, func(tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE fs_ids SET next_id = next_id + ? WHERE fs_id = ?", s.nodes()+s.files(), int64(fs)); err != nil {
			return err
		}
		var end int64
		if err := tx.QueryRow(ctx, "SELECT next_id FROM fs_ids WHERE fs_id = ?", int64(fs)).Scan(&end); err != nil {
			return err
		}
		p.contents = end - int64(s.files())
		p.file = p.contents - int64(s.files())
		p.dirs = p.file - int64(s.Dirs)
		p.root = p.dirs - 1
		return p.insert(ctx, tx, 0, 1, "1", quoted(name), "{n} + "+text(p.root), tree.Directory)
	})
	if err != nil {
		return p, fmt.Errorf("plant %s: %w", s.Name, err)
	}
	dirs, files := text(p.root), text(p.root)
	if s.Dirs > 0 {
		files = "{div} + " + text(p.dirs)
	}
	if s.Chain {
		dirs = "{n} + " + text(p.root) // before the first directory stands the root
	}
	if err := p.insertAll(ctx, db, s.Dirs, dirs, "{d}", "{n} + "+text(p.dirs), tree.Directory); err != nil {
		return p, err
	}
	if err := p.insertAll(ctx, db, s.files(), files, "{f}", "{n} + "+text(p.file), tree.File); err != nil {
		return p, err
	}
	_, err = db.Exec(ctx, "INSERT INTO usage_delta (fs_id, bytes, files, reserved) VALUES (?, ?, ?, 0)", int64(fs), int64(s.files())*fileBytes, s.files())
	return p, err
}

func text(n int64) string { return strconv.FormatInt(n, 10) }

func quoted(name string) string { return "'" + name + "'" } // the bench's own names only

func (p planted) insertAll(ctx context.Context, db *sqldb.DB, n int, parent, name, inode string, kind tree.Kind) error {
	for first := 0; first < n; first += chunkRows {
		err := db.Tx(ctx, func(tx *sqldb.Tx) error {
			return p.insert(ctx, tx, first, min(chunkRows, n-first), parent, name, inode, kind)
		})
		if err != nil {
			return fmt.Errorf("plant %s: %w", p.Name, err)
		}
	}
	return nil
}

// insert makes n nodes and, of files, their contents. The texts are SQL over {n}, the
// number of the node; {div} is that of its directory, {f} and {d} are its name.
func (p planted) insert(ctx context.Context, tx *sqldb.Tx, first, n int, parent, name, inode string, kind tree.Kind) error {
	const digit = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4" +
		" UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
	numbers := fmt.Sprintf(" FROM (SELECT o.d + 10 * t.d + 100 * h.d + 1000 * k.d AS n FROM %[1]s o, %[1]s t, %[1]s h, %[1]s k) q WHERE q.n < %d ORDER BY q.n", digit, n)
	number := fmt.Sprintf("(%d + q.n)", first)
	joined := func(prefix, n string) string {
		return fmt.Sprintf("{on mysql}CONCAT('%[1]s', %[2]s){else}'%[1]s' || CAST(%[2]s AS TEXT){end}", prefix, n)
	}
	filled := strings.NewReplacer(
		"{n}", number,
		"{div}", fmt.Sprintf("({on mysql}%[1]s DIV %[2]d{else}%[1]s / %[2]d{end})", number, p.Files),
		"{f}", joined("f", fmt.Sprintf("(%d + %s %% %d)", firstName, number, p.Files)),
		"{d}", joined("d", fmt.Sprintf("(%d + %s)", firstName, number)),
	)
	fs, dir, size, content := text(int64(p.fs)), 0, 0, "NULL"
	if kind == tree.Directory {
		dir = 1
	} else {
		size, content = fileBytes, text(p.contents)+" + {n}"
	}
	statements := []string{
		fmt.Sprintf("INSERT INTO file_nodes (fs_id, parent_id, name, inode_id, is_directory) SELECT %s, %s, %s, %s, %d", fs, parent, name, inode, dir),
		fmt.Sprintf(`INSERT INTO inodes (fs_id, inode_id, kind, mode, size, nlink, revision, content_id, created_at, modified_at, changed_at)
			SELECT %s, %s, %d, 420, %d, 1, 1, %s, 1, 1, 1`, fs, inode, kind, size, content),
	}
	if kind == tree.File {
		statements = append(statements, fmt.Sprintf(`INSERT INTO contents (fs_id, content_id, refs, size, sha256, object_key, created_at)
			SELECT %s, %s, 1, %d, '%064d', %s, 1`, fs, content, size, 0, joined("objects/"+fs+"/c4/0190a5f4-7d1c-7c3e-9a41-", "("+content+")")))
	}
	for _, s := range statements {
		if _, err := tx.Exec(ctx, sqldb.Statement(filled.Replace(s+numbers))); err != nil {
			return err
		}
	}
	return nil
}

// settled gives the planner statistics of what was filled in, and gets done what the
// engine would do in the background.
func settled(ctx context.Context, db *sqldb.DB) error {
	statements := map[sqldb.Name][]sqldb.Statement{
		sqldb.Postgres: {"VACUUM ANALYZE file_nodes", "VACUUM ANALYZE inodes", "VACUUM ANALYZE contents", "VACUUM ANALYZE file_gc_tasks", "CHECKPOINT"},
		sqldb.MySQL:    {"ANALYZE TABLE file_nodes, inodes, contents, file_gc_tasks"},
	}[db.Dialect().Name]
	for _, s := range statements {
		rows, err := db.Query(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		for rows.Next() { // MySQL answers with a row a table
			continue
		}
		if err := rows.Err(); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		if err := rows.Close(); err != nil {
			return err
		}
	}
	return nil
}
