package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// What cannot be provoked on a server of the tests; the rest is TestClasses.
func TestClassifyCodes(t *testing.T) {
	t.Parallel()
	my := func(n uint16) error { return fmt.Errorf("wrapped: %w", &mysql.MySQLError{Number: n}) }
	pg := func(code string) error { return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}) }
	reset := &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
	for _, tt := range []struct {
		name     string
		classify func(error) Class
		err      error
		want     Class
	}{
		{"mysql disk full", classifyMySQL, my(1021), ClassFull},
		{"mysql too many connections", classifyMySQL, my(1040), ClassConn},
		{"mysql shutdown", classifyMySQL, my(1053), ClassConn},
		{"mariadb connection killed", classifyMySQL, my(1927), ClassConn},
		{"mysql idle too long", classifyMySQL, my(4031), ClassConn},
		{"mysql gone away, from a proxy", classifyMySQL, my(2006), ClassConn},
		{"group replication", classifyMySQL, my(3101), ClassRetry},
		{"tidb write conflict", classifyMySQL, my(9007), ClassRetry},
		{"tidb conflict at commit", classifyMySQL, my(8022), ClassRetry},
		{"mysql no room for a lock", classifyMySQL, my(1206), ClassRetry},
		{"mysql table altered meanwhile", classifyMySQL, my(1412), ClassRetry},
		{"mysql password changed", classifyMySQL, my(1045), ClassConn},
		{"mysql read only", classifyMySQL, my(1290), ClassConn},
		{"galera node not ready", classifyMySQL, my(1047), ClassConn},
		{"mysql nowait", classifyMySQL, my(3572), ClassLockWait},
		{"mysql query killed", classifyMySQL, my(1317), ClassOther},
		{"mysql syntax", classifyMySQL, my(1064), ClassOther},
		{"mysql broken", classifyMySQL, mysql.ErrInvalidConn, ClassConn},
		{"mysql bad", classifyMySQL, driver.ErrBadConn, ClassConn},
		{"mysql reset", classifyMySQL, reset, ClassConn},
		{"mysql end of stream", classifyMySQL, io.ErrUnexpectedEOF, ClassConn},
		{"mysql cancelled", classifyMySQL, context.Canceled, ClassOther},
		{"mysql too late", classifyMySQL, context.DeadlineExceeded, ClassOther},
		{"postgres disk full", classifyPostgres, pg("53100"), ClassFull},
		{"postgres too many connections", classifyPostgres, pg("53300"), ClassConn},
		{"postgres shutdown", classifyPostgres, pg("57P01"), ClassConn},
		{"postgres crash", classifyPostgres, pg("57P02"), ClassConn},
		{"postgres starting", classifyPostgres, pg("57P03"), ClassConn},
		{"postgres transaction timeout", classifyPostgres, pg("25P04"), ClassConn},
		{"postgres statement timeout", classifyPostgres, pg("57014"), ClassOther},
		{"postgres read only", classifyPostgres, pg("25006"), ClassConn},
		{"postgres serialization", classifyPostgres, pg("40001"), ClassRetry},
		{"postgres syntax", classifyPostgres, pg("42601"), ClassOther},
		{"postgres reset", classifyPostgres, reset, ClassConn},
		{"sqlite other", classifySQLite, errors.New("x"), ClassOther},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.classify(tt.err); got != tt.want {
				t.Errorf("class %d, want %d", got, tt.want)
			}
		})
	}
	for name, d := range dialects() {
		if got := d.Classify(nil); got != ClassOther {
			t.Errorf("%s: nil has class %d", name, got)
		}
	}
}
