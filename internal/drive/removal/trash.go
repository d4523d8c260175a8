package removal

import (
	"cmp"
	"context"
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

const dueNow sqldb.Statement = `UPDATE drive_delete_job SET available_at = {now}, paused = 0, updated_at = {now}
	WHERE id = ? AND restored_at IS NULL AND (NULLIF(state, '') = 'PENDING' OR (NULLIF(state, '') = 'RUNNING' AND paused = 1))`

// Empty lets one job go on now: what lies in the trash is due, a paused delete is resumed, a
// cancelled or failed one begins again. What was restored, or has gone, is fault.Conflict.
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

// The same of a page of the trash. What ended begins again as job.Store.Retry has it.
const (
	dueNowAll sqldb.Statement = `UPDATE drive_delete_job {key} SET available_at = {now}, paused = 0, updated_at = {now}
	WHERE id {in} AND fs_id + 0 = ? AND restored_at IS NULL
	AND ((NULLIF(state, '') = 'PENDING' AND available_at > {now}) OR (NULLIF(state, '') IN ('PENDING', 'RUNNING') AND paused = 1))`
	beginAgainAll sqldb.Statement = `UPDATE drive_delete_job {key} SET state = 'PENDING', attempts = 0, stale_reclaims = 0, outage_since = NULL, acked_at = NULL,
	cancel_requested_at = NULL, {q:cursor} = '', available_at = {now}, updated_at = {now}
	WHERE id {in} AND fs_id + 0 = ? AND restored_at IS NULL AND NULLIF(state, '') IN ('FAILED', 'CANCELLED')`
)

// EmptyAll is Empty of all in a drive's trash whose path may says yes to (nil: of
// everything), and returns how many jobs that were. It reads the trash in pages and writes
// two statements for each, however much of a page it is about; what was written stays
// when a later page fails.
func (m *Removal) EmptyAll(ctx context.Context, fs tree.FS, may func(path string) bool) (n int, err error) {
	defer m.wake()
	for before := job.ID(0); ; {
		list, next, err := m.Trash(ctx, fs, before, min(m.batch, m.db.Dialect().MaxList))
		if err != nil {
			return n, err
		}
		var waiting, ended sqldb.IDs
		for _, j := range slices.Backward(list) { // ascending, as locks are taken
			if may != nil && !may(j.Path) {
				continue
			}
			if j.State.Ended() {
				ended = append(ended, int64(j.ID))
			} else {
				waiting = append(waiting, int64(j.ID))
			}
		}
		for _, part := range []struct {
			write sqldb.Statement
			ids   sqldb.IDs
		}{{dueNowAll, waiting}, {beginAgainAll, ended}} {
			if len(part.ids) == 0 {
				continue
			}
			hit, err := m.db.Exec(ctx, part.write, part.ids, int64(fs))
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
