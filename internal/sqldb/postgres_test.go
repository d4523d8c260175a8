package sqldb

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// What a pool hands out and what a cut leaves behind is trouble of the connection.
func TestClassifyPostgresConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		want Class
	}{
		{"closed by the driver", fmt.Errorf("begin: %w", pgconn.ErrConnClosed), ClassConn},
		{"bad for the pool", driver.ErrBadConn, ClassConn},
		{"half of an answer", io.ErrUnexpectedEOF, ClassConn},
		{"an administrator's command", &pgconn.PgError{Code: "57P01"}, ClassConn},
		{"a syntax error", &pgconn.PgError{Code: "42601"}, ClassOther},
		{"anything else", errors.New("conn closed"), ClassOther},
	} {
		if got := classifyPostgres(c.err); got != c.want {
			t.Errorf("%s: class %d, want %d", c.name, got, c.want)
		}
	}
}
