package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
)

// A database may be there and say nothing: it is stopped, or the network swallows what is
// sent. So everything that is asked has an end, and a connection that was waited for in
// vain is not used again: nobody knows what will still come out of it.

const (
	defaultTimeout = 30 * time.Second
	// patience is how many times as long work in the background waits: its transactions
	// are larger, and nobody waits for them.
	patience = 4
	// rollbackWait bounds what only ends a transaction that failed already.
	rollbackWait = 5 * time.Second
)

type patientKey struct{}

// Patient returns a context for work in the background: a transaction or read under it may
// take four times as long as Config.Timeout says.
func Patient(ctx context.Context) context.Context {
	return context.WithValue(ctx, patientKey{}, true)
}

// bounded is a context with the time that the database has. Once that is over its Err is a
// fault, and with it what database/sql and the drivers return of it.
type bounded struct {
	context.Context
	late *fault.Error
}

// Err implements context.Context.
func (b *bounded) Err() error {
	err := b.Context.Err()
	if err != nil && context.Cause(b.Context) == error(b.late) { //nolint:errorlint // the very same one
		return b.late
	}
	return err
}

// lateness is the error of what had no answer within d.
func lateness(d time.Duration) *fault.Error {
	return &fault.Error{
		Op: "sqldb", Kind: fault.Busy, Code: CodeUnavailable, RetryAfter: time.Second,
		Message: "the database does not answer, nothing was changed",
		Err:     fmt.Errorf("not within %s: %w", d, context.DeadlineExceeded),
	}
}

// bound returns a context for one transaction or one read.
func (db *DB) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	d, late := db.cfg.Timeout, db.cfg.late
	if ctx.Value(patientKey{}) != nil {
		d, late = patience*d, db.cfg.latePatient
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d, late)
	return &bounded{ctx, late}, cancel
}

// within returns the context of a statement of tx: over when the transaction is. Functions
// of transactions ask with the context that they were called with, or one made of it.
func (tx *Tx) within(ctx context.Context) context.Context {
	if ctx == tx.asked {
		return tx.ctx
	}
	b, ok := tx.ctx.(*bounded)
	if !ok { // a look, which has a bound of its own
		return ctx
	}
	deadline, _ := b.Deadline()
	ctx, cancel := context.WithDeadlineCause(ctx, deadline, b.late)
	tx.ends = append(tx.ends, cancel)
	return &bounded{ctx, b.late}
}

// overdue names the reason for an error that came because ctx, a bounded one, was over.
func overdue(ctx context.Context, err error) error {
	b, ok := ctx.(*bounded)
	if !ok || err == nil || !errors.Is(b.Err(), b.late) || fault.Is(err, CodeUnavailable) {
		return err
	}
	if !errors.Is(err, sql.ErrTxDone) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return b.late
}
