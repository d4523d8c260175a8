// Package feed keeps what changes beside a drive's tree: how much it uses, how much it
// may use, and the events by which others follow it. It is the only SQL on its tables.
//
// A change writes one row of usage_delta and its events inside its own transaction, and
// no row that another change writes, so changes do not wait for each other here. The
// Sequencer folds the deltas into usage_total and numbers the events, one drive at a time,
// under the lock of the drive's row of usage_total.
//
// Invariants: total plus deltas is what the drive uses, in every snapshot. An event is
// numbered after it was committed and never again; numbers rise in the order in which
// events became visible, with gaps; a reader who has seen number n has missed nothing
// below it, or is told to begin anew (reset).
package feed

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

//go:embed migrations
var files embed.FS

// Migrations is the schema of this room.
var Migrations = sqldb.Migrations{Owner: "feed", Files: files}

// Codes of this room's faults.
const (
	CodeNoSuchDrive   fault.Code = "NoSuchDrive"
	CodeQuotaExceeded fault.Code = "QuotaExceeded"
)

// Config of a feed; DB is required, zero values of the rest mean the defaults.
type Config struct {
	DB         *sqldb.DB
	Interval   time.Duration // 1 s, how often deltas are folded and events numbered
	Retention  time.Duration // 24 h, how long events are kept
	Registerer prometheus.Registerer
	Logger     *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Interval <= 0 {
		c.Interval = time.Second
	}
	if c.Retention <= 0 {
		c.Retention = 24 * time.Hour
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Store is usage, quotas and events of all drives. It is safe for concurrent use.
type Store struct {
	cfg     Config
	db      *sqldb.DB // of requests
	sweeper *sqldb.DB // of the sequencer: its plans keep to the keys
	metrics metrics

	mu       sync.Mutex
	numbered chan struct{} // closed, and made anew, when events of this process were numbered
}

// New returns the store over a migrated database.
func New(cfg Config) *Store {
	cfg = cfg.withDefaults()
	return &Store{cfg: cfg, db: cfg.DB, sweeper: cfg.DB.Sweeper(), metrics: newMetrics(cfg.Registerer), numbered: make(chan struct{})}
}

const (
	insertTotal sqldb.Statement = `{insert ignore} usage_total (fs_id, bytes, files, reserved, quota_bytes, quota_files, next_seq, oldest_seq, full_due_at)
		VALUES (?, 0, 0, 0, 0, 0, 1, 1, {now} + ?) {ignore}`
	lockTotal sqldb.Statement = "SELECT next_seq FROM usage_total WHERE fs_id = ? {for update}"
)

// CreateDrive makes the rows of a new drive; twice is no error. The first full audit is
// due after audit.
func (s *Store) CreateDrive(ctx context.Context, tx *sqldb.Tx, fs int64, audit time.Duration) error {
	_, err := tx.Exec(ctx, insertTotal, fs, audit.Milliseconds())
	return err
}

func noDrive(op string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fault.New(op, fault.NotFound, CodeNoSuchDrive, "the drive does not exist")
	}
	return err
}
