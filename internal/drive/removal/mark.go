package removal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// A mark is the row of a drive in delete_reconcile_pending: somebody is to look, at
// available_at, whether deletes left anything. It is a job row too: whoever looks holds
// its lease. Its state by what comes:
//
//	             no row        PENDING, not begun   PENDING, begun    RUNNING        ended
//	a delete     insert        –                    rearm_at          rearm_at       PENDING
//	pass ends    –             –                    –                 PENDING at rearm_at, or the row goes
//
// Deletes of one drive must not wait for each other here: the usual case is a shared lock.
const (
	readMark   sqldb.Statement = "SELECT state, phase FROM delete_reconcile_pending WHERE fs_id = ?"
	holdMark   sqldb.Statement = "SELECT state, phase FROM delete_reconcile_pending WHERE fs_id = ? {for share}"
	rearmMark  sqldb.Statement = "UPDATE delete_reconcile_pending SET rearm_at = {now} + ?, updated_at = {now} WHERE fs_id = ? AND (NULLIF(state, '') = 'RUNNING' OR (NULLIF(state, '') = 'PENDING' AND phase <> ''))"
	reviveMark sqldb.Statement = `UPDATE delete_reconcile_pending SET state = 'PENDING', available_at = {now} + ?, rearm_at = NULL, attempts = 0, stale_reclaims = 0, outage_since = NULL,
		cancel_requested_at = NULL, acked_at = NULL, paused = 0, phase = '', {q:cursor} = '', progress = '{}', updated_at = {now} WHERE fs_id = ? AND NULLIF(state, '') IN ('SUCCEEDED', 'FAILED', 'CANCELLED')`
	insertMark sqldb.Statement = `{insert ignore} delete_reconcile_pending (fs_id, state, attempts, stale_reclaims, lease_epoch, owner, available_at, paused, request_id,
		last_error, phase, {q:cursor}, progress, created_by, created_at, updated_at)
		VALUES (?, 'PENDING', 0, 0, 0, '', {now} + ?, 0, '', '', '', '', '{}', '', {now}, {now}) {ignore}`
	hastenMark sqldb.Statement = "UPDATE delete_reconcile_pending SET available_at = {now}, updated_at = {now} WHERE fs_id = ? AND NULLIF(state, '') = 'PENDING' AND available_at > {now}"
)

// mark asks for a look at the drive after the reconcile interval. It is the last step of a
// transaction: whoever holds the row holds nothing that others wait for.
func (m *Removal) mark(ctx context.Context, tx *sqldb.Tx, fs tree.FS) error {
	wait := m.cfg.ReconcileInterval.Milliseconds()
	for range 3 {
		state, phase, err := scanMark(tx.QueryRow(ctx, readMark, int64(fs)))
		if err != nil {
			return err
		}
		if state == "PENDING" && phase == "" {
			// Held until the commit: a look that begins before it would not see this delete.
			if state, phase, err = scanMark(tx.QueryRow(ctx, holdMark, int64(fs))); err != nil {
				return err
			}
			if state == "PENDING" && phase == "" {
				return nil
			}
		}
		var n int64
		switch state {
		case "":
			n, err = tx.Exec(ctx, insertMark, int64(fs), wait)
		case "PENDING", "RUNNING":
			n, err = tx.Exec(ctx, rearmMark, wait, int64(fs))
		default:
			n, err = tx.Exec(ctx, reviveMark, wait, int64(fs))
		}
		if err != nil || n == 1 {
			return err
		}
	}
	return fmt.Errorf("%w: the reconcile mark changed in every look", tree.ErrMoved)
}

func scanMark(row *sqldb.Row) (state, phase string, err error) {
	err = row.Scan(&state, &phase)
	if errors.Is(err, sql.ErrNoRows) {
		return "", "", nil
	}
	return state, phase, err
}

// MarkNow asks for a look at the drive at once.
func (m *Removal) MarkNow(ctx context.Context, fs tree.FS) error {
	err := m.db.Tx(ctx, func(tx *sqldb.Tx) error {
		if err := m.mark(ctx, tx, fs); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, hastenMark, int64(fs))
		return err
	})
	if err == nil {
		m.marks.Wake()
	}
	return err
}
