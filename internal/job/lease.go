package job

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/lethe-project/lethe/internal/sqldb"
)

const heartbeat sqldb.Statement = `UPDATE {table_name} SET heartbeat_at = {now} WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = 'RUNNING'`

// Heartbeat keeps a lease alive; ErrLeaseLost when it is gone.
func (s *Store) Heartbeat(ctx context.Context, l Lease) error {
	n, err := s.db.Exec(ctx, s.text[heartbeat], int64(l.ID), l.Epoch)
	if err == nil && n == 0 {
		return ErrLeaseLost
	}
	return err
}

const (
	saveRow sqldb.Statement = `UPDATE {table_name}
	SET phase = ?, {q:cursor} = ?, progress = ?, heartbeat_at = {now}, updated_at = {now}
	WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = 'RUNNING'`

	// saveAhead is the save of a run that came further than its claim found it. What was
	// counted against the job is forgotten here and now, so that it holds whatever ends
	// the run: a failure makes attempts 1, a crash makes stale_reclaims 1.
	saveAhead sqldb.Statement = `UPDATE {table_name}
	SET phase = ?, {q:cursor} = ?, progress = ?, heartbeat_at = {now}, updated_at = {now}, attempts = 0, stale_reclaims = 0, outage_since = NULL
	WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = 'RUNNING'`

	readSignals sqldb.Statement = `SELECT state, lease_epoch, paused, COALESCE(cancel_requested_at, 0) FROM {table_name} WHERE id = ?`
)

// Save writes how far the owner of a lease has come and keeps the lease alive. ahead
// says that the run made progress. It returns the named cause why the owner should
// stop: ErrLeaseLost (nothing was written), or ErrCancelled or ErrPaused (it was).
func (s *Store) Save(ctx context.Context, l Lease, p Point, progress json.RawMessage, ahead bool) error {
	statement := saveRow
	if ahead {
		statement = saveAhead
	}
	var cause error
	err := s.db.Tx(ctx, func(tx *sqldb.Tx) error {
		cause = nil
		n, err := tx.Exec(ctx, s.text[statement], p.Phase, p.Cursor, string(progress), int64(l.ID), l.Epoch)
		if err != nil {
			return err
		}
		var state State
		var epoch, cancelled int64
		var paused bool
		err = tx.QueryRow(ctx, s.text[readSignals], int64(l.ID)).Scan(&state, &epoch, &paused, &cancelled)
		switch {
		case err != nil && !errors.Is(err, sql.ErrNoRows):
			return err
		case n == 0 && err == nil && state == Cancelled && epoch == l.Epoch:
			cause = ErrCancelled // at once, by somebody else
		case n == 0:
			cause = ErrLeaseLost
		case cancelled != 0:
			cause = ErrCancelled
		case paused:
			cause = ErrPaused
		}
		return nil
	})
	if err != nil {
		return err
	}
	return cause
}

// SaveIn is Save as the first statement of a transaction of the domain: the row is locked
// until that ends. ErrLeaseLost, and the transaction must roll back, when the lease is gone.
func (s *Store) SaveIn(ctx context.Context, tx *sqldb.Tx, l Lease, p Point, progress json.RawMessage, ahead bool) error {
	statement := saveRow
	if ahead {
		statement = saveAhead
	}
	n, err := tx.Exec(ctx, s.text[statement], p.Phase, p.Cursor, string(progress), int64(l.ID), l.Epoch)
	if err == nil && n == 0 {
		return ErrLeaseLost
	}
	return err
}

const succeedRow sqldb.Statement = `UPDATE {table_name}
	SET state = 'SUCCEEDED', phase = ?, {q:cursor} = ?, progress = ?, heartbeat_at = NULL, outage_since = NULL, attempts = 0, stale_reclaims = 0, paused = 0,
	last_error = '', updated_at = {now} WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = 'RUNNING'`

// SucceedIn ends a job inside the domain's last transaction, of which it is the first
// statement; ErrLeaseLost as SaveIn. Hooks are not called: the transaction is the
// domain's. The handler returns ErrEnded after the commit.
func (s *Store) SucceedIn(ctx context.Context, tx *sqldb.Tx, l Lease, p Point, progress json.RawMessage) error {
	n, err := tx.Exec(ctx, s.text[succeedRow], p.Phase, p.Cursor, string(progress), int64(l.ID), l.Epoch)
	if err == nil && n == 0 {
		return ErrLeaseLost
	}
	return err
}

const anyWaiting sqldb.Statement = `SELECT id FROM {table_name} WHERE state = 'PENDING' AND available_at <= (SELECT {now}) AND paused = 0{only} ORDER BY available_at LIMIT 1`

// Waiting reports whether a job could run and does not.
func (s *Store) Waiting(ctx context.Context) (bool, error) {
	var id int64
	err := s.db.QueryRow(ctx, s.text[anyWaiting]).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
