package sqldb_test

import (
	"testing"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// The sweeper's connections see the same database; on PostgreSQL their planner has fewer
// choices but an index, and every setting that transactions rest on is as elsewhere.
func TestSweeper(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{things}, func(t *testing.T, db *sqldb.DB) {
		exec(t, db, insertThing, "a", 1)
		sweeper := db.Sweeper()
		if sweeper.Sweeper() != sweeper {
			t.Error("a sweeper has another one")
		}
		before := db.Statements()
		var n int
		if err := sweeper.QueryRow(t.Context(), countThings, sqldb.Strings{"a"}).Scan(&n); err != nil || n != 1 {
			t.Fatalf("%d rows, %v", n, err)
		}
		if got := db.Statements() - before; got != 1 {
			t.Errorf("%d statements were counted, want 1", got)
		}
		if db.Dialect().Name != sqldb.Postgres {
			if sweeper != db {
				t.Error("other connections where there is nothing to switch off")
			}
			return
		}
		for name, want := range map[string]struct{ ordinary, sweeper string }{
			"enable_seqscan": {"off", "off"}, "enable_bitmapscan": {"off", "off"}, "jit": {"off", "off"}, "enable_hashjoin": {"on", "off"},
			"enable_mergejoin": {"on", "off"}, "enable_sort": {"on", "off"}, "enable_indexscan": {"on", "on"}, "enable_nestloop": {"on", "on"},
			"lock_timeout": {"5s", "5s"},
		} {
			for i, pool := range []*sqldb.DB{db, sweeper} {
				on := []string{want.ordinary, want.sweeper}[i]
				var got string
				err := pool.Tx(t.Context(), func(tx *sqldb.Tx) error {
					return tx.QueryRow(t.Context(), sqldb.Statement("SHOW "+name)).Scan(&got)
				})
				if err != nil || got != on {
					t.Errorf("%s is %q, %v, want %q", name, got, err, on)
				}
			}
		}
	})
}
