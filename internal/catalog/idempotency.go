package catalog

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// CodeKeyReused says that an Idempotency-Key came with another request before.
const CodeKeyReused fault.Code = "IdempotencyKeyReused"

// Idempotency is a request that carries an Idempotency-Key (spec: parameter
// idempotency-key). Keys are per principal and bound to the request.
type Idempotency struct {
	Key  string
	Hash string // of operation and body; another one for the same key is an error
}

// Recalled is the answer that a key got before.
type Recalled struct {
	Result string // what the operation stored: a metadata location, a job
	Err    error  // the deterministic error it got instead
}

// ErrTwin says that a request with the same key was answered while this one was under
// way; nothing of this one was applied. Recall has the answer.
var ErrTwin = errors.New("catalog: the same request was answered meanwhile")

const (
	insertKey sqldb.Statement = `{insert ignore} idempotency_keys (principal, idempotency_key, request_hash, result, error_kind, error_code, error_message, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, {now}) {ignore}`
	resultOfKey   sqldb.Statement = "UPDATE idempotency_keys SET result = ? WHERE principal = ? AND idempotency_key = ?"
	selectKey     sqldb.Statement = "SELECT request_hash, result, error_kind, error_code, error_message FROM idempotency_keys WHERE principal = ? AND idempotency_key = ?"
	insertChange  sqldb.Statement = "{insert ignore} catalog_changes (request_id, created_at) VALUES (?, {now}) {ignore}"
	expireChanges sqldb.Statement = "DELETE FROM catalog_changes WHERE created_at < (SELECT {now}) - ?"
	expireKeys    sqldb.Statement = "DELETE FROM idempotency_keys WHERE created_at < (SELECT {now}) - ?"
)

// Recall returns the answer that the request's key got before, nil when there is none.
func (c *Catalog) Recall(ctx context.Context, call Call) (*Recalled, error) {
	const op = "catalog.Recall"
	if call.Idempotency == nil {
		return nil, nil
	}
	var r Recalled
	var hash, message string
	var kind fault.Kind
	var code fault.Code
	err := c.db.QueryRow(ctx, selectKey, call.Principal, call.Idempotency.Key).Scan(&hash, &r.Result, &kind, &code, &message)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	case hash != call.Idempotency.Hash:
		return nil, fault.New(op, fault.Unprocessable, CodeKeyReused, "the Idempotency-Key was used for another request")
	}
	if kind != fault.Internal {
		r.Err = fault.New(op, kind, code, "%s", message)
	}
	return &r, nil
}

// Remember stores the answer of a request that changed nothing: a deterministic error,
// or a success without a transaction of its own. When a twin was faster, its answer is
// returned instead.
func (c *Catalog) Remember(ctx context.Context, call Call, result string, answer error) (*Recalled, error) {
	if call.Idempotency == nil {
		return nil, nil
	}
	kind := fault.Internal // stands for success: it is never remembered as an error
	if answer != nil {
		if kind = fault.KindOf(answer); !deterministic(kind) {
			return nil, nil
		}
	}
	twin := false
	err := c.db.Tx(ctx, func(tx *sqldb.Tx) error {
		var message string
		if answer != nil {
			message = fault.Public(answer)
		}
		n, err := tx.Exec(ctx, insertKey, call.Principal, call.Idempotency.Key, call.Idempotency.Hash, result, kind, string(fault.CodeOf(answer)), message)
		twin = n == 0
		return err
	})
	if err != nil || !twin {
		return nil, err
	}
	return c.Recall(ctx, call)
}

// deterministic reports whether the same request would get the same error again (spec:
// which statuses are finalised).
func deterministic(kind fault.Kind) bool {
	switch kind {
	case fault.Invalid, fault.NotFound, fault.Unsupported, fault.Conflict, fault.Unprocessable:
		return true
	case fault.Internal, fault.Unauthenticated, fault.Denied, fault.Precondition, fault.Busy, fault.Unknown, fault.Full:
	}
	return false
}

// CodeTwin says that a request with the same Idempotency-Key is still under way.
const CodeTwin fault.Code = "TwinUnderWay"

// change runs fn in one transaction that begins with the request's rows: its change, by
// which an ambiguous COMMIT is read back, and its key. It ends with what fn returned as
// the key's result. A request commits at most one change.
func (c *Catalog) change(ctx context.Context, call Call, fn func(tx *sqldb.Tx) (result string, err error), opts ...sqldb.Option) error {
	opts = append(opts, sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		// The same row again: this waits until the first transaction has ended, and only
		// if it ended well the row is taken.
		n, err := tx.Exec(ctx, insertChange, call.RequestID)
		return n == 0, err
	}))
	return c.db.Tx(ctx, func(tx *sqldb.Tx) error {
		if n, err := tx.Exec(ctx, insertChange, call.RequestID); err != nil || n != 1 {
			return errors.Join(err, wantOne(n))
		}
		key := call.Idempotency
		if key != nil {
			// A twin under way holds the row: this waits for it, at most a lock wait.
			n, err := tx.Exec(ctx, insertKey, call.Principal, key.Key, key.Hash, "", fault.Internal, "", "")
			if tx.Dialect().Classify(err) == sqldb.ClassLockWait {
				return &fault.Error{
					Op: "catalog.change", Kind: fault.Busy, Code: CodeTwin, RetryAfter: time.Second,
					Message: "a request with the same Idempotency-Key is under way, try again",
				}
			}
			if err != nil {
				return err
			}
			if n == 0 {
				return ErrTwin
			}
		}
		result, err := fn(tx)
		if err != nil || key == nil || result == "" {
			return err
		}
		_, err = tx.Exec(ctx, resultOfKey, result, call.Principal, key.Key)
		return err
	}, opts...)
}

// wantOne is the error of a write that should have hit one row.
func wantOne(n int64) error {
	if n == 1 {
		return nil
	}
	return errChanged
}

// errChanged says that a row that was locked is not there any more, or one that is ours
// alone is there already: never seen, and never ignored.
var errChanged = errors.New("catalog: the row changed under its lock")

// changeKept is how long a change's row is kept: longer than any COMMIT stays open.
const changeKept = time.Hour

// Expire forgets the answers that are older than lifetime, and what is only needed to
// read changes back.
func (c *Catalog) Expire(ctx context.Context, lifetime time.Duration) error {
	_, err := c.db.Exec(ctx, expireKeys, lifetime.Milliseconds())
	_, changesErr := c.db.Exec(ctx, expireChanges, changeKept.Milliseconds())
	return errors.Join(err, changesErr)
}
