package job

import (
	"context"
	"database/sql"
	"errors"

	"github.com/lethe-project/lethe/internal/sqldb"
)

const fence sqldb.Statement = `SELECT id FROM {table_name} WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = 'RUNNING' {for update}`

// Fence locks the job's row for the rest of a domain's transaction, if the lease still
// holds; otherwise it is ErrLeaseLost, and the transaction must roll back.
func (s *Store) Fence(ctx context.Context, tx *sqldb.Tx, l Lease) error {
	var id int64
	err := tx.QueryRow(ctx, s.text[fence], int64(l.ID), l.Epoch).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrLeaseLost
	}
	return err
}
