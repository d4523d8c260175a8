// Package removal takes files and trees out of a drive: unlinking, the fast path of small
// trees, detach and sweep of all others, the trash, and the reconciliation that proves that
// nothing was left. It owns drive_delete_job and delete_reconcile_pending and composes the
// other rooms.
//
//	           small, trash off ──▶ one transaction, nothing left            (fast.go)
//	RemoveAll ─┤
//	           └─▶ detach: the dentry moves below the trash, with a job      (detach.go)
//	                  ├──▶ sweep: batches, children first, root last         (sweep.go …)
//	                  └──▶ restore, until a worker has claimed the job       (restore.go)
//
// Invariants:
//   - A detached root hangs under the trash by the name of its job's id, and the job's row
//     is there as long as the root is.
//   - Everything that an inode owns is listed in owned.go, and goes in the transaction that
//     takes the inode.
//   - Each transaction of a sweep begins with the fenced write of its job's row and locks
//     the directories whose dentries it removes; each set write hits exactly what was read.
//   - A sweep holds ids of directories between transactions. That nothing leaves the tree
//     meanwhile is what the barrier (no detach or move under way any more) and the fence
//     (no restore) are for; without either, what lives would be deleted.
//   - A mark in delete_reconcile_pending is committed with every recursive delete.
//
// Failure model: a transaction that fails leaves what was there. A run of a sweep that ends
// anywhere leaves a tree that is reachable from its root, and the next one begins there.
// What no run can finish becomes a FAILED job, and stays visible.
package removal

import (
	"context"
	"embed"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

//go:embed migrations
var files embed.FS

// Migrations is the schema of this room.
var Migrations = sqldb.Migrations{Owner: "removal", Files: files}

// Codes of this room's faults.
const (
	CodeNotEmpty         fault.Code = "DirectoryNotEmpty" // Conflict: a plain delete of a directory with entries
	CodeDeleteIncomplete fault.Code = "DeleteIncomplete"  // Busy: contention outlasted the retries, nothing changed
	CodeRoot             fault.Code = "RootNotRemovable"  // Invalid
	CodeNoSuchPath       fault.Code = "NoSuchPath"        // NotFound
	CodePrecondition     fault.Code = "PreconditionFailed"
	CodeNotInTrash       fault.Code = "NotInTrash" // Conflict: restored, claimed by a worker, or gone
	CodeExists           fault.Code = "PathExists" // Conflict: a restore's name is taken
)

// ErrDirectoryNotEmpty is the plain delete of a directory that has entries.
var ErrDirectoryNotEmpty = fault.New("removal", fault.Conflict, CodeNotEmpty, "the directory is not empty")

// ErrDeleteIncomplete says that a delete met contention that outlasted its retries:
// nothing changed.
var ErrDeleteIncomplete = &fault.Error{
	Op: "removal", Kind: fault.Busy, Code: CodeDeleteIncomplete, RetryAfter: time.Second,
	Message: "the tree is too busy to be deleted now, nothing was changed",
}

// errDamaged is a row that contradicts another: nothing is removed on its word.
var errDamaged = errors.New("removal: the tree is damaged")

// Config of the removals of one server. The rooms are required, zero values of the rest
// mean the defaults.
type Config struct {
	DB      *sqldb.DB
	Tree    *tree.Tree
	Content *content.Store
	Feed    *feed.Store
	Owner   string // how this server calls itself in the rows it works on

	BatchSize         int           // 1,000 rows a transaction, 500 at most on MySQL; nodes that the fast path takes
	Wait              time.Duration // 2 s, for a sweep, where the request does not say
	Job               job.Config
	TrashRetention    time.Duration // 0: no trash
	ReconcileInterval time.Duration // 10 min, from a delete to the look for what it left
	FullInterval      time.Duration // 168 h, between looks at drives where nothing was deleted
	ReconcilePages    int           // 1,000 pages of one drive in one run, then others have their turn

	Registerer prometheus.Registerer // nil registers nothing
	Logger     *slog.Logger

	// Step is called at the named steps of deletes, in their transactions where they have
	// one. An error of it ends the step as the database's would. For tests.
	Step func(ctx context.Context, step string) error

	lax lax
}

// lax are protections that the tests of the protocol switch off, one at a time, to see the
// harm that each one prevents.
type lax struct {
	noBarrier, noFence, noMoveLock, noSetLock, noCloseLock, noCount bool
}

const (
	fastLockWait = time.Second // for one lock of the fast path, then the tree is detached
	maxTries     = 20          // of an operation whose path keeps moving
	maxHeld      = 1 << 20     // ids of directories that a sweep holds
	maxIdle      = 3           // passes of a sweep that find something and can remove nothing
	maxCounted   = 100_000     // nodes that a dry run counts
)

func (c Config) withDefaults() Config {
	if c.BatchSize <= 0 {
		c.BatchSize = 1000
	}
	if c.Wait <= 0 {
		c.Wait = 2 * time.Second
	}
	if c.ReconcileInterval <= 0 {
		c.ReconcileInterval = 10 * time.Minute
	}
	if c.FullInterval <= 0 {
		c.FullInterval = 168 * time.Hour
	}
	if c.ReconcilePages <= 0 {
		c.ReconcilePages = 1000
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Removal removes. It is safe for concurrent use.
type Removal struct {
	cfg     Config
	db      *sqldb.DB // of requests
	sweeper *sqldb.DB // of sweeps and audits: its plans keep to the keys
	tree    *tree.Tree
	content *content.Store
	feed    *feed.Store
	log     *slog.Logger
	metrics *metrics
	batch   int // rows of one set
	held    int // maxHeld

	jobs   *job.Store  // drive_delete_job
	marks  *job.Store  // delete_reconcile_pending
	runner *job.Runner // sweeps
	audits *job.Runner // reconciles
	loop   loop
}

// New returns the removals over a migrated database. Nothing runs before Start.
func New(cfg Config) *Removal {
	cfg = cfg.withDefaults()
	m := &Removal{
		cfg: cfg, db: cfg.DB, sweeper: cfg.DB.Sweeper(), tree: cfg.Tree, content: cfg.Content, feed: cfg.Feed, log: cfg.Logger,
		metrics: newMetrics(cfg.Registerer), batch: cfg.BatchSize, held: maxHeld, loop: loop{look: make(chan struct{}, 1)},
	}
	if m.db.Dialect().Name == sqldb.MySQL {
		m.batch = min(m.batch, 500)
	}
	m.jobs = m.newJobs()
	m.marks = m.newMarks()
	m.runner = job.NewRunner(m.jobs, sweepHandler{m}, cfg.Owner)
	m.audits = job.NewRunner(m.marks, reconcileHandler{m}, cfg.Owner)
	return m
}

func (m *Removal) step(ctx context.Context, step string) error {
	if m.cfg.Step == nil {
		return nil
	}
	return m.cfg.Step(ctx, step)
}
