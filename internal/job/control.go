package job

import (
	"context"
	"errors"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	requestCancel sqldb.Statement = `UPDATE {table_name} SET cancel_requested_at = {now}, updated_at = {now}
	WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = 'RUNNING' AND cancel_requested_at IS NULL`

	cancelNow sqldb.Statement = `UPDATE {table_name}
	SET state = 'CANCELLED', heartbeat_at = NULL, paused = 0, cancel_requested_at = COALESCE(cancel_requested_at, {now}), updated_at = {now}
	WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = ?`
)

// Cancel ends a PENDING job at once. A RUNNING one is asked to stop and comes back as
// RUNNING with CancelRequestedAt set: until its owner, or the claimer of its stale
// lease, has written CANCELLED, it holds what it holds. Cancelling twice is no error;
// a job that ended otherwise is fault.Conflict.
func (s *Store) Cancel(ctx context.Context, id ID) (Row, error) {
	row, err := s.change(ctx, id, func(tx *sqldb.Tx, row Row) (int64, error) {
		switch {
		case row.State == Cancelled || (row.CancelRequestedAt != 0 && row.State == Running && !s.table.CancelAtOnce):
			return 1, nil
		case row.State.Ended():
			return 0, s.conflict("Cancel", row, "it cannot be cancelled any more")
		case row.State == Running && !s.table.CancelAtOnce:
			return tx.Exec(ctx, s.text[requestCancel], int64(id), row.LeaseEpoch)
		}
		was := row.State
		row.State, row.Paused, row.HeartbeatAt = Cancelled, false, 0
		if err := s.settled(ctx, tx, row, false); err != nil {
			return 0, err
		}
		return tx.Exec(ctx, s.text[cancelNow], int64(id), row.LeaseEpoch, string(was))
	})
	return row, err
}

// Its cursor starts anew, because what changed since may lie before it; phase stays,
// because it says which deletes were begun.
const retryRow sqldb.Statement = `UPDATE {table_name}
	SET state = 'PENDING', attempts = 0, stale_reclaims = 0, outage_since = NULL, acked_at = NULL, cancel_requested_at = NULL,
	{q:cursor} = '', available_at = {now}, updated_at = {now}
	WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = ?`

// Retry makes a FAILED or CANCELLED job PENDING again, if the domain agrees.
func (s *Store) Retry(ctx context.Context, id ID, opts RetryOptions) (Row, error) {
	row, err := s.change(ctx, id, func(tx *sqldb.Tx, row Row) (int64, error) {
		if row.State != Failed && row.State != Cancelled {
			return 0, s.conflict("Retry", row, "only a FAILED or CANCELLED job can be retried")
		}
		if s.hooks.Retrying != nil {
			if err := s.hooks.Retrying(ctx, tx, row, opts); err != nil {
				return 0, err
			}
		}
		return tx.Exec(ctx, s.text[retryRow], int64(id), row.LeaseEpoch, string(row.State))
	})
	if err == nil {
		s.Wake()
	}
	return row, err
}

const ackRow sqldb.Statement = `UPDATE {table_name} SET acked_at = {now}, updated_at = {now}
	WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = ? AND acked_at IS NULL`

// Ack says that somebody knows that a FAILED or CANCELLED job will not be finished: it
// lets go of what it holds, and retention may remove it. Twice is no error.
func (s *Store) Ack(ctx context.Context, id ID) (Row, error) {
	return s.change(ctx, id, func(tx *sqldb.Tx, row Row) (int64, error) {
		if row.State != Failed && row.State != Cancelled {
			return 0, s.conflict("Ack", row, "only a FAILED or CANCELLED job can be acknowledged")
		}
		if row.AckedAt != 0 {
			return 1, nil
		}
		if err := s.settled(ctx, tx, row, true); err != nil {
			return 0, err
		}
		return tx.Exec(ctx, s.text[ackRow], int64(id), row.LeaseEpoch, string(row.State))
	})
}

const (
	pauseRow sqldb.Statement = `UPDATE {table_name} SET paused = 1, updated_at = {now}
	WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = ?`

	resumeRow sqldb.Statement = `UPDATE {table_name} SET paused = 0, updated_at = {now}
	WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = ?`
)

// Pause keeps a job from being claimed; a RUNNING one yields at its next save.
func (s *Store) Pause(ctx context.Context, id ID) (Row, error) {
	return s.setPaused(ctx, "Pause", id, pauseRow)
}

// Resume undoes Pause.
func (s *Store) Resume(ctx context.Context, id ID) (Row, error) {
	row, err := s.setPaused(ctx, "Resume", id, resumeRow)
	if err == nil {
		s.Wake()
	}
	return row, err
}

func (s *Store) setPaused(ctx context.Context, op string, id ID, statement sqldb.Statement) (Row, error) {
	return s.change(ctx, id, func(tx *sqldb.Tx, row Row) (int64, error) {
		if row.State.Ended() {
			return 0, s.conflict(op, row, "only a PENDING or RUNNING job can be paused and resumed")
		}
		return tx.Exec(ctx, s.text[statement], int64(id), row.LeaseEpoch, string(row.State))
	})
}

// changeTries bounds how often a control looks again at a row that moved.
const changeTries = 20

// change runs write on the row as it stands and returns the row after it. write is
// guarded by state and epoch and says how many rows it hit; at 0 the row has moved and
// write looks again.
func (s *Store) change(ctx context.Context, id ID, write func(tx *sqldb.Tx, row Row) (int64, error)) (after Row, err error) {
	for range changeTries {
		var before Row
		err = s.db.Tx(ctx, func(tx *sqldb.Tx) error {
			if before, _, err = s.read(ctx, tx, id); err != nil {
				return err
			}
			n, err := write(tx, before)
			switch {
			case err != nil:
				return err
			case n == 0:
				return errMoved
			}
			after, _, err = s.read(ctx, tx, id)
			return err
		})
		if errors.Is(err, errMoved) { // each round, somebody else got on
			continue
		}
		if err == nil && after.State.Ended() && !before.State.Ended() {
			s.ended(after)
		}
		return after, err
	}
	return after, &fault.Error{
		Op: "job.change", Kind: fault.Busy, RetryAfter: time.Second, Err: errMoved,
		Message: "the job changes faster than it can be read, try again",
	}
}
