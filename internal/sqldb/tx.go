package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
)

// ErrCommitUnknown says that COMMIT was sent and that nobody can tell whether it held.
var ErrCommitUnknown = errors.New("sqldb: the commit's outcome is unknown")

// errPanicked is what Watch is told of a transaction whose function panicked.
var errPanicked = errors.New("sqldb: the transaction's function panicked")

// tries is how often a transaction is run in all.
const tries = 4

// Tx is one write transaction. It is not safe for concurrent use.
type Tx struct {
	db    *DB
	tx    *sql.Tx
	ctx   context.Context      // bounds the transaction, as database/sql's own does not: see within
	asked context.Context      // that of the caller
	ends  []context.CancelFunc // of contexts beside ctx
}

// Dialect returns the engine's dialect.
func (tx *Tx) Dialect() *Dialect { return tx.db.dialect }

// Query reads inside the transaction.
func (tx *Tx) Query(ctx context.Context, s Statement, args ...any) (*sql.Rows, error) {
	return query(tx.within(ctx), tx.tx, tx.db, s, args)
}

// QueryRow reads one row inside the transaction.
func (tx *Tx) QueryRow(ctx context.Context, s Statement, args ...any) *Row {
	return queryRow(tx.within(ctx), tx.tx, tx.db, s, args)
}

// Exec runs a statement and returns how many rows it matched.
func (tx *Tx) Exec(ctx context.Context, s Statement, args ...any) (int64, error) {
	text, args, err := tx.db.dialect.Render(s, args)
	if err != nil {
		return 0, err
	}
	tx.db.counts.statements.Add(1)
	res, err := tx.tx.ExecContext(tx.within(ctx), text, args...)
	if tx.db.dialect.ignored(s, err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// InsertID runs an INSERT into a table whose key is a {serial} column named id, and
// returns the new key.
func (tx *Tx) InsertID(ctx context.Context, s Statement, args ...any) (int64, error) {
	if tx.db.dialect.returns {
		var id int64
		err := tx.QueryRow(ctx, s+" RETURNING id", args...).Scan(&id)
		return id, err
	}
	text, args, err := tx.db.dialect.Render(s, args)
	if err != nil {
		return 0, err
	}
	tx.db.counts.statements.Add(1)
	res, err := tx.tx.ExecContext(tx.within(ctx), text, args...)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// Option of a transaction.
type Option func(*options)

type options struct {
	confirm  func(ctx context.Context, tx *Tx) (bool, error)
	lockWait time.Duration
}

// Confirm gives the look that resolves an ambiguous COMMIT: it runs in a transaction
// of its own and tells whether the first one was applied. It must lock a row that the
// first one wrote, so that it waits for one that is still being decided.
func Confirm(look func(ctx context.Context, tx *Tx) (applied bool, err error)) Option {
	return func(o *options) { o.confirm = look }
}

// LockWait bounds this transaction's waits for row locks below the configured bound.
func LockWait(d time.Duration) Option { return func(o *options) { o.lockWait = d } }

// Tx runs fn in a transaction and commits it. fn may run several times: it resets what
// it accumulates, and publishes only after Tx returned nil. Deadlocks, serialization
// failures, busy and lock-wait errors are retried, 4 tries in all with 50, 100 and
// 200 ms between them, half of it jitter. What passed them by is fault.Busy when it was
// contention, a broken connection before COMMIT or the end of Config.Timeout (all tries
// together), ErrCommitUnknown (fault.Unknown) when COMMIT was sent and could not be read
// back within a lock wait.
func (db *DB) Tx(ctx context.Context, fn func(tx *Tx) error, opts ...Option) (err error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	asked := ctx
	ctx, cancel := db.bound(ctx)
	defer cancel()
	attempt := 1
	if watch := db.cfg.Watch; watch != nil {
		if ended := watch(ctx); ended != nil {
			err = errPanicked // until it returns
			defer func() { ended(attempt, err) }()
		}
	}
	for ; ; attempt++ {
		err := db.once(ctx, asked, fn, &o)
		if err == nil {
			return nil
		}
		ambiguous, ok := errors.AsType[*commitError](err)
		if !ok {
			err = overdue(ctx, err)
		} else {
			applied, lookErr := db.confirm(ctx, &o)
			switch {
			case lookErr != nil:
				return &fault.Error{
					Op: "sqldb.Tx", Kind: fault.Unknown, Code: CodeCommitUnknown,
					Message: "the database did not say whether the change was committed",
					Err:     errors.Join(ErrCommitUnknown, ambiguous.err, lookErr),
				}
			case applied:
				return nil
			}
			if err = ambiguous.err; db.dialect.Classify(err) == ClassOther { // surely not applied
				return &fault.Error{
					Op: "sqldb.Tx", Kind: fault.Busy, Code: CodeBusy,
					Message: "the change was not committed, try again", RetryAfter: time.Second, Err: err,
				}
			}
		}
		class := db.dialect.Classify(err)
		if class != ClassRetry && class != ClassLockWait {
			return db.classified(err, class)
		}
		if attempt == tries {
			return &fault.Error{
				Op: "sqldb.Tx", Kind: fault.Busy, Code: CodeBusy,
				Message: "the database is busy with conflicting changes, try again", RetryAfter: time.Second, Err: err,
			}
		}
		db.counts.retries.Add(1)
		pause := 50 * time.Millisecond << (attempt - 1)
		if err := sleep(ctx, pause/2+rand.N(pause/2)); err != nil {
			return err
		}
	}
}

func (db *DB) classified(err error, class Class) error {
	switch class {
	case ClassConn:
		return db.down(err)
	case ClassFull:
		return &fault.Error{Op: "sqldb.Tx", Kind: fault.Full, Code: CodeFull, Message: "the database has no room left", Err: err}
	case ClassOther, ClassUnique, ClassRetry, ClassLockWait, ClassReference:
	}
	return err
}

// commitError is a failed COMMIT that may have been applied.
type commitError struct{ err error }

func (e *commitError) Error() string { return "sqldb: commit: " + e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

// once is one try, bounded by ctx. asked is the context that fn has.
func (db *DB) once(ctx, asked context.Context, fn func(*Tx) error, o *options) (err error) {
	if db.turn != nil {
		select {
		case db.turn <- struct{}{}:
			defer func() { <-db.turn }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	begin := db.write.BeginTx
	if o.lockWait > 0 && db.dialect.Name == MySQL {
		conn, release, err := db.impatient(ctx, o.lockWait)
		if err != nil {
			return fmt.Errorf("sqldb: begin: %w", err)
		}
		defer release()
		begin = conn.BeginTx
	}
	raw, err := begin(ctx, &sql.TxOptions{Isolation: db.isolation})
	if err != nil {
		return fmt.Errorf("sqldb: begin: %w", err)
	}
	tx := &Tx{db: db, tx: raw, ctx: ctx, asked: asked}
	done := false
	defer func() {
		for _, end := range tx.ends {
			end()
		}
		if !done { // also when fn panics; the error of a rollback says nothing new
			_ = raw.Rollback()
		}
	}()
	if o.lockWait > 0 && db.dialect.Name == Postgres {
		if _, err := tx.Exec(asked, Statement(fmt.Sprintf("SET LOCAL lock_timeout = %d", o.lockWait.Milliseconds()))); err != nil {
			return err
		}
	}
	if err := fn(tx); err != nil {
		return err
	}
	if hook := db.cfg.Hooks.BeforeCommit; hook != nil {
		if err := hook(ctx); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // nothing is sent
	}
	err = raw.Commit()
	done = true
	if errors.Is(err, sql.ErrTxDone) { // ctx ended in between, and the transaction with it
		return context.Cause(ctx)
	}
	if hook := db.cfg.Hooks.AfterCommit; hook != nil && err == nil {
		err = hook(ctx)
	}
	if err == nil {
		return nil
	}
	if undone := db.dialect.undone; undone != nil && undone(err) {
		return err
	}
	// A driver that answered with a code of its own decided against the commit; anything
	// else (a broken connection, a cancelled context, a lost answer) leaves it open.
	switch db.dialect.Classify(err) {
	case ClassUnique, ClassRetry, ClassLockWait, ClassReference, ClassFull:
		_ = raw.Rollback()
		return err
	case ClassOther, ClassConn:
	}
	_ = raw.Rollback()
	return &commitError{err: err}
}

// confirm looks whether an ambiguous commit was applied, for as long as a lock wait.
func (db *DB) confirm(ctx context.Context, o *options) (applied bool, err error) {
	if o.confirm == nil {
		return false, errors.New("nothing to read back")
	}
	// The request may be over; the question still needs an answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.cfg.LockWait)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		err = db.once(ctx, ctx, func(tx *Tx) (err error) {
			applied, err = o.confirm(ctx, tx)
			return err
		}, &options{})
		var unsure *commitError // a look changes nothing, so its own commit does not matter
		if err == nil || errors.As(err, &unsure) {
			return applied, nil
		}
		if sleepErr := sleep(ctx, pause); sleepErr != nil {
			return false, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// idleInTx is how long a session may be silent inside a transaction before the server
// ends it, where the server can. No transaction waits for anything but the database; a
// process that does is stopped, or cut off, and holds locks that its successor needs.
const idleInTx = 10 * time.Second
