package server

import (
	"context"
	"time"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/edge/admin"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/tenant"
)

// purgeJobs shows the purge jobs to the edges.
type purgeJobs struct {
	store  *purge.Store
	runner *job.Runner
}

// Name is a job's public name.
func (p *purgeJobs) Name(id job.ID) string { return p.store.Name(id) }

// ParseName is the job of a public name.
func (p *purgeJobs) ParseName(name string) (job.ID, bool) { return p.store.Jobs().ParseName(name) }

// Wake tells the workers that a job was inserted.
func (p *purgeJobs) Wake() { p.runner.Wake() }

// Wait lets a job run and waits for its end.
func (p *purgeJobs) Wait(ctx context.Context, id job.ID, limit time.Duration) (job.Row, error) {
	return p.runner.Wait(ctx, id, limit)
}

// Job implements admin.Reader; a job of another tenant is not there, except for the server's
// operator: when a tenant is being dropped, its tokens are dead, and nobody else could deal
// with a purge that FAILED.
func (p *purgeJobs) Job(ctx context.Context, id job.ID) (admin.Job, error) {
	row, err := p.store.Jobs().Get(ctx, id)
	if err != nil {
		return admin.Job{}, err
	}
	j, err := p.store.Find(ctx, id)
	if err != nil {
		return admin.Job{}, err
	}
	who := callerOf(ctx)
	n, err := catalog.ParseNamespaceKey(j.Namespace)
	visible := who.Operator || who.Owns(j.Tenant, row.CreatedAt) && who.MayCatalog(tenant.Read, j.Warehouse, n)
	if err != nil || !visible {
		return admin.Job{}, fault.New("server.Job", fault.NotFound, job.CodeNoSuchJob, "job %s does not exist", p.store.Name(id))
	}
	return shown(purge.Listed{Job: j, Row: row})
}

// Jobs implements admin.Reader.
func (p *purgeJobs) Jobs(ctx context.Context, f admin.Filter, page job.Page) ([]admin.Job, job.Page, error) {
	filter := purge.Filter{Tenant: tenantOf(ctx), Warehouse: f.Warehouse, Name: f.Table, State: f.State}
	if len(f.Namespace) > 0 {
		filter.Namespace = catalog.Namespace(f.Namespace).Key()
	}
	rows, next, err := p.store.List(ctx, filter, page)
	if err != nil {
		return nil, next, err
	}
	var out []admin.Job
	for _, l := range rows {
		j, err := shown(l)
		if err != nil {
			return nil, next, err
		}
		if callerOf(ctx).Owns(l.Job.Tenant, l.Row.CreatedAt) && callerOf(ctx).MayCatalog(tenant.Read, j.Object.Warehouse, j.Object.Namespace) {
			out = append(out, j)
		}
	}
	return out, next, nil
}

func shown(l purge.Listed) (admin.Job, error) {
	n, err := catalog.ParseNamespaceKey(l.Job.Namespace)
	return admin.Job{Row: l.Row, Object: admin.Object{
		Warehouse: l.Job.Warehouse, Namespace: n, Name: l.Job.Name, Type: string(l.Job.Type), Location: l.Job.TableLocation,
	}}, err
}

// controlled refuses to change a job whose table the caller may not purge.
func (p *purgeJobs) controlled(ctx context.Context, id job.ID, do func() (job.Row, error)) (job.Row, error) {
	j, err := p.Job(ctx, id)
	if err != nil {
		return job.Row{}, err
	}
	if !callerOf(ctx).MayCatalog(tenant.Purge, j.Object.Warehouse, j.Object.Namespace) {
		return job.Row{}, tenant.Denied("server.controlled", tenant.Purge, "the table of "+p.Name(id))
	}
	return do()
}

// Cancel implements admin.Control.
func (p *purgeJobs) Cancel(ctx context.Context, id job.ID) (job.Row, error) {
	return p.controlled(ctx, id, func() (job.Row, error) { return p.store.Jobs().Cancel(ctx, id) })
}

// Retry implements admin.Control.
func (p *purgeJobs) Retry(ctx context.Context, id job.ID, opts job.RetryOptions) (job.Row, error) {
	return p.controlled(ctx, id, func() (job.Row, error) { return p.store.Jobs().Retry(ctx, id, opts) })
}

// Ack implements admin.Control.
func (p *purgeJobs) Ack(ctx context.Context, id job.ID) (job.Row, error) {
	return p.controlled(ctx, id, func() (job.Row, error) { return p.store.Jobs().Ack(ctx, id) })
}

// Pause implements admin.Control.
func (p *purgeJobs) Pause(ctx context.Context, id job.ID) (job.Row, error) {
	return p.controlled(ctx, id, func() (job.Row, error) { return p.store.Jobs().Pause(ctx, id) })
}

// Resume implements admin.Control.
func (p *purgeJobs) Resume(ctx context.Context, id job.ID) (job.Row, error) {
	return p.controlled(ctx, id, func() (job.Row, error) { return p.store.Jobs().Resume(ctx, id) })
}
