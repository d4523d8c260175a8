package purge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// The few failed purges of a warehouse are found without reading those of years.
func TestListByStateKeepsToItsIndex(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, db *sqldb.DB, s *purge.Store) {
		if db.Dialect().Name == sqldb.MySQL {
			return // it explains in other words; job's own test of plans reads them
		}
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
		if _, err := db.Exec(ctx, "ANALYZE iceberg_cleanup_job"); err != nil {
			t.Fatal(err)
		}
		explain := "EXPLAIN "
		if db.Dialect().Name == sqldb.SQLite {
			explain = "EXPLAIN QUERY PLAN "
		}
		// As Store.List asks it.
		rows, err := db.Query(ctx, sqldb.Statement(explain+"SELECT last_error FROM iceberg_cleanup_job WHERE metalake_name = ? AND catalog_name = ? AND state = ? AND id < ? ORDER BY id DESC LIMIT ?"),
			"a", "wh", "FAILED", int64(5000), 101)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		names, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		var plan strings.Builder
		for rows.Next() {
			line := make([]any, len(names))
			for i := range line {
				line[i] = new(any)
			}
			if err := rows.Scan(line...); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&plan, *line[len(line)-1].(*any))
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if text := plan.String(); !strings.Contains(text, "iceberg_cleanup_job_listed") || strings.Contains(strings.ToUpper(text), "SORT") || strings.Contains(text, "TEMP B-TREE") {
			t.Errorf("the plan:\n%s", text)
		}
		page, next, err := s.List(ctx, purge.Filter{Tenant: "a", Warehouse: "wh", State: job.Failed}, job.Page{})
		if err != nil || len(page) != 1 || page[0].Row.ID != old || next.Before != 0 {
			t.Errorf("%d rows, %+v, %v", len(page), next, err)
		}
	})
}
