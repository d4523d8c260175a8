package removal

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// loop is the goroutine for what has no lease: files of the trash that are due, and drives
// whose full audit is.
type loop struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	look   chan struct{} // asks for a round at once
}

// Start begins to work on jobs.
func (m *Removal) Start() {
	ctx, cancel := context.WithCancel(sqldb.Patient(context.Background()))
	m.loop.cancel = cancel
	m.runner.Start()
	m.audits.Start()
	m.loop.done.Go(func() { m.patrol(ctx) })
}

// Stop gives the jobs back and waits for all goroutines, or for the end of ctx.
func (m *Removal) Stop(ctx context.Context) error {
	if m.loop.cancel == nil {
		return nil // never started
	}
	m.loop.cancel()
	m.loop.done.Wait()
	return errors.Join(m.runner.Stop(ctx), m.audits.Stop(ctx))
}

// ReclaimAll takes the leases of a server that is dead. Only the one server of an embedded
// database may call it, before Start.
func (m *Removal) ReclaimAll(ctx context.Context) error {
	_, jobs := m.jobs.ReclaimAll(ctx)
	_, marks := m.marks.ReclaimAll(ctx)
	return errors.Join(jobs, marks)
}

// wake lets whoever is idle look for work at once.
func (m *Removal) wake() {
	m.runner.Wake()
	select {
	case m.loop.look <- struct{}{}:
	default: // it will look anyway
	}
}

func (m *Removal) patrol(ctx context.Context) {
	every := time.NewTicker(m.jobs.Config().PollInterval)
	defer every.Stop()
	for {
		if err := m.patrolOnce(ctx); err != nil && ctx.Err() == nil {
			m.log.WarnContext(ctx, "trash or audits not looked at", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-m.loop.look:
		case <-every.C:
		}
	}
}

func (m *Removal) patrolOnce(ctx context.Context) error {
	_, err := m.SweepFiles(ctx)
	if err != nil {
		return err
	}
	drives, err := m.feed.DueAudits(ctx)
	if err != nil {
		return err
	}
	for _, fs := range drives {
		if err := m.auditNow(ctx, tree.FS(fs)); err != nil {
			return err
		}
	}
	return nil
}

// auditNow makes the mark of a drive due, and leaves one alone that is being worked on.
func (m *Removal) auditNow(ctx context.Context, fs tree.FS) error {
	changed := false
	err := m.db.Tx(ctx, func(tx *sqldb.Tx) error {
		state, _, err := scanMark(tx.QueryRow(ctx, readMark, int64(fs)))
		if err != nil {
			return err
		}
		var n int64
		switch state {
		case "":
			n, err = tx.Exec(ctx, insertMark, int64(fs), 0)
		case "PENDING":
			n, err = tx.Exec(ctx, hastenMark, int64(fs))
		case "RUNNING":
		default:
			n, err = tx.Exec(ctx, reviveMark, 0, int64(fs))
		}
		changed = n > 0
		return err
	})
	if err == nil && changed {
		m.marks.Wake()
	}
	return err
}
