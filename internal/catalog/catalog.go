// Package catalog is the state of Iceberg catalogs: namespaces, tables, commits,
// register, rename, drop, and where tables live. It owns the tables namespaces,
// tabulars, tabular_locations and table_uuids; the warehouse row (room tenant) is the
// lock in front of them, the job row (room purge) the end of the chain.
//
// Invariants, all held inside one READ COMMITTED transaction each:
//
//   - A drop removes the entry and, with purge, inserts its job: both or neither.
//   - No identifier is created while a PENDING or RUNNING purge holds it: the entry is
//     inserted first, then the jobs are looked at (the other order races).
//   - The locations of live entries and of unsettled jobs do not overlap, but for
//     registers that share a live table's metadata or uuid; such tables refuse purge.
//   - The pointer to the metadata moves by compare-and-swap only.
//
// Lock order: idempotency → warehouse → namespaces by id → tabulars by id → uuids by key →
// locations → job. No store is called inside a transaction: metadata files are written
// before, removed after a change that surely was not applied, and kept when nobody can
// tell (docs/design/catalog.md has the lock table).
package catalog

import (
	"context"
	"embed"
	"log/slog"
	"time"

	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

//go:embed migrations
var files embed.FS

// Migrations is the schema of this room; those of tenant and purge come before it.
var Migrations = sqldb.Migrations{Owner: "catalog", Files: files}

// The codes of this room's errors.
const (
	CodeNoSuchNamespace   fault.Code = "NoSuchNamespace"
	CodeNoSuchTable       fault.Code = "NoSuchTable"
	CodeNoSuchView        fault.Code = "NoSuchView"
	CodeAlreadyExists     fault.Code = "AlreadyExists"
	CodeNamespaceNotEmpty fault.Code = "NamespaceNotEmpty"
	CodePurging           fault.Code = "BeingPurged"      // the name or its uuid belongs to a purge
	CodeLocationTaken     fault.Code = "LocationTaken"    // another owner's location overlaps
	CodeShared            fault.Code = "SharedMetadata"   // purge would destroy another live table
	CodeBadLocation       fault.Code = "BadLocation"      // outside the warehouse
	CodeBadRequest        fault.Code = "BadRequest"       // anything else that cannot work
	CodeCommitFailed      fault.Code = "CommitFailed"     // a requirement failed, surely not applied
	CodeStorage           fault.Code = "StorageTrouble"   // the object store, passing
	CodeMissingMetadata   fault.Code = "MissingMetadata"  // the metadata file is not there
	CodeDamagedMetadata   fault.Code = "DamagedMetadata"  // it is there and cannot be read
	CodeUnprocessable     fault.Code = "UnprocessableOne" // removals and updates of one key
)

// Call says on whose behalf and where an operation runs.
type Call struct {
	Warehouse *tenant.Warehouse
	Principal string
	RequestID string // unique per request; reads back an ambiguous commit

	Idempotency *Idempotency // nil for a request without a key
}

// Config of a Catalog.
type Config struct {
	DB         *sqldb.DB
	Jobs       *purge.Store
	Logger     *slog.Logger
	Limits     metadata.Limits // of request bodies and metadata files
	CacheBytes int64           // of parsed metadata, 64 MiB
	Steps      func(step string)
	Events     Events
}

// Events are called after the commit; nil ones are left out.
type Events struct {
	Dropped func(ctx context.Context, d Dropped)
}

// Dropped is what happened to a table or view.
type Dropped struct {
	Call           Call
	Kind           Kind
	Identifier     Identifier
	PurgeRequested bool
	Async          bool
	Job            string // purge-42, empty without purge
}

// Catalog is safe for concurrent use.
type Catalog struct {
	db     *sqldb.DB
	jobs   *purge.Store
	log    *slog.Logger
	limits metadata.Limits
	cache  *cache
	turns  turns
	step   func(string)
	events Events
}

// New returns a Catalog over a migrated database.
func New(cfg Config) *Catalog {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.CacheBytes <= 0 {
		cfg.CacheBytes = 64 << 20
	}
	if cfg.Steps == nil {
		cfg.Steps = func(string) {}
	}
	return &Catalog{
		db: cfg.DB, jobs: cfg.Jobs, log: cfg.Logger, limits: cfg.Limits,
		cache: newCache(cfg.CacheBytes), step: cfg.Steps, events: cfg.Events,
	}
}

// dropLockWait bounds how long a namespace drop waits for creates under way.
const dropLockWait = 2 * time.Second
