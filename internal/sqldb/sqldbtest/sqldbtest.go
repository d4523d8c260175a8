// Package sqldbtest runs a test on every database the product has: SQLite always,
// PostgreSQL when LETHE_TEST_POSTGRES names a server (`make test` starts one; with
// CI=true its absence is a failure). Every test gets an empty database of its own.
package sqldbtest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// EnvPostgres names the environment variable with the PostgreSQL server's URL.
const EnvPostgres = "LETHE_TEST_POSTGRES"

// Server is one engine under test.
type Server struct {
	Name sqldb.Name
	base string
}

// Servers returns the engines that can be tested here.
func Servers(tb testing.TB) []Server {
	tb.Helper()
	servers := []Server{{Name: sqldb.SQLite}}
	if base := os.Getenv(EnvPostgres); base != "" {
		return append(servers, Server{Name: sqldb.Postgres, base: base})
	}
	if os.Getenv("CI") == "true" {
		tb.Fatalf("%s is not set: PostgreSQL must be tested in CI", EnvPostgres)
	}
	return servers
}

// URL returns the URL of a new, empty database, dropped when the test ends.
func (s Server) URL(tb testing.TB) string {
	tb.Helper()
	if s.Name == sqldb.SQLite {
		return "sqlite:" + filepath.Join(tb.TempDir(), "lethe.db")
	}
	schema := "t" + strings.ReplaceAll(uuid.NewString(), "-", "")
	admin := func(ctx context.Context, text string) {
		db, err := sql.Open("pgx", s.base)
		if err != nil {
			tb.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if _, err := db.ExecContext(ctx, text); err != nil {
			tb.Fatalf("%s: %v", text, err)
		}
	}
	admin(tb.Context(), "CREATE SCHEMA "+schema)
	tb.Cleanup(func() { admin(context.Background(), fmt.Sprintf("DROP SCHEMA %s CASCADE", schema)) })
	u, err := url.Parse(s.base)
	if err != nil {
		tb.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// Open opens a new database and brings the owners' schemas up.
func (s Server) Open(tb testing.TB, cfg sqldb.Config, owners ...sqldb.Migrations) *sqldb.DB {
	tb.Helper()
	db, err := sqldb.Open(tb.Context(), s.URL(tb), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	if err := db.Migrate(tb.Context(), owners...); err != nil {
		tb.Fatal(err)
	}
	return db
}

// Each runs fn as a parallel subtest on a new database of every engine.
func Each(t *testing.T, owners []sqldb.Migrations, fn func(t *testing.T, db *sqldb.DB)) {
	t.Helper()
	for _, s := range Servers(t) {
		t.Run(string(s.Name), func(t *testing.T) {
			t.Parallel()
			fn(t, s.Open(t, sqldb.Config{}, owners...))
		})
	}
}
