package content

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// A claim makes its tasks due again after the lease. So one statement takes tasks that
// nobody has claimed, those of a dead collector, and those that failed and have waited.
const (
	claimTasks sqldb.Statement = `{on mysql}UPDATE file_gc_tasks {index:file_gc_tasks_due}
		SET claim = ?, claimed_at = {now}, due_at = {now} + ? WHERE due_at <= {now} ORDER BY due_at LIMIT ?
		{else}UPDATE file_gc_tasks SET claim = ?, claimed_at = {now}, due_at = {now} + ?
		WHERE (fs_id, object_key) IN (SELECT fs_id, object_key FROM file_gc_tasks
			WHERE due_at <= (SELECT {now}) ORDER BY due_at LIMIT ? {for update} {skip locked}) AND due_at <= (SELECT {now}){end}`
	claimedTasks sqldb.Statement = `SELECT t.fs_id, t.object_key, t.multipart, t.attempts,
		(SELECT 1 FROM contents c {index:contents_object} WHERE c.fs_id = t.fs_id AND c.object_key = t.object_key LIMIT 1),
		(SELECT 1 FROM upload_parts p {index:upload_parts_object} WHERE p.fs_id = t.fs_id AND p.object_key = t.object_key LIMIT 1)
		FROM file_gc_tasks t {index:file_gc_tasks_claim} WHERE t.claim = ?`
	// What failed, or is named, leaves the claim, so that the rest can be acknowledged whole.
	retryTasks sqldb.Statement = `UPDATE file_gc_tasks {key} SET claim = ?, due_at = {now} + ?, attempts = attempts + 1, last_error = ?
		WHERE {on postgres}(fs_id, object_key) IN (SELECT ?::bigint, unnest(?::text[])){else}fs_id = ? AND object_key {in}{end} AND claim = ?`
	postponeTasks sqldb.Statement = `UPDATE file_gc_tasks {index:file_gc_tasks_claim} SET due_at = {now} + ?, last_error = ?
		WHERE claim = ?`
	dropNamed   sqldb.Statement = `{delete:file_gc_tasks} WHERE fs_id = ? AND object_key = ? AND claim = ?`
	acknowledge sqldb.Statement = `{delete:file_gc_tasks,file_gc_tasks_claim} WHERE claim = ?`
	oldestTask  sqldb.Statement = `SELECT {now} - due_at FROM file_gc_tasks WHERE due_at <= (SELECT {now}) ORDER BY due_at LIMIT 1`
)

const (
	retryBase   = 10 * time.Second // after a failure, four times as much after each other
	retryMax    = 30 * time.Minute
	outagePause = 30 * time.Second // until a batch that met an outage is due again
	maxError    = 1000             // bytes of last_error
)

// task is a claimed one.
type task struct {
	fs        int64
	key       blob.Key
	multipart bool
	attempts  int
}

// batch claims, deletes and acknowledges once. more: there may be others due.
func (c *Collector) batch(ctx context.Context) (settled int, more bool, err error) {
	s := c.store
	db := s.db.Sweeper()
	claim, sent := rand.Text(), time.Now()
	n, err := db.Exec(ctx, claimTasks, claim, c.cfg.Lease.Milliseconds(), c.cfg.Batch)
	if err != nil || n == 0 {
		return 0, false, err
	}
	if err := s.cfg.Step(ctx, "collect: claimed"); err != nil {
		return 0, false, err
	}
	tasks, err := s.claimed(ctx, db, claim)
	if err != nil {
		return 0, false, err
	}
	if err := s.cfg.Step(ctx, "collect: looked"); err != nil {
		return 0, false, err
	}
	// Sent late it would be harmless, objects come only once; but the claim may be another's.
	if time.Since(sent) > c.cfg.Lease/2 {
		return 0, true, nil
	}
	failed, down := c.send(ctx, tasks)
	if err := s.cfg.Step(ctx, "collect: deleted"); err != nil {
		return 0, false, err
	}
	if down != nil {
		pause, cause := outagePause, outage(down)
		if ctx.Err() != nil { // stopping: whoever comes next need not wait for the lease
			pause, cause = 0, context.Cause(ctx)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateBound)
		defer cancel()
		_, err := db.Exec(ctx, postponeTasks, pause.Milliseconds(), cut(down), claim)
		return 0, false, errors.Join(cause, err)
	}
	if err := s.retryLater(ctx, db, claim, failed); err != nil {
		return 0, false, err
	}
	acknowledged, err := db.Exec(ctx, acknowledge, claim)
	return int(acknowledged), n == int64(c.cfg.Batch), err
}

// claimed reads the tasks of a claim. One whose object something names is no task: the
// object stays.
func (s *Store) claimed(ctx context.Context, db *sqldb.DB, claim string) ([]task, error) {
	all, named, err := readClaim(ctx, db, claim)
	if err != nil {
		return nil, err
	}
	for _, t := range named {
		s.metrics.named.Inc()
		s.log.ErrorContext(ctx, "a named object was to be collected, it stays", "fs", t.fs, "key", string(t.key))
		if _, err := db.Exec(ctx, dropNamed, t.fs, string(t.key), claim); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func readClaim(ctx context.Context, db *sqldb.DB, claim string) (all, named []task, err error) {
	rows, err := db.Query(ctx, claimedTasks, claim)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var t task
		var content, part sql.NullInt64
		if err := rows.Scan(&t.fs, &t.key, &t.multipart, &t.attempts, &content, &part); err != nil {
			return nil, nil, err
		}
		if content.Valid || part.Valid {
			named = append(named, t)
		} else {
			all = append(all, t)
		}
	}
	return all, named, rows.Err()
}

// failure is a task that could not be carried out.
type failure struct {
	task
	err error
}

// send deletes objects, and what the store holds of uploads of them. down: the store as a
// whole is in trouble, or ctx has ended.
func (c *Collector) send(ctx context.Context, tasks []task) (failed []failure, down error) {
	s := c.store
	parts, ok := s.bucket.(blob.Multiparter)
	var keys []blob.Key
	var sent []task
	for _, t := range tasks {
		var err error
		if ok && t.multipart { // first: what is complete by then is an object
			err = parts.AbortMultipart(ctx, t.key)
		}
		switch {
		case err == nil || blob.ClassOf(err) == blob.NotSupported:
			keys, sent = append(keys, t.key), append(sent, t)
		case ctx.Err() != nil || blob.ClassOf(err).Outage():
			return nil, err
		default:
			failed = append(failed, failure{t, err})
		}
	}
	if len(keys) > 0 {
		for i, r := range c.cfg.Delete(ctx, keys) {
			switch r.Outcome {
			case blob.Deleted:
				s.metrics.deleted.Inc()
			case blob.Missing:
				s.metrics.missing.Inc()
			case blob.Failed:
				if ctx.Err() != nil || blob.ClassOf(r.Err).Outage() {
					down = r.Err
				}
				failed = append(failed, failure{sent[i], r.Err})
			}
		}
	}
	s.metrics.failed.Add(float64(len(failed)))
	return failed, down
}

// retryLater makes failed tasks due after a while, each drive's in a statement or a few.
func (s *Store) retryLater(ctx context.Context, db *sqldb.DB, claim string, failed []failure) error {
	type set struct {
		fs       int64
		attempts int
	}
	sets := map[set][]failure{}
	for _, f := range failed {
		at := set{f.fs, f.attempts}
		sets[at] = append(sets[at], f)
	}
	for at, all := range sets {
		s.log.WarnContext(ctx, "objects could not be deleted", "fs", at.fs, "objects", len(all), "attempts", at.attempts+1, "error", all[0].err)
		for start := 0; start < len(all); start += db.Dialect().MaxList {
			var keys sqldb.Strings
			for _, f := range all[start:min(start+db.Dialect().MaxList, len(all))] {
				keys = append(keys, string(f.key))
			}
			if _, err := db.Exec(ctx, retryTasks, "failed-"+rand.Text(), backoff(at.attempts).Milliseconds(), cut(all[start].err), at.fs, keys, claim); err != nil {
				return fmt.Errorf("content: collect: %w", err)
			}
		}
	}
	return nil
}

// backoff is the pause after a number of failures before, with jitter.
func backoff(attempts int) time.Duration {
	d := retryMax
	if attempts < 5 {
		d = min(retryBase<<(2*attempts), retryMax)
	}
	return d/2 + mathrand.N(d/2)
}

func cut(err error) string {
	text := err.Error()
	return text[:min(len(text), maxError)]
}

// measure notes for how long the oldest task has been due.
func (s *Store) measure(ctx context.Context) {
	var age int64
	err := s.db.Sweeper().QueryRow(ctx, oldestTask).Scan(&age)
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		s.metrics.oldest.Set(float64(max(age, 0)) / 1000)
	}
}
