package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// session is the run of a job as the sweep needs it.
type session interface {
	Row() job.Row
	Admit(ctx context.Context) error
	Due() bool
	Save(ctx context.Context, p job.Point, progress any) error
	Yield() bool
}

// sweepHandler runs the TREE rows of drive_delete_job.
type sweepHandler struct{ m *Removal }

// Run sweeps what the claimed row names.
func (h sweepHandler) Run(ctx context.Context, run *job.Run) error { return h.m.sweep(ctx, run) }

// Further compares the rows deleted.
func (h sweepHandler) Further(a, b job.Point) bool { return further(a, b) }

// sweep is one run over a detached tree. A pass walks down from the root with plain reads
// and gathers directories whose files fill about one batch; one transaction removes those
// (drain). Emptied directories leave from the tail of the list of those walked, whatever
// their depth (closeAll). What came late is found when its directory is closed, and goes in
// the next pass. Nothing is kept between runs.
type sweep struct {
	m      *Removal
	run    session
	job    Job
	lease  job.Lease
	counts Counts // committed, of all runs

	todo   []tree.Inode // to be read, last first
	done   []tree.Inode // read: parents stand before their children
	big    tree.Inode   // a directory of more entries than a batch, 0 for none,
	after  string       // and the last name of it that was read
	window int          // directories of the next read

	dirs int64 // of this pass: removed
	rows int64 // of this pass: removed dentries of files
}

// sweep runs until the tree is gone (job.ErrEnded: the row says so already), or has to stop.
func (m *Removal) sweep(ctx context.Context, run session) error {
	j, err := m.readJob(ctx, m.sweeper, run.Row().ID)
	if err != nil {
		return err
	}
	s := &sweep{m: m, run: run, job: j, lease: run.Row().Lease(), counts: j.Counts}
	began := time.Now()
	switch err = s.all(ctx); {
	case err == nil:
		m.log.InfoContext(ctx, "delete", "outcome", "ok", "fs", int64(j.FS), "path", j.Path, "inode", int64(j.Root), "job", m.jobs.Name(j.ID),
			"nodes", s.counts.Nodes(), "bytes", s.counts.Bytes, "elapsed", time.Since(began))
		return job.ErrEnded
	case errors.Is(err, job.ErrYield):
		m.metrics.incomplete.WithLabelValues("quantum").Inc()
	case errors.Is(err, job.ErrLeaseLost), errors.Is(err, job.ErrCancelled):
		if now, look := m.readJob(ctx, m.db, j.ID); look == nil && now.State == job.Cancelled {
			m.metrics.incomplete.WithLabelValues("cancelled").Inc()
			return job.ErrCancelled
		}
	case fault.KindOf(err) == fault.Busy:
		// Contention is not the job's fault, and ends: it counts like an outage.
		m.metrics.incomplete.WithLabelValues("lock_wait").Inc()
		return job.Outage(err)
	}
	return err
}

func (s *sweep) all(ctx context.Context) error {
	if err := s.barrier(ctx); err != nil {
		return err
	}
	for pass, idle := 0, 0; idle < maxIdle; pass++ {
		if err := s.pass(ctx); err != nil {
			return err
		}
		if pass > 0 {
			s.m.metrics.orphans.Add(float64(s.rows + s.dirs))
		}
		if gone, err := s.finish(ctx); err != nil || gone {
			return err
		}
		idle++
		if s.rows+s.dirs > 0 {
			idle = 0
		}
	}
	return fmt.Errorf("removal: nothing of %s could be removed in %d passes, and it is not empty", s.m.jobs.Name(s.job.ID), maxIdle)
}

// barrier waits for every detach and every move of a directory that may have resolved
// something inside this tree before it was detached; later ones find it gone. From here on
// nothing leaves the tree.
func (s *sweep) barrier(ctx context.Context) error {
	if !s.m.cfg.lax.noBarrier {
		if err := s.m.sweeper.Tx(ctx, func(tx *sqldb.Tx) error { return s.m.tree.MoveLock(ctx, tx, s.job.FS, true) }); err != nil {
			return err
		}
	}
	return s.m.step(ctx, "sweep.begin")
}

// pass removes what is below the root now.
func (s *sweep) pass(ctx context.Context) error {
	s.todo, s.done, s.big, s.after, s.window, s.rows, s.dirs = []tree.Inode{s.job.Root}, nil, 0, "", 64, 0, 0
	for len(s.todo) > 0 || s.big != 0 {
		b, err := s.gather(ctx)
		if err != nil {
			return err
		}
		if err := s.m.step(ctx, "sweep.gathered"); err != nil {
			return err
		}
		if b.files > 0 {
			if err := s.drain(ctx, b); err != nil {
				return err
			}
		}
		if len(s.done) >= s.m.held {
			if err := s.closeAll(ctx); err != nil {
				return err
			}
		}
		if err := s.attend(ctx); err != nil { // also while only empty directories are walked
			return err
		}
		// A run that removed nothing yet goes on: the next one would begin where it began.
		if s.run.Yield() && s.counts.Nodes() > s.job.Counts.Nodes() {
			if err := s.closeAll(ctx); err != nil {
				return err
			}
			return job.ErrYield
		}
	}
	return s.closeAll(ctx)
}

// attend keeps the row informed every second, and does what it says.
func (s *sweep) attend(ctx context.Context) error {
	if err := s.run.Admit(ctx); err != nil {
		return err
	}
	if !s.run.Due() {
		return nil
	}
	return s.run.Save(ctx, s.counts.point(), s.counts)
}

// tx is one transaction of the sweep: the fence first, then work, whose counts are known
// after the commit. When work finds other rows than it read, all of it runs again.
func (s *sweep) tx(ctx context.Context, work func(tx *sqldb.Tx) (Counts, error)) (Counts, error) {
	m := s.m
	if err := s.run.Admit(ctx); err != nil {
		return Counts{}, err
	}
	var got Counts
	tries, began := 0, time.Now()
	err := m.again(ctx, func() error {
		return m.sweeper.Tx(ctx, func(tx *sqldb.Tx) error {
			if tries++; tries > 1 {
				m.metrics.retries.Inc()
			}
			err := m.fenced(m.jobs.SaveIn(ctx, tx, s.lease, s.counts.point(), s.counts.json(), further(s.job.Point(), s.counts.point())))
			if err != nil {
				return err
			}
			if got, err = work(tx); err != nil || got.Nodes() == 0 {
				return err
			}
			// What is gone is said with it: a server that dies after every batch has still
			// made progress each time.
			done := s.counts.plus(got).plus(Counts{Transactions: 1})
			return m.fenced(m.jobs.SaveIn(ctx, tx, s.lease, done.point(), done.json(), true))
		})
	})
	if err != nil {
		return Counts{}, fmt.Errorf("removal: sweep of %s: %w", m.jobs.Name(s.job.ID), err)
	}
	m.metrics.seconds.Observe(time.Since(began).Seconds())
	m.metrics.nodes.Add(float64(got.Nodes()))
	got.Transactions = 1
	s.counts = s.counts.plus(got)
	return got, m.step(ctx, "sweep.between")
}

// drain removes the files of one batch.
func (s *sweep) drain(ctx context.Context, b batch) error {
	m, fs := s.m, s.job.FS
	got, err := s.tx(ctx, func(tx *sqldb.Tx) (c Counts, err error) {
		in := b.within()
		if !m.cfg.lax.noSetLock {
			// One that an overlapping rmdir or fast path took is not there any more.
			dirs, err := m.tree.LockDirectories(ctx, tx, fs, b.dirs)
			if err != nil || len(dirs) == 0 {
				return c, err
			}
			if in.Slice == nil {
				in.Parents = dirs
			}
		}
		if err := m.step(ctx, "sweep.locked"); err != nil {
			return c, err
		}
		files, err := m.tree.FilesIn(ctx, tx, fs, in)
		if err != nil || len(files) == 0 {
			return c, err
		}
		if err := m.step(ctx, "sweep.read"); err != nil {
			return c, err
		}
		if err := exactly(len(files), m.cfg.lax)(m.tree.DeleteFiles(ctx, tx, fs, in)); err != nil {
			return c, err
		}
		freed, err := m.unlink(ctx, tx, fs, perInode(files))
		if err != nil {
			return c, err
		}
		c.Files, c.Bytes = int64(len(files)), freed.Bytes
		return c, m.step(ctx, "sweep.deleted")
	})
	m.metrics.batches.Inc()
	s.rows += got.Files
	return err
}

// finish removes the root and ends the job; false when something is left below it.
func (s *sweep) finish(ctx context.Context) (gone bool, err error) {
	m, fs, root := s.m, s.job.FS, s.job.Root
	if err := s.run.Admit(ctx); err != nil {
		return false, err
	}
	end := s.counts.plus(Counts{Directories: 1, Transactions: 1})
	err = m.again(ctx, func() error {
		return m.sweeper.Tx(ctx, func(tx *sqldb.Tx) error {
			if err := m.fenced(m.jobs.SucceedIn(ctx, tx, s.lease, end.point(), end.json())); err != nil {
				return err
			}
			locked, err := m.tree.LockDirectories(ctx, tx, fs, []tree.Inode{root})
			if err != nil {
				return err
			}
			if len(locked) == 0 {
				return job.Terminal(fmt.Errorf("%w: the root of %s, inode %d, is not there", errDamaged, m.jobs.Name(s.job.ID), root))
			}
			if err := m.step(ctx, "sweep.rootlocked"); err != nil {
				return err
			}
			if childless, err := m.tree.Childless(ctx, tx, fs, root); err != nil || !childless {
				return errors.Join(err, errNotChildless)
			}
			if err := m.step(ctx, "sweep.rootchildless"); err != nil {
				return err
			}
			if err := m.tree.RemoveDentry(ctx, tx, fs, tree.Node{Parent: tree.Trash, Name: entryName(s.job.ID), Inode: root}); err != nil {
				return err
			}
			if err := m.RemoveDirectories(ctx, tx, fs, []tree.Inode{root}); err != nil {
				return err
			}
			return m.mark(ctx, tx, fs)
		}, m.confirmEnd(s.lease))
	})
	if errors.Is(err, errNotChildless) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("removal: end of %s: %w", m.jobs.Name(s.job.ID), err)
	}
	s.counts = end
	m.metrics.nodes.Inc()
	return true, m.step(ctx, "sweep.between")
}

var errNotChildless = errors.New("removal: the root is not empty")

const holdJob sqldb.Statement = "SELECT state FROM drive_delete_job WHERE id = ? AND lease_epoch = ? {for update}"

// confirmEnd reads an ambiguous end back: only the holder of the epoch writes SUCCEEDED.
func (m *Removal) confirmEnd(l job.Lease) sqldb.Option {
	return sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		var state job.State
		err := tx.QueryRow(ctx, holdJob, int64(l.ID), l.Epoch).Scan(&state)
		return state == job.Succeeded, err
	})
}

// fenced is the answer of the write that begins a transaction.
func (m *Removal) fenced(err error) error {
	if m.cfg.lax.noFence && errors.Is(err, job.ErrLeaseLost) {
		return nil
	}
	return err
}

// sortedSet returns ids in order, each once, in a slice of its own.
func sortedSet(ids []tree.Inode) []tree.Inode {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return slices.Compact(ids)
}
