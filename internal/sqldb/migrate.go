package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
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
//
// Servers of two releases share a schema while they are replaced one by one. So a
// release only adds (tables, columns that are nullable or have a default, indexes that are
// not unique), and what nobody uses any more goes in a later one. A file that servers of
// older releases bear says since which version of this owner, in a line
//
//	-- compatible from N
//
// A server that starts on a schema with versions beyond its own goes on when it knows at
// least the highest of these, and otherwise refuses with ErrSchemaNewer. A file
// without the line is for servers that know it.
type Migrations struct {
	Owner string // names the version table, schema_OWNER
	Files fs.FS  // the files stand in its folder "migrations"
}

// Migrate brings the owners' schemas up to date, in their order. Several servers may
// do so at once. A schema beyond what the owners know is left as it is, or refused.
func (db *DB) Migrate(ctx context.Context, owners ...Migrations) error {
	_, err := db.MigrateUp(ctx, owners...)
	return err
}

// MigrateUp is Migrate and returns the steps that this call applied, also beside an
// error.
func (db *DB) MigrateUp(ctx context.Context, owners ...Migrations) (done []Step, err error) {
	status, err := db.MigrationStatus(ctx, owners...)
	if err != nil || len(Pending(status)) == 0 {
		return nil, err
	}
	if db.migrating != nil {
		release, lockErr := db.migrating(ctx)
		if lockErr != nil {
			return nil, fmt.Errorf("sqldb: lock the migrations: %w", lockErr)
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	for _, o := range owners {
		applied, err := db.up(ctx, o)
		done = append(done, applied...)
		if err != nil {
			return done, fmt.Errorf("sqldb: migrations of %s: %w", o.Owner, err)
		}
	}
	return done, nil
}

// up applies what is pending of one owner, in a transaction of its own each.
func (db *DB) up(ctx context.Context, o Migrations) ([]Step, error) {
	steps, err := o.steps()
	if err != nil {
		return nil, err
	}
	p, err := db.provider(ctx, o.Owner, steps)
	if err != nil {
		return nil, err
	}
	results, err := p.Up(ctx)
	if partial, ok := errors.AsType[*goose.PartialError](err); ok {
		results = partial.Applied
	}
	var done []Step
	for _, r := range results {
		for _, s := range steps {
			if s.Version == r.Source.Version {
				s.State = StepApplied
				done = append(done, s.Step)
			}
		}
	}
	return done, err
}

func (db *DB) provider(ctx context.Context, owner string, steps []step) (*goose.Provider, error) {
	var files []*goose.Migration
	for _, s := range steps {
		files = append(files, goose.NewGoMigration(s.Version, &goose.GoFunc{
			RunTx: func(ctx context.Context, tx *sql.Tx) error { return db.apply(ctx, tx, s) },
		}, nil))
	}
	engine := goose.DialectSQLite3
	opts := []goose.ProviderOption{goose.WithGoMigrations(files...), goose.WithDisableGlobalRegistry(true)}
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
		if err := db.dropEmpty(ctx, "schema_"+owner); err != nil {
			return nil, err
		}
	}
	store, err := database.NewStore(engine, "schema_"+owner)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider("", db.write, nil, append(opts, goose.WithStore(store))...)
}

// apply runs one step. Its floor comes first: MySQL commits with every DDL statement, and
// a server that starts between two of them must know already.
func (db *DB) apply(ctx context.Context, tx *sql.Tx, s step) error {
	if err := db.noteFloor(ctx, tx, s.Step); err != nil {
		return err
	}
	for _, text := range splitStatements(s.text) {
		rendered, _, err := db.dialect.Render(Statement(text), nil)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, rendered)
		if db.dialect.Name == MySQL && err != nil {
			err = madeBefore(ctx, tx, rendered, err)
		}
		if err != nil {
			return fmt.Errorf("%.80q: %w", text, err)
		}
	}
	return nil
}

// noteFloor tells servers that do not know the step whether they may go on. Whoever
// migrates is alone here.
func (db *DB) noteFloor(ctx context.Context, tx *sql.Tx, s Step) error {
	create, _, err := db.dialect.Render(createFloor, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, create); err != nil {
		return err
	}
	look, args, err := db.dialect.Render(selectFloor, []any{s.Owner})
	if err != nil {
		return err
	}
	var floor int64
	write := updateFloor
	switch err := tx.QueryRowContext(ctx, look, args...).Scan(&floor); {
	case errors.Is(err, sql.ErrNoRows):
		write = insertFloor
	case err != nil:
		return err
	case floor >= s.Floor:
		return nil
	}
	text, args, err := db.dialect.Render(write, []any{s.Floor, s.Owner})
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, text, args...)
	return err
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
