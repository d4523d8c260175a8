package purge

import (
	"context"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// unsettledOf keeps to the index of lists: names and state come first.
const unsettledOf sqldb.Statement = `SELECT id FROM iceberg_cleanup_job WHERE metalake_name = ? AND catalog_name = ?
	AND state IN ('PENDING', 'RUNNING', 'FAILED') AND (state <> 'FAILED' OR acked_at IS NULL) AND warehouse_id = ? LIMIT 1`

// Unsettled finds a job that still occupies places of a warehouse.
func (s *Store) Unsettled(ctx context.Context, tx *sqldb.Tx, tenant, warehouse string, id int64) (job.ID, bool, error) {
	return one(tx.QueryRow(ctx, unsettledOf, tenant, warehouse, id))
}
