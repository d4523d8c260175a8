// Package drive is the facade over a tenant's files and directories: one method an
// operation, each one transaction over the rooms below (tree, content, feed, removal).
//
// Every operation resolves its path, then opens a transaction that locks in the order of
// docs/design/drive.md, changes the tree, settles references and usage, and publishes its
// event. What was resolved before the locks is proved again by them: tree.ErrMoved rolls
// back and the operation resolves anew, a bounded number of times with jitter, then it is
// fault.Busy. Bytes go to the store before the transaction, never in it.
//
// Symbolic links on the way are always followed, within the drive; one that stands last is
// followed by what wants the bytes or the directory behind it (Open, List, Put, Append),
// not by what wants the entry (Remove, Rename, Link, Copy's source).
//
// Failure model: an operation that returns nil was committed. fault.Unknown may have been
// committed; any other error means that surely nothing is visible. Bytes that were written
// for nothing belong to the collector. A change that overlapped the removal of a directory
// above it counts as before it, so it may be acknowledged and gone.
package drive

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Config of a drive; DB and the rooms are required.
type Config struct {
	DB      *sqldb.DB
	Tree    *tree.Tree
	Content *content.Store
	Feed    *feed.Store
	Removal *removal.Removal
	Logger  *slog.Logger

	AuditInterval time.Duration // 168 h, until the first full audit of a new drive
	Steps         Steps
}

// Steps is the test seam of operations; a nil one does nothing.
type Steps struct {
	// At is called at the named points of an operation, between its statements. Its error
	// takes the place of the next statement's.
	At func(op, point string) error
}

// Drive serves the files of all tenants. It is safe for concurrent use and has no
// goroutines of its own.
type Drive struct {
	cfg     Config
	db      *sqldb.DB
	tree    *tree.Tree
	content *content.Store
	feed    *feed.Store
	removal *removal.Removal
	log     *slog.Logger
}

// New returns the drive over its rooms.
func New(cfg Config) *Drive {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.AuditInterval <= 0 {
		cfg.AuditInterval = 7 * 24 * time.Hour
	}
	return &Drive{cfg: cfg, db: cfg.DB, tree: cfg.Tree, content: cfg.Content, feed: cfg.Feed, removal: cfg.Removal, log: cfg.Logger}
}

// CreateDrive makes the rows of a new drive; of an existing one it does nothing.
func (d *Drive) CreateDrive(ctx context.Context, fs tree.FS) error {
	return d.idempotent(ctx, func(tx *sqldb.Tx) error { return d.CreateDriveIn(ctx, tx, fs) })
}

// CreateDriveIn is CreateDrive as a step of the transaction that makes the tenant.
func (d *Drive) CreateDriveIn(ctx context.Context, tx *sqldb.Tx, fs tree.FS) error {
	if err := d.tree.CreateDrive(ctx, tx, fs); err != nil {
		return err
	}
	return d.feed.CreateDrive(ctx, tx, int64(fs), d.cfg.AuditInterval)
}

// Change is what every operation may be told. IfMatch is the value of an If-Match header
// (ETags or *), compared with what the path names; empty means no condition.
type Change struct {
	IfMatch string
	Actor   string // who did it, for events and the trash
}

// tries is how often an operation resolves its paths in all.
const tries = 8

// again runs one operation until the tree holds still under it.
func (d *Drive) again(ctx context.Context, op string, once func() error) error {
	for attempt := 1; ; attempt++ {
		err := once()
		switch {
		case !moved(err):
			return err
		case attempt == tries:
			return &fault.Error{
				Op: op, Kind: fault.Busy, Code: CodeTreeBusy, RetryAfter: time.Second, Err: err,
				Message: "the tree changes faster than the operation, nothing was changed, try again",
			}
		}
		pause := time.NewTimer(rand.N(2 * time.Millisecond << attempt))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
	}
}

// moved tells whether an operation may resolve again and go on.
func moved(err error) bool {
	return errors.Is(err, tree.ErrMoved) || errors.Is(err, tree.ErrExists) ||
		errors.Is(err, content.ErrChanged) || errors.Is(err, content.ErrGone)
}

// idempotent runs a change that done twice is done once: instead of reading an ambiguous
// commit back it runs again.
func (d *Drive) idempotent(ctx context.Context, fn func(tx *sqldb.Tx) error) error {
	err := d.db.Tx(ctx, fn)
	if errors.Is(err, sqldb.ErrCommitUnknown) && ctx.Err() == nil {
		err = d.db.Tx(ctx, fn)
	}
	return err
}

// tx runs the change of an operation.
func (d *Drive) tx(ctx context.Context, op string, fn func(tx *sqldb.Tx) error, opts ...sqldb.Option) error {
	if err := d.at(op, "resolved"); err != nil {
		return err
	}
	return d.db.Tx(ctx, fn, opts...)
}

// at is a named point of an operation, for tests.
func (d *Drive) at(op, point string) error {
	if d.cfg.Steps.At == nil {
		return nil
	}
	return d.cfg.Steps.At(op, point)
}

// after passes the point that stands behind a step of a transaction, if the step went well.
func (d *Drive) after(step error, op, point string) error {
	if step != nil {
		return step
	}
	return d.at(op, point)
}
