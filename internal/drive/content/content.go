// Package content keeps the bytes of files: rows of contents with a reference count, their
// objects in the bucket, the uploads that make them in parts, and the collector that deletes
// the objects nobody names. It is the only SQL on contents, file_gc_tasks, uploads and
// upload_parts.
//
// An object's life:
//
//	  Write, PutPart              Commit                  Unref, last reference
//	(nothing) ──▶ task, due later ──▶ named by a row ──▶ task, due after the grace
//	                   │                                            │
//	                   └── due: never committed ──▶ claimed ◀───────┘
//	                                                   └──▶ deleted from the bucket, no task
//
// Invariants:
//   - An object's key stands in file_gc_tasks, committed, before its first byte. It leaves
//     that table in the transaction that names it, only while unclaimed, or when the
//     collector knows that the object is gone.
//   - A claim is never undone: it passes from a dead collector to another. So after a claim
//     nothing can come to name the key; nevertheless the collector looks once more.
//   - Keys are never used again, and no object is ever changed.
//   - References change by arithmetic on rows that the transaction holds; a content goes in
//     the transaction that takes its last one.
//
// Functions with a *sqldb.Tx are steps of the caller's transaction, called after its locks
// on inodes and before usage (the order is contents by id, uploads, parts, tasks). They
// send nothing to the bucket. All others open short transactions of their own.
//
// Failure model: a write that fails anywhere leaves a task that is due at once or after
// WriteTimeout, and nothing visible. An object that vanished behind our back is ErrGone.
// A bucket that is down is fault.Busy to writers and readers; the collector waits for it.
package content

import (
	"context"
	"embed"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

//go:embed migrations
var files embed.FS

// Migrations is the schema of this room.
var Migrations = sqldb.Migrations{Owner: "content", Files: files}

// What callers branch on.
var (
	// ErrChanged says that a set of rows was not what the caller had read: roll back and
	// resolve again.
	ErrChanged = errors.New("content: the contents changed under the operation")
	// ErrGone says that the content, or its object, is not there any more. A reader
	// resolves its path once more.
	ErrGone = errors.New("content: the content is gone")
	// ErrCollected says that the collector has taken the object of a write that lasted too
	// long. Nothing can be committed any more: the write failed.
	ErrCollected error = fault.New("content", fault.Busy, CodeExpired, "the write took too long and was given up, nothing was changed")
)

// Codes of this room's errors.
const (
	CodeChecksum        fault.Code = "ChecksumMismatch" // Unprocessable: other bytes than announced
	CodeSize            fault.Code = "SizeMismatch"     // Invalid: more or fewer bytes than announced
	CodeTooLarge        fault.Code = "ContentTooLarge"  // Invalid: beyond WriteOptions.MaxSize
	CodeBody            fault.Code = "BrokenBody"       // Invalid: the body ended with an error
	CodeExpired         fault.Code = "WriteExpired"     // Busy: ErrCollected
	CodeStore           fault.Code = "StoreUnavailable" // Busy: the bucket did not do it
	CodeDamaged         fault.Code = "DamagedContent"   // Internal: what was read has another checksum
	CodeNoSuchUpload    fault.Code = "NoSuchUpload"     // NotFound
	CodeUploadCompleted fault.Code = "UploadCompleted"  // Conflict: it was completed before
	CodeUploadAborted   fault.Code = "UploadAborted"    // Conflict: aborted, expired, or its directory was removed
	CodeInvalidPart     fault.Code = "InvalidPart"      // Invalid: number, size or list of parts
	CodePartTooSmall    fault.Code = "PartTooSmall"     // Unprocessable: smaller than the store takes, and not the last
)

// Config of a Store. DB, Bucket and NewID are needed, the rest has defaults.
type Config struct {
	DB     *sqldb.DB
	Bucket blob.Bucket
	Prefix blob.Key // below which all keys lie; empty means "drive"

	InlineBytes  int           // 4,096: the longest content that is kept in its row; negative: none
	WriteTimeout time.Duration // 15 min: a write without a sign of life for so long is collected
	Grace        time.Duration // 10 min: readers may go on for so long after the last reference went
	UploadExpiry time.Duration // 24 h

	// NewID gives the id of a new content. It is never called inside a transaction.
	NewID func(ctx context.Context, fs int64) (int64, error)
	// Release gives an upload's reserved bytes back, in the transaction that ends it. Only
	// Expire calls it; the other steps return what was reserved. Nil keeps no account.
	Release func(ctx context.Context, tx *sqldb.Tx, fs, bytes int64) error

	Registerer prometheus.Registerer // nil registers nothing
	Logger     *slog.Logger

	// Step is called at the named steps of writes, uploads, scrubs and the collector, outside of
	// transactions. An error of it ends the operation there, as a crash would: nothing is
	// cleaned up. For tests.
	Step func(ctx context.Context, step string) error
}

// Store is the one place with SQL on its tables. It is safe for concurrent use.
type Store struct {
	cfg     Config
	db      *sqldb.DB
	bucket  blob.Bucket
	log     *slog.Logger
	metrics metrics
	plain   atomic.Bool            // the bucket was found to offer no uploads in parts
	root    atomic.Pointer[string] // the mark of the bucket's root, once Claim has read it
}

// New returns the store over a migrated database.
func New(cfg Config) *Store {
	cfg = cfg.withDefaults()
	return &Store{cfg: cfg, db: cfg.DB, bucket: cfg.Bucket, log: cfg.Logger, metrics: newMetrics(cfg.Registerer)}
}

func (cfg Config) withDefaults() Config {
	if cfg.Prefix == "" {
		cfg.Prefix = "drive"
	}
	if cfg.InlineBytes == 0 {
		cfg.InlineBytes = 4096
	}
	if cfg.WriteTimeout <= 0 {
		cfg.WriteTimeout = 15 * time.Minute
	}
	if cfg.Grace <= 0 {
		cfg.Grace = 10 * time.Minute
	}
	if cfg.UploadExpiry <= 0 {
		cfg.UploadExpiry = 24 * time.Hour
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Step == nil {
		cfg.Step = func(context.Context, string) error { return nil }
	}
	return cfg
}
