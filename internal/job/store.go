package job

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Table says which table holds the jobs and what its domain wants.
type Table struct {
	Name         string // of the SQL table
	Prefix       string // of public names: purge makes purge-42
	CancelAtOnce bool   // a RUNNING job is CANCELLED at once: its domain's writes are fenced in their own transactions
	AckKeeps     bool   // an acknowledged row with files left is never pruned
	// Only, if not empty, is an SQL predicate over the domain's columns, such as
	// kind = 'TREE': other rows live in the table, and no worker ever claims them.
	Only string
}

// Observer is told what happens. Both may be empty.
type Observer struct {
	Logger *slog.Logger
	Events Events
}

// Events are called after the commit that made them true; all may be nil. They must
// not block.
type Events struct {
	Started func(row Row)            // a worker begins to run the job
	Failed  func(row Row, err error) // an attempt failed; row as it stands after it
	Ended   func(row Row)            // SUCCEEDED, FAILED or CANCELLED, by whomever
	Lost    func(row Row)            // a worker here lost its lease; row as it was claimed
}

// Store is the one place with SQL on a job table. It is safe for concurrent use.
type Store struct {
	db     *sqldb.DB
	table  Table
	cfg    Config
	hooks  Hooks
	log    *slog.Logger
	events Events
	text   map[sqldb.Statement]sqldb.Statement // template → the table's own text
	wake   chan struct{}
	jitter func(time.Duration) time.Duration

	endedCount endedCount
}

// NewStore returns the store of a table, whose columns are those of Row and the domain's own.
func NewStore(db *sqldb.DB, table Table, cfg Config, hooks Hooks, obs Observer) *Store {
	cfg = cfg.withDefaults()
	s := &Store{
		db: db, table: table, cfg: cfg, hooks: hooks, log: obs.Logger, events: obs.Events,
		text: make(map[sqldb.Statement]sqldb.Statement, len(statements)),
		wake: make(chan struct{}, cfg.Workers),
		// Full jitter: a crowd that failed together does not come back together.
		jitter: func(d time.Duration) time.Duration { return rand.N(d + 1) },
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	only := ""
	if table.Only != "" {
		only = " AND " + table.Only
	}
	fill := strings.NewReplacer("{table_name}", table.Name, "{row}", rowColumns, "{only}", only)
	for _, t := range statements {
		s.text[t] = sqldb.Statement(fill.Replace(string(t)))
	}
	return s
}

// statements are all templates of this package, rendered once for the store's table. Where
// an id is given, the state is asked about through NULLIF: planners are drawn to the index
// (state, available_at) otherwise, and MariaDB then waits for the rows of other jobs.
var statements = []sqldb.Statement{
	getRow, findRequest, fence, claimable, claimableID, claimPending, readStale, claimStale, dropStale, endStale, expireAll,
	heartbeat, saveRow, saveAhead, readSignals, anyWaiting, finishPending, finishEnded, confirmFinish, succeedRow,
	requestCancel, cancelNow, retryRow, ackRow, pauseRow, resumeRow, gauges, gaugesEnded, pruneSucceeded, pruneOthers, pruneDelete,
}

// rowColumns are the columns of Row, in scan's order.
const rowColumns = "id, state, attempts, stale_reclaims, COALESCE(outage_since, 0), lease_epoch, owner, COALESCE(heartbeat_at, 0), available_at, paused, " +
	"COALESCE(cancel_requested_at, 0), COALESCE(acked_at, 0), request_id, last_error, phase, {q:cursor}, progress, created_by, created_at, updated_at"

type scanner interface{ Scan(dest ...any) error }

// scan reads rowColumns and what the statement selects after them.
func scan(from scanner, after ...any) (r Row, err error) {
	var progress string
	dest := []any{
		&r.ID, &r.State, &r.Attempts, &r.StaleReclaims, &r.OutageSince, &r.LeaseEpoch, &r.Owner, &r.HeartbeatAt, &r.AvailableAt, &r.Paused,
		&r.CancelRequestedAt, &r.AckedAt, &r.RequestID, &r.LastError, &r.Phase, &r.Cursor, &progress, &r.CreatedBy, &r.CreatedAt, &r.UpdatedAt,
	}
	err = from.Scan(append(dest, after...)...)
	r.Progress = json.RawMessage(progress)
	return r, err
}

// Name returns the job's name outside its table, such as purge-42.
func (s *Store) Name(id ID) string { return s.table.Prefix + "-" + strconv.FormatInt(int64(id), 10) }

// ParseName returns the id that a public name stands for; false when it is none of
// this table.
func (s *Store) ParseName(name string) (ID, bool) {
	digits, ok := strings.CutPrefix(name, s.table.Prefix+"-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || s.Name(ID(n)) != name { // one name a job: no 007, no +7
		return 0, false
	}
	return ID(n), true
}

// Config returns the settings in force, defaults filled in.
func (s *Store) Config() Config { return s.cfg }

// Wake lets an idle worker of this process look for work at once. Whoever inserted a
// job calls it after the commit.
func (s *Store) Wake() {
	select {
	case s.wake <- struct{}{}:
	default: // as many signals are waiting as there are workers
	}
}

const getRow sqldb.Statement = `SELECT {row}, {now} FROM {table_name} WHERE id = ?`

// Get returns a job; fault.NotFound when there is none of that id.
func (s *Store) Get(ctx context.Context, id ID) (Row, error) {
	row, _, err := s.read(ctx, s.db, id)
	return row, err
}

// read also returns the database's clock.
func (s *Store) read(ctx context.Context, from sqldb.Reader, id ID) (row Row, now int64, err error) {
	row, err = scan(from.QueryRow(ctx, s.text[getRow], int64(id)), &now)
	if errors.Is(err, sql.ErrNoRows) {
		return Row{}, 0, fault.New("job.Get", fault.NotFound, CodeNoSuchJob, "job %s does not exist", s.Name(id))
	}
	return row, now, err
}

// Codes of this package's faults.
const (
	CodeNoSuchJob fault.Code = "NoSuchJob"
	CodeJobState  fault.Code = "JobState" // the job's state forbids it
)

func (s *Store) conflict(op string, row Row, want string) error {
	return fault.New("job."+op, fault.Conflict, CodeJobState, "job %s is %s: %s", s.Name(row.ID), row.State, want)
}

// settled tells the domain that a job ends. It runs before the job's own guarded
// write: job rows are the last in the order of locks, and when the guard fails the
// transaction rolls back what the domain did.
func (s *Store) settled(ctx context.Context, tx *sqldb.Tx, row Row, acked bool) error {
	if s.hooks.Settled == nil {
		return nil
	}
	return s.hooks.Settled(ctx, tx, row, acked)
}

func (s *Store) ended(row Row) {
	if s.events.Ended != nil {
		s.events.Ended(row)
	}
}
