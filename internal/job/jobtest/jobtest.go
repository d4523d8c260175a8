// Package jobtest has what tests of durable jobs need: a job table, settings short
// enough to wait for, a handler made of a func, and waits without sleeping.
package jobtest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Table is the job table that Migrations makes. Its domain has one column, kind.
var Table = job.Table{Name: "test_job", Prefix: "test"}

// Migrations makes Table.
var Migrations = sqldb.Migrations{Owner: "jobtest", Files: fstest.MapFS{"migrations/00001_init.sql": {Data: []byte(schema)}}}

const schema = `
CREATE TABLE test_job (
    id {serial},
    state {name:16} NOT NULL,
    attempts INT NOT NULL,
    stale_reclaims INT NOT NULL,
    outage_since BIGINT,
    lease_epoch BIGINT NOT NULL,
    owner {name:255} NOT NULL,
    heartbeat_at BIGINT,
    available_at BIGINT NOT NULL,
    paused SMALLINT NOT NULL,
    cancel_requested_at BIGINT,
    acked_at BIGINT,
    request_id {name:255} NOT NULL,
    last_error {text} NOT NULL,
    phase {name:32} NOT NULL,
    {q:cursor} {text} NOT NULL,
    progress {text} NOT NULL,
    created_by {name:255} NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    kind {name:64} NOT NULL
){table};
CREATE INDEX test_job_available ON test_job (state, available_at);
CREATE INDEX test_job_updated ON test_job (state, updated_at);
CREATE INDEX test_job_request ON test_job (request_id);
CREATE INDEX test_job_listed ON test_job (kind, state, id);
`

// Config is one whose waits fit in a test. Leases last, on a busy machine too.
func Config() job.Config {
	return job.Config{PollInterval: 20 * time.Millisecond, HeartbeatTimeout: 30 * time.Second, RetryBase: 4 * time.Millisecond}
}

// Handler is a handler made of a func.
type Handler func(ctx context.Context, run *job.Run) error

// Run calls the func.
func (h Handler) Run(ctx context.Context, run *job.Run) error { return h(ctx, run) }

// Further compares cursors as numbers, below the phase as text.
func (h Handler) Further(a, b job.Point) bool { return Further(a, b) }

// Further reports whether b stands further than a: by phase, then by the cursor as a number.
func Further(a, b job.Point) bool {
	if a.Phase != b.Phase {
		return a.Phase < b.Phase
	}
	return number(a.Cursor) < number(b.Cursor)
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0 // none yet
	}
	return n
}

// Insert adds a job in a transaction of its own.
func Insert(tb testing.TB, db *sqldb.DB, s *job.Store, n job.New) job.ID {
	tb.Helper()
	if n.Extra == nil {
		n.Extra = []job.Extra{{Column: "kind", Value: "test"}}
	}
	var id job.ID
	err := db.Tx(tb.Context(), func(tx *sqldb.Tx) (err error) {
		id, err = s.Insert(tb.Context(), tx, n)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

// Get returns the row of a job.
func Get(tb testing.TB, s *job.Store, id job.ID) job.Row {
	tb.Helper()
	row, err := s.Get(tb.Context(), id)
	if err != nil {
		tb.Fatal(err)
	}
	return row
}

// Set writes one column of a row behind the store's back.
func Set(tb testing.TB, db *sqldb.DB, table job.Table, id job.ID, column string, value any) {
	tb.Helper()
	n, err := db.Exec(tb.Context(), sqldb.Statement("UPDATE "+table.Name+" SET {q:"+column+"} = ? WHERE id = ?"), value, int64(id))
	if err != nil || n != 1 {
		tb.Fatalf("set %s of job %d: %d rows, %v", column, id, n, err)
	}
}

// Age lets time pass for one job: its times move back by d.
func Age(tb testing.TB, db *sqldb.DB, table job.Table, id job.ID, d time.Duration) {
	tb.Helper()
	ms := d.Milliseconds()
	n, err := db.Exec(tb.Context(), sqldb.Statement("UPDATE "+table.Name+` SET heartbeat_at = heartbeat_at - ?, available_at = available_at - ?,
		outage_since = outage_since - ?, updated_at = updated_at - ?, created_at = created_at - ? WHERE id = ?`), ms, ms, ms, ms, ms, int64(id))
	if err != nil || n != 1 {
		tb.Fatalf("age job %d: %d rows, %v", id, n, err)
	}
}

// Start starts a runner that the test's end stops.
func Start(tb testing.TB, s *job.Store, h job.Handler, owner string) *job.Runner {
	tb.Helper()
	r := job.NewRunner(s, h, owner)
	r.Start()
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.Stop(ctx); err != nil {
			tb.Errorf("stop: %v", err)
		}
	})
	return r
}

// patience is how long what must come may take: a machine may be slow, and have much to do.
const patience = 2 * time.Minute

// Eventually polls until done is true, and fails the test after two minutes.
func Eventually(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline.C:
			tb.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// AwaitState waits until the job is in the state and returns its row.
func AwaitState(tb testing.TB, s *job.Store, id job.ID, want job.State) (row job.Row) {
	tb.Helper()
	Eventually(tb, fmt.Sprintf("job %d is %s", id, want), func() bool {
		row = Get(tb, s, id)
		return row.State == want
	})
	return row
}
