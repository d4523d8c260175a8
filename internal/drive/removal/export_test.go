package removal

import (
	"context"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/job"
)

// Without is a Config without one of the protections.
func (c Config) Without(protection string) Config {
	switch protection {
	case "move lock, barrier":
		c.lax.noMoveLock, c.lax.noBarrier = true, true
	case "barrier":
		c.lax.noBarrier = true
	case "fence":
		c.lax.noFence = true
	case "move lock":
		c.lax.noMoveLock = true
	case "set lock":
		c.lax.noSetLock = true
	case "set lock, counts":
		c.lax.noSetLock, c.lax.noCount = true, true
	case "close lock":
		c.lax.noCloseLock = true
	}
	return c
}

// Session is a run of a job.
type Session = session

// Sweep is one run of a sweep.
func (m *Removal) Sweep(ctx context.Context, run Session) error { return m.sweep(ctx, run) }

// Reconcile is one run of a reconcile.
func (m *Removal) Reconcile(ctx context.Context, run Session) error { return m.reconcile(ctx, run) }

// Detach is the detach of a request.
func (m *Removal) Detach(ctx context.Context, req Request) (id job.ID, node tree.Node, err error) {
	req.operation = "test"
	err = m.again(ctx, func() (err error) { id, node, err = m.detach(ctx, req); return err })
	return id, node, err
}

// Fast is the fast path of a request; errDetach when it is not for it.
func (m *Removal) Fast(ctx context.Context, req Request) (c Counts, err error) {
	err = m.again(ctx, func() (err error) { c, err = m.fast(ctx, req, tree.Node{}); return err })
	return c, err
}

// AuditNow makes the mark of a drive due.
func (m *Removal) AuditNow(ctx context.Context, fs tree.FS) error { return m.auditNow(ctx, fs) }

// Patrol is one round of the loop.
func (m *Removal) Patrol(ctx context.Context) error { return m.patrolOnce(ctx) }

// Hold bounds the ids that a sweep holds.
func (m *Removal) Hold(n int) { m.held = n }

// ErrDamaged and ErrDetach are errDamaged and errDetach.
var (
	ErrDamaged = errDamaged
	ErrDetach  = errDetach
)
