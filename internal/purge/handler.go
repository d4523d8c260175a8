package purge

import (
	"context"
	"fmt"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/job"
)

// Handler runs the rows of iceberg_cleanup_job. It implements job.Handler.
type Handler struct {
	store  *Store
	walker *Walker
}

var (
	_ job.Handler = (*Handler)(nil)
	_ Session     = (*job.Run)(nil)
)

// NewHandler returns the handler of a store's jobs.
func NewHandler(store *Store, walker *Walker) *Handler {
	return &Handler{store: store, walker: walker}
}

// Run purges what the claimed row names.
func (h *Handler) Run(ctx context.Context, run *job.Run) error {
	row := run.Row()
	j, err := h.store.Get(ctx, h.store.db, row.ID)
	if err != nil {
		return err
	}
	// As claimed: what the lease covers.
	j.Phase, j.Cursor, j.Progress, j.Epoch = row.Phase, row.Cursor, row.Progress, row.LeaseEpoch
	// Stores that can, show who sends a delete: what came late is seen in their logs.
	ctx = blob.WithLease(ctx, fmt.Sprintf("%s %s %d", row.Owner, run.Name(), row.LeaseEpoch))
	return h.walker.Run(ctx, j, run)
}

// Further reports whether b stands further than a.
func (h *Handler) Further(a, b job.Point) bool { return Further(a, b) }
