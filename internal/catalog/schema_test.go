package catalog_test

import (
	"testing"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/internal/tenant"
)

// All owners of the product's database so far, in the order in which the server goes.
func TestMigrations(t *testing.T) {
	t.Parallel()
	sqldbtest.Migrations(t, tenant.Migrations, purge.Migrations, catalog.Migrations)
}
