package content_test

import (
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// TestScrubPlans: a page of the store's objects is looked for by key, with statistics and
// with those of empty tables.
func TestScrubPlans(t *testing.T) {
	t.Parallel()
	texts := sqldbtest.Statements(t, ".")
	sqldbtest.Each(t, []sqldb.Migrations{content.Migrations}, func(t *testing.T, db *sqldb.DB) {
		e := newEnv(t, db, mem.New(), nil)
		e.fill()
		for _, statistics := range []string{"of empty tables", "fresh"} {
			if statistics == "fresh" {
				e.analyze()
			}
			for name, index := range map[string]string{"tasksNamed": "", "partsNamed": "upload_parts_object", "contentsNamed": "contents_object"} {
				plan := explain(t, db.Sweeper(), texts[name], []any{one, sqldb.Strings{"k100", "o100", "p100"}})
				if scans[db.Dialect().Name].MatchString(plan) || !strings.Contains(plan, index) {
					t.Errorf("%s, statistics %s:\n%s", name, statistics, plan)
				}
			}
		}
	})
}
