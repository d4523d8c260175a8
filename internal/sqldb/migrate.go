package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
)

// Migrations is one owner's schema: files NNNNN_name.sql in the dialect's tokens (see
// Statement), one text for all engines, statements ended by a semicolon at the end of
// a line. A file is never changed once it was released. MySQL commits every DDL
// statement by itself: there a file that was cut short runs again from its start, so
// everything else that it writes must bear that.
type Migrations struct {
	Owner string // names the version table, schema_OWNER
	Files fs.FS  // the files stand in its folder "migrations"
}

// Migrate brings the owners' schemas up to date, in their order. Several servers may
// do so at once.
func (db *DB) Migrate(ctx context.Context, owners ...Migrations) (err error) {
	if db.migrating != nil && len(owners) > 0 {
		release, lockErr := db.migrating(ctx)
		if lockErr != nil {
			return fmt.Errorf("sqldb: lock the migrations: %w", lockErr)
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	for _, o := range owners {
		p, err := db.provider(ctx, o)
		if err != nil {
			return fmt.Errorf("sqldb: migrations of %s: %w", o.Owner, err)
		}
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("sqldb: migrations of %s: %w", o.Owner, err)
		}
	}
	return nil
}

func (db *DB) provider(ctx context.Context, o Migrations) (*goose.Provider, error) {
	names, err := fs.Glob(o.Files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var steps []*goose.Migration
	for _, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		text, err := fs.ReadFile(o.Files, name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, goose.NewGoMigration(version, &goose.GoFunc{
			RunTx: func(ctx context.Context, tx *sql.Tx) error { return db.apply(ctx, tx, string(text)) },
		}, nil))
	}
	engine := goose.DialectSQLite3
	opts := []goose.ProviderOption{goose.WithGoMigrations(steps...), goose.WithDisableGlobalRegistry(true)}
	switch db.dialect.Name {
	case SQLite: // one server
	case Postgres:
		engine = goose.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300)) // every second, for 5 minutes
		if err != nil {
			return nil, err
		}
		opts = append(opts, goose.WithSessionLocker(locker))
	case MySQL:
		engine = goose.DialectMySQL
		if err := db.dropEmpty(ctx, "schema_"+o.Owner); err != nil {
			return nil, err
		}
	}
	store, err := database.NewStore(engine, "schema_"+o.Owner)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider("", db.write, nil, append(opts, goose.WithStore(store))...)
}

func (db *DB) apply(ctx context.Context, tx *sql.Tx, text string) error {
	for _, s := range splitStatements(text) {
		rendered, _, err := db.dialect.Render(Statement(s), nil)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, rendered)
		if db.dialect.Name == MySQL && err != nil {
			err = madeBefore(ctx, tx, rendered, err)
		}
		if err != nil {
			return fmt.Errorf("%.80q: %w", s, err)
		}
	}
	return nil
}

// splitStatements cuts a migration at semicolons that end a line and drops comments
// that fill a line.
func splitStatements(text string) []string {
	var out []string
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "--") {
			continue
		}
		trimmed := strings.TrimRight(line, " \t\r\n")
		if body, ok := strings.CutSuffix(trimmed, ";"); ok {
			b.WriteString(body)
			out = append(out, b.String())
			b.Reset()
			continue
		}
		b.WriteString(line)
	}
	if strings.TrimSpace(b.String()) != "" {
		out = append(out, b.String())
	}
	return out
}
