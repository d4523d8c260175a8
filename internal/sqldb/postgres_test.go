package sqldb

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// A URL that cannot be read, or a server that is not there, does not show the password.
func TestPostgresHidesThePassword(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"no server":      "postgres://u:geheim@127.0.0.1:1/lethe?connect_timeout=1",
		"no URL":         "postgres://u:gehe%im@h/lethe",
		"no port":        "postgres://u:geheim@h:port/lethe",
		"unknown TLS":    "postgres://u:geheim@h/lethe?sslmode=perhaps",
		"no certificate": "postgres://u:geheim@h/lethe?sslmode=verify-full&sslrootcert=/nowhere/geheim.pem&password=geheim",
		"a parameter":    "postgres://u@h:port/lethe?password=geheim",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Open(t.Context(), url, Config{}); err == nil || strings.Contains(strings.ReplaceAll(err.Error(), "/nowhere/geheim.pem", ""), "gehe") {
				t.Errorf("error %v", err)
			}
		})
	}
}

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
