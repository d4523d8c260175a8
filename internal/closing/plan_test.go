package closing_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lethe-project/lethe/internal/closing"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// A drop finds the job of its object by key, whatever the engine knows of the table: nothing,
// that it was empty while it had pages (an autovacuum that saw it before the commit), or all.
func TestPlans(t *testing.T) {
	t.Parallel()
	texts := sqldbtest.Statements(t, ".")
	for _, statistics := range []string{"none", "before the commit"} {
		t.Run(statistics, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, []sqldb.Migrations{closing.Migrations}, func(t *testing.T, db *sqldb.DB) {
				t.Helper()
				if statistics != "none" && db.Dialect().Name != sqldb.Postgres {
					return // the others count what is not committed
				}
				fillJobs(t, db, statistics != "none")
				for _, when := range []string{statistics, "fresh"} {
					if when == "fresh" {
						analyze(t, db)
					}
					for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
						plan := explain(t, db, mode, texts["unsettled"], int64(7), "w3")
						if !strings.Contains(plan, "server_job_object") || strings.Contains(plan, "Index Cond: (name") {
							t.Errorf("unsettled, statistics %s, %s:\n%s", when, mode, plan)
						}
						plan = explain(t, db, mode, texts["objectOf"], int64(7))
						if !strings.Contains(plan, "_pkey") && !strings.Contains(plan, "PRIMARY") {
							t.Errorf("objectOf, statistics %s, %s:\n%s", when, mode, plan)
						}
					}
				}
			})
		})
	}
}

// fillJobs writes 4,000 jobs of 40 tenants, most of them ended.
func fillJobs(t *testing.T, db *sqldb.DB, analyzed bool) {
	t.Helper()
	if err := db.Tx(t.Context(), func(tx *sqldb.Tx) error {
		for at := 0; at < 4000; at += 500 {
			values := make([]string, 500)
			for i := range values {
				n := at + i
				state := map[bool]string{true: "PENDING", false: "SUCCEEDED"}[n%50 == 0]
				values[i] = fmt.Sprintf("('WAREHOUSE',%d,'t','w%d','%s',0,0,0,'',%d,0,'r%d','','','','{}','',0,0)", n%40, n, state, int64(n)<<32, n)
			}
			if _, err := tx.Exec(t.Context(), sqldb.Statement(`INSERT INTO server_job (kind, tenant_id, tenant_name, name, state, attempts, stale_reclaims, lease_epoch, owner, available_at,
				paused, request_id, last_error, phase, {q:cursor}, progress, created_by, created_at, updated_at) VALUES `+strings.Join(values, ","))); err != nil {
				return err
			}
		}
		if analyzed { // on a connection of its own, as autovacuum
			analyze(t, db)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func analyze(t *testing.T, db *sqldb.DB) {
	t.Helper()
	text := sqldb.Statement("ANALYZE server_job")
	if db.Dialect().Name == sqldb.MySQL {
		text = "ANALYZE TABLE server_job"
	}
	if _, err := db.Exec(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

var prepared atomic.Int64

// explain returns the plan of a statement; mode is that of PostgreSQL's prepared ones.
func explain(t *testing.T, db *sqldb.DB, mode string, s sqldb.Statement, args ...any) string {
	t.Helper()
	var b strings.Builder
	look := func(ctx context.Context, tx *sqldb.Tx) error {
		text, args := "EXPLAIN "+s, args
		switch db.Dialect().Name {
		case sqldb.SQLite:
			text = "EXPLAIN QUERY PLAN " + s
		case sqldb.Postgres:
			rendered, _, err := db.Dialect().Render(s, args)
			if err != nil {
				return err
			}
			name := fmt.Sprint("p", prepared.Add(1))
			for _, s := range []string{"SET LOCAL plan_cache_mode = " + mode, "PREPARE " + name + " AS " + rendered} {
				if _, err := tx.Exec(ctx, sqldb.Statement(s)); err != nil {
					return err
				}
			}
			values := make([]string, len(args))
			for i, a := range args {
				values[i] = fmt.Sprintf("'%v'", a)
			}
			text, args = sqldb.Statement("EXPLAIN EXECUTE "+name+" ("+strings.Join(values, ",")+")"), nil
		case sqldb.MySQL:
		}
		rows, err := tx.Query(ctx, text, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
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
			for i, name := range columns {
				switch name {
				case "QUERY PLAN", "detail", "table", "type", "key", "key_len":
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
	}
	if err := db.Tx(t.Context(), func(tx *sqldb.Tx) error { return look(t.Context(), tx) }); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return b.String()
}
