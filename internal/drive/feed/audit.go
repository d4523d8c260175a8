package feed

import (
	"context"
	"database/sql"
	"time"

	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	dueAudits  sqldb.Statement = "SELECT fs_id FROM usage_total {index:usage_total_audit} WHERE full_due_at <= (SELECT {now}) ORDER BY full_due_at LIMIT ?"
	postpone   sqldb.Statement = "UPDATE usage_total SET full_due_at = {now} + ? WHERE fs_id = ?"
	maxAudited                 = 1000
)

// DueAudits returns the drives whose full audit is due, at most 1,000, the longest due first.
func (s *Store) DueAudits(ctx context.Context) ([]int64, error) {
	return s.ids(ctx, s.sweeper, dueAudits, maxAudited)
}

// AuditDone makes the next full audit of a drive due after an interval; fault.NotFound when
// the drive was dropped meanwhile.
func (s *Store) AuditDone(ctx context.Context, tx *sqldb.Tx, fs int64, interval time.Duration) error {
	n, err := tx.Exec(ctx, postpone, interval.Milliseconds(), fs)
	if err == nil && n == 0 {
		err = noDrive("feed.AuditDone", sql.ErrNoRows)
	}
	return err
}
