package catalog_test

import (
	"testing"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/internal/tenant"
)

// Every statement of the room is valid SQL on every engine.
func TestStatementsPrepare(t *testing.T) {
	t.Parallel()
	owners := []sqldb.Migrations{tenant.Migrations, purge.Migrations, catalog.Migrations}
	sqldbtest.PrepareAll(t, ".", owners, nil)
}
