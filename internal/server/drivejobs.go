package server

import (
	"context"

	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/edge/admin"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/tenant"
)

// driveJobs shows the deletes of the caller's drive, and lets them be controlled, as far
// as the caller's token covers what they deleted.
type driveJobs struct{ removal *removal.Removal }

// Job implements admin.Reader.
func (d *driveJobs) Job(ctx context.Context, id job.ID) (admin.Job, error) {
	j, err := d.visible(ctx, id)
	return shownDelete(j), err
}

func (d *driveJobs) visible(ctx context.Context, id job.ID) (removal.Job, error) {
	p := callerOf(ctx)
	if p.Operator { // of every tenant, as purgeJobs.Job
		return d.removal.AnyJob(ctx, id)
	}
	j, err := d.removal.Job(ctx, tree.FS(p.Tenant), id)
	if err == nil && !p.MayDrive(tenant.Read, j.Path) {
		return removal.Job{}, fault.New("server.Job", fault.NotFound, job.CodeNoSuchJob, "job %s does not exist", d.removal.JobName(id))
	}
	return j, err
}

// looked is the fewest rows that a page of a list looks at: whose token covers little gets
// few jobs a page, or none, and a token for the next one.
const looked = 200

// Jobs implements admin.Reader. Filters that are about tables leave all of these out. One
// page costs one statement, whatever the caller may see.
func (d *driveJobs) Jobs(ctx context.Context, f admin.Filter, page job.Page) (out []admin.Job, next job.Page, err error) {
	if f.Warehouse != "" || f.Table != "" || len(f.Namespace) > 0 {
		return nil, job.Page{}, nil
	}
	p := callerOf(ctx)
	window := page.Limit
	if !p.MayDrive(tenant.Read, "/") {
		window = max(window, looked)
	}
	list, err := d.removal.List(ctx, tree.FS(p.Tenant), f.State, page.Before, window)
	if err != nil {
		return nil, next, err
	}
	for _, j := range list {
		if !p.MayDrive(tenant.Read, j.Path) {
			continue
		}
		if out = append(out, shownDelete(j)); len(out) == page.Limit {
			return out, job.Page{Before: j.ID, Limit: page.Limit}, nil
		}
	}
	if len(list) == window {
		next = job.Page{Before: list[window-1].ID, Limit: page.Limit}
	}
	return out, next, nil
}

func shownDelete(j removal.Job) admin.Job {
	return admin.Job{Row: j.Row, Object: admin.Object{Name: j.OriginName, Type: string(j.Kind), Path: j.Path}}
}

// mine is the job, if the caller may delete what it deleted.
func (d *driveJobs) mine(ctx context.Context, id job.ID) (tree.FS, error) {
	j, err := d.visible(ctx, id)
	if err == nil && !callerOf(ctx).MayDrive(tenant.Delete, j.Path) {
		err = tenant.Denied("server.mine", tenant.Delete, j.Path)
	}
	return j.FS, err
}

// Cancel implements admin.Control.
func (d *driveJobs) Cancel(ctx context.Context, id job.ID) (job.Row, error) {
	return d.control(ctx, id, d.removal.Cancel)
}

// Retry implements admin.Control.
func (d *driveJobs) Retry(ctx context.Context, id job.ID, _ job.RetryOptions) (job.Row, error) {
	return d.control(ctx, id, d.removal.Retry)
}

// Ack implements admin.Control.
func (d *driveJobs) Ack(ctx context.Context, id job.ID) (job.Row, error) {
	return d.control(ctx, id, d.removal.Ack)
}

// Pause implements admin.Control.
func (d *driveJobs) Pause(ctx context.Context, id job.ID) (job.Row, error) {
	if _, err := d.mine(ctx, id); err != nil {
		return job.Row{}, err
	}
	return d.removal.Jobs().Pause(ctx, id)
}

// Resume implements admin.Control.
func (d *driveJobs) Resume(ctx context.Context, id job.ID) (job.Row, error) {
	if _, err := d.mine(ctx, id); err != nil {
		return job.Row{}, err
	}
	return d.removal.Jobs().Resume(ctx, id)
}

func (d *driveJobs) control(ctx context.Context, id job.ID, do func(context.Context, tree.FS, job.ID) (removal.Job, error)) (job.Row, error) {
	fs, err := d.mine(ctx, id)
	if err != nil {
		return job.Row{}, err
	}
	j, err := do(ctx, fs, id)
	return j.Row, err
}
