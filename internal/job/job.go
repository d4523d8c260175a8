// Package job runs durable jobs that live as rows of a SQL table: claim, heartbeat,
// fence, retry, control, prune. It knows no domain and is parameterised by table.
//
//	           insert                       claim (epoch+1)
//	(domain tx) ─────▶ PENDING ───────────────────────────▶ RUNNING ──▶ SUCCEEDED
//	                     ▲  ▲   retry with backoff, yield,     │
//	                     │  └──────── release, pause ──────────┤──────▶ FAILED
//	                     │                                     │
//	                     └── retry (operator) ── FAILED, CANCELLED ◀── cancel
//
// A stale RUNNING row (heartbeat older than the timeout, by the database's clock) is
// claimable too. Invariants: an epoch has at most one owner; every write of an owner is
// guarded by state and epoch; an accepted job stays until it is SUCCEEDED, or until
// somebody acknowledged that it will not be.
package job

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ID is the key of a job row.
type ID int64

// State is where a job stands.
type State string

// The states.
const (
	Pending   State = "PENDING"
	Running   State = "RUNNING"
	Succeeded State = "SUCCEEDED"
	Failed    State = "FAILED"
	Cancelled State = "CANCELLED"
)

// Ended reports whether no worker will touch the job any more by itself.
func (s State) Ended() bool { return s == Succeeded || s == Failed || s == Cancelled }

// ParseState returns the state of that name.
func ParseState(s string) (State, error) {
	switch st := State(s); st {
	case Pending, Running, Succeeded, Failed, Cancelled:
		return st, nil
	default:
		return "", fmt.Errorf("unknown job state %q", s)
	}
}

// Lease is the right of one process to work on a job. Every write carries it.
type Lease struct {
	ID    ID
	Epoch int64
}

// Row is the generic part of a job row. Times are milliseconds since the Unix epoch by
// the database's clock; 0 stands for NULL.
type Row struct {
	ID                ID
	State             State
	Attempts          int   // failures without progress, in a row
	StaleReclaims     int   // leases that ran out, without progress in between
	OutageSince       int64 // first failure of the store as a whole, since the last success
	LeaseEpoch        int64
	Owner             string // the server that works or worked on it, for people
	HeartbeatAt       int64  // 0 unless RUNNING
	AvailableAt       int64
	Paused            bool
	CancelRequestedAt int64
	AckedAt           int64
	RequestID         string // of the request that made it; reads back an ambiguous commit
	LastError         string
	Phase             string
	Cursor            string
	Progress          json.RawMessage
	CreatedBy         string
	CreatedAt         int64
	UpdatedAt         int64
}

// Lease returns the lease that a row just claimed stands for.
func (r Row) Lease() Lease { return Lease{ID: r.ID, Epoch: r.LeaseEpoch} }

// Point returns how far the job has come.
func (r Row) Point() Point { return Point{Phase: r.Phase, Cursor: r.Cursor} }

// Point is how far a job has come. A failed attempt made progress when its Point
// stands further than the one of the attempt before it.
type Point struct {
	Phase  string
	Cursor string
}

// Causes with which a running job's context is cancelled, and which its handler returns.
var (
	ErrLeaseLost = errors.New("job: lease lost")
	ErrCancelled = errors.New("job: cancelled")
	ErrPaused    = errors.New("job: paused")
	ErrYield     = errors.New("job: quantum over while others wait")
	ErrShutdown  = errors.New("job: server is stopping")
)

// ErrEnded is a handler's answer when it has ended its job in a transaction of its own
// (SucceedIn, or a row that it removed or made PENDING under Fence).
var ErrEnded = errors.New("job: ended by its handler")

// TerminalError ends a job as FAILED at once, whatever attempts are left.
type TerminalError struct{ Err error }

// Error returns the cause's text.
func (e *TerminalError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *TerminalError) Unwrap() error { return e.Err }

// Terminal marks err as one that no retry can mend.
func Terminal(err error) error { return &TerminalError{Err: err} }

// OutageError marks a failure of the store as a whole, which raises attempts only
// after the outage grace.
type OutageError struct{ Err error }

// Error returns the cause's text.
func (e *OutageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *OutageError) Unwrap() error { return e.Err }

// Outage marks err as trouble of the store as a whole.
func Outage(err error) error { return &OutageError{Err: err} }
