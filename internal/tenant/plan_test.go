package tenant_test

import (
	"fmt"
	"testing"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/internal/tenant"
)

// A token is found by key with every request: 3,000 tenants have 2 tokens each.
func TestTokenPlans(t *testing.T) {
	t.Parallel()
	sqldbtest.Plans(t, sqldbtest.PlanTest{
		Owners: []sqldb.Migrations{tenant.Migrations},
		Rows: []sqldbtest.Rows{
			{Into: "tenants (id, name, created_at)", N: 3000, Values: func(i int) string { return fmt.Sprintf("(%d,'t%d',0)", i+1, i+1) }},
			{Into: "tokens (tenant_id, name, hash, grants, created_by, created_at)", N: 6000, Values: func(i int) string {
				return fmt.Sprintf("(%d,'ann','h%d','[]','',0)", i/2+1, i)
			}},
		},
		Queries: []sqldbtest.Query{
			{Name: "findToken", Args: []any{"h77"}, By: "hash"},
			{Name: "openTenant", Args: []any{int64(7)}, By: "id"},
			{Name: "listTokens", Args: []any{int64(7)}, By: "tenant_id", Sorts: true, Counts: true},
			{Name: "oneToken", Args: []any{int64(7), int64(13)}},
			{Name: "revokeToken", Args: []any{int64(7), int64(13)}},
			{Name: "hashOfToken", Args: []any{int64(7), int64(13)}},
		},
	})
}
