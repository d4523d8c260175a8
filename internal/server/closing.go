package server

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/closing"
	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/edge/admin"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

// closer lets a closing job ask catalog and drive: it implements closing.Host, and
// admin.Reader for the jobs themselves.
type closer struct {
	jobs       *closing.Jobs
	catalog    *catalog.Catalog
	warehouses *tenant.Directory
	tenants    *tenantControl
	purges     *purge.Store
	wakePurges func()
	drives     *drives
}

// openClosing builds the jobs that drop warehouses and tenants.
func (s *server) openClosing(ctx context.Context) error {
	c := &closer{
		catalog: s.catalog, warehouses: s.tenants, purges: s.purges, wakePurges: s.runner.Wake, drives: &s.drives,
		tenants: &tenantControl{tenants: tenant.NewTenants(s.db, s.tokens), drive: s.drives.drive},
	}
	c.tenants.close = c.closeTenant
	c.jobs = closing.New(closing.Config{DB: s.db, Host: c, Job: s.tracing.jobs(s.set.AsyncPurge.JobConfig()), Owner: owner(), Logger: s.log})
	s.closer = c
	if s.db.Dialect().Name != sqldb.SQLite {
		return nil
	}
	// One server at a time: whoever was RUNNING died with the one before.
	_, err := c.jobs.Store().ReclaimAll(ctx)
	return err
}

// piece is how many entries are dropped between two saves of the job.
const piece = 100

// mostListed is how many jobs one page has at most: one list of ids.
const mostListed = 500

// closerName is who drops, in rows, events and logs.
const closerName = "closing"

// Empty drops tables, views and trees. A store that is away says nothing about the job.
func (c *closer) Empty(ctx context.Context, o closing.Object) (int, error) {
	begun, err := c.empty(ctx, o)
	if err != nil && blob.ClassOf(err).Outage() {
		err = job.Outage(err)
	}
	return begun, err
}

func (c *closer) empty(ctx context.Context, o closing.Object) (int, error) {
	if o.Kind == closing.Warehouse {
		id, err := c.warehouses.ClosingWarehouse(ctx, tenant.ID(o.Tenant), o.Name)
		if fault.Is(err, tenant.CodeNoSuchWarehouse) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		w, err := c.warehouses.WarehouseByID(ctx, id)
		return c.emptyWarehouse(ctx, w, err)
	}
	begun := 0
	for after := ""; ; {
		page, next, err := c.warehouses.Warehouses(ctx, tenant.ID(o.Tenant), after, piece)
		if err != nil {
			return begun, err
		}
		for _, w := range page {
			open, err := c.warehouses.Warehouse(ctx, tenant.ID(o.Tenant), w.Name)
			n, err := c.emptyWarehouse(ctx, open, err)
			if begun += n; err != nil {
				return begun, err
			}
		}
		if next == "" {
			break
		}
		after = next
	}
	n, err := c.emptyDrive(ctx, tree.FS(o.Tenant))
	return begun + n, err
}

// emptyWarehouse takes what was found under a name, or the error.
func (c *closer) emptyWarehouse(ctx context.Context, w *tenant.Warehouse, err error) (begun int, _ error) {
	if fault.Is(err, tenant.CodeNoSuchWarehouse) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	entries, err := c.catalog.Entries(ctx, w.ID, piece)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		call := catalog.Call{Warehouse: w, Principal: closerName, RequestID: uuid.NewString()}
		_, err := c.catalog.Drop(ctx, call, e.Kind, e.Identifier, catalog.DropOptions{Purge: true, Async: true})
		if fault.Is(err, catalog.CodeShared) {
			// Another entry names the same files: they go with the last one.
			_, err = c.catalog.Drop(ctx, call, e.Kind, e.Identifier, catalog.DropOptions{})
		}
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return begun, fmt.Errorf("drop %s: %w", e.Identifier, err)
		}
		begun++
	}
	if begun > 0 {
		c.wakePurges()
	}
	return begun, nil
}

func (c *closer) emptyDrive(ctx context.Context, fs tree.FS) (begun int, err error) {
	entries, _, err := c.drives.drive.List(ctx, fs, "/", drive.ListOptions{Limit: piece})
	if err != nil {
		if fault.KindOf(err) == fault.NotFound {
			return 0, nil
		}
		return 0, err
	}
	for _, e := range entries {
		_, err := c.drives.drive.RemoveAll(ctx, fs, e.Path, drive.RemoveAllOptions{Actor: closerName, RequestID: uuid.NewString(), Async: true})
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return begun, fmt.Errorf("delete %s: %w", e.Path, err)
		}
		begun++
	}
	if begun > 0 {
		return begun, nil
	}
	// What lies in the trash goes now; what is going already is not begun again.
	if _, err := c.drives.removal.EmptyAll(ctx, fs, nil); err != nil {
		return 0, err
	}
	return 0, nil
}

// Remove removes what is empty, or says what it waits for.
func (c *closer) Remove(ctx context.Context, o closing.Object) error {
	t := tenant.ID(o.Tenant)
	if o.Kind == closing.Warehouse {
		return c.removed(ctx, o.TenantName, o.Name, c.warehouses.DropClosing(ctx, t, o.Name))
	}
	page, _, err := c.warehouses.Warehouses(ctx, t, "", piece)
	if err != nil {
		return err
	}
	for _, w := range page {
		if err := c.removed(ctx, o.TenantName, w.Name, c.warehouses.Drop(ctx, t, w.Name)); err != nil {
			return err
		}
	}
	err = c.tenants.dropExactly(ctx, o.TenantName, t)
	switch {
	case fault.Is(err, tenant.CodeNoSuchTenant):
		return nil
	case fault.Is(err, drive.CodeDriveNotEmpty):
		return c.waitsFor(ctx, tree.FS(o.Tenant), err)
	case fault.KindOf(err) == fault.Conflict || fault.KindOf(err) == fault.Busy:
		return &closing.StillBusy{Err: err}
	}
	return err
}

// removed sorts the answer of a warehouse's drop.
func (c *closer) removed(ctx context.Context, tenantName, name string, err error) error {
	switch {
	case err == nil || fault.Is(err, tenant.CodeNoSuchWarehouse):
		return nil
	case fault.KindOf(err) == fault.Busy:
		return &closing.StillBusy{Err: err}
	case !fault.Is(err, tenant.CodeInUse):
		return err
	}
	for page := (job.Page{Limit: piece}); ; {
		rows, next, listed := c.purges.List(ctx, purge.Filter{Tenant: tenantName, Warehouse: name, State: job.Failed}, page)
		if listed != nil {
			return listed
		}
		for _, l := range rows {
			if l.Row.AckedAt == 0 {
				return failed(c.purges.Name(l.Row.ID))
			}
		}
		if next.Before == 0 {
			return &closing.StillBusy{Err: err}
		}
		page = next
	}
}

func failed(name string) error {
	return job.Terminal(fmt.Errorf("%s has FAILED: re-drive it (lethe job retry %s) or acknowledge it (lethe job ack %s), then retry this job", name, name, name))
}

// waitsFor tells whether the sweeps of a drive go on, or one has failed.
func (c *closer) waitsFor(ctx context.Context, fs tree.FS, err error) error {
	list, listed := c.drives.removal.List(ctx, fs, job.Failed, 0, piece)
	if listed != nil {
		return listed
	}
	for _, j := range list {
		return failed(c.drives.removal.JobName(j.ID)) // an acknowledged tree is still there
	}
	return &closing.StillBusy{Err: err}
}

// closeTenant and closeWarehouse begin to drop, and return the job's name.
func (c *closer) closeTenant(ctx context.Context, name string) (string, error) {
	var id job.ID
	_, err := c.tenants.tenants.Close(ctx, name, func(ctx context.Context, tx *sqldb.Tx, t tenant.Tenant) (err error) {
		o := closing.Object{Kind: closing.Tenant, Tenant: int64(t.ID), TenantName: t.Name}
		id, err = c.jobs.Insert(ctx, tx, o, principalOf(ctx), requestIDOf(ctx))
		return err
	})
	return c.inserted(id, err)
}

// CloseWarehouse implements admin.Closer.
func (c *closer) CloseWarehouse(ctx context.Context, t tenant.ID, name string) (string, error) {
	var id job.ID
	err := c.warehouses.CloseWarehouse(ctx, t, name, func(ctx context.Context, tx *sqldb.Tx, w tenant.Ref) (err error) {
		o := closing.Object{Kind: closing.Warehouse, Tenant: int64(t), TenantName: w.Tenant, Name: w.Name}
		id, err = c.jobs.Insert(ctx, tx, o, principalOf(ctx), requestIDOf(ctx))
		return err
	})
	return c.inserted(id, err)
}

func (c *closer) inserted(id job.ID, err error) (string, error) {
	if err != nil {
		return "", err
	}
	c.jobs.Wake()
	return c.jobs.Store().Name(id), nil
}

// Job implements admin.Reader: operators see all closing jobs, others those of warehouses
// of their tenant.
func (c *closer) Job(ctx context.Context, id job.ID) (admin.Job, error) {
	row, err := c.jobs.Store().Get(ctx, id)
	if err != nil {
		return admin.Job{}, err
	}
	o, err := c.jobs.Object(ctx, id)
	if err != nil {
		return admin.Job{}, err
	}
	if !c.sees(ctx, o) {
		return admin.Job{}, fault.New("server.Job", fault.NotFound, job.CodeNoSuchJob, "job %s does not exist", c.jobs.Store().Name(id))
	}
	return shownClosing(row, o), nil
}

func (c *closer) sees(ctx context.Context, o closing.Object) bool {
	p := callerOf(ctx)
	return p.Operator || p.Admin() && int64(p.Tenant) == o.Tenant
}

func shownClosing(row job.Row, o closing.Object) admin.Job {
	name := o.Name
	if o.Kind == closing.Tenant {
		name = o.TenantName
	}
	return admin.Job{Row: row, Object: admin.Object{Warehouse: o.Name, Name: name, Type: string(o.Kind)}}
}

// Jobs implements admin.Reader.
func (c *closer) Jobs(ctx context.Context, f admin.Filter, page job.Page) (out []admin.Job, next job.Page, err error) {
	if f.Table != "" || len(f.Namespace) > 0 {
		return nil, job.Page{}, nil
	}
	rows, next, err := c.jobs.Store().List(ctx, job.Filter{State: f.State}, job.Page{Before: page.Before, Limit: min(page.Limit, mostListed)})
	if err != nil {
		return nil, next, err
	}
	objects, err := c.jobs.Objects(ctx, rows)
	if err != nil {
		return nil, next, err
	}
	for _, row := range rows {
		o, ok := objects[row.ID] // missing: it was pruned meanwhile
		if ok && c.sees(ctx, o) && (f.Warehouse == "" || f.Warehouse == o.Name) {
			out = append(out, shownClosing(row, o))
		}
	}
	return out, next, nil
}
