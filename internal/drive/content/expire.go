package content

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	dueUploads sqldb.Statement = `SELECT fs_id, upload_id, object_key FROM uploads {index:uploads_expiry}
		WHERE state = ? AND expires_at <= (SELECT {now}) + ? ORDER BY expires_at LIMIT ?`
	lockDue sqldb.Statement = `SELECT upload_id, declared_size FROM uploads {key}
		WHERE {on postgres}(fs_id, upload_id) IN (SELECT ?::bigint, unnest(?::text[])){else}fs_id = ? AND upload_id {in}{end} AND NULLIF(state, '') = 'OPEN' AND expires_at <= {now} {for update}`
	lockEnded sqldb.Statement = `SELECT upload_id, declared_size FROM uploads {key}
		WHERE {on postgres}(fs_id, upload_id) IN (SELECT ?::bigint, unnest(?::text[])){else}fs_id = ? AND upload_id {in}{end} AND NULLIF(state, '') = ? {for update}`
	queueParts sqldb.Statement = `INSERT INTO file_gc_tasks
		(fs_id, object_key, due_at, multipart, claim, claimed_at, attempts, last_error, created_at)
		SELECT fs_id, object_key, {now}, 0, NULL, NULL, 0, '', {now} FROM upload_parts {key}
		WHERE {on postgres}(fs_id, upload_id) IN (SELECT ?::bigint, unnest(?::text[])){else}fs_id = ? AND upload_id {in}{end} AND LENGTH(object_key) > 0`
	deleteParts  sqldb.Statement = `{delete:upload_parts} WHERE {on postgres}(fs_id, upload_id) IN (SELECT ?::bigint, unnest(?::text[])){else}fs_id = ? AND upload_id {in}{end}`
	hurryTasks   sqldb.Statement = `UPDATE file_gc_tasks {key} SET due_at = {now} WHERE {on postgres}(fs_id, object_key) IN (SELECT ?::bigint, unnest(?::text[])){else}fs_id = ? AND object_key {in}{end} AND COALESCE(claim, '') = ''`
	closeUploads sqldb.Statement = `UPDATE uploads {key} SET state = 'CLOSED' WHERE {on postgres}(fs_id, upload_id) IN (SELECT ?::bigint, unnest(?::text[])){else}fs_id = ? AND upload_id {in}{end}`
	dropUploads  sqldb.Statement = `{delete:uploads} WHERE {on postgres}(fs_id, upload_id) IN (SELECT ?::bigint, unnest(?::text[])){else}fs_id = ? AND upload_id {in}{end}`
)

const (
	expireBatch    = 100            // uploads that one look takes
	expireTogether = 10             // whose parts go in one transaction: at most 100,000 rows
	whenever       = int64(1) << 50 // milliseconds; with it every upload of a state is due
)

// ended are uploads of one drive whose rows are to change.
type ended struct {
	fs        int64
	ids, keys sqldb.Strings
}

// Expire is one pass over uploads: those past their time are aborted (and released by
// Config.Release), those aborted or completed give their parts to the collector, and the
// rows that nobody needs go. It returns how many rows of uploads it changed. The
// collector's loop calls it.
func (s *Store) Expire(ctx context.Context) (int, error) {
	total := 0
	for _, step := range []struct {
		state UploadState
		late  int64 // milliseconds beyond its time at which an upload is due
		apply func(ctx context.Context, tx *sqldb.Tx, e ended) (int, error)
	}{
		{Open, 0, s.expire},
		{Aborted, whenever, s.reap},
		{Completed, whenever, s.close},
		{closed, 0, s.forget},
	} {
		for more := true; more; {
			batch, n, err := s.due(ctx, step.state, step.late)
			if err != nil {
				return total, fmt.Errorf("content: expire: %w", err)
			}
			changed := 0
			for _, e := range batch {
				var k int
				err := s.db.Sweeper().Tx(ctx, func(tx *sqldb.Tx) (err error) {
					k, err = step.apply(ctx, tx, e)
					return err
				})
				if err != nil {
					return total, fmt.Errorf("content: expire: %w", err)
				}
				changed += k
			}
			total += changed
			more = n == expireBatch && changed > 0
		}
	}
	return total, nil
}

// due reads up to expireBatch uploads, by drive and in sets of expireTogether.
func (s *Store) due(ctx context.Context, state UploadState, late int64) (batch []ended, n int, err error) {
	rows, err := s.db.Sweeper().Query(ctx, dueUploads, string(state), late, expireBatch)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = rows.Close() }()
	at := map[int64]int{} // drive → its set in batch that is being filled
	for rows.Next() {
		var fs int64
		var id string
		var key sql.NullString
		if err := rows.Scan(&fs, &id, &key); err != nil {
			return nil, 0, err
		}
		n++
		i, ok := at[fs]
		if !ok || len(batch[i].ids) == expireTogether {
			i = len(batch)
			at[fs] = i
			batch = append(batch, ended{fs: fs})
		}
		batch[i].ids = append(batch[i].ids, id)
		if key.Valid {
			batch[i].keys = append(batch[i].keys, key.String)
		}
	}
	for _, e := range batch {
		slices.Sort(e.ids) // locked in this order
	}
	return batch, n, rows.Err()
}

// expire aborts uploads whose time is over.
func (s *Store) expire(ctx context.Context, tx *sqldb.Tx, e ended) (int, error) {
	ids, reserved, err := openUploads(ctx, tx, lockDue, e.fs, e.ids)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	if err := abort(ctx, tx, e.fs, ids); err != nil {
		return 0, err
	}
	if s.cfg.Release != nil && reserved > 0 {
		if err := s.cfg.Release(ctx, tx, e.fs, reserved); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

// reap gives what aborted uploads have sent to the collector and removes their rows.
func (s *Store) reap(ctx context.Context, tx *sqldb.Tx, e ended) (int, error) {
	ids, err := s.freeParts(ctx, tx, e, Aborted)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	if len(e.keys) > 0 { // another one may have reaped some: nothing names these keys either
		if _, err := tx.Exec(ctx, hurryTasks, e.fs, e.keys); err != nil {
			return 0, err
		}
	}
	return len(ids), exactly(len(ids))(tx.Exec(ctx, dropUploads, e.fs, ids))
}

// close gives the parts of completed uploads to the collector. The rows stay until their
// time is over: a client that lost the answer may ask.
func (s *Store) close(ctx context.Context, tx *sqldb.Tx, e ended) (int, error) {
	ids, err := s.freeParts(ctx, tx, e, Completed)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	return len(ids), exactly(len(ids))(tx.Exec(ctx, closeUploads, e.fs, ids))
}

// freeParts locks the uploads that are still in a state and takes their parts.
func (s *Store) freeParts(ctx context.Context, tx *sqldb.Tx, e ended, state UploadState) (sqldb.Strings, error) {
	ids, _, err := openUploads(ctx, tx, lockEnded, e.fs, e.ids, string(state))
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	if _, err := tx.Exec(ctx, queueParts, e.fs, ids); err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, deleteParts, e.fs, ids)
	return ids, err
}

// forget removes completed uploads whose time is over.
func (s *Store) forget(ctx context.Context, tx *sqldb.Tx, e ended) (int, error) {
	n, err := tx.Exec(ctx, dropUploads, e.fs, e.ids)
	return int(n), err
}
