// Package sqldbtest runs a test on every database the product has: SQLite always,
// PostgreSQL and MariaDB on the servers that the environment names (`make test` starts
// them; with CI=true their absence is a failure), and MySQL 8 and TiDB on servers that
// only some have, so that it says when they did not run. Every test gets an empty
// database of its own.
package sqldbtest

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Environment variables with the URL of a database on a server where others may be made
// and dropped.
const (
	EnvPostgres = "LETHE_TEST_POSTGRES"
	EnvMySQL    = "LETHE_TEST_MYSQL" // MariaDB or MySQL
	EnvMySQL8   = "LETHE_TEST_MYSQL8"
	EnvTiDB     = "LETHE_TEST_TIDB"
)

// enough is what a database has for an answer: the time of a slow machine is no fault.
const enough = 10 * time.Minute

// Server is one database server under test.
type Server struct {
	Name sqldb.Name // the engine; several servers may speak for one
	Env  string     // the variable that names the server, empty for SQLite
	base string
}

// String names the server in test names: sqlite, postgres, mysql, mysql8, tidb.
func (s Server) String() string {
	if s.Env == "" {
		return string(s.Name)
	}
	return strings.ToLower(strings.TrimPrefix(s.Env, "LETHE_TEST_"))
}

// Servers returns the servers that can be tested here.
func Servers(tb testing.TB) []Server {
	tb.Helper()
	servers := []Server{{Name: sqldb.SQLite}}
	for _, s := range []struct {
		Server
		must bool
	}{
		{Server{Name: sqldb.Postgres, Env: EnvPostgres}, true},
		{Server{Name: sqldb.MySQL, Env: EnvMySQL}, true},
		{Server{Name: sqldb.MySQL, Env: EnvMySQL8}, false},
		{Server{Name: sqldb.MySQL, Env: EnvTiDB}, false},
	} {
		s.base = os.Getenv(s.Env)
		switch {
		case s.base != "":
			servers = append(servers, s.Server)
		case s.must && os.Getenv("CI") == "true":
			tb.Fatalf("%s is not set: it must be tested in CI", s.Env)
		default:
			tb.Logf("not run on %s: %s is not set", s, s.Env)
		}
	}
	return servers
}

// URL returns the URL of a new, empty database, dropped when the test ends.
func (s Server) URL(tb testing.TB) string {
	tb.Helper()
	if s.Name == sqldb.SQLite {
		return "sqlite:" + filepath.Join(tb.TempDir(), "lethe.db")
	}
	u, err := url.Parse(s.base)
	if err != nil {
		tb.Fatal(err)
	}
	name := "t" + strings.ReplaceAll(uuid.NewString(), "-", "")
	create, drop := "CREATE SCHEMA "+name, "DROP SCHEMA "+name+" CASCADE"
	if s.Name == sqldb.Postgres {
		q := u.Query()
		q.Set("search_path", name)
		u.RawQuery = q.Encode()
	} else {
		create, drop = "CREATE DATABASE "+name, "DROP DATABASE "+name
		u.Path = "/" + name
	}
	s.admin(tb.Context(), tb, create)
	tb.Cleanup(func() { s.admin(context.Background(), tb, drop) })
	return u.String()
}

// admin runs a statement on the database that the environment names.
func (s Server) admin(ctx context.Context, tb testing.TB, text string) {
	tb.Helper()
	db, err := sqldb.Open(ctx, s.base, sqldb.Config{MaxConns: 1, Timeout: enough})
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(ctx, sqldb.Statement(text)); err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
}

// Account makes a user of a MySQL server who may do all, gone when the test ends.
func (s Server) Account(tb testing.TB, name, password string) {
	tb.Helper()
	s.admin(tb.Context(), tb, "CREATE USER '"+name+"'@'%' IDENTIFIED BY '"+password+"'")
	tb.Cleanup(func() { s.admin(context.Background(), tb, "DROP USER '"+name+"'@'%'") })
	s.admin(tb.Context(), tb, "GRANT ALL ON *.* TO '"+name+"'@'%'")
}

// Open opens a new database and brings the owners' schemas up.
func (s Server) Open(tb testing.TB, cfg sqldb.Config, owners ...sqldb.Migrations) *sqldb.DB {
	tb.Helper()
	return s.OpenURL(tb, s.URL(tb), cfg, owners...)
}

// OpenURL is Open of a database that URL made: a second server beside another one.
func (s Server) OpenURL(tb testing.TB, url string, cfg sqldb.Config, owners ...sqldb.Migrations) *sqldb.DB {
	tb.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = enough
	}
	cfg, open := counted(cfg)
	db, err := sqldb.Open(tb.Context(), url, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	transactions.Store(db, open)
	tb.Cleanup(func() {
		transactions.Delete(db)
		if err := db.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	if err := db.Migrate(tb.Context(), owners...); err != nil {
		tb.Fatal(err)
	}
	return db
}

// Each runs fn as a parallel subtest on a new database of every server.
func Each(t *testing.T, owners []sqldb.Migrations, fn func(t *testing.T, db *sqldb.DB)) {
	t.Helper()
	for _, s := range Servers(t) {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			fn(t, s.Open(t, sqldb.Config{}, owners...))
		})
	}
}
