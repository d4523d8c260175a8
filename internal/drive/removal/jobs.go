package removal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// JobKind is what a row of drive_delete_job takes away.
type JobKind string

// The kinds of jobs. Trees are swept by workers; files lie in the trash until they are
// due and go in batches, without a lease.
const (
	TreeJob JobKind = "TREE"
	FileJob JobKind = "FILE"
)

// The phases of a row.
const (
	phaseSweep    = "SWEEP"
	phaseRestored = "RESTORED" // the job is over: what it had is back in the tree
)

// Job is a delete as its row describes it.
type Job struct {
	job.Row
	FS           tree.FS
	Kind         JobKind
	Root         tree.Inode // of the tree, or the file
	Path         string     // where it was deleted
	OriginParent tree.Inode
	OriginName   string
	RestoredAt   int64 // milliseconds since the Unix epoch, 0 if it was not
	Size         int64 // of a file that is not gone, in bytes; -1 of a tree, and where nobody noted it
	Counts       Counts
}

// Partial reports whether a sweep began and was cancelled: some of the tree is gone.
func (j Job) Partial() bool { return j.State == job.Cancelled && j.LeaseEpoch > 0 }

// Restorable reports whether everything is still there and may come back. That goes for a
// file that could not be deleted too.
func (j Job) Restorable() bool {
	return j.RestoredAt == 0 && j.LeaseEpoch == 0 && (j.State == job.Pending || j.State == job.Cancelled || j.State == job.Failed)
}

// Counts is what a delete took away, kept in its row.
type Counts struct {
	Files        int64 `json:"files"`       // dentries of files and links
	Directories  int64 `json:"directories"` // of them the root
	Bytes        int64 `json:"bytes"`       // freed
	Transactions int64 `json:"transactions"`
}

// Nodes is files and directories.
func (c Counts) Nodes() int64 { return c.Files + c.Directories }

func (c Counts) plus(o Counts) Counts {
	return Counts{c.Files + o.Files, c.Directories + o.Directories, c.Bytes + o.Bytes, c.Transactions + o.Transactions}
}

// json is the row's progress.
func (c Counts) json() json.RawMessage {
	raw, err := json.Marshal(c)
	if err != nil {
		return nil // four numbers always marshal
	}
	return raw
}

// point is how far a sweep has come: rows deleted, by all its runs.
func (c Counts) point() job.Point {
	return job.Point{Phase: phaseSweep, Cursor: strconv.FormatInt(c.Nodes(), 10)}
}

func further(a, b job.Point) bool {
	n := func(p job.Point) int64 {
		v, err := strconv.ParseInt(p.Cursor, 10, 64)
		if err != nil {
			return 0
		}
		return v
	}
	return n(b) > n(a)
}

func (m *Removal) newJobs() *job.Store {
	table := job.Table{Name: "drive_delete_job", Prefix: "delete", CancelAtOnce: true, AckKeeps: true, Only: "kind = 'TREE'"}
	hooks := job.Hooks{
		Settled: func(ctx context.Context, tx *sqldb.Tx, row job.Row, acked bool) error {
			if acked || row.State == job.Succeeded {
				return nil
			}
			j, err := m.readJob(ctx, tx, row.ID)
			if err != nil {
				return err
			}
			return m.mark(ctx, tx, j.FS)
		},
		Retrying: func(_ context.Context, _ *sqldb.Tx, row job.Row, _ job.RetryOptions) error {
			return m.notRestored(row)
		},
		FilesLeft: func(row job.Row) bool { return row.State != job.Succeeded && row.Phase != phaseRestored },
	}
	events := job.Events{Ended: m.ended}
	return job.NewStore(m.db, table, m.cfg.Job, hooks, job.Observer{Logger: m.log, Events: events})
}

func (m *Removal) notRestored(row job.Row) error {
	if row.Phase == phaseRestored {
		return fault.New("removal", fault.Conflict, CodeNotInTrash, "job %s is over: what it deleted was restored", m.jobs.Name(row.ID))
	}
	return nil
}

// Jobs returns the engine's view of drive_delete_job. Cancel, Retry and Ack of this
// package prove first whose the job is.
func (m *Removal) Jobs() *job.Store { return m.jobs }

// JobName is the public name of a job, such as delete-7.
func (m *Removal) JobName(id job.ID) string { return m.jobs.Name(id) }

// entryName is the name in the trash of what a job takes away.
func entryName(id job.ID) string { return strconv.FormatInt(int64(id), 10) }

// newJob is a tree or file that was just taken out of the tree.
type newJob struct {
	fs        tree.FS
	kind      JobKind
	node      tree.Node // Parent and Name are its origin
	path      string
	actor     string
	operation string // identity of the request, to read back an ambiguous commit
	delay     time.Duration
}

func (m *Removal) insertJob(ctx context.Context, tx *sqldb.Tx, n newJob) (job.ID, error) {
	var progress json.RawMessage
	if n.node.Kind == tree.File || n.node.Kind == tree.Symlink {
		progress = sizeProgress(n.node.Size)
	}
	return m.jobs.Insert(ctx, tx, job.New{
		RequestID: n.operation, CreatedBy: n.actor, Delay: n.delay, Progress: progress,
		Extra: []job.Extra{
			{Column: "fs_id", Value: int64(n.fs)},
			{Column: "kind", Value: string(n.kind)},
			{Column: "root_inode", Value: int64(n.node.Inode)},
			{Column: "path", Value: n.path},
			{Column: "origin_parent", Value: int64(n.node.Parent)},
			{Column: "origin_name", Value: n.node.Name},
		},
	})
}

const (
	jobColumns = `id, state, attempts, lease_epoch, available_at, paused, COALESCE(acked_at, 0), request_id, last_error, phase, progress, created_by, created_at, updated_at,
		fs_id, kind, root_inode, path, origin_parent, origin_name, COALESCE(restored_at, 0)`
	selectJob sqldb.Statement = "SELECT " + jobColumns + " FROM drive_delete_job WHERE id = ?"
	// On PostgreSQL in an order that the primary key does not give: a drive with few jobs would
	// be looked for in those of all.
	selectJobs sqldb.Statement = "SELECT " + jobColumns + " FROM drive_delete_job WHERE {on postgres}fs_id >= ? AND (fs_id, id) < ({again}, ?) AND fs_id > 0 ORDER BY fs_id DESC, id DESC{else}fs_id = ? AND id < ? ORDER BY id DESC{end} LIMIT ?"
	jobsOf     sqldb.Statement = "SELECT " + jobColumns + ` FROM {on postgres}(SELECT ?::bigint AS f, ?::text AS s) r, drive_delete_job
		WHERE (fs_id, state, id) < (f, s, ?) AND (fs_id, state, id) > (f, s, 0) AND fs_id >= 0 ORDER BY fs_id DESC, state DESC, id DESC{else}
		drive_delete_job WHERE fs_id = ? AND state = ? AND id < ? ORDER BY id DESC{end} LIMIT ?`
)

func scanJob(from interface{ Scan(dest ...any) error }) (j Job, err error) {
	var progress string
	err = from.Scan(&j.ID, &j.State, &j.Attempts, &j.LeaseEpoch, &j.AvailableAt, &j.Paused, &j.AckedAt, &j.RequestID, &j.LastError, &j.Phase, &progress, &j.CreatedBy,
		&j.CreatedAt, &j.UpdatedAt, &j.FS, &j.Kind, &j.Root, &j.Path, &j.OriginParent, &j.OriginName, &j.RestoredAt)
	j.Progress = json.RawMessage(progress)
	if err == nil && json.Unmarshal(j.Progress, &j.Counts) != nil {
		j.Counts = Counts{} // not written by this version: the sweep counts anew
	}
	j.Size = sizeIn(progress)
	return j, err
}

func (m *Removal) readJob(ctx context.Context, r sqldb.Reader, id job.ID) (Job, error) {
	j, err := scanJob(r.QueryRow(ctx, selectJob, int64(id)))
	if errors.Is(err, sql.ErrNoRows) {
		return Job{}, fault.New("removal.Job", fault.NotFound, job.CodeNoSuchJob, "job %s does not exist", m.jobs.Name(id))
	}
	return j, err
}

// Job returns a job of a drive; another drive's is fault.NotFound.
func (m *Removal) Job(ctx context.Context, fs tree.FS, id job.ID) (Job, error) {
	return m.jobOf(ctx, m.db, fs, id)
}

func (m *Removal) jobOf(ctx context.Context, r sqldb.Reader, fs tree.FS, id job.ID) (Job, error) {
	j, err := m.readJob(ctx, r, id)
	if err == nil && j.FS != fs {
		return Job{}, fault.New("removal.Job", fault.NotFound, job.CodeNoSuchJob, "job %s does not exist", m.jobs.Name(id))
	}
	return j, err
}

// List returns a page of a drive's jobs, newest first, those older than before (0: from
// the newest). An empty state means any.
func (m *Removal) List(ctx context.Context, fs tree.FS, state job.State, before job.ID, limit int) ([]Job, error) {
	if before <= 0 {
		before = 1 << 62
	}
	if state == "" {
		return m.readJobs(ctx, selectJobs, int64(fs), int64(before), limit)
	}
	return m.readJobs(ctx, jobsOf, int64(fs), string(state), int64(before), limit)
}

func (m *Removal) readJobs(ctx context.Context, s sqldb.Statement, args ...any) (list []Job, err error) {
	rows, err := m.db.Query(ctx, s, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		j, err := scanJob(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, j)
	}
	return list, rows.Err()
}

// Cancel stops a delete: what is gone is gone, the rest stays in the trash, restorable if
// nothing was begun.
func (m *Removal) Cancel(ctx context.Context, fs tree.FS, id job.ID) (Job, error) {
	return m.control(ctx, fs, id, func() error { _, err := m.jobs.Cancel(ctx, id); return err })
}

// Retry begins a FAILED or CANCELLED delete again.
func (m *Removal) Retry(ctx context.Context, fs tree.FS, id job.ID) (Job, error) {
	defer m.wake() // of a file, which the runner does not know
	return m.control(ctx, fs, id, func() error { _, err := m.jobs.Retry(ctx, id, job.RetryOptions{}); return err })
}

// Ack says that somebody knows of a FAILED or CANCELLED delete. The row stays as long as
// its tree does.
func (m *Removal) Ack(ctx context.Context, fs tree.FS, id job.ID) (Job, error) {
	return m.control(ctx, fs, id, func() error { _, err := m.jobs.Ack(ctx, id); return err })
}

func (m *Removal) control(ctx context.Context, fs tree.FS, id job.ID, do func() error) (Job, error) {
	j, err := m.jobOf(ctx, m.db, fs, id)
	if err != nil {
		return Job{}, err
	}
	if err := m.notRestored(j.Row); err != nil {
		return j, err
	}
	if err := do(); err != nil {
		return j, err
	}
	return m.jobOf(ctx, m.db, fs, id)
}
