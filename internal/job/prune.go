package job

import (
	"context"
	"errors"
	"fmt"

	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	pruneSucceeded sqldb.Statement = `SELECT {row} FROM {table_name}
	WHERE state = 'SUCCEEDED' AND updated_at < (SELECT {now}) - ? ORDER BY updated_at LIMIT 500`

	// pruneOthers pages by key, because rows that stay would fill the first page for ever.
	pruneOthers sqldb.Statement = `SELECT {row} FROM {table_name}
	WHERE state = ? AND updated_at < (SELECT {now}) - ? AND updated_at >= ? AND (updated_at > ? OR id > ?)
	ORDER BY updated_at, id LIMIT 500`

	pruneDelete sqldb.Statement = `DELETE FROM {table_name} WHERE state = ? AND updated_at < {now} - ? AND id {in}`
)

// Prune removes what retention no longer keeps and returns how many rows that were:
// SUCCEEDED and acknowledged rows, and those that ended otherwise with no files left,
// after Retention; the rest of FAILED and CANCELLED only after FailedRetention, if that
// is set. Where the table says so, an acknowledgement alone does not let a row go.
func (s *Store) Prune(ctx context.Context) (pruned int64, err error) {
	keep := s.cfg.Retention.Milliseconds()
	for {
		rows, err := s.rows(ctx, s.db, s.text[pruneSucceeded], keep)
		if err != nil || len(rows) == 0 {
			return s.pruneOthers(ctx, pruned, err)
		}
		n, err := s.remove(ctx, Succeeded, keep, rows)
		pruned += n
		if err != nil {
			return pruned, err
		}
	}
}

func (s *Store) pruneOthers(ctx context.Context, pruned int64, err error) (int64, error) {
	if err != nil {
		return pruned, fmt.Errorf("job: prune: %w", err)
	}
	short := s.cfg.Retention.Milliseconds()
	for _, state := range []State{Failed, Cancelled} {
		var last Row
		for {
			page, err := s.rows(ctx, s.db, s.text[pruneOthers], string(state), short, last.UpdatedAt, last.UpdatedAt, int64(last.ID))
			if err != nil {
				return pruned, fmt.Errorf("job: prune: %w", err)
			}
			if len(page) == 0 {
				break
			}
			last = page[len(page)-1]
			var gone []Row
			for _, row := range page {
				if s.mayGo(row) {
					gone = append(gone, row)
				}
			}
			n, err := s.remove(ctx, state, short, gone)
			pruned += n
			if err != nil {
				return pruned, err
			}
		}
	}
	return s.pruneOld(ctx, pruned)
}

// mayGo decides on a FAILED or CANCELLED row that is older than Retention.
func (s *Store) mayGo(row Row) bool {
	left := s.hooks.FilesLeft == nil || s.hooks.FilesLeft(row)
	return !left || (row.AckedAt != 0 && !s.table.AckKeeps)
}

// pruneOld bounds what nobody acknowledged. From then on nothing but the log knows of files
// that were left.
func (s *Store) pruneOld(ctx context.Context, pruned int64) (int64, error) {
	keep := s.cfg.FailedRetention.Milliseconds()
	if keep <= 0 || s.table.AckKeeps {
		return pruned, nil
	}
	for _, state := range []State{Failed, Cancelled} {
		for {
			page, err := s.rows(ctx, s.db, s.text[pruneOthers], string(state), keep, int64(0), int64(0), int64(0))
			if err != nil {
				return pruned, fmt.Errorf("job: prune: %w", err)
			}
			if len(page) == 0 {
				break
			}
			n, err := s.remove(ctx, state, keep, page)
			pruned += n
			if err != nil {
				return pruned, err
			}
			if n > 0 {
				s.forgotten(ctx, page)
			}
		}
	}
	return pruned, nil
}

func (s *Store) forgotten(ctx context.Context, rows []Row) {
	for _, row := range rows {
		if row.AckedAt != 0 || s.mayGo(row) {
			continue
		}
		s.log.WarnContext(ctx, "job forgotten with files left", "job", s.Name(row.ID), "state", string(row.State), "phase", row.Phase,
			"principal", row.CreatedBy, "requestId", row.RequestID, "progress", string(row.Progress), "error", row.LastError)
	}
}

// remove deletes rows that are still as they were read; all of them, or it looks again
// at the next call.
func (s *Store) remove(ctx context.Context, state State, keep int64, rows []Row) (n int64, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	ids, keys := make([]ID, len(rows)), make(sqldb.IDs, len(rows))
	for i, r := range rows {
		ids[i], keys[i] = r.ID, int64(r.ID)
	}
	err = s.db.Tx(ctx, func(tx *sqldb.Tx) error {
		if s.hooks.Pruning != nil {
			if err := s.hooks.Pruning(ctx, tx, ids); err != nil {
				return err
			}
		}
		n, err = tx.Exec(ctx, s.text[pruneDelete], string(state), keep, keys)
		if err == nil && n != int64(len(rows)) {
			return errMoved // one was re-driven or acknowledged since
		}
		return err
	})
	if errors.Is(err, errMoved) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("job: prune: %w", err)
	}
	return n, nil
}
