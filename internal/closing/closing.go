// Package closing drops warehouses and tenants with everything in them: a job that empties
// them piece by piece, each piece by the delete of its own room, and removes them last.
//
// The request marks what is to go as closing and writes the job, in one transaction. From
// then on nothing new is made in it (creates are 409, a tenant's tokens are dead), and the
// job repeats: delete what is there, wait for those deletes, remove it if it is empty. A
// delete that FAILED stops the job there, as FAILED and visibly: its row names the other
// one, and when that was re-driven or acknowledged a retry goes on.
//
// The package knows neither catalog nor drive; it asks its Host.
package closing

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

//go:embed migrations
var files embed.FS

// Migrations is the schema of this room.
var Migrations = sqldb.Migrations{Owner: "closing", Files: files}

// Kind is what is being dropped.
type Kind string

// The kinds.
const (
	Warehouse Kind = "WAREHOUSE"
	Tenant    Kind = "TENANT"
)

// Object is what a job drops.
type Object struct {
	Kind       Kind
	Tenant     int64
	TenantName string
	Name       string // of the warehouse; empty for a tenant
}

// Host empties and removes. Every method may be called again after it was cut short.
type Host interface {
	// Empty begins the delete of everything that is in o, and returns how many pieces it
	// began; 0 means that nothing is left to begin.
	Empty(ctx context.Context, o Object) (begun int, err error)
	// Remove removes o. It reports what is still being deleted as a StillBusy, a delete that
	// failed as any other error, and an o that is gone already as nil.
	Remove(ctx context.Context, o Object) error
}

// StillBusy says that a delete which the removal waits for has not ended.
type StillBusy struct{ Err error }

// Error returns the cause's text.
func (e *StillBusy) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StillBusy) Unwrap() error { return e.Err }

// Config of the closing jobs; DB and Host are required.
type Config struct {
	DB     *sqldb.DB
	Host   Host
	Job    job.Config
	Owner  string
	Look   time.Duration // 500 ms, between two looks at what is still being deleted
	Logger *slog.Logger
}

// Jobs are the closing jobs of a database.
type Jobs struct {
	cfg    Config
	store  *job.Store
	runner *job.Runner
}

// New returns the jobs. Nothing runs before Start.
func New(cfg Config) *Jobs {
	if cfg.Look <= 0 {
		cfg.Look = 500 * time.Millisecond
	}
	j := &Jobs{cfg: cfg}
	j.store = job.NewStore(cfg.DB, job.Table{Name: "server_job", Prefix: "close"}, cfg.Job, job.Hooks{}, job.Observer{Logger: cfg.Logger})
	j.runner = job.NewRunner(j.store, handler{j}, cfg.Owner)
	return j
}

// Store is the engine's view of the table.
func (j *Jobs) Store() *job.Store { return j.store }

// Start begins to work on jobs.
func (j *Jobs) Start() { j.runner.Start() }

// Stop gives the jobs back and waits, or until ctx ends.
func (j *Jobs) Stop(ctx context.Context) error { return j.runner.Stop(ctx) }

// Wake tells the workers that a job was inserted.
func (j *Jobs) Wake() { j.runner.Wake() }

const (
	columns                   = "SELECT kind, tenant_id, tenant_name, name FROM server_job "
	objectOf  sqldb.Statement = columns + "WHERE id = ?"
	objectsOf sqldb.Statement = "SELECT id, kind, tenant_id, tenant_name, name FROM server_job WHERE id {in}"
	// There is one at most. An order by id, or a state that an index answers, would have
	// planners read all jobs where they seem few.
	unsettled sqldb.Statement = "SELECT id FROM server_job WHERE tenant_id = ? AND name = ? AND NULLIF(state, '') IN ('PENDING', 'RUNNING') LIMIT 1"
)

// Insert writes the job, inside the transaction that marks o as closing and holds its row.
// If one is on its way already, that one is returned.
func (j *Jobs) Insert(ctx context.Context, tx *sqldb.Tx, o Object, principal, request string) (job.ID, error) {
	var id job.ID
	err := tx.QueryRow(ctx, unsettled, o.Tenant, o.Name).Scan(&id)
	if err == nil || !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	return j.store.Insert(ctx, tx, job.New{RequestID: request, CreatedBy: principal, Extra: []job.Extra{
		{Column: "kind", Value: string(o.Kind)},
		{Column: "tenant_id", Value: o.Tenant},
		{Column: "tenant_name", Value: o.TenantName},
		{Column: "name", Value: o.Name},
	}})
}

// Object returns what a job drops.
func (j *Jobs) Object(ctx context.Context, id job.ID) (o Object, err error) {
	err = j.cfg.DB.QueryRow(ctx, objectOf, int64(id)).Scan(&o.Kind, &o.Tenant, &o.TenantName, &o.Name)
	if errors.Is(err, sql.ErrNoRows) {
		return o, fault.New("closing.Object", fault.NotFound, job.CodeNoSuchJob, "job %s does not exist", j.store.Name(id))
	}
	return o, err
}

// Objects returns what several jobs drop, by their ids; those that were pruned are missing.
// It takes as many ids as one list may hold (Dialect.MaxList).
func (j *Jobs) Objects(ctx context.Context, rows []job.Row) (map[job.ID]Object, error) {
	ids := make(sqldb.IDs, len(rows))
	for i, row := range rows {
		ids[i] = int64(row.ID)
	}
	found, err := j.cfg.DB.Query(ctx, objectsOf, ids)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	out := make(map[job.ID]Object, len(rows))
	for found.Next() {
		var id job.ID
		var o Object
		if err := found.Scan(&id, &o.Kind, &o.Tenant, &o.TenantName, &o.Name); err != nil {
			return nil, err
		}
		out[id] = o
	}
	return out, found.Err()
}

// progress is kept in the row: how many deletes the job has begun.
type progress struct {
	Begun int64 `json:"begun"`
}

type handler struct{ *Jobs }

// Further reports whether more deletes were begun.
func (h handler) Further(a, b job.Point) bool { return b.Cursor > a.Cursor }

// Run empties and removes. It is idle most of the time, and yields when others wait.
func (h handler) Run(ctx context.Context, run *job.Run) error {
	o, err := h.Object(ctx, run.Row().ID)
	if err != nil {
		return err
	}
	// It goes on counting where the run before stopped: only then is each piece progress.
	done := progress{}
	if json.Unmarshal(run.Row().Progress, &done) != nil {
		done = progress{}
	}
	for {
		begun, err := h.cfg.Host.Empty(ctx, o)
		done.Begun += int64(begun)
		if err != nil {
			return err
		}
		if err := run.Save(ctx, job.Point{Cursor: fmt.Sprintf("%019d", done.Begun)}, done); err != nil {
			return err
		}
		if begun > 0 {
			continue
		}
		err = h.cfg.Host.Remove(ctx, o)
		if busy := (*StillBusy)(nil); !errors.As(err, &busy) {
			return err // removed, or stopped by what failed
		}
		if run.Yield() {
			return job.ErrYield
		}
		if err := pause(ctx, h.cfg.Look); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
