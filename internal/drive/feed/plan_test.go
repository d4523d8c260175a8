package feed_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// planned is a statement, the index that answers it ("": the primary key), and the columns
// by which that is entered.
type planned struct {
	name    string
	index   string
	columns []string
	args    []any
	sweeper bool // runs on the sweeper's connections
}

// Nothing that a request or a round of the sequencer does reads what it does not use,
// whatever the engine knows of the tables: nothing, that they were empty while they had
// pages (an autovacuum that saw them before the commit, or after all was folded), or all.
func TestPlans(t *testing.T) {
	t.Parallel()
	texts := sqldbtest.Statements(t, ".")
	ids := make(sqldb.IDs, 300)
	for i := range ids {
		ids[i] = int64(7*i + 100)
	}
	cases := []planned{
		{"selectUsage", "usage_delta_fs", []string{"fs_id"}, []any{one}, false},
		{"updateQuota", "", []string{"fs_id"}, []any{1, 1, one}, false},
		{"selectBounds", "", []string{"fs_id"}, []any{one}, false},
		{"selectEvents", "fs_events_seq", []string{"fs_id", "seq"}, []any{one, 11_000, 50}, false},
		{"postpone", "", []string{"fs_id"}, []any{1, one}, true},
		{"lockTotal", "", []string{"fs_id"}, []any{one}, true},
		{"updateTotal", "", []string{"fs_id"}, []any{1, 1, 1, 1, one}, true},
		{"raiseOldest", "", []string{"fs_id"}, []any{2, one, 2}, true},
		{"dueAudits", "usage_total_audit", []string{"full_due_at"}, []any{100}, true},
		{"someDeltas", "usage_delta_fs", []string{"fs_id"}, []any{one, 500}, true},
		{"deleteDeltas", "", []string{"id"}, []any{ids}, true},
		{"newEvents", "fs_events_", []string{"fs_id", "seq"}, []any{one, 500}, true},
		{"numberEvents", "", []string{"id"}, []any{1, ids}, true},
		{"agedEvents", "fs_events_age", []string{"created_at"}, []any{1000, 500}, true},
		{"deleteEvents", "", []string{"id"}, []any{ids}, true},
		{"dropTotal", "", []string{"fs_id"}, []any{one}, false},
		{"dropDeltas", "usage_delta_fs", []string{"fs_id"}, []any{two}, false},
		{"dropEvents", "fs_events_seq", []string{"fs_id"}, []any{two}, false},
		// It reads all deltas, and folds them then.
		{"busyDrives", "fs_events_new", nil, nil, true},
	}
	for _, statistics := range []string{"none", "before the commit"} {
		t.Run(statistics, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, []sqldb.Migrations{feed.Migrations}, func(t *testing.T, db *sqldb.DB) {
				t.Helper()
				if statistics != "none" && db.Dialect().Name != sqldb.Postgres {
					return // the others count what is not committed
				}
				fillFeed(t, db, statistics != "none")
				for _, when := range []string{statistics, "fresh"} {
					if when == "fresh" {
						analyzeFeed(t, db)
					}
					for _, p := range cases {
						on := db
						if p.sweeper {
							on = db.Sweeper()
						}
						for way, plan := range plansOf(t, on, texts[p.name], p.args) {
							if bad := p.bad(db.Dialect().Name, when, plan); bad != "" {
								t.Errorf("%s, statistics %s, %s: %s\n%s", p.name, when, way, bad, plan)
							}
						}
					}
				}
			})
		})
	}
}

// bad says what a plan does that it should not.
func (p planned) bad(engine sqldb.Name, statistics, plan string) string {
	if !strings.Contains(plan, p.index) {
		return "not by " + p.index
	}
	entered := p.columns == nil
	for line := range strings.Lines(plan) {
		if strings.Contains(line, "usage_delta") && p.columns == nil {
			continue
		}
		switch engine {
		case sqldb.Postgres:
			if strings.Contains(line, "Seq Scan on") {
				return "a scan"
			}
			entered = entered || strings.Contains(line, "Index Cond") && containsAll(line, p.columns)
			if p.columns != nil && strings.Contains(line, "Index Cond") && !containsAll(line, p.columns) && !strings.Contains(line, "fs_id = ") {
				return "another range"
			}
		case sqldb.MySQL:
			if f := strings.Fields(line); !strings.HasPrefix(line, "<union") && (f[1] == "ALL" || f[1] == "index") {
				return "a scan"
			}
			entered = entered || strings.Contains(line, " "+strconv.Itoa(8*len(p.columns))+" ") // bytes of the key
		case sqldb.SQLite:
			if strings.HasPrefix(line, "SCAN") && !strings.HasPrefix(line, "SCAN CONSTANT ROW") {
				return "a scan"
			}
			entered = entered || containsAll(strings.ReplaceAll(line, "rowid", "id"), p.columns)
		}
		// An estimate that is low by far makes a sort of what a LIMIT would cut off look good.
		// Requests get one until the first analyze, within a minute.
		if sorts := p.sweeper || statistics != "none"; sorts && strings.Contains(strings.ToLower(line), "sort") || strings.Contains(line, "B-TREE FOR ORDER") {
			return "a sort"
		}
	}
	if !entered {
		return "not by " + strings.Join(p.columns, ", ")
	}
	return ""
}

func containsAll(s string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(s, part) {
			return false
		}
	}
	return true
}

// fillFeed writes 12,000 events of 12 drives, a quarter of one, 6,000 deltas and 3,000 drives.
func fillFeed(t *testing.T, db *sqldb.DB, analyze bool) {
	t.Helper()
	in(t, db, func(ctx context.Context, tx *sqldb.Tx) error {
		insert := func(into string, n int, row func(i int) string) error {
			for at := 0; at < n; at += 500 {
				values := make([]string, 500)
				for i := range values {
					values[i] = row(at + i)
				}
				if _, err := tx.Exec(ctx, sqldb.Statement("INSERT INTO "+into+" VALUES "+strings.Join(values, ","))); err != nil {
					return err
				}
			}
			return nil
		}
		drive := func(i int) int {
			if i%4 == 0 {
				return one
			}
			return 8 + i%11
		}
		if err := insert("fs_events (fs_id, seq, kind, parent_id, name, inode_id, revision, path, from_path, actor, created_at)", 12_000, func(i int) string {
			seq := i + 1
			if i >= 11_900 {
				seq = 0
			}
			return fmt.Sprintf("(%d,%d,'create',1,'n%d',%d,1,'/some/directory/n%d','','ann',%d)", drive(i), seq, i, i, i, int64(i)<<32)
		}); err != nil {
			return err
		}
		if err := insert("usage_delta (fs_id, bytes, files, reserved)", 6000, func(i int) string { return fmt.Sprintf("(%d,1,1,0)", drive(i)) }); err != nil {
			return err
		}
		if err := insert("usage_total (fs_id, bytes, files, quota_bytes, quota_files, next_seq, reserved, oldest_seq, full_due_at)", 3000, func(i int) string {
			return fmt.Sprintf("(%d,0,0,0,0,1,0,1,%d)", i+1, int64(i)<<32)
		}); err != nil {
			return err
		}
		if analyze { // on a connection of its own, as autovacuum
			analyzeFeed(t, db)
		}
		return nil
	})
}

func analyzeFeed(t *testing.T, db *sqldb.DB) {
	t.Helper()
	verb := sqldb.Statement("ANALYZE ")
	if db.Dialect().Name == sqldb.MySQL {
		verb = "ANALYZE TABLE "
	}
	for _, table := range []sqldb.Statement{"fs_events", "usage_delta", "usage_total"} {
		if _, err := db.Exec(t.Context(), verb+table); err != nil {
			t.Fatal(err)
		}
	}
}

// plansOf explains a statement; on PostgreSQL both plans that a prepared one can get.
func plansOf(t *testing.T, db *sqldb.DB, s sqldb.Statement, args []any) map[string]string {
	t.Helper()
	switch db.Dialect().Name {
	case sqldb.SQLite:
		return map[string]string{"": explained(t, db, "EXPLAIN QUERY PLAN "+s, args...)}
	case sqldb.MySQL:
		return map[string]string{"": explained(t, db, "EXPLAIN "+s, args...)}
	case sqldb.Postgres:
	}
	text, args, err := db.Dialect().Render(s, args)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]string, len(args))
	for i, a := range args {
		values[i] = fmt.Sprintf("'%v'", a)
		if list, ok := a.([]int64); ok {
			values[i] = "'{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]") + "}'"
		}
	}
	execute := sqldb.Statement("EXPLAIN EXECUTE p")
	if len(values) > 0 {
		execute += sqldb.Statement(" (" + strings.Join(values, ",") + ")")
	}
	out := map[string]string{}
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		in(t, db, func(ctx context.Context, tx *sqldb.Tx) error {
			for _, s := range []string{"SET LOCAL plan_cache_mode = " + mode, "PREPARE p AS " + text} {
				if _, err := tx.Exec(ctx, sqldb.Statement(s)); err != nil {
					return err
				}
			}
			out[mode] = explained(t, tx, execute)
			_, err := tx.Exec(ctx, "DEALLOCATE p")
			return err
		})
	}
	return out
}

func explained(t *testing.T, r sqldb.Reader, s sqldb.Statement, args ...any) string {
	t.Helper()
	rows, err := r.Query(t.Context(), s, args...)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			t.Fatal(err)
		}
		for i, name := range columns {
			switch name {
			case "QUERY PLAN", "detail", "table", "type", "key", "key_len", "Extra":
				value := *values[i].(*any)
				if text, ok := value.([]byte); ok {
					value = string(text)
				}
				fmt.Fprint(&b, value, " ")
			}
		}
		fmt.Fprintln(&b)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
