package purge_test

import (
	"fmt"
	"testing"

	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// What a create, a drop, and a list ask of the jobs reads few of those of years: there are
// 6,000 of 2 tenants with 2 warehouses each, most of them ended.
func TestPlans(t *testing.T) {
	t.Parallel()
	ids := sqldb.IDs{3, 5, 7}
	sqldbtest.Plans(t, sqldbtest.PlanTest{
		Owners: []sqldb.Migrations{purge.Migrations},
		Rows: []sqldbtest.Rows{{
			Into: `iceberg_cleanup_job (metalake_name, catalog_name, warehouse_id, namespace, table_name, object_type, table_uuid, uuid_key,
				table_location, locations, metadata_location, metadata_hash, files, file_io_impl, file_io_props, accept_missing, state, attempts,
				stale_reclaims, lease_epoch, owner, available_at, paused, request_id, last_error, phase, {q:cursor}, progress, created_by,
				created_at, updated_at)`,
			N: 6000,
			Values: func(i int) string {
				state := "SUCCEEDED"
				switch {
				case i%50 == 0:
					state = "PENDING"
				case i%400 == 1:
					state = "FAILED"
				}
				return fmt.Sprintf(`('m%d','c%d',%d,'n%d','t%d','TABLE','u','k%d','l','[]','ml','h%d','[]','','{}',0,'%s',0,
					0,0,'',%d,0,'r%d','','','','{}','',%d,%d)`, i%2, i/2%2, 1+i%4, i/4%20, i, i, i, state, i, i, i, i)
			},
		}},
		Shared: []string{
			"iceberg_cleanup_job.metalake_name", "iceberg_cleanup_job.warehouse_id", "iceberg_cleanup_job.state",
		},
		Queries: []sqldbtest.Query{
			{Name: "acceptMissing", Args: []any{7}, By: "id", Counts: true},
			{Name: "selectJob", Args: []any{7}, By: "id", Counts: true},
			{Name: "selectJobs", Args: []any{ids}, By: "id", Counts: true},
			{Name: "keysOf", Args: []any{ids}, By: "id", Counts: true},
			{Name: "tombstone", Args: []any{"m0", "c0", "n0", "t0"}, By: "metalake_name,catalog_name", Sorts: true, Counts: true},
			{Name: "holder", Args: []any{1, "k0", 1, 1, "h0", 1}, By: "warehouse_id,uuid_key", Sorts: true, Counts: true},
			{Name: "idsWithKeys", Args: []any{1, sqldb.Strings{"k0", "k4"}}, By: "warehouse_id,uuid_key", Counts: true, Custom: true},
			list(sqldb.SQLite), list(sqldb.Postgres), // MariaDB sorts the few of a state, or walks down the ids
		},
	})
}

// list is what Store.List asks on one engine.
func list(on sqldb.Name) sqldbtest.Query {
	return sqldbtest.Query{
		Name: "list", Engine: on, By: "metalake_name,catalog_name,state", Counts: true, Custom: true,
		Text: "SELECT last_error FROM iceberg_cleanup_job WHERE metalake_name = ? AND catalog_name = ? AND state = ? AND id < ? ORDER BY id DESC LIMIT ?",
		Args: []any{"m1", "c0", "FAILED", int64(5000), 101},
	}
}
