package closing_test

import (
	"fmt"
	"testing"

	"github.com/lethe-project/lethe/internal/closing"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// A drop finds the job of its object by key: there are 4,000 jobs of 40 tenants, most of
// them ended.
func TestPlans(t *testing.T) {
	t.Parallel()
	sqldbtest.Plans(t, sqldbtest.PlanTest{
		Owners: []sqldb.Migrations{closing.Migrations},
		Rows: []sqldbtest.Rows{{
			Into: `server_job (kind, tenant_id, tenant_name, name, state, attempts, stale_reclaims, lease_epoch, owner, available_at,
				paused, request_id, last_error, phase, {q:cursor}, progress, created_by, created_at, updated_at)`,
			N: 4000,
			Values: func(i int) string {
				state := map[bool]string{true: "PENDING", false: "SUCCEEDED"}[i%50 == 0]
				return fmt.Sprintf("('WAREHOUSE',%d,'t','w%d','%s',0,0,0,'',%d,0,'r%d','','','','{}','',0,0)", i%40, i, state, int64(i)<<32, i)
			},
		}},
		Shared: []string{"server_job.tenant_id", "server_job.state"},
		Queries: []sqldbtest.Query{
			{Name: "unsettled", Args: []any{int64(7), "w47"}, By: "tenant_id,name"},
			{Name: "objectOf", Args: []any{int64(7)}, By: "id"},
		},
	})
}
