package purge_test

import (
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// The few failed purges of a warehouse are found among those of years.
func TestListByState(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, db *sqldb.DB, s *purge.Store) {
		ctx := t.Context()
		old := insert(t, db, s, request("a", "old"))
		columns := strings.Join([]string{
			"metalake_name, catalog_name, warehouse_id, namespace, table_name, object_type, table_uuid, uuid_key, table_location, locations",
			"metadata_location, metadata_hash, files, file_io_impl, file_io_props, accept_missing, attempts, stale_reclaims, lease_epoch, owner",
			"available_at, paused, request_id, last_error, phase, {q:cursor}, progress, created_by, created_at, updated_at",
		}, ", ")
		for _, q := range []string{
			"UPDATE iceberg_cleanup_job SET state = 'FAILED'",
			"INSERT INTO iceberg_cleanup_job (state, " + columns + ") SELECT 'SUCCEEDED', " + columns + " FROM iceberg_cleanup_job",
		} {
			if _, err := db.Exec(ctx, sqldb.Statement(q)); err != nil {
				t.Fatal(err)
			}
		}
		for range 11 {
			if _, err := db.Exec(ctx, sqldb.Statement("INSERT INTO iceberg_cleanup_job (state, "+columns+") SELECT state, "+columns+" FROM iceberg_cleanup_job WHERE state = 'SUCCEEDED'")); err != nil {
				t.Fatal(err)
			}
		}
		page, next, err := s.List(ctx, purge.Filter{Tenant: "a", Warehouse: "wh", State: job.Failed}, job.Page{})
		if err != nil || len(page) != 1 || page[0].Row.ID != old || next.Before != 0 {
			t.Errorf("%d rows, %+v, %v", len(page), next, err)
		}
	})
}
