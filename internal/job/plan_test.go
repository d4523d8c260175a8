package job_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// Nothing that runs every few seconds reads the jobs of years, nor what is not due yet: that
// the clock is a bound of the range is what available_at among the columns says.
func TestPlans(t *testing.T) {
	t.Parallel()
	store := job.NewStore(nil, jobtest.Table, job.Config{}, job.Hooks{}, job.Observer{})
	texts, now := store.Texts(), time.Now().UnixMilli()
	list, page := store.Listing(job.Filter{State: job.Failed, Extra: []job.Extra{{Column: "kind", Value: "x"}}}, job.Page{Limit: 3})
	state := func(i int) string {
		switch {
		case i%20 == 0:
			return "PENDING"
		case i%300 == 299:
			return "FAILED"
		}
		return "SUCCEEDED"
	}
	sqldbtest.Plans(t, sqldbtest.PlanTest{
		Owners: []sqldb.Migrations{jobtest.Migrations},
		Rows: []sqldbtest.Rows{{
			Into: `test_job (state, attempts, stale_reclaims, lease_epoch, owner, available_at, paused, request_id, last_error, phase, {q:cursor},
				progress, created_by, created_at, updated_at, kind)`,
			N: 6000,
			Values: func(i int) string {
				return fmt.Sprintf("('%s',0,0,1,'',%d,0,'r%d','','','','{}','',0,%d,'%c')", state(i), now-int64(i)*1000, i, now-int64(i)*1000, 'x'+rune(i/100%2))
			},
		}},
		Shared: []string{"test_job.kind"},
		Queries: []sqldbtest.Query{
			{Name: "claimable", Text: texts["claimable"], Args: []any{int64(1000)}, By: "state,available_at", Sorts: true}, // its two windows of 8
			{Name: "anyWaiting", Text: texts["anyWaiting"], By: "state,available_at"},
			{Name: "pruneSucceeded", Text: texts["pruneSucceeded"], Args: []any{int64(5_900_000)}, By: "state,updated_at"},
			{Name: "findRequest", Text: texts["findRequest"], Args: []any{"r7"}, By: "request_id"},
			{Name: "gauges", Text: texts["gauges"], By: "state", Sorts: true, Counts: true},
			{Name: "list", Text: list, Args: page, By: "kind,state", Custom: true},
		},
	})
}
