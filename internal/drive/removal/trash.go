package removal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// inTrash are the states of rows whose tree or file is still there, wholly or in part.
var inTrash = []job.State{job.Pending, job.Running, job.Failed, job.Cancelled}

// Trash returns a page of what lies in the trash, newest first, deleted before the given
// job (0: from the newest). next is 0 at the end.
func (m *Removal) Trash(ctx context.Context, fs tree.FS, before job.ID, limit int) (list []Job, next job.ID, err error) {
	if before <= 0 {
		before = 1 << 62
	}
	for _, state := range inTrash {
		part, err := m.readJobs(ctx, jobsOf, int64(fs), string(state), int64(before), limit+1)
		if err != nil {
			return nil, 0, err
		}
		list = append(list, part...)
	}
	slices.SortFunc(list, func(a, b Job) int { return cmp.Compare(b.ID, a.ID) })
	if len(list) > limit { // cut before the restored are left out: none of a later page is lost
		list = list[:limit]
		next = list[limit-1].ID
	}
	return slices.DeleteFunc(list, func(j Job) bool { return j.RestoredAt != 0 }), next, nil
}

const dueNow sqldb.Statement = `UPDATE drive_delete_job SET available_at = {now}, updated_at = {now}
	WHERE id = ? AND state = 'PENDING' AND restored_at IS NULL`

// Empty lets one job go on now: what lies in the trash is due, a cancelled or failed delete
// begins again. What was restored, or has gone, is fault.Conflict.
func (m *Removal) Empty(ctx context.Context, fs tree.FS, id job.ID) (Job, error) {
	return m.control(ctx, fs, id, func() error {
		n, err := m.db.Exec(ctx, dueNow, int64(id))
		if err != nil || n == 1 {
			m.wake()
			return err
		}
		j, err := m.jobOf(ctx, m.db, fs, id)
		switch {
		case err != nil:
			return err
		case j.State == job.Running:
			return nil // it is going on already
		case j.State == job.Succeeded || j.RestoredAt != 0:
			return fault.New("removal.Empty", fault.Conflict, CodeNotInTrash, "%s is not in the trash any more", m.jobs.Name(id))
		}
		_, err = m.jobs.Retry(ctx, id, job.RetryOptions{})
		m.wake()
		return err
	})
}

const dueNowAll sqldb.Statement = `UPDATE drive_delete_job SET available_at = {now}, updated_at = {now}
	WHERE id {in} AND fs_id = ? AND state = 'PENDING' AND available_at > {now} AND restored_at IS NULL`

// EmptyAll is Empty of everything in a drive's trash, and returns how many jobs that were.
func (m *Removal) EmptyAll(ctx context.Context, fs tree.FS) (n int, err error) {
	defer m.wake()
	for before := job.ID(0); ; {
		list, next, err := m.Trash(ctx, fs, before, min(m.batch, m.db.Dialect().MaxList))
		if err != nil {
			return n, err
		}
		var waiting sqldb.IDs
		for _, j := range list {
			if j.State == job.Pending {
				waiting = append(waiting, int64(j.ID))
				continue
			}
			switch _, err := m.Empty(ctx, fs, j.ID); {
			case err == nil:
				n++
			case fault.KindOf(err) != fault.Conflict: // that one was restored, or went, meanwhile
				return n, err
			}
		}
		if len(waiting) > 0 {
			hit, err := m.db.Exec(ctx, dueNowAll, waiting, int64(fs))
			if err != nil {
				return n, err
			}
			n += int(hit)
		}
		if next == 0 {
			return n, nil
		}
		before = next
	}
}

// Files of the trash have no lease: the transaction that makes their rows SUCCEEDED
// removes them, and a restore is decided by the same rows.
const (
	dueFiles sqldb.Statement = `SELECT id, fs_id, root_inode FROM drive_delete_job WHERE kind = 'FILE' AND state = 'PENDING' AND available_at <= (SELECT {now}) AND paused = 0
		ORDER BY available_at LIMIT ?`
	holdFiles sqldb.Statement = `SELECT id, root_inode FROM drive_delete_job WHERE id {in} AND kind = 'FILE' AND state = 'PENDING' AND paused = 0 ORDER BY id {for update}`
	failFile  sqldb.Statement = `UPDATE drive_delete_job SET state = 'FAILED', last_error = ?, updated_at = {now} WHERE id = ? AND kind = 'FILE' AND state = 'PENDING'`
	endFiles  sqldb.Statement = `UPDATE drive_delete_job SET state = 'SUCCEEDED', progress = ?, updated_at = {now} WHERE id {in} AND kind = 'FILE' AND state = 'PENDING'`
)

// SweepFiles deletes files of the trash that are due, a batch at once, until none is left.
// It returns how many they were.
func (m *Removal) SweepFiles(ctx context.Context) (total int, err error) {
	for {
		due, fs, err := m.dueFiles(ctx)
		if err != nil || len(due) == 0 {
			return total, err
		}
		n, err := m.fileBatch(ctx, fs, due)
		if errors.Is(err, errDamaged) || errors.Is(err, ErrDeleteIncomplete) {
			n, err = m.oneByOne(ctx, fs, due) // so that one does not hold up the rest
		}
		total += n
		if err != nil {
			return total, fmt.Errorf("removal: files of the trash: %w", err)
		}
	}
}

func (m *Removal) fileBatch(ctx context.Context, fs tree.FS, due sqldb.IDs) (n int, err error) {
	err = m.again(ctx, func() error {
		return m.sweeper.Tx(ctx, func(tx *sqldb.Tx) (err error) {
			n, err = m.endFiles(ctx, tx, fs, due)
			return err
		})
	})
	if err != nil {
		return 0, err
	}
	m.metrics.nodes.Add(float64(n))
	return n, nil
}

// oneByOne makes what cannot go FAILED, where people see it.
func (m *Removal) oneByOne(ctx context.Context, fs tree.FS, due sqldb.IDs) (total int, err error) {
	for _, id := range due {
		n, err := m.fileBatch(ctx, fs, sqldb.IDs{id})
		total += n
		if errors.Is(err, errDamaged) {
			m.log.ErrorContext(ctx, "file of the trash not deleted", "job", m.jobs.Name(job.ID(id)), "fs", int64(fs), "error", err)
			m.metrics.failed.Inc()
			_, err = m.sweeper.Exec(ctx, failFile, err.Error(), id)
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// dueFiles reads the oldest due rows, of one drive.
func (m *Removal) dueFiles(ctx context.Context) (due sqldb.IDs, fs tree.FS, err error) {
	rows, err := m.sweeper.Query(ctx, dueFiles, min(m.batch, m.db.Dialect().MaxList))
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id, of, root int64
		if err := rows.Scan(&id, &of, &root); err != nil {
			return nil, 0, err
		}
		if fs == 0 {
			fs = tree.FS(of)
		}
		if tree.FS(of) == fs {
			due = append(due, id)
		}
	}
	slices.Sort(due)
	return due, fs, rows.Err()
}

// endFiles is one batch: those that are still PENDING under the lock.
func (m *Removal) endFiles(ctx context.Context, tx *sqldb.Tx, fs tree.FS, due sqldb.IDs) (int, error) {
	var ids sqldb.IDs
	var names []string
	counts := map[tree.Inode]int64{}
	rows, err := tx.Query(ctx, holdFiles, due)
	if err != nil {
		return 0, err
	}
	err = eachRow(rows, func(rows *sql.Rows) error {
		var id int64
		var root tree.Inode
		err := rows.Scan(&id, &root)
		ids, names = append(ids, id), append(names, entryName(job.ID(id)))
		counts[root]++
		return err
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	if err := exactly(len(ids), m.cfg.lax)(tx.Exec(ctx, endFiles, string(Counts{Files: 1, Transactions: 1}.json()), ids)); err != nil {
		return 0, err
	}
	if err := m.step(ctx, "trash.ended"); err != nil {
		return 0, err
	}
	if err := exactly(len(ids), m.cfg.lax)(m.tree.DeleteTrashed(ctx, tx, fs, names)); err != nil {
		return 0, err
	}
	if _, err := m.Unlink(ctx, tx, fs, counts); err != nil {
		return 0, err
	}
	return len(ids), m.mark(ctx, tx, fs)
}

func eachRow(rows *sql.Rows, fn func(*sql.Rows) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

const restoreJob sqldb.Statement = `UPDATE drive_delete_job SET state = 'CANCELLED', phase = 'RESTORED', restored_at = {now}, heartbeat_at = NULL, updated_at = {now}
	WHERE id = ? AND fs_id = ? AND lease_epoch = 0 AND restored_at IS NULL AND state IN ('PENDING', 'CANCELLED')`

// Restored is where a restore put what it found.
type Restored struct {
	Job   Job
	Path  tree.Path
	Inode tree.Inode
}

// Restore brings a tree or file back, to where it was deleted, or to the path of to if
// that is not nil. What a worker has claimed, what was restored already and a name that
// is taken are fault.Conflict; a directory that is not there any more is fault.NotFound.
func (m *Removal) Restore(ctx context.Context, fs tree.FS, id job.ID, to *tree.Path, actor string) (back Restored, err error) {
	err = m.again(ctx, func() error {
		return m.db.Tx(ctx, func(tx *sqldb.Tx) (err error) {
			back, err = m.restore(ctx, tx, fs, id, to, actor)
			return err
		})
	})
	return back, err
}

func (m *Removal) restore(ctx context.Context, tx *sqldb.Tx, fs tree.FS, id job.ID, to *tree.Path, actor string) (back Restored, err error) {
	if err := m.tree.MoveLock(ctx, tx, fs, true); err != nil {
		return back, err
	}
	j, err := m.jobOf(ctx, tx, fs, id)
	if err != nil {
		return back, err
	}
	n, err := tx.Exec(ctx, restoreJob, int64(id), int64(fs)) // decides against workers and other restores
	if err != nil {
		return back, err
	}
	if n != 1 {
		return back, fault.New("removal.Restore", fault.Conflict, CodeNotInTrash, "%s cannot be restored any more: it is %s", m.jobs.Name(id), j.standing())
	}
	parent, name, path, err := m.home(ctx, tx, j, to)
	if err != nil {
		return back, err
	}
	if err := m.tree.LockShared(ctx, tx, fs, parent); err != nil {
		return back, err
	}
	err = m.tree.Move(ctx, tx, fs, tree.Node{Parent: tree.Trash, Name: entryName(id), Inode: j.Root}, parent, name)
	if errors.Is(err, tree.ErrExists) {
		return back, fault.Wrap("removal.Restore", fault.Conflict, CodeExists, err, "%s is taken", path)
	}
	if err != nil {
		return back, err
	}
	if err := m.step(ctx, "restore.moved"); err != nil {
		return back, err
	}
	err = m.feed.Publish(ctx, tx, int64(fs), feed.Event{Kind: feed.Reset, Parent: int64(parent), Name: name, Inode: int64(j.Root), Path: path.String(), Actor: actor})
	if err != nil {
		return back, err
	}
	j, err = m.jobOf(ctx, tx, fs, id)
	return Restored{Job: j, Path: path, Inode: j.Root}, err
}

// standing says in words why a job's tree cannot come back.
func (j Job) standing() string {
	switch {
	case j.RestoredAt != 0:
		return "restored"
	case j.Partial():
		return "deleted in part"
	}
	return string(j.State)
}

// home finds the directory and name that a restore goes to, visible now. Under the
// exclusive move lock it stays visible.
func (m *Removal) home(ctx context.Context, tx *sqldb.Tx, j Job, to *tree.Path) (parent tree.Inode, name string, path tree.Path, err error) {
	if to != nil {
		if to.IsRoot() {
			return 0, "", path, fault.New("removal.Restore", fault.Conflict, CodeExists, "/ is taken")
		}
		at, err := m.tree.Resolve(ctx, tx, j.FS, to.Parent())
		if err != nil {
			return 0, "", path, err
		}
		if !at.Exists() || at.Last().Kind != tree.Directory {
			return 0, "", path, fault.New("removal.Restore", fault.NotFound, CodeNoSuchPath, "there is no directory %s", to.Parent())
		}
		return at.Last().Inode, to.Base(), *to, nil
	}
	above, visible, err := m.tree.PathOf(ctx, tx, j.FS, j.OriginParent)
	if err != nil {
		return 0, "", path, err
	}
	if !visible {
		return 0, "", path, fault.New("removal.Restore", fault.NotFound, CodeNoSuchPath, "the directory that %s was in is gone: say where to restore it", j.Path)
	}
	path, err = above.Join(j.OriginName)
	return j.OriginParent, j.OriginName, path, err
}
