package tenant_test

import (
	"os"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/local"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/internal/tenant"
)

func storage(t *testing.T, dir string) tenant.Config {
	t.Helper()
	bucket, err := local.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bucket.Close() })
	root, err := blob.ParseLocation(dir)
	if err != nil {
		t.Fatal(err)
	}
	space, err := blob.NewSpace(blob.Mount{Root: root, Bucket: bucket})
	if err != nil {
		t.Fatal(err)
	}
	return tenant.Config{Default: tenant.Storage{RootURI: string(root), Space: space}}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{tenant.Migrations}, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		dir := t.TempDir()
		first, err := tenant.Open(ctx, db, storage(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		again, err := tenant.Open(ctx, db, storage(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		a, err := first.Warehouse(ctx, first.Tenant(), tenant.Default)
		if err != nil {
			t.Fatal(err)
		}
		b, err := again.WarehouseByID(ctx, a.ID)
		if err != nil || b.Name != tenant.Default || again.Tenant() != first.Tenant() {
			t.Errorf("opened again: %+v, %v", b, err)
		}
		if _, err := first.Warehouse(ctx, first.Tenant()+1, tenant.Default); !fault.Is(err, tenant.CodeNoSuchWarehouse) {
			t.Errorf("another tenant's warehouse: %v", err)
		}
		if _, err := first.Warehouse(ctx, first.Tenant(), "x"); !fault.Is(err, tenant.CodeNoSuchWarehouse) {
			t.Errorf("unknown warehouse: %v", err)
		}
		if _, err := tenant.Open(ctx, db, storage(t, t.TempDir())); err == nil || !strings.Contains(err.Error(), "lives under") {
			t.Errorf("another root was taken: %v", err)
		}
	})
}

// A root whose disk is away must not look like one whose files were deleted.
func TestRootThatIsAway(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{tenant.Migrations}, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		dir := t.TempDir() + "/root"
		d, err := tenant.Open(ctx, db, storage(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		w, err := d.Warehouse(ctx, d.Tenant(), tenant.Default)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.CheckStorage(ctx); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		if _, err := tenant.Open(ctx, db, storage(t, dir)); blob.ClassOf(err) != blob.Unavailable {
			t.Errorf("an empty directory was taken for the root: %v", err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		if _, err := tenant.Open(ctx, db, storage(t, dir)); err != nil {
			t.Errorf("the root is back: %v", err)
		}
		if err := os.Remove(dir + "/.lethe-root"); err != nil {
			t.Fatal(err)
		}
		if err := w.CheckStorage(ctx); !blob.ClassOf(err).Outage() {
			t.Errorf("the marker went while it was in use: %v, want an outage", err)
		}
	})
}

func TestStatementsPrepare(t *testing.T) {
	t.Parallel()
	sqldbtest.PrepareAll(t, ".", []sqldb.Migrations{tenant.Migrations}, nil)
}
