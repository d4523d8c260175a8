package job

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Handler does the domain's work of one kind of job.
type Handler interface {
	// Run works on the claimed job until it is done. It returns nil when everything is
	// settled; TerminalError, OutageError or any other error when it is not; and the
	// cause of the context when that is why it stopped. A panic is a failed attempt.
	Run(ctx context.Context, run *Run) error
	// Further reports whether b stands further than a. Both come from the same job.
	Further(a, b Point) bool
}

// Hooks let the domain keep its own rows in step, inside the transaction that changes
// the job. All may be nil. An error rolls the change back.
type Hooks struct {
	// Settled runs when a job becomes SUCCEEDED, FAILED or CANCELLED, or is acknowledged.
	Settled func(ctx context.Context, tx *sqldb.Tx, row Row, acked bool) error
	// Retrying runs before a FAILED or CANCELLED job becomes PENDING again; it does the
	// domain's checks of a new delete and may refuse with a fault.Conflict.
	Retrying func(ctx context.Context, tx *sqldb.Tx, row Row, opts RetryOptions) error
	// Pruning runs before rows are removed by retention.
	Pruning func(ctx context.Context, tx *sqldb.Tx, ids []ID) error
	// FilesLeft reports whether a FAILED or CANCELLED row still owns something. Nil: always.
	FilesLeft func(row Row) bool
}

// RetryOptions of an operator's retry.
type RetryOptions struct {
	AcceptMissing bool // what is missing counts as settled, in every later attempt
}

// Extra is one of the domain's own columns of a job row.
type Extra struct {
	Column string
	Value  any
}

// New is a job to be inserted.
type New struct {
	RequestID string
	CreatedBy string
	Progress  json.RawMessage // nil means {}
	Delay     time.Duration   // before a worker may claim it; 0 means at once
	Extra     []Extra
}
