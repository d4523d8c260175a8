package tenant_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/internal/tenant"
)

// A token is found by key with every request, whatever the engine knows of the tables:
// nothing, that they were empty while they had pages (an autovacuum that saw them before the
// commit), or all.
func TestTokenPlans(t *testing.T) {
	t.Parallel()
	texts := sqldbtest.Statements(t, ".")
	for _, statistics := range []string{"none", "before the commit"} {
		t.Run(statistics, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, []sqldb.Migrations{tenant.Migrations}, func(t *testing.T, db *sqldb.DB) {
				t.Helper()
				if statistics != "none" && db.Dialect().Name != sqldb.Postgres {
					return // the others count what is not committed
				}
				fillTokens(t, db, statistics != "none")
				for _, when := range []string{statistics, "fresh"} {
					if when == "fresh" {
						analyzeTokens(t, db)
					}
					for name, args := range map[string][]any{
						"findToken": {"h77"}, "openTenant": {int64(7)}, "listTokens": {int64(7)}, "oneToken": {int64(7), int64(77)},
						"revokeToken": {int64(7), int64(77)}, "hashOfToken": {int64(7), int64(77)},
					} {
						for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
							plan := explain(t, db, mode, texts[name], args...)
							for _, bad := range []string{"Seq Scan", "SCAN", " ALL ", " index "} {
								if strings.Contains(plan, bad) {
									t.Errorf("%s, statistics %s, %s:\n%s", name, when, mode, plan)
								}
							}
							if name == "findToken" && !strings.Contains(plan, "hash") {
								t.Errorf("%s is not found by its hash, statistics %s, %s:\n%s", name, when, mode, plan)
							}
						}
					}
				}
			})
		})
	}
}

// fillTokens writes 3,000 tenants with 2 tokens each.
func fillTokens(t *testing.T, db *sqldb.DB, analyzed bool) {
	t.Helper()
	if err := db.Tx(t.Context(), func(tx *sqldb.Tx) error {
		for at := 0; at < 3000; at += 500 {
			var tenants, tokens []string
			for n := at + 1; n <= at+500; n++ {
				tenants = append(tenants, fmt.Sprintf("(%d,'t%d',0)", n, n))
				for k := range 2 {
					tokens = append(tokens, fmt.Sprintf("(%d,'ann','h%d','[]','',0)", n, 2*n+k))
				}
			}
			for _, s := range []string{
				"INSERT INTO tenants (id, name, created_at) VALUES " + strings.Join(tenants, ","),
				"INSERT INTO tokens (tenant_id, name, hash, grants, created_by, created_at) VALUES " + strings.Join(tokens, ","),
			} {
				if _, err := tx.Exec(t.Context(), sqldb.Statement(s)); err != nil {
					return err
				}
			}
		}
		if analyzed { // on a connection of its own, as autovacuum
			analyzeTokens(t, db)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func analyzeTokens(t *testing.T, db *sqldb.DB) {
	t.Helper()
	verb := sqldb.Statement("ANALYZE ")
	if db.Dialect().Name == sqldb.MySQL {
		verb = "ANALYZE TABLE "
	}
	for _, table := range []sqldb.Statement{"tenants", "tokens"} {
		if _, err := db.Exec(t.Context(), verb+table); err != nil {
			t.Fatal(err)
		}
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
