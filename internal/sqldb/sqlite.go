package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

func sqliteDialect() *Dialect {
	return &Dialect{
		Name: SQLite, MaxList: 1000, MaxInsert: 500, quote: `"`, returns: true,
		classify: classifySQLite,
		tokens: map[string]string{
			"now":           "CAST(unixepoch('subsec')*1000 AS INTEGER)",
			"for update":    "",
			"for share":     "",
			"for key share": "",
			"skip locked":   "",
			"insert ignore": "INSERT INTO",
			"ignore":        "ON CONFLICT DO NOTHING",
			"serial":        "INTEGER PRIMARY KEY AUTOINCREMENT",
			"name":          "TEXT",
			"text":          "TEXT",
			"bytes":         "BLOB",
			"table":         "",
			"clustered":     " WITHOUT ROWID",
		},
	}
}

func classifySQLite(err error) Class {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return ClassOther
	}
	switch code := e.Code(); code {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID:
		return ClassUnique
	case sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
		return ClassReference
	default:
		switch code & 0xff {
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
			return ClassRetry
		case sqlite3.SQLITE_FULL:
			return ClassFull
		case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY: // a disk that went away, or is mounted anew
			return ClassConn
		}
	}
	return ClassOther
}

// openSQLite opens the file as one writer and a few readers, and takes the lock that
// keeps a second server away.
func openSQLite(ctx context.Context, path string, cfg Config) (*DB, error) {
	if path == "" {
		return nil, errors.New("sqlite: no path")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	if err := private(path); err != nil {
		return nil, errors.Join(err, lock())
	}
	pragmas := url.Values{"_pragma": {
		"busy_timeout(" + strconv.FormatInt(cfg.LockWait.Milliseconds(), 10) + ")",
		"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)", "temp_store(MEMORY)",
	}}
	open := func(txlock string, conns int) *sql.DB {
		q := url.Values{"_pragma": pragmas["_pragma"], "_txlock": {txlock}}
		u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}
		pool := sql.OpenDB(connector{driver: &sqlite.Driver{}, dsn: u.String()})
		pool.SetMaxOpenConns(conns)
		pool.SetMaxIdleConns(conns)
		return pool
	}
	db := &DB{
		dialect: sqliteDialect(), cfg: cfg,
		write: open("immediate", 1), read: open("deferred", cfg.MaxConns),
		counts: &counts{}, turn: make(chan struct{}, 1), closers: []func() error{lock},
	}
	db.reads = &compiled{DB: db.read}
	if err := db.write.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: open %s: %w", path, err), db.Close())
	}
	return db, nil
}

// private makes the file, if there is none, for its owner only: it holds small files of every
// tenant, and whoever makes the folder may have left it open. What SQLite puts beside it
// gets the same mode.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	return f.Close()
}

// connector opens connections of one DSN without the driver registry.
type connector struct {
	driver driver.Driver
	dsn    string
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c connector) Driver() driver.Driver                        { return c.driver }

// lockFile takes an exclusive lock that lives as long as the process does.
func lockFile(path string) (release func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s", ErrLocked, path), f.Close())
	}
	return f.Close, nil
}
