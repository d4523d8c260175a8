package removal_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// TestPlans explains what runs on a request, on a claim and on every page of a reconcile,
// on filled tables: nothing scans. (The rooms below prove their own statements.)
func TestPlans(t *testing.T) {
	t.Parallel()
	texts := map[string]sqldb.Statement{}
	for _, dir := range []string{"../../job", "../tree", "../content", "."} {
		for name, s := range sqldbtest.Statements(t, dir) {
			fill := strings.NewReplacer("{table_name}", "drive_delete_job", "{only}", " AND kind = 'TREE'", "{row}", "id")
			texts[name] = sqldb.Statement(fill.Replace(string(s)))
		}
	}
	ids := sqldb.IDs{3, 5, 7}
	cases := []struct {
		statement, index string
		sweeper          bool // on its connections, whatever the statistics
		args             []any
	}{
		{"claimable", "drive_delete_job_", false, []any{1000}},
		{"anyWaiting", "drive_delete_job_", false, nil},
		{"selectJob", "", false, []any{7}},
		{"selectJobs", "drive_delete_job_", false, []any{11, 1 << 40, 10}},
		{"jobsOf", "drive_delete_job_state", false, []any{11, "CANCELLED", 1 << 40, 10}},
		{"holdMark", "", false, []any{11}},
		{"restoreJob", "", false, []any{7, 11}},
		{"dueFiles", "drive_delete_job_kind", true, []any{100}},
		{"holdFiles", "", true, []any{ids}},
		{"endFiles", "", true, []any{"{}", ids}},
		{"trashJobs", "", true, []any{11, ids}},
		{"parentsAfter", "", true, []any{11, 5, 100}},
		{"inodesAfter", "", true, []any{11, 5, 100}},
		{"present", "", true, []any{11, ids}},
		{"named", "file_nodes_inode", true, []any{11, ids}},
		{"entryIs", "", true, []any{11, 5, "x", 7}},
		{"tasksNamed", "", true, []any{11, sqldb.Strings{"k"}}},
		{"partsNamed", "", true, []any{11, sqldb.Strings{"k"}}},
		{"contentsNamed", "", true, []any{11, sqldb.Strings{"k"}}},
		{"deleteTrashed", "", true, []any{11, sqldb.Strings{"1", "2"}}},
	}
	each(t, removal.Config{}, func(t *testing.T, w *world) {
		w.plant(w.fs, "/big", append(names("f", 5000), wide(300, 2)...)...)
		w.plant(w.other, "/big", append(names("f", 1000), wide(300, 2)...)...)
		w.fillJobs(8000)
		for _, statistics := range []string{"none", "fresh"} {
			if statistics == "fresh" {
				w.analyze()
			}
			for _, tc := range cases {
				if !tc.sweeper && statistics == "none" && w.db.Dialect().Name == sqldb.Postgres {
					continue // autovacuum analyzes a table of this size within a minute
				}
				db := w.db
				if tc.sweeper {
					db = w.db.Sweeper()
				}
				plan := explain(t, db, texts[tc.statement], tc.args)
				if bad := scans(plan); bad != "" || !strings.Contains(plan, tc.index) {
					t.Errorf("%s, statistics %s: %s\n%s", tc.statement, statistics, bad, plan)
				}
			}
		}
	})
}

// scans returns the line of a plan that reads a table whole.
func scans(plan string) string {
	for line := range strings.Lines(plan) {
		for _, table := range []string{"file_nodes", "inodes", "drive_delete_job", "delete_reconcile_pending", "contents", "file_gc_tasks", "upload_parts"} {
			// Tables of one row are not worth an index.
			if strings.Contains(line, "Seq Scan on "+table) && table != "delete_reconcile_pending" ||
				strings.Contains(line, "SCAN "+table) || strings.HasPrefix(line, table+" ALL") || strings.HasPrefix(line, table+" index") {
				return line
			}
		}
	}
	return ""
}

// fillJobs writes rows of all kinds, most of them of files that are not due yet.
func (w *world) fillJobs(n int) {
	w.t.Helper()
	for at := 0; at < n; {
		var values []string
		for range 500 {
			at++
			kind, state, due := "FILE", "PENDING", int64(at)<<32
			switch {
			case at%40 == 0:
				kind, state = "TREE", "CANCELLED"
			case at%41 == 0:
				kind, due = "TREE", int64(at)
			case at%42 == 0:
				due = int64(at)
			case at%3 == 0:
				state = "SUCCEEDED"
			}
			values = append(values, fmt.Sprintf("(%d,'%s',%d,'/p',1,'n','%s',0,0,0,'',%d,0,'r%d','','','','{}','',0,0)", 11+at%7, kind, 1_000_000+at, state, due, at))
		}
		_, err := w.db.Exec(w.t.Context(), sqldb.Statement(`INSERT INTO drive_delete_job (fs_id, kind, root_inode, path, origin_parent, origin_name, state, attempts, stale_reclaims,
			lease_epoch, owner, available_at, paused, request_id, last_error, phase, {q:cursor}, progress, created_by, created_at, updated_at) VALUES `+strings.Join(values, ",")))
		must(w.t, err)
	}
}

func (w *world) analyze() {
	w.t.Helper()
	for _, table := range []string{"file_nodes", "inodes", "drive_delete_job"} {
		s := "ANALYZE " + table
		if w.db.Dialect().Name == sqldb.MySQL {
			s = "ANALYZE TABLE " + table
		}
		_, err := w.db.Exec(w.t.Context(), sqldb.Statement(s))
		must(w.t, err)
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
		b.Reset()
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
					fmt.Fprintf(&b, "%s ", *values[i].(*any))
				}
			}
			fmt.Fprintln(&b)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return b.String()
}
