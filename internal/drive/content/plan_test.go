package content_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

func TestStatements(t *testing.T) {
	t.Parallel()
	owners := []sqldb.Migrations{content.Migrations}
	sqldbtest.PrepareAll(t, ".", owners, nil)
}

// TestPlans: nothing scans a table or a whole drive, with statistics and with those of
// empty tables.
func TestPlans(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{content.Migrations}, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db, mem.New(), nil)
		for _, statistics := range []string{"of empty tables", "fresh"} {
			if statistics == "fresh" {
				e.analyze()
			} else {
				e.fill()
			}
			ids := make(sqldb.IDs, 300)
			for i := range ids {
				ids[i] = int64(3 * (i + 1))
			}
			for _, p := range content.Plans(one, 100, "k100", "c1", "u100", ids) {
				on := db
				if p.Sweeper {
					on = db.Sweeper()
				}
				plan := explain(t, on, p.Text, p.Args)
				if testing.Verbose() {
					t.Logf("%s %s %s", statistics, p.Name, plan)
				}
				if scans[db.Dialect().Name].MatchString(plan) {
					t.Errorf("%s, statistics %s:\n%s", p.Name, statistics, plan)
				}
			}
		}
	})
}

// scans are the words for reading a table whole, or all of one drive.
var scans = map[sqldb.Name]*regexp.Regexp{
	sqldb.SQLite:   regexp.MustCompile(`(?m)SCAN (contents|c|file_gc_tasks|t|uploads|upload_parts|p)( |$)(USING .*)?$|\((fs_id|state)=\?\)|object_key>\?`),
	sqldb.Postgres: regexp.MustCompile(`Seq Scan|Index Cond: \(\(?(fs_id = '7'::bigint|claim IS NULL|state = '[A-Z]*'::text)\)\n|Index Cond: \(\(?(fs_id = '7'::bigint|claim IS NULL|state = '[A-Z]*'::text)\)$`),
	sqldb.MySQL:    regexp.MustCompile(`(?m)^\S+ (ALL|index) `),
}

// fill puts 6,000 rows into each table, most of one drive.
func (e *env) fill() {
	e.Helper()
	e.must(e.tx(func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range 6000 {
			fs := 7 + i/5000
			for s, args := range map[sqldb.Statement][]any{
				`INSERT INTO contents (fs_id, content_id, refs, size, sha256, object_key, created_at) VALUES (?, ?, 1, 1, 'x', ?, 0)`:                                               {fs, i, fmt.Sprint("o", i)},
				`INSERT INTO file_gc_tasks (fs_id, object_key, due_at, multipart, claim, attempts, last_error, created_at) VALUES (?, ?, ?, 0, ?, 0, '', 0)`:                        {fs, fmt.Sprint("k", i), int64(i) << 32, fmt.Sprint("c", i/10)},
				`INSERT INTO uploads (fs_id, upload_id, base_inode, rest, path, state, declared_size, created_by, created_at, expires_at) VALUES (?, ?, ?, '', '', ?, 0, '', 0, ?)`: {fs, fmt.Sprint("u", i), i, map[bool]string{true: "OPEN", false: "CLOSED"}[i%50 == 0], int64(i) << 32},
				`INSERT INTO upload_parts (fs_id, upload_id, number, size, sha256, etag, object_key, created_at) VALUES (?, ?, ?, 1, '', '', ?, 0)`:                                 {fs, fmt.Sprint("u", i/4), i, fmt.Sprint("p", i)},
			} {
				if _, err := tx.Exec(ctx, s, args...); err != nil {
					return err
				}
			}
		}
		if e.db.Dialect().Name == sqldb.Postgres { // as autovacuum does that comes now
			e.analyze()
		}
		return nil
	}))
}

func (e *env) analyze() {
	e.Helper()
	analyze := sqldb.Statement("ANALYZE ")
	if e.db.Dialect().Name == sqldb.MySQL {
		analyze = "ANALYZE TABLE "
	}
	for _, table := range []sqldb.Statement{"contents", "file_gc_tasks", "uploads", "upload_parts"} {
		e.exec(analyze + table)
	}
}

func explain(t *testing.T, db *sqldb.DB, text sqldb.Statement, args []any) string {
	t.Helper()
	prefix := sqldb.Statement("EXPLAIN ")
	if db.Dialect().Name == sqldb.SQLite {
		prefix = "EXPLAIN QUERY PLAN "
	}
	var b strings.Builder
	err := db.Tx(t.Context(), func(tx *sqldb.Tx) error {
		rows, err := tx.Query(t.Context(), prefix+text, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			if err := rows.Scan(values...); err != nil {
				return err
			}
			if db.Dialect().Name != sqldb.MySQL {
				fmt.Fprintln(&b, *values[len(values)-1].(*any))
				continue
			}
			for i, name := range columns {
				switch name {
				case "table", "type", "key", "rows", "Extra":
					value := *values[i].(*any)
					if text, ok := value.([]byte); ok {
						value = string(text)
					}
					fmt.Fprint(&b, value, " ")
				}
			}
			fmt.Fprintln(&b)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return strings.TrimSpace(b.String())
}
