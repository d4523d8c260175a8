package removal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

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
	WHERE id = ? AND NULLIF(state, '') = 'PENDING' AND restored_at IS NULL`

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

const dueNowAll sqldb.Statement = `UPDATE drive_delete_job {key} SET available_at = {now}, updated_at = {now}
	WHERE id {in} AND fs_id + 0 = ? AND NULLIF(state, '') = 'PENDING' AND available_at > {now} AND restored_at IS NULL`

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
			switch j.State {
			case job.Pending:
				waiting = append(waiting, int64(j.ID))
				continue
			case job.Running: // it is going already
				continue
			case job.Failed, job.Cancelled, job.Succeeded:
			}
			switch _, err := m.Empty(ctx, fs, j.ID); fault.KindOf(err) {
			case fault.Conflict, fault.NotFound: // that one was restored, or went, meanwhile
			default:
				if err != nil {
					return n, err
				}
				n++
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
// removes them, and a restore is decided by the same rows. Where ids are given, state and
// kind are asked in a way that no index answers: planners take that of states while few rows
// seem to have one.
const (
	dueFiles sqldb.Statement = `SELECT id, fs_id, root_inode FROM drive_delete_job WHERE kind = 'FILE' AND state = 'PENDING' AND available_at <= (SELECT {now}) AND paused = 0
		ORDER BY available_at LIMIT ?`
	holdFiles sqldb.Statement = `SELECT id, root_inode FROM drive_delete_job {key} WHERE id {in} AND NULLIF(kind, '') = 'FILE' AND NULLIF(state, '') = 'PENDING' AND paused = 0 ORDER BY id {for update}`
	failFile  sqldb.Statement = `UPDATE drive_delete_job SET state = 'FAILED', last_error = ?, updated_at = {now} WHERE id = ? AND NULLIF(kind, '') = 'FILE' AND NULLIF(state, '') = 'PENDING'`
	endFiles  sqldb.Statement = `UPDATE drive_delete_job {key} SET state = 'SUCCEEDED', progress = ?, updated_at = {now} WHERE id {in} AND NULLIF(kind, '') = 'FILE' AND NULLIF(state, '') = 'PENDING'`
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
