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

// mysqlLocker lets one server at a time migrate a database. The lock belongs to the
// session, so it ends with the server that held it.
type mysqlLocker struct{}

// mysqlLockName is per database: lock names are the whole server's.
const mysqlLockName = "CONCAT('lethe-migrate-', MD5(DATABASE()))"

// SessionLock waits for the lock.
func (mysqlLocker) SessionLock(ctx context.Context, conn *sql.Conn) error {
	var got sql.NullBool
	err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+mysqlLockName+", ?)", int64(mysqlMigrateWait/time.Second)).Scan(&got)
	if err == nil && !got.Bool {
		err = fmt.Errorf("another server has been migrating for %s", mysqlMigrateWait)
	}
	return err
}

// SessionUnlock gives the lock back.
func (mysqlLocker) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var released sql.NullBool
	return conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK("+mysqlLockName+")").Scan(&released)
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
