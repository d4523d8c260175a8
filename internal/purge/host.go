package purge

import (
	"context"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/deletepool"
	"github.com/lethe-project/lethe/internal/job"
)

// Owner says whose a location is.
type Owner uint8

// The owners.
const (
	Nobody Owner = iota // no entry and no unsettled job claims it
	Own                 // this job does
	Other               // another entry or unsettled job does; wins over Own
)

// Host answers what a purge can not know by itself. The server wires it; the catalog
// and the tenants implement it.
type Host interface {
	// Storage returns what the job's warehouse may touch, with fresh credentials.
	Storage(ctx context.Context, j Job) (*blob.Space, error)
	// Locations returns the job's own locations, and those of others that lie inside
	// them (or are equal). While the job is unsettled nobody else can take any there.
	Locations(ctx context.Context, j Job) (own, others []blob.Location, err error)
	// Whose tells for each location who claims it or something above it.
	Whose(ctx context.Context, j Job, at []blob.Location) ([]Owner, error)
	// Adopt makes those of the locations the job's own that nobody owns and that overlap
	// nothing of others, and returns those that the job owns now, of the given ones.
	Adopt(ctx context.Context, j Job, at []blob.Location) (owned []blob.Location, err error)
}

// Session is the lease under which a purge works; *job.Run is one. An error of Save or
// Admit is the cause why the work must stop; unless it is job.ErrLeaseLost, what is on
// the wire may settle and be saved once more.
type Session interface {
	// Save stores the point and the progress under the fence.
	Save(ctx context.Context, at job.Point, progress any) error
	// Admit is asked before a batch is sent.
	Admit(ctx context.Context) error
	// Due reports whether it is time to save.
	Due() bool
	// Yield reports, as of the last save, whether others wait and this run has had its
	// turn. The walk then ends with job.ErrYield.
	Yield() bool
}

// Deleter is the server's *deletepool.Pool. It calls Done exactly once for every batch.
type Deleter interface {
	Submit(ctx context.Context, b deletepool.Batch)
}
