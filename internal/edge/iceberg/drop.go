package iceberg

import (
	"strings"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/tenant"
)

// Headers of a drop with purge.
const (
	headerAsync    = "X-Gravitino-Async-Purge"
	headerJob      = "X-Lethe-Job"
	headerJobState = "X-Lethe-Job-State"
)

// dropTable removes a table. With purgeRequested=true its files go by a job that this
// request waits for, unless it asked for an asynchronous purge. Once the drop is
// committed the answer is always 204: the entry cannot come back, and the job goes on.
func (e *edge) dropTable(c *call) error { return e.drop(c, catalog.KindTable, false) }

func (e *edge) drop(c *call, kind catalog.Kind, always bool) error {
	const op = "iceberg.drop"
	id, err := c.table()
	if err != nil {
		return err
	}
	purge, err := flag(op, "purgeRequested", c.r.URL.Query().Get("purgeRequested"))
	if err != nil {
		return err
	}
	if purge {
		if err := c.may(id.Namespace, tenant.Purge); err != nil {
			return err
		}
	}
	purge = purge || always
	async := false
	if purge {
		// A typo must not change what a delete does, so anything else is an error.
		if async, err = flag(op, headerAsync, c.r.Header.Get(headerAsync)); err != nil {
			return err
		}
	}
	j, err := e.Catalog.Drop(c.r.Context(), c.on(), kind, id, catalog.DropOptions{Purge: purge, Async: async})
	if err != nil {
		return err
	}
	if !purge {
		return e.none(c)
	}
	return e.awaitPurge(c, j, async)
}

// awaitPurge answers a committed drop, after its job has ended when it is synchronous.
func (e *edge) awaitPurge(c *call, j job.ID, async bool) error {
	c.w.Header().Set(headerJob, e.Jobs.Name(j))
	state := job.Pending
	if async {
		e.Jobs.Wake()
	} else {
		row, err := e.Jobs.Wait(c.r.Context(), j, e.PurgeWait)
		if err != nil {
			e.Logger.WarnContext(c.r.Context(), "purge goes on unobserved", "job", e.Jobs.Name(j), "error", err)
		} else {
			state = row.State
		}
	}
	c.w.Header().Set(headerJobState, string(state))
	return e.none(c)
}

func flag(op, name, value string) (bool, error) {
	switch strings.ToLower(value) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fault.New(op, fault.Invalid, "", "%s must be true or false, not %q", name, value)
	}
}
