package feed

import (
	"context"

	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	dropTotal  sqldb.Statement = "DELETE FROM usage_total WHERE fs_id = ?"
	dropDeltas sqldb.Statement = "{delete:usage_delta,usage_delta_fs} WHERE fs_id = ?"
	dropEvents sqldb.Statement = "{delete:fs_events,fs_events_seq} WHERE fs_id = ?"
)

// DropDrive removes the rows of a drive in the transaction that drops it.
func (s *Store) DropDrive(ctx context.Context, tx *sqldb.Tx, fs int64) error {
	for _, q := range []sqldb.Statement{dropTotal, dropDeltas, dropEvents} {
		if _, err := tx.Exec(ctx, q, fs); err != nil {
			return err
		}
	}
	return nil
}
