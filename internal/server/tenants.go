package server

import (
	"context"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/edge/admin"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

// tenantControl makes and drops tenants with all that belongs to them: it implements
// admin.Tenants. A tenant's drive has the tenant's key.
type tenantControl struct {
	tenants *tenant.Tenants
	drive   *drive.Drive
	close   func(ctx context.Context, name string) (job string, err error)
}

// CreateTenant makes a tenant and its drive.
func (c *tenantControl) CreateTenant(ctx context.Context, name string) (tenant.Tenant, error) {
	return c.tenants.Create(ctx, name, func(ctx context.Context, tx *sqldb.Tx, id tenant.ID) error {
		return c.drive.CreateDriveIn(ctx, tx, tree.FS(id))
	})
}

// Tenants lists all tenants.
func (c *tenantControl) Tenants(ctx context.Context) ([]tenant.Tenant, error) {
	return c.tenants.List(ctx)
}

// Tenant returns a tenant and what its drive holds.
func (c *tenantControl) Tenant(ctx context.Context, name string) (tenant.Tenant, admin.Usage, error) {
	t, err := c.tenants.Get(ctx, name)
	if err != nil {
		return t, admin.Usage{}, err
	}
	u, err := c.drive.Usage(ctx, tree.FS(t.ID))
	return t, admin.Usage{Bytes: u.Bytes + u.Reserved, Files: u.Files, QuotaBytes: u.QuotaBytes, QuotaFiles: u.QuotaFiles}, err
}

// SetQuota bounds a tenant's drive.
func (c *tenantControl) SetQuota(ctx context.Context, name string, bytes, files int64) error {
	t, err := c.tenants.Get(ctx, name)
	if err != nil {
		return err
	}
	return c.drive.SetQuota(ctx, tree.FS(t.ID), bytes, files)
}

// DropTenant removes a tenant that has nothing; with purge, by a job that drops what it
// has.
func (c *tenantControl) DropTenant(ctx context.Context, name string, purge bool) (string, error) {
	if purge {
		if c.close == nil {
			return "", fault.New("server.DropTenant", fault.Unsupported, "", "dropping a tenant with purge is not offered")
		}
		return c.close(ctx, name)
	}
	return "", c.drop(ctx, name, func(tenant.Tenant) error { return nil })
}

// dropExactly removes the tenant of that name and key. It is gone, too, when another one has
// the name by now.
func (c *tenantControl) dropExactly(ctx context.Context, name string, id tenant.ID) error {
	gone := fault.New("server.dropExactly", fault.NotFound, tenant.CodeNoSuchTenant, "the tenant does not exist")
	if t, err := c.tenants.Get(ctx, name); err != nil {
		return err
	} else if t.ID != id {
		return gone
	}
	return c.drop(ctx, name, func(t tenant.Tenant) error {
		if t.ID != id {
			return gone
		}
		return nil
	})
}

func (c *tenantControl) drop(ctx context.Context, name string, check func(tenant.Tenant) error) error {
	_, err := c.tenants.Drop(ctx, name, func(ctx context.Context, tx *sqldb.Tx, t tenant.Tenant) error {
		if err := check(t); err != nil {
			return err
		}
		return c.drive.DropDriveIn(ctx, tx, tree.FS(t.ID))
	})
	return err
}
