package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
)

// ErrLocked is returned by Open for an SQLite file that another server holds.
var ErrLocked = errors.New("sqldb: another server holds this database")

// Codes of errors that say nothing about what was asked: it may go well another time.
const (
	CodeUnavailable   fault.Code = "DatabaseUnavailable" // it was not reached
	CodeBusy          fault.Code = "DatabaseBusy"        // contention outlasted all tries
	CodeFull          fault.Code = "DatabaseFull"        // no room is left
	CodeCommitUnknown fault.Code = "CommitStateUnknown"  // it did not say whether it committed
)

// Config of a database; zero values mean the defaults.
type Config struct {
	LockWait time.Duration // 5 s, the longest wait for a row lock
	// Timeout bounds a transaction, with all its tries, and a read outside of one: 30 s. See
	// Patient for work in the background. Migrations take as long as they take.
	Timeout  time.Duration
	MaxConns int           // 8
	IdleTime time.Duration // after which an idle connection is closed; 0: never
	Lifetime time.Duration // after which a free connection is closed; 0: never
	Logger   *slog.Logger
	Hooks    Hooks
	// Watch is told of each transaction that begins, and what it returns of its end: the
	// tries it took and what Tx returns. Nil, like a nil function returned, watches nothing.
	Watch func(ctx context.Context) func(tries int, err error)

	late, latePatient *fault.Error // of what outlasts Timeout
}

// Hooks are the test seam of transactions. An error of one takes the place of the
// driver's answer.
type Hooks struct {
	BeforeCommit func(ctx context.Context) error // nothing was sent yet
	AfterCommit  func(ctx context.Context) error // the answer was lost
}

// DB is one open database. It is safe for concurrent use.
type DB struct {
	dialect   *Dialect
	cfg       Config
	write     *sql.DB
	read      *sql.DB
	reads     conn          // read, or what stands before it
	turn      chan struct{} // SQLite: the one writer; waiters are served in order
	isolation sql.IsolationLevel
	wires     *wires // of a server; nil: SQLite
	closers   []func() error
	// migrating, where goose cannot, keeps other servers from migrating until release.
	migrating func(ctx context.Context) (release func() error, err error)
	sweeper   *DB // PostgreSQL: nil elsewhere

	counts *counts
}

// counts are shared with the sweeper's connections.
type counts struct{ statements, retries atomic.Int64 }

// Open opens the database of a URL: sqlite:PATH, postgres://… or mysql://… (MySQL,
// MariaDB, TiDB). Errors never show the password of the URL.
func Open(ctx context.Context, url string, cfg Config) (*DB, error) {
	if cfg.LockWait <= 0 {
		cfg.LockWait = 5 * time.Second
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	cfg.late, cfg.latePatient = lateness(cfg.Timeout), lateness(patience*cfg.Timeout)
	if cfg.MaxConns <= 0 {
		cfg.MaxConns = 8
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	scheme, rest, _ := strings.Cut(url, ":")
	switch scheme {
	case "sqlite":
		return openSQLite(ctx, rest, cfg)
	case "postgres", "postgresql":
		return openPostgres(ctx, url, cfg)
	case "mysql":
		return openMySQL(ctx, url, cfg)
	default:
		return nil, fmt.Errorf("sqldb: unknown database %q: want sqlite:PATH, postgres://… or mysql://…", scheme)
	}
}

// Close closes the pools, and cuts off what still uses a connection. It waits for nothing.
func (db *DB) Close() error {
	errs := []error{db.write.Close()}
	if db.read != db.write {
		errs = append(errs, db.read.Close())
	}
	for _, c := range db.closers {
		errs = append(errs, c())
	}
	db.wires.cut()
	return errors.Join(errs...)
}

// Dialect returns the engine's dialect.
func (db *DB) Dialect() *Dialect { return db.dialect }

// Sweeper returns the database over connections for work in the background with many rows:
// on PostgreSQL a few of their own, whose planner neither sorts nor joins but by an index, on
// a table without statistics too; elsewhere db itself. It is closed with db.
func (db *DB) Sweeper() *DB {
	if db.sweeper == nil {
		return db
	}
	return db.sweeper
}

// Statements returns how many statements were sent so far, BEGIN and COMMIT left out.
func (db *DB) Statements() int64 { return db.counts.statements.Load() }

// Retries returns how many transactions were run again so far.
func (db *DB) Retries() int64 { return db.counts.retries.Load() }

// Stats returns the state of the connections; with SQLite, of those that read.
func (db *DB) Stats() sql.DBStats { return db.read.Stats() }

// limit bounds a pool. All of its connections may idle: a burst would open them anew
// each time, and IdleTime closes them when it is over.
func (c Config) limit(pool *sql.DB) {
	pool.SetMaxOpenConns(c.MaxConns)
	pool.SetMaxIdleConns(c.MaxConns)
	pool.SetConnMaxIdleTime(c.IdleTime)
	pool.SetConnMaxLifetime(c.Lifetime)
}

// Ping reports whether the database answers.
func (db *DB) Ping(ctx context.Context) error {
	ctx, cancel := db.bound(ctx)
	defer cancel()
	return db.read.PingContext(ctx)
}

// Query reads outside a transaction. A reader sees what was committed. The rows must be
// read within Config.Timeout.
func (db *DB) Query(ctx context.Context, s Statement, args ...any) (*sql.Rows, error) {
	ctx, cancel := db.bound(ctx)
	rows, err := query(ctx, db.reads, db, s, args)
	if err != nil {
		cancel()
		return nil, overdue(ctx, err)
	}
	// The rows need the context until they are closed, which they tell nobody. What is left
	// of it is a timer, which ends by itself, or with the rows.
	runtime.AddCleanup(rows, func(cancel context.CancelFunc) { cancel() }, cancel)
	return rows, nil
}

// QueryRow reads one row outside a transaction.
func (db *DB) QueryRow(ctx context.Context, s Statement, args ...any) *Row {
	ctx, cancel := db.bound(ctx)
	row := queryRow(ctx, db.reads, db, s, args)
	row.ctx, row.cancel = ctx, cancel
	return row
}

// Prepare asks the engine whether it understands s and runs nothing. The values of args
// do not matter.
func (db *DB) Prepare(ctx context.Context, s Statement, args ...any) (err error) {
	text, _, err := db.dialect.Render(s, args)
	if err != nil {
		return err
	}
	prepared, err := db.read.PrepareContext(ctx, text)
	if err != nil {
		return db.down(err)
	}
	defer func() { err = errors.Join(err, prepared.Close()) }()
	return nil
}

// Exec runs one statement in a transaction of its own and returns the rows it hit.
func (db *DB) Exec(ctx context.Context, s Statement, args ...any) (n int64, err error) {
	err = db.Tx(ctx, func(tx *Tx) (err error) {
		n, err = tx.Exec(ctx, s, args...)
		return err
	})
	return n, err
}

// Reader is what can be read from: a DB or a Tx.
type Reader interface {
	Query(ctx context.Context, s Statement, args ...any) (*sql.Rows, error)
	QueryRow(ctx context.Context, s Statement, args ...any) *Row
}

// Row is the answer of QueryRow.
type Row struct {
	db     *DB
	row    *sql.Row
	err    error
	ctx    context.Context    // outside a transaction, else nil
	cancel context.CancelFunc // ends ctx
}

// Scan copies the row's columns; sql.ErrNoRows when there is none.
func (r *Row) Scan(dest ...any) error {
	if r.cancel != nil {
		defer r.cancel()
	}
	if r.err != nil {
		return r.err
	}
	return overdue(r.ctx, r.db.down(r.row.Scan(dest...)))
}

type conn interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func query(ctx context.Context, c conn, db *DB, s Statement, args []any) (*sql.Rows, error) {
	text, args, err := db.dialect.Render(s, args)
	if err != nil {
		return nil, err
	}
	db.counts.statements.Add(1)
	rows, err := c.QueryContext(ctx, text, args...)
	return rows, db.down(err)
}

func queryRow(ctx context.Context, c conn, db *DB, s Statement, args []any) *Row {
	text, args, err := db.dialect.Render(s, args)
	if err != nil {
		return &Row{err: err}
	}
	db.counts.statements.Add(1)
	return &Row{db: db, row: c.QueryRowContext(ctx, text, args...)}
}

// down makes a broken connection fault.Busy and leaves other errors alone.
func (db *DB) down(err error) error {
	if err == nil || fault.Is(err, CodeUnavailable) || db.dialect.Classify(err) != ClassConn {
		return err
	}
	return &fault.Error{
		Op: "sqldb", Kind: fault.Busy, Code: CodeUnavailable,
		Message: "the database can not be reached, nothing was changed", RetryAfter: time.Second, Err: err,
	}
}

// brokenConn reports whether err is the end of a connection rather than an answer.
func brokenConn(err error) bool {
	var op *net.OpError
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &op)
}
