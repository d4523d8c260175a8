package job

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// claimable reads the window. Each half is one range of (state, available_at); there
// are never more RUNNING rows than workers. The clock stands in a subquery because
// PostgreSQL takes no volatile function as the bound of an index range: it would read
// every PENDING row that is not due yet.
const claimable sqldb.Statement = `SELECT id, state, lease_epoch FROM (
	SELECT * FROM (SELECT id, state, lease_epoch, available_at FROM {table_name}
		WHERE state = 'PENDING' AND available_at <= (SELECT {now}) AND paused = 0{only} ORDER BY available_at LIMIT 8) p
	UNION ALL
	SELECT * FROM (SELECT id, state, lease_epoch, available_at FROM {table_name}
		WHERE state = 'RUNNING' AND heartbeat_at < {now} - ?{only} ORDER BY available_at LIMIT 8) r
) c ORDER BY available_at LIMIT 8`

const claimableID sqldb.Statement = `SELECT id, state, lease_epoch FROM {table_name} WHERE id = ?
	AND ((state = 'PENDING' AND available_at <= {now} AND paused = 0) OR (state = 'RUNNING' AND heartbeat_at < {now} - ?)){only}`

type candidate struct {
	lease Lease // as it stands before the claim
	state State
}

// Claim wins one job for owner, oldest first; false when there is nothing to do. It is
// for a worker that is free: the lease runs from now. Stale rows that shall not run
// again (cancelled, paused, five leases lost without progress) are put to rest on the way.
func (s *Store) Claim(ctx context.Context, owner string) (Row, bool, error) {
	return s.claim(ctx, owner, claimable, s.cfg.HeartbeatTimeout.Milliseconds())
}

// ClaimID is Claim of exactly one job.
func (s *Store) ClaimID(ctx context.Context, owner string, id ID) (Row, bool, error) {
	return s.claim(ctx, owner, claimableID, int64(id), s.cfg.HeartbeatTimeout.Milliseconds())
}

func (s *Store) claim(ctx context.Context, owner string, look sqldb.Statement, args ...any) (Row, bool, error) {
	window, err := s.window(ctx, look, args)
	if err != nil {
		return Row{}, false, fmt.Errorf("job: look for %s jobs: %w", s.table.Prefix, err)
	}
	for _, c := range window {
		var row Row
		var err error
		if c.state == Running {
			row, err = s.reclaim(ctx, c.lease, owner)
		} else {
			row, err = s.take(ctx, c.lease, owner)
		}
		switch {
		case err != nil:
			return Row{}, false, fmt.Errorf("job: claim %s: %w", s.Name(c.lease.ID), err)
		case row.State == Running:
			return row, true, nil
		}
	}
	return Row{}, false, nil
}

func (s *Store) window(ctx context.Context, look sqldb.Statement, args []any) (window []candidate, err error) {
	rows, err := s.db.Query(ctx, s.text[look], args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var c candidate
		if err := rows.Scan(&c.lease.ID, &c.state, &c.lease.Epoch); err != nil {
			return nil, err
		}
		window = append(window, c)
	}
	return window, rows.Err()
}

const claimPending sqldb.Statement = `UPDATE {table_name}
	SET state = 'RUNNING', lease_epoch = lease_epoch + 1, owner = ?, heartbeat_at = {now}, updated_at = {now}
	WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = 'PENDING' AND paused = 0 AND available_at <= {now}`

// take claims a PENDING row; the zero Row when somebody was faster. An ambiguous
// commit is not read back: nobody runs the row then, and its lease runs out.
func (s *Store) take(ctx context.Context, l Lease, owner string) (row Row, err error) {
	err = s.db.Tx(ctx, func(tx *sqldb.Tx) error {
		row = Row{}
		n, err := tx.Exec(ctx, s.text[claimPending], owner, int64(l.ID), l.Epoch)
		if err != nil || n == 0 {
			return err
		}
		row, _, err = s.read(ctx, tx, l.ID)
		return err
	})
	return row, err
}

const (
	readStale sqldb.Statement = `SELECT {row} FROM {table_name} WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = 'RUNNING' AND heartbeat_at < {now} - ?`

	claimStale sqldb.Statement = `UPDATE {table_name}
	SET lease_epoch = lease_epoch + 1, owner = ?, heartbeat_at = {now}, stale_reclaims = ?, updated_at = {now}
	WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = 'RUNNING' AND heartbeat_at < {now} - ?`

	// dropStale makes a paused job whose owner died PENDING, as its owner would have.
	dropStale sqldb.Statement = `UPDATE {table_name}
	SET state = 'PENDING', heartbeat_at = NULL, stale_reclaims = ?, updated_at = {now}
	WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = 'RUNNING' AND heartbeat_at < {now} - ? AND cancel_requested_at IS NULL`

	endStale sqldb.Statement = `UPDATE {table_name}
	SET state = ?, heartbeat_at = NULL, stale_reclaims = ?, paused = 0, last_error = ?, updated_at = {now}
	WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = 'RUNNING' AND heartbeat_at < {now} - ?`
)

// reclaim takes over a row whose lease ran out, or puts it to rest. The Row is RUNNING
// only when it was won.
func (s *Store) reclaim(ctx context.Context, l Lease, owner string) (row Row, err error) {
	timeout := s.cfg.HeartbeatTimeout.Milliseconds()
	err = s.db.Tx(ctx, func(tx *sqldb.Tx) error {
		row = Row{}
		r, err := scan(tx.QueryRow(ctx, s.text[readStale], int64(l.ID), l.Epoch, timeout))
		if errors.Is(err, sql.ErrNoRows) {
			return nil // its owner lives, or somebody was faster
		} else if err != nil {
			return err
		}
		r.StaleReclaims++
		var n int64
		switch {
		case r.CancelRequestedAt != 0:
			r.State = Cancelled
		case r.StaleReclaims >= maxStaleReclaim:
			r.State = Failed
			r.LastError = clip(fmt.Sprintf("%d workers in a row stopped without a word and without progress; the last error before: %s", r.StaleReclaims, r.LastError))
		case r.Paused:
			r.State = Pending
			n, err = tx.Exec(ctx, s.text[dropStale], r.StaleReclaims, int64(l.ID), l.Epoch, timeout)
		default:
			n, err = tx.Exec(ctx, s.text[claimStale], owner, r.StaleReclaims, int64(l.ID), l.Epoch, timeout)
		}
		if r.State.Ended() {
			r.HeartbeatAt, r.Paused = 0, false
			if err := s.settled(ctx, tx, r, false); err != nil {
				return err
			}
			n, err = tx.Exec(ctx, s.text[endStale], string(r.State), r.StaleReclaims, r.LastError, int64(l.ID), l.Epoch, timeout)
		}
		switch {
		case err != nil:
			return err
		case n == 0:
			return errMoved
		}
		row, _, err = s.read(ctx, tx, l.ID)
		return err
	})
	if errors.Is(err, errMoved) {
		return Row{}, nil
	}
	if err == nil && row.State == Failed {
		s.log.ErrorContext(ctx, "job abandoned", "job", s.Name(row.ID), "phase", row.Phase, "reclaims", row.StaleReclaims, "error", row.LastError)
	}
	if err == nil && row.State.Ended() {
		s.ended(row)
	}
	return row, err
}

// errMoved rolls a transaction back whose guarded write found the row changed.
var errMoved = errors.New("job: the row changed meanwhile")

const expireAll sqldb.Statement = `UPDATE {table_name} SET heartbeat_at = 0 WHERE state = 'RUNNING'`

// ReclaimAll lets every lease run out at once. Only the one server of an embedded
// database may call it, when it starts: whoever held them is dead.
func (s *Store) ReclaimAll(ctx context.Context) (int64, error) {
	return s.db.Exec(ctx, s.text[expireAll])
}
