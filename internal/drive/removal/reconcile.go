package removal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Class is a kind of row that nothing reaches.
type Class string

// The classes.
const (
	Dentries      Class = "dentry"        // entries of a directory that is gone
	Files         Class = "inode"         // files and links that no entry names
	Directories   Class = "dir_inode"     // directories that no entry names
	DetachedRoots Class = "detached_root" // entries of the trash without a job
)

var classes = []Class{Dentries, Files, Directories, DetachedRoots}

const (
	modeDryRun = "dry_run"
	modeRepair = "repair"
)

// Found counts what a reconcile found.
type Found map[Class]int64

// Any reports whether it found anything.
func (f Found) Any() bool {
	for _, n := range f {
		if n != 0 {
			return true
		}
	}
	return false
}

// stages are the phases of a pass, in their order; each pages over one key.
var stages = []string{"TRASH", "DENTRIES", "INODES"}

func (m *Removal) newMarks() *job.Store {
	return job.NewStore(m.db, job.Table{Name: "delete_reconcile_pending", Prefix: "reconcile"}, m.cfg.Job, job.Hooks{}, job.Observer{Logger: m.log})
}

// Marks returns the engine's view of delete_reconcile_pending.
func (m *Removal) Marks() *job.Store { return m.marks }

// place is where a pass stands.
type place struct {
	stage  int
	cursor string // of the stage's last page: a number, a name in the trash, or empty
}

func placeOf(p job.Point) (at place) {
	for i, s := range stages {
		if p.Phase == s {
			at = place{i, p.Cursor}
		}
	}
	return at
}

func (p place) point() job.Point { return job.Point{Phase: stages[p.stage], Cursor: p.cursor} }

func (p place) number() int64 {
	n, err := strconv.ParseInt(p.cursor, 10, 64)
	if err != nil {
		return 0 // the beginning
	}
	return n
}

// audit is one pass over a drive.
type audit struct {
	m      *Removal
	fs     tree.FS
	repair bool
	fence  func(ctx context.Context, tx *sqldb.Tx) error
	found  Found
}

// page looks at one page and returns where the next one begins; false at the end.
func (a *audit) page(ctx context.Context, at place) (next place, more bool, err error) {
	look := []func(context.Context, place) (string, error){a.trashPage, a.dentryPage, a.inodePage}[at.stage]
	cursor, err := look(ctx, at)
	switch {
	case err != nil:
		return at, true, err
	case cursor != "":
		return place{at.stage, cursor}, true, nil
	case at.stage+1 < len(stages):
		return place{stage: at.stage + 1}, true, nil
	}
	return place{}, false, nil
}

// note counts what was found.
func (a *audit) note(c Class, n int) {
	if n == 0 {
		return
	}
	mode := modeDryRun
	if a.repair {
		mode = modeRepair
	}
	a.found[c] += int64(n)
	a.m.metrics.found.WithLabelValues(string(c), mode).Add(float64(n))
}

// DryReconcile looks through a drive for what nothing reaches, and changes nothing. Of a
// drive that is written to it may count what is just about to go.
func (m *Removal) DryReconcile(ctx context.Context, fs tree.FS) (Found, error) {
	a := &audit{m: m, fs: fs, found: Found{}}
	for at, more := (place{}), true; more; {
		var err error
		if at, more, err = a.page(ctx, at); err != nil {
			return a.found, err
		}
	}
	return a.found, nil
}

// reconcileHandler runs the rows of delete_reconcile_pending.
type reconcileHandler struct{ m *Removal }

// Further compares stages, then cursors.
func (h reconcileHandler) Further(a, b job.Point) bool {
	x, y := placeOf(a), placeOf(b)
	if x.stage != y.stage {
		return x.stage < y.stage
	}
	return x.number() < y.number()
}

const markedDrive sqldb.Statement = "SELECT fs_id FROM delete_reconcile_pending WHERE id = ?"

// Run goes on with the pass of the claimed row.
func (h reconcileHandler) Run(ctx context.Context, run *job.Run) error {
	return h.m.reconcile(ctx, run)
}

func (m *Removal) reconcile(ctx context.Context, run session) error {
	row := run.Row()
	a := &audit{m: m, repair: true, found: Found{}}
	if json.Unmarshal(row.Progress, &a.found) != nil { // of the runs before, over the pages before
		a.found = Found{}
	}
	a.fence = func(ctx context.Context, tx *sqldb.Tx) error { return m.marks.Fence(ctx, tx, row.Lease()) }
	if err := m.sweeper.QueryRow(ctx, markedDrive, int64(row.ID)).Scan(&a.fs); err != nil {
		return err
	}
	at, more := placeOf(row.Point()), true
	// Saved before the first page: a mark that comes from now on knows that it is late.
	if err := run.Save(ctx, at.point(), a.found); err != nil {
		return err
	}
	for pages := 0; more; pages++ {
		if err := run.Admit(ctx); err != nil {
			return errors.Join(run.Save(ctx, at.point(), a.found), err)
		}
		if pages == m.cfg.ReconcilePages {
			return yield(ctx, run, at, a.found)
		}
		next, rest, err := a.page(ctx, at)
		if err != nil { // the page is looked at again
			return errors.Join(err, run.Save(ctx, at.point(), a.found))
		}
		at, more = next, rest
		if more && run.Due() {
			if err := run.Save(ctx, at.point(), a.found); err != nil {
				return err
			}
			if run.Yield() {
				return job.ErrYield
			}
		}
	}
	if a.found.Any() {
		m.log.WarnContext(ctx, "reconcile found rows that nothing reaches", "fs", int64(a.fs), "found", a.found)
	}
	return m.endPass(ctx, row.Lease(), a)
}

func yield(ctx context.Context, run session, at place, found Found) error {
	if err := run.Save(ctx, at.point(), found); err != nil {
		return err
	}
	return job.ErrYield
}

const (
	rearmAt   sqldb.Statement = "SELECT COALESCE(rearm_at, 0) FROM delete_reconcile_pending WHERE id = ?"
	againMark sqldb.Statement = `UPDATE delete_reconcile_pending SET state = 'PENDING', available_at = rearm_at, rearm_at = NULL, heartbeat_at = NULL, attempts = 0, stale_reclaims = 0,
		outage_since = NULL, phase = '', {q:cursor} = '', progress = '{}', last_error = '', updated_at = {now} WHERE id = ? AND lease_epoch = ?`
	dropMark sqldb.Statement = "DELETE FROM delete_reconcile_pending WHERE id = ? AND lease_epoch = ?"
)

// endPass ends a whole pass: the mark that came meanwhile stays, else the row goes.
func (m *Removal) endPass(ctx context.Context, l job.Lease, a *audit) error {
	err := m.sweeper.Tx(ctx, func(tx *sqldb.Tx) error {
		if err := m.marks.Fence(ctx, tx, l); err != nil {
			return err
		}
		if a.found.Any() { // and see whether it has converged
			if _, err := tx.Exec(ctx, rearmMark, m.cfg.ReconcileInterval.Milliseconds(), int64(a.fs)); err != nil {
				return err
			}
		}
		var at int64
		if err := tx.QueryRow(ctx, rearmAt, int64(l.ID)).Scan(&at); err != nil {
			return err
		}
		end := dropMark
		if at != 0 {
			end = againMark
		}
		if _, err := tx.Exec(ctx, end, int64(l.ID), l.Epoch); err != nil {
			return err
		}
		err := m.feed.AuditDone(ctx, tx, int64(a.fs), m.cfg.FullInterval)
		if fault.KindOf(err) == fault.NotFound {
			return nil // a drive without an account of its usage
		}
		return err
	}, sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		err := m.marks.Fence(ctx, tx, l)
		if errors.Is(err, job.ErrLeaseLost) { // the epoch was ours, so this ended it
			return true, nil
		}
		return false, err
	}))
	if err != nil {
		return err
	}
	return job.ErrEnded
}

const trashJobs sqldb.Statement = "SELECT id, root_inode FROM drive_delete_job {key} WHERE fs_id + 0 = ? AND id {in} AND state <> 'SUCCEEDED' AND restored_at IS NULL"

// owned returns which jobs stand for which roots, of the entries of the trash.
func (m *Removal) owned(ctx context.Context, r sqldb.Reader, fs tree.FS, entries []tree.Entry) (map[string]tree.Inode, error) {
	roots := map[string]tree.Inode{}
	var ids sqldb.IDs
	for _, e := range entries {
		if id, err := strconv.ParseInt(e.Name, 10, 64); err == nil {
			ids = append(ids, id)
		}
	}
	for len(ids) > 0 {
		n := min(len(ids), m.db.Dialect().MaxList)
		rows, err := r.Query(ctx, trashJobs, int64(fs), ids[:n])
		if err != nil {
			return nil, err
		}
		err = eachRow(rows, func(rows *sql.Rows) error {
			var id job.ID
			var root tree.Inode
			err := rows.Scan(&id, &root)
			roots[entryName(id)] = root
			return err
		})
		if err != nil {
			return nil, err
		}
		ids = ids[n:]
	}
	return roots, nil
}
