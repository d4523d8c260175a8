package job

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	// A job whose cancel was asked for meanwhile does not become PENDING.
	finishPending sqldb.Statement = `UPDATE {table_name}
	SET state = 'PENDING', heartbeat_at = NULL, attempts = ?, outage_since = ?, available_at = ?, last_error = ?, updated_at = {now}
	WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = 'RUNNING' AND cancel_requested_at IS NULL`

	finishEnded sqldb.Statement = `UPDATE {table_name}
	SET state = ?, heartbeat_at = NULL, attempts = ?, outage_since = ?, paused = 0, last_error = ?, updated_at = {now}
	WHERE id = ? AND lease_epoch = ? AND NULLIF(state, '') = 'RUNNING'`

	confirmFinish sqldb.Statement = `SELECT state FROM {table_name} WHERE id = ? AND lease_epoch = ? {for update}`
)

// Finish ends a run as its handler's answer says, under the lease, and returns the row
// as it stands then: nil is SUCCEEDED; ErrCancelled is CANCELLED; ErrYield, ErrPaused,
// ErrShutdown and ErrLeaseLost (an owner that had to stop in doubt and still holds it)
// give the job back uncounted; every other error is a failed attempt, though trouble of
// the job's own database counts only after the outage grace. ErrLeaseLost is
// returned when the lease is another's, and nothing was written.
func (s *Store) Finish(ctx context.Context, l Lease, answer error) (after Row, err error) {
	for range 3 {
		err = s.db.Tx(ctx, func(tx *sqldb.Tx) error {
			row, now, err := s.read(ctx, tx, l.ID)
			if fault.Is(err, CodeNoSuchJob) {
				return ErrLeaseLost // the domain's last transaction took the row away, or somebody else did
			}
			if err != nil {
				return err
			}
			if row.State != Running || row.LeaseEpoch != l.Epoch {
				return ErrLeaseLost
			}
			after = s.next(row, now, answer)
			return s.finish(ctx, tx, after)
		}, s.confirmFinish(l))
		if !errors.Is(err, errMoved) {
			break
		}
	}
	if errors.Is(err, errMoved) {
		err = ErrLeaseLost
	}
	if err != nil {
		return Row{}, err
	}
	if after.State.Ended() {
		s.ended(after)
	}
	return after, nil
}

func (s *Store) finish(ctx context.Context, tx *sqldb.Tx, row Row) (err error) {
	outage := sql.NullInt64{Int64: row.OutageSince, Valid: row.OutageSince != 0}
	var n int64
	if row.State == Pending {
		n, err = tx.Exec(ctx, s.text[finishPending], row.Attempts, outage, row.AvailableAt, row.LastError, int64(row.ID), row.LeaseEpoch)
	} else {
		if err := s.settled(ctx, tx, row, false); err != nil {
			return err
		}
		n, err = tx.Exec(ctx, s.text[finishEnded], string(row.State), row.Attempts, outage, row.LastError, int64(row.ID), row.LeaseEpoch)
	}
	if err == nil && n == 0 {
		return errMoved
	}
	return err
}

// confirmFinish reads an ambiguous commit back: the epoch was ours, so a row that is
// no longer RUNNING at it was changed by us.
func (s *Store) confirmFinish(l Lease) sqldb.Option {
	return sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		var state State
		err := tx.QueryRow(ctx, s.text[confirmFinish], int64(l.ID), l.Epoch).Scan(&state)
		if errors.Is(err, sql.ErrNoRows) {
			return true, nil // and already claimed again
		}
		return err == nil && state != Running, err
	})
}

// next is the transition table of a run's end. It has no effects.
func (s *Store) next(row Row, now int64, answer error) Row {
	row.HeartbeatAt = 0
	var terminal *TerminalError
	var outage *OutageError
	switch {
	case answer == nil:
		row.State, row.OutageSince = Succeeded, 0
	case errors.Is(answer, ErrCancelled) && row.CancelRequestedAt != 0:
		row.State = Cancelled
	case errors.Is(answer, ErrYield):
		row.State, row.AvailableAt = Pending, now // behind those that wait
	case errors.Is(answer, ErrPaused), errors.Is(answer, ErrShutdown):
		row.State = Pending // where it stood in the queue
	case errors.Is(answer, ErrLeaseLost): // in doubt, and still the owner
		row.State, row.AvailableAt = Pending, now+s.jitter(s.cfg.ceiling(1)).Milliseconds()
	case ownDatabase(answer):
		row.LastError = clip(answer.Error())
		s.failed(&row, now, true)
	case errors.As(answer, &terminal):
		row.State, row.LastError = Failed, clip(answer.Error())
		row.Attempts++
	default:
		row.LastError = clip(answer.Error())
		s.failed(&row, now, errors.As(answer, &outage))
	}
	if row.CancelRequestedAt != 0 && row.State != Succeeded {
		row.State = Cancelled // whatever stopped the run: it was to stop
	}
	if row.State.Ended() {
		row.Paused = false
	}
	return row
}

// failed counts a failed attempt. A run that made progress has set attempts to 0 in its
// save, so that this makes it 1.
func (s *Store) failed(row *Row, now int64, outage bool) {
	wait := time.Duration(0)
	if outage && row.OutageSince == 0 {
		row.OutageSince = now
	}
	since := time.Duration(now-row.OutageSince) * time.Millisecond
	if outage && since < s.cfg.OutageGrace {
		wait = min(since, maxBackoff) // an outage of an hour is not asked about every ten seconds
	} else {
		row.Attempts++
	}
	if row.Attempts >= s.cfg.MaxAttempts {
		row.State = Failed
		return
	}
	wait = max(wait, s.cfg.ceiling(row.Attempts))
	row.State, row.AvailableAt = Pending, now+s.jitter(wait).Milliseconds()
}

// uncounted reports whether a run stopped for a reason that is not the job's.
func uncounted(answer error) bool {
	for _, cause := range []error{ErrYield, ErrPaused, ErrShutdown, ErrLeaseLost} {
		if errors.Is(answer, cause) {
			return true
		}
	}
	return false
}

// ownDatabase reports trouble with the job's own database. It most likely says nothing
// about the job, like an outage of the store, and is bounded like one: what fails for
// longer than the grace while this very row can be written is the job's after all.
func ownDatabase(answer error) bool {
	if _, ok := errors.AsType[*unsavedError](answer); ok {
		return true
	}
	switch fault.CodeOf(answer) {
	case sqldb.CodeUnavailable, sqldb.CodeBusy, sqldb.CodeFull, sqldb.CodeCommitUnknown:
		return true
	}
	return false
}

// unsavedError is a save that the job's own database did not take.
type unsavedError struct{ err error }

func (e *unsavedError) Error() string { return fmt.Sprintf("job: save: %v", e.err) }
func (e *unsavedError) Unwrap() error { return e.err }

// clip makes an error's text fit last_error, at a rune's end. PostgreSQL takes neither
// NUL nor broken UTF-8.
func clip(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) <= maxError {
		return text
	}
	end := maxError
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
