package catalog_test

import (
	"fmt"
	"testing"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/internal/tenant"
)

// No request reads more of a catalog than it was asked for: there are 2 warehouses of 200
// namespaces with 15 tables each.
func TestPlans(t *testing.T) {
	t.Parallel()
	const namespaces, tables, changes = 400, 6000, 6000
	ware := func(namespace int) int { return 1 + namespace%2 }
	sqldbtest.Plans(t, sqldbtest.PlanTest{
		Owners: []sqldb.Migrations{tenant.Migrations, purge.Migrations, catalog.Migrations},
		Rows: []sqldbtest.Rows{
			{
				Into: "namespaces (id, warehouse_id, parent_id, name, location, properties, created_at, updated_at)", N: namespaces,
				Values: func(i int) string { return fmt.Sprintf("(%d,%d,%d,'n%d','','{}',0,0)", i+1, ware(i), i%20, i) },
			},
			{
				Into: `tabulars (id, warehouse_id, namespace_id, kind, name, uuid, uuid_key, location, metadata_location, metadata_hash, created_at, updated_at)`,
				N:    tables,
				Values: func(i int) string {
					n := i % namespaces
					return fmt.Sprintf("(%d,%d,%d,1,'t%d','u%d','k%d','s3://b/n%d/t%d','s3://b/n%d/t%d/m','h%d',0,0)", i+1, ware(n), n+1, i, i, i, n, i, n, i, i)
				},
			},
			{
				Into: "tabular_locations (warehouse_id, location, owner_kind, owner_id)", N: tables,
				Values: func(i int) string {
					n := i % namespaces
					return fmt.Sprintf("(%d,'s3://b/n%d/t%d/',2,%d)", ware(n), n, i, i+1)
				},
			},
			{Into: "table_uuids (warehouse_id, uuid_key)", N: tables, Values: func(i int) string { return fmt.Sprintf("(%d,'k%d')", ware(i%namespaces), i) }},
			{Into: "view_files (tabular_id, location_hash, location)", N: tables, Values: func(i int) string { return fmt.Sprintf("(%d,'h%d','x')", i/3, i) }},
			{
				Into: "idempotency_keys (principal, idempotency_key, request_hash, result, error_kind, error_code, error_message, created_at)", N: changes,
				Values: func(i int) string { return fmt.Sprintf("('ann','i%d','','',0,'','',%d)", i, int64(i)<<32) },
			},
			{Into: "catalog_changes (request_id, created_at)", N: changes, Values: func(i int) string { return fmt.Sprintf("('r%d',%d)", i, int64(i)<<32) }},
		},
		Shared: []string{
			"namespaces.warehouse_id", "tabulars.warehouse_id", "tabular_locations.warehouse_id", "tabular_locations.owner_kind", "table_uuids.warehouse_id",
			"idempotency_keys.principal",
		},
		Queries: []sqldbtest.Query{
			{Name: "selectEntry", Args: []any{1, "n0", "t0"}, Counts: true},
			{Name: "lockEntry", Args: []any{1, "n0", "t0"}, Counts: true},
			{Name: "lockEntryByID", Args: []any{7}, By: "id"},
			{Name: "entryInPlace", Args: []any{1, "t0"}, By: "namespace_id,name"},
			{Name: "deleteEntry", Args: []any{7}, By: "id"},
			{Name: "moveEntry", Args: []any{1, "x", 7}, By: "id"},
			{Name: "twins", Args: []any{1, "k0", 7, 1, "h0", 7}, Sorts: true, Counts: true},
			{Name: "swapPointer", Args: []any{"x", "x", "x", "x", "x", 7, "h6", "s3://b/n6/t6/m"}, By: "id"},
			{Name: "listTabulars", Args: []any{7, 1, "t0", 100}, By: "namespace_id"},
			{Name: "firstTabular", Args: []any{7}, By: "namespace_id"},
			{Name: "entryNameByID", Args: []any{7}, By: "id", Counts: true},
			{Name: "shareNamespace", Args: []any{1, "n0"}, By: "warehouse_id,name", Counts: true},
			{Name: "lockNamespace", Args: []any{1, "n0"}, By: "warehouse_id,name", Counts: true},
			{Name: "readNamespace", Args: []any{1, "n0"}, By: "warehouse_id,name", Counts: true},
			{Name: "namespaceIs", Args: []any{1, "n0"}, By: "warehouse_id,name", Counts: true},
			{Name: "firstChild", Args: []any{1, 7}, By: "warehouse_id,parent_id"},
			{Name: "listNamespaces", Args: []any{1, 0, "n1", 100}, By: "warehouse_id,parent_id"},
			{Name: "updateNamespace", Args: []any{"", "{}", 7}, By: "id"},
			{Name: "deleteNamespace", Args: []any{7}, By: "id"},
			{
				Name: "overlapping", By: "warehouse_id,location", Sorts: true, Counts: true,
				Args: []any{1, sqldb.Strings{"s3://b/n0/", "s3://b/n0/t0/"}, 1, "s3://b/n0/t0/", "s3://b/n0/t00"},
			},
			{Name: "holdersAbove", Args: []any{1, sqldb.Strings{"s3://b/n0/", "s3://b/n0/t0/"}}, By: "warehouse_id,location", Sorts: true, Counts: true},
			{Name: "insideLocations", Args: []any{1, "s3://b/n0/t0/", "s3://b/n0/t00"}, By: "warehouse_id,location"},
			{Name: "freeLocations", Args: []any{2, 7}, By: "owner_kind,owner_id"},
			{Name: "moveLocations", Args: []any{3, 7, 2, 7}, By: "owner_kind,owner_id"},
			{Name: "selectLocations", Args: []any{2, 7}, By: "owner_kind,owner_id", Sorts: true},
			{Name: "lockUUID", Args: []any{1, "k0"}, By: "warehouse_id,uuid_key"},
			{Name: "pointedTo", Args: []any{1, sqldb.Strings{"h0", "h2"}}, By: "warehouse_id,metadata_hash", Counts: true},
			{Name: "viewFiles", Args: []any{7}, By: "tabular_id"},
			{Name: "freeViewFiles", Args: []any{7}, By: "tabular_id"},
			{Name: "selectKey", Args: []any{"ann", "i7"}, By: "principal,idempotency_key"},
			{Name: "resultOfKey", Args: []any{"x", "ann", "i7"}, By: "principal,idempotency_key"},
			{Name: "expireKeys", Args: []any{1000}, By: "created_at"},
			{Name: "expireChanges", Args: []any{1000}, By: "created_at"},
		},
	})
}
