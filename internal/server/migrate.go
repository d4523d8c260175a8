package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/closing"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

// ErrPending is returned by Run when migrations are pending and the setting migrate is
// check.
var ErrPending = errors.New("the database's schema is not up to date")

// owners lists the schemas, each after those it refers to.
func owners() []sqldb.Migrations {
	return []sqldb.Migrations{
		tenant.Migrations, purge.Migrations, catalog.Migrations,
		tree.Migrations, content.Migrations, feed.Migrations, removal.Migrations,
		closing.Migrations,
	}
}

// config is the database's.
func (s *DatabaseSettings) config(log *slog.Logger) sqldb.Config {
	return sqldb.Config{
		LockWait: s.LockWait, Timeout: s.Timeout, MaxConns: s.MaxConnections, IdleTime: s.MaxIdleTime, Lifetime: s.MaxLifetime, Logger: log,
	}
}

// migrate brings the schema up to date, or only looks whether it is.
func (s *server) migrate(ctx context.Context) error {
	schemas := s.cfg.migrations
	if schemas == nil {
		schemas = owners()
	}
	if s.set.Migrate != "check" {
		done, err := s.db.MigrateUp(ctx, schemas...)
		for _, step := range done {
			s.log.InfoContext(ctx, "migrated", "owner", step.Owner, "migration", step.Name)
		}
		return err
	}
	steps, err := s.db.MigrationStatus(ctx, schemas...)
	if err != nil {
		return err
	}
	pending := sqldb.Pending(steps)
	if len(pending) == 0 {
		return nil
	}
	names := make([]string, len(pending))
	for i, step := range pending {
		names[i] = step.Owner + " " + step.Name
	}
	return fmt.Errorf("server: %w: pending are %s: run lethe migrate up", ErrPending, strings.Join(names, ", "))
}

// MigrationStatus lists the migrations of the database and changes nothing: an embedded
// one that is not there is not made. The steps are valid also beside an error that is
// sqldb.ErrSchemaNewer.
func MigrationStatus(ctx context.Context, set *DatabaseSettings) (steps []sqldb.Step, err error) {
	if err := set.Validate(); err != nil {
		return nil, err
	}
	if path, ok := strings.CutPrefix(set.DatabaseURL(), "sqlite:"); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return sqldb.Known(owners()...)
		}
	}
	db, err := sqldb.Open(ctx, set.DatabaseURL(), set.config(nil))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.MigrationStatus(ctx, owners()...)
}

// MigrateUp brings the database's schema up to date without serving and returns what it
// applied, also beside an error.
func MigrateUp(ctx context.Context, set *DatabaseSettings) (done []sqldb.Step, err error) {
	if err := set.Validate(); err != nil {
		return nil, err
	}
	db, err := sqldb.Open(ctx, set.DatabaseURL(), set.config(nil))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.MigrateUp(ctx, owners()...)
}
