package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mysqlMigrateWait is how long a server waits for another one's migrations.
const mysqlMigrateWait = 5 * time.Minute

// lockMigrations lets one server at a time migrate a database. The lock is on a session
// of its own and ends with it, so a server that dies holds nothing. (goose's lock begins
// after it has made its version table, and here that takes two commits.)
func lockMigrations(ctx context.Context, mc *mysql.Config) (release func() error, err error) {
	pool, err := mysqlPool(mc)
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(1)
	// Names of locks are the whole server's.
	const get = "SELECT GET_LOCK(CONCAT('lethe-migrate-', MD5(DATABASE())), ?)"
	conn, err := pool.Conn(ctx)
	if err == nil {
		var got sql.NullBool
		err = conn.QueryRowContext(ctx, get, int64(mysqlMigrateWait/time.Second)).Scan(&got)
		if err == nil && !got.Bool {
			err = fmt.Errorf("another server has been migrating for %s", mysqlMigrateWait)
		}
		if err == nil {
			return func() error { return errors.Join(conn.Close(), pool.Close()) }, nil
		}
		err = errors.Join(err, conn.Close())
	}
	return nil, errors.Join(err, pool.Close())
}

// dropEmpty drops a version table without its first row: whoever made it died before
// that, and goose would not go on.
func (db *DB) dropEmpty(ctx context.Context, table string) error {
	if there, err := db.hasTable(ctx, table); err != nil || !there {
		return err
	}
	var rows int
	if err := db.QueryRow(ctx, Statement("SELECT COUNT(*) FROM "+table)).Scan(&rows); err != nil || rows > 0 {
		return err
	}
	_, err := db.Exec(ctx, Statement("DROP TABLE "+table))
	return err
}

// madeBefore forgives an error that says that the statement's table, column or index
// exists: this migration made it before it was cut short. Nobody can have written to
// such a table, so one with rows is somebody else's.
func madeBefore(ctx context.Context, tx *sql.Tx, statement string, err error) error {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return err
	}
	switch e.Number {
	case mysqlColumnExists, mysqlIndexExists:
		return nil
	case mysqlTableExists:
	default:
		return err
	}
	_, rest, _ := strings.Cut(statement, "TABLE ")
	table, _, _ := strings.Cut(rest, "(")
	var rows int
	if lookErr := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+strings.TrimSpace(table)).Scan(&rows); lookErr != nil {
		return errors.Join(err, lookErr)
	}
	if rows > 0 {
		return err
	}
	return nil
}
