package removal_test

import (
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// By which index a statement goes, in the words of all engines.
const (
	byID    = `_pkey|PRIMARY`
	byBoth  = byID + `|drive_delete_job_listed` // the drive and the id
	byDrive = `delete_reconcile_pending_fs_id_key| fs_id |autoindex_delete_reconcile_pending`
)

// TestPlans explains what runs on a request, on a claim and on every page of a reconcile,
// on filled tables: nothing scans, whatever the engine knows of the jobs: nothing, that there
// were none while there were pages (an autovacuum that saw them before the commit), or all.
// (The rooms below prove their own statements.)
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
		{"selectJob", byID, false, []any{7}},
		{"selectJobs", "drive_delete_job_(listed|state)", false, []any{11, 4000, 10}},
		{"jobsOf", "drive_delete_job_state", false, []any{11, "CANCELLED", 4000, 10}},
		{"restoreJob", byBoth, false, []any{7, 11}},
		{"dueNow", byID, false, []any{7}},
		{"dueNowAll", byBoth, false, []any{ids, 11}},
		{"readMark", byDrive, false, []any{2000}},
		{"holdMark", byDrive, false, []any{2000}},
		{"rearmMark", byDrive, false, []any{1, 2000}},
		{"reviveMark", byDrive, false, []any{1, 2000}},
		{"hastenMark", byDrive, false, []any{2000}},
		{"markedDrive", byID, true, []any{7}},
		{"rearmAt", byID, true, []any{7}},
		{"againMark", byID, true, []any{7, 1}},
		{"dropMark", byID, true, []any{7, 1}},
		{"holdJob", byID, true, []any{7, 0}},
		{"dueFiles", "drive_delete_job_kind", true, []any{100}},
		{"holdFiles", byID, true, []any{ids}},
		{"failFile", byID, true, []any{"x", 7}},
		{"endFiles", byID, true, []any{"{}", ids}},
		{"trashJobs", byBoth, true, []any{11, ids}},
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
	for _, statistics := range []string{"none", "before the commit"} {
		t.Run(statistics, func(t *testing.T) {
			t.Parallel()
			each(t, removal.Config{}, func(t *testing.T, w *world) {
				t.Helper()
				postgres := w.db.Dialect().Name == sqldb.Postgres
				if statistics != "none" && !postgres {
					return // the others count what is not committed
				}
				w.plant(w.fs, "/big", append(names("f", 5000), wide(300, 2)...)...)
				w.plant(w.other, "/big", append(names("f", 1000), wide(300, 2)...)...)
				w.fillJobs(8000, statistics != "none")
				for _, when := range []string{statistics, "fresh"} {
					if when == "fresh" {
						w.analyze()
					}
					for _, tc := range cases {
						if !tc.sweeper && when == "none" && postgres {
							continue // autovacuum analyzes a table of this size within a minute
						}
						db := w.db
						if tc.sweeper {
							db = w.db.Sweeper()
						}
						for way, plan := range plans(t, db, texts[tc.statement], tc.args) {
							if bad := scans(plan); bad != "" || !regexp.MustCompile(tc.index).MatchString(plan) {
								t.Errorf("%s, statistics %s, %s: %s\n%s", tc.statement, when, way, bad, plan)
							}
						}
					}
				}
			})
		})
	}
}

// plans explains a statement; on PostgreSQL both plans that a prepared one can get.
func plans(t *testing.T, db *sqldb.DB, s sqldb.Statement, args []any) map[string]string {
	t.Helper()
	if db.Dialect().Name != sqldb.Postgres {
		return map[string]string{"": explain(t, db, s, args)}
	}
	text, args, err := db.Dialect().Render(s, args)
	must(t, err)
	out := map[string]string{}
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		name := fmt.Sprint("p", prepared.Add(1))
		out[mode] = explain(t, db, sqldb.Statement("EXECUTE "+name+arguments(args)), nil, "SET LOCAL plan_cache_mode = "+mode, "PREPARE "+name+" AS "+text)
	}
	return out
}

var prepared atomic.Int64

// arguments writes the arguments of an EXECUTE.
func arguments(args []any) string {
	var values []string
	for _, a := range args {
		value := fmt.Sprintf("'%v'", a)
		switch a := a.(type) {
		case []int64:
			value = "'{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(a), " ", ","), "[]") + "}'"
		case sqldb.Strings:
			value = "'{" + strings.Join(a, ",") + "}'"
		case []string:
			value = "'{" + strings.Join(a, ",") + "}'"
		}
		values = append(values, value)
	}
	if len(values) == 0 {
		return ""
	}
	return " (" + strings.Join(values, ", ") + ")"
}

// scans returns the line of a plan that reads a table whole.
func scans(plan string) string {
	for line := range strings.Lines(plan) {
		// An index entered by one column that many rows share.
		if regexp.MustCompile(`Index Cond: \(\(?(fs_id|state|kind) = [^()]*\)\s*$|\((fs_id|state|kind)=\?\)\s*$`).MatchString(line) && !regexp.MustCompile(byDrive).MatchString(plan) {
			return line
		}
		for _, table := range []string{"file_nodes", "inodes", "drive_delete_job", "delete_reconcile_pending", "contents", "file_gc_tasks", "upload_parts"} {
			if strings.Contains(line, "Seq Scan on "+table) ||
				strings.Contains(line, "SCAN "+table) || strings.HasPrefix(line, table+" ALL") || strings.HasPrefix(line, table+" index") {
				return line
			}
		}
	}
	return ""
}

// fillJobs writes rows of all kinds, most of them of files that are not due yet, and a mark
// for each of as many drives.
func (w *world) fillJobs(n int, analyze bool) {
	w.t.Helper()
	must(w.t, w.db.Tx(w.t.Context(), func(tx *sqldb.Tx) error {
		for at := 0; at < n; {
			var jobs, marks []string
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
				jobs = append(jobs, fmt.Sprintf("(%d,'%s',%d,'/p',1,'n','%s',0,0,0,'',%d,0,'r%d','','','','{}','',0,0)", 11+at%7, kind, 1_000_000+at, state, due, at))
				marks = append(marks, fmt.Sprintf("(%d,'%s',0,0,0,'',%d,0,'','','','','{}','',0,0)", 100+at, state, due))
			}
			for into, values := range map[string][]string{
				"drive_delete_job (fs_id, kind, root_inode, path, origin_parent, origin_name, state, ": jobs,
				"delete_reconcile_pending (fs_id, state, ":                                             marks,
			} {
				if _, err := tx.Exec(w.t.Context(), sqldb.Statement("INSERT INTO "+into+`attempts, stale_reclaims, lease_epoch, owner, available_at, paused, request_id,
					last_error, phase, {q:cursor}, progress, created_by, created_at, updated_at) VALUES `+strings.Join(values, ","))); err != nil {
					return err
				}
			}
		}
		if analyze { // on a connection of its own, as autovacuum
			w.analyze()
		}
		return nil
	}))
}

func (w *world) analyze() {
	w.t.Helper()
	for _, table := range []string{"file_nodes", "inodes", "drive_delete_job", "delete_reconcile_pending"} {
		s := "ANALYZE " + table
		if w.db.Dialect().Name == sqldb.MySQL {
			s = "ANALYZE TABLE " + table
		}
		_, err := w.db.Exec(w.t.Context(), sqldb.Statement(s))
		must(w.t, err)
	}
}

func explain(t *testing.T, db *sqldb.DB, text sqldb.Statement, args []any, before ...string) string {
	t.Helper()
	prefix := sqldb.Statement("EXPLAIN ")
	if db.Dialect().Name == sqldb.SQLite {
		prefix = "EXPLAIN QUERY PLAN "
	}
	var b strings.Builder
	err := db.Tx(t.Context(), func(tx *sqldb.Tx) error {
		b.Reset()
		for _, s := range before {
			if _, err := tx.Exec(t.Context(), sqldb.Statement(s)); err != nil {
				return err
			}
		}
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
