package removal

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Files of the trash have no lease: the transaction that makes their rows SUCCEEDED
// removes them, and a restore is decided by the same rows. Where ids are given, state and
// kind are asked in a way that no index answers: planners take that of states while few rows
// seem to have one.
const (
	dueFiles sqldb.Statement = `SELECT id, fs_id, root_inode FROM drive_delete_job WHERE kind = 'FILE' AND state = 'PENDING' AND available_at <= (SELECT {now}) AND paused = 0
		ORDER BY available_at LIMIT ?`
	holdFiles sqldb.Statement = `SELECT id, root_inode, progress FROM drive_delete_job {key}
		WHERE id {in} AND NULLIF(kind, '') = 'FILE' AND NULLIF(state, '') = 'PENDING' AND paused = 0 ORDER BY id {for update}`
	endFiles sqldb.Statement = `UPDATE drive_delete_job {key} SET state = 'SUCCEEDED', progress = REPLACE(progress, ?, ?), last_error = '', updated_at = {now}
		WHERE id {in} AND NULLIF(kind, '') = 'FILE' AND NULLIF(state, '') = 'PENDING'`
	countFiles sqldb.Statement = "UPDATE drive_delete_job {key} SET progress = ? WHERE id {in}"
	putOffFile sqldb.Statement = `UPDATE drive_delete_job SET state = ?, attempts = ?, last_error = ?, available_at = {now} + ?, updated_at = {now}
		WHERE id = ? AND NULLIF(kind, '') = 'FILE' AND NULLIF(state, '') = 'PENDING'`
)

// The progress of a file in the trash is its size, and then what was freed: endFiles turns
// the one text into the other.
const (
	sizeText = `{"size":`
	goneText = `{"files":1,"directories":0,"transactions":1,"bytes":`
)

// SweepFiles deletes files of the trash that are due, a batch at once, until none is left or
// none of a batch could go: what was put off may be due again soon. It returns how many they
// were.
func (m *Removal) SweepFiles(ctx context.Context) (total int, err error) {
	for {
		due, fs, err := m.dueFiles(ctx)
		if err != nil || len(due) == 0 {
			return total, err
		}
		n, err := m.fileBatch(ctx, fs, due)
		if err != nil && !outside(ctx, err) {
			n, err = m.oneByOne(ctx, fs, due)
		}
		total += n
		if err != nil {
			return total, fmt.Errorf("removal: files of the trash: %w", err)
		}
		if n == 0 {
			return total, nil
		}
	}
}

// outside reports trouble that says nothing about the files.
func outside(ctx context.Context, err error) bool {
	return ctx.Err() != nil || fault.Is(err, sqldb.CodeUnavailable) || fault.KindOf(err) == fault.Full || fault.KindOf(err) == fault.Unknown
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

// oneByOne lets go what can go, so that what can not does not hold it up.
func (m *Removal) oneByOne(ctx context.Context, fs tree.FS, due sqldb.IDs) (total int, err error) {
	for _, id := range due {
		n, err := m.fileBatch(ctx, fs, sqldb.IDs{id})
		total += n
		if err != nil && !outside(ctx, err) {
			err = m.putOff(ctx, fs, job.ID(id), err)
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// putOff writes into the row why its file did not go, and when it is tried again. Rows that
// contradict each other make it FAILED, and so does the last attempt; contention is none.
func (m *Removal) putOff(ctx context.Context, fs tree.FS, id job.ID, cause error) error {
	j, err := m.readJob(ctx, m.sweeper, id)
	if err != nil {
		return err
	}
	cfg, state, attempts := m.jobs.Config(), job.Pending, j.Attempts
	if fault.KindOf(cause) != fault.Busy || moved(cause) {
		attempts++
	}
	pause := min(cfg.RetryBase<<(2*max(attempts-1, 0)), maxPutOff)
	if errors.Is(cause, errDamaged) || attempts >= cfg.MaxAttempts {
		state, pause = job.Failed, 0
	}
	text := strings.ReplaceAll(strings.ToValidUTF8(cause.Error(), "?"), "\x00", "?")
	n, err := m.sweeper.Exec(ctx, putOffFile, string(state), attempts, text[:min(len(text), maxErrorText)], (pause/2 + rand.N(pause/2+1)).Milliseconds(), int64(id))
	if err != nil || n == 0 { // somebody restored it, or ended it after all
		return err
	}
	m.log.ErrorContext(ctx, "file of the trash not deleted", "job", m.jobs.Name(id), "fs", int64(fs), "state", string(state), "attempt", attempts, "error", cause)
	if state == job.Failed {
		m.metrics.failed.Inc()
	}
	return nil
}

const (
	maxPutOff    = 30 * time.Minute
	maxErrorText = 2000 // bytes of last_error
)

// dueFiles reads the oldest due rows, of one drive.
func (m *Removal) dueFiles(ctx context.Context) (due sqldb.IDs, fs tree.FS, err error) {
	rows, err := m.sweeper.Query(ctx, dueFiles, min(m.batch, m.db.Dialect().MaxList))
	if err != nil {
		return nil, 0, err
	}
	err = eachRow(rows, func(rows *sql.Rows) error {
		var id, of, root int64
		if err := rows.Scan(&id, &of, &root); err != nil {
			return err
		}
		if fs == 0 {
			fs = tree.FS(of)
		}
		if tree.FS(of) == fs {
			due = append(due, id)
		}
		return nil
	})
	slices.Sort(due)
	return due, fs, err
}

// trashed is a file of a batch.
type trashed struct {
	id   int64
	root tree.Inode
	size int64 // as its row has it, -1: it does not say
}

// endFiles is one batch: those that are still PENDING under the lock.
func (m *Removal) endFiles(ctx context.Context, tx *sqldb.Tx, fs tree.FS, due sqldb.IDs) (int, error) {
	batch, err := m.holdFiles(ctx, tx, due)
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	ids, names := make(sqldb.IDs, len(batch)), make([]string, len(batch))
	counts := map[tree.Inode]int64{}
	for i, f := range batch {
		ids[i], names[i] = f.id, entryName(job.ID(f.id))
		counts[f.root]++
	}
	if err := exactly(len(ids), m.cfg.lax)(tx.Exec(ctx, endFiles, sizeText, goneText, ids)); err != nil {
		return 0, err
	}
	if err := m.step(ctx, "trash.ended"); err != nil {
		return 0, err
	}
	if err := exactly(len(ids), m.cfg.lax)(m.tree.DeleteTrashed(ctx, tx, fs, names)); err != nil {
		return 0, err
	}
	lost := make([]unlinked, 0, len(counts))
	for ino, k := range counts {
		lost = append(lost, unlinked{Leaf: tree.Leaf{Inode: ino}, entries: k})
	}
	slices.SortFunc(lost, byInode)
	if _, err := m.unlink(ctx, tx, fs, lost); err != nil {
		return 0, err
	}
	if err := m.countFiles(ctx, tx, batch, lost); err != nil {
		return 0, err
	}
	return len(ids), m.mark(ctx, tx, fs)
}

func (m *Removal) holdFiles(ctx context.Context, tx *sqldb.Tx, due sqldb.IDs) (batch []trashed, err error) {
	rows, err := tx.Query(ctx, holdFiles, due)
	if err != nil {
		return nil, err
	}
	err = eachRow(rows, func(rows *sql.Rows) error {
		var f trashed
		var progress string
		err := rows.Scan(&f.id, &f.root, &progress)
		f.size = sizeIn(progress)
		batch = append(batch, f)
		return err
	})
	return batch, err
}

// countFiles sets right the rows of those files that did not free what their rows say: one
// that has another name elsewhere, or was written by it since. It is one statement for each
// number of bytes, and none in the usual case.
func (m *Removal) countFiles(ctx context.Context, tx *sqldb.Tx, batch []trashed, gone []unlinked) error {
	wrong := map[int64]sqldb.IDs{} // by bytes
	for _, f := range batch {
		at, _ := slices.BinarySearchFunc(gone, f.root, func(u unlinked, ino tree.Inode) int { return cmp.Compare(u.Inode, ino) })
		bytes := int64(0)
		if u := &gone[at]; u.NLink == u.entries {
			bytes, u.Size = u.Size, 0 // of its names in one batch the first counts
		}
		if bytes != f.size {
			wrong[bytes] = append(wrong[bytes], f.id)
		}
	}
	for _, bytes := range slices.Sorted(maps.Keys(wrong)) {
		if _, err := tx.Exec(ctx, countFiles, string(Counts{Files: 1, Bytes: bytes, Transactions: 1}.json()), wrong[bytes]); err != nil {
			return err
		}
	}
	return nil
}

// sizeProgress is the progress of a file that goes to the trash.
func sizeProgress(size int64) json.RawMessage { return fmt.Appendf(nil, "%s%d}", sizeText, size) }

// sizeIn is the size that a row's progress tells, -1 when it does not.
func sizeIn(progress string) int64 {
	var p struct {
		Size *int64 `json:"size"`
	}
	if json.Unmarshal([]byte(progress), &p) != nil || p.Size == nil {
		return -1
	}
	return *p.Size
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
