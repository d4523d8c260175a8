package feed

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	// busyDrives is small work: usage_delta holds what was not folded yet, and seq 0 begins
	// the index fs_events_new.
	busyDrives sqldb.Statement = "SELECT fs_id FROM usage_delta UNION SELECT fs_id FROM fs_events {index:fs_events_new} WHERE seq = 0"

	// someDeltas are any: the order of ids would be that of the primary key, and of all drives.
	someDeltas   sqldb.Statement = "SELECT id, bytes, files, reserved FROM usage_delta {index:usage_delta_fs} WHERE fs_id = ? LIMIT ?"
	deleteDeltas sqldb.Statement = "{delete:usage_delta} WHERE id {in}"
	newEvents    sqldb.Statement = "SELECT id FROM fs_events {index:fs_events_seq} WHERE fs_id = ? AND seq = 0 ORDER BY id LIMIT ?"
	numberEvents sqldb.Statement = "UPDATE fs_events {key} SET seq = id + ? WHERE id {in}"
	updateTotal  sqldb.Statement = "UPDATE usage_total SET bytes = bytes + ?, files = files + ?, reserved = reserved + ?, next_seq = ? WHERE fs_id = ?"

	agedEvents sqldb.Statement = `SELECT id, fs_id, seq FROM fs_events {index:fs_events_age} WHERE created_at < (SELECT {now}) - ? AND seq > 0
		ORDER BY created_at LIMIT ?`
	raiseOldest  sqldb.Statement = "UPDATE usage_total SET oldest_seq = ? WHERE fs_id = ? AND oldest_seq < ?"
	deleteEvents sqldb.Statement = "{delete:fs_events} WHERE id {in}"
)

// batch is how many rows one transaction of the sequencer settles.
const batch = 500

var errMovedOn = errors.New("feed: rows went while they were being folded")

// Fold settles what is there now: folds all deltas and numbers all events of all drives.
// Several servers may do it at once.
func (s *Store) Fold(ctx context.Context) error {
	drives, err := s.ids(ctx, s.sweeper, busyDrives)
	if err != nil {
		return err
	}
	var errs []error
	for _, fs := range drives {
		for more := true; more; {
			if more, err = s.foldSome(ctx, fs); err != nil {
				errs = append(errs, err)
				break
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return errors.Join(errs...)
}

// foldSome settles up to a batch of each; more says that there may be more.
func (s *Store) foldSome(ctx context.Context, fs int64) (more bool, err error) {
	var events int
	err = s.sweeper.Tx(ctx, func(tx *sqldb.Tx) error {
		var next int64
		if err := tx.QueryRow(ctx, lockTotal, fs).Scan(&next); err != nil {
			return noDrive("feed.Fold", err)
		}
		deltas, sum, err := someOf(ctx, tx, fs)
		if err != nil {
			return err
		}
		// Only what this statement saw is numbered: an event of a transaction that began
		// earlier and commits later comes later.
		ids, err := s.ids(ctx, tx, newEvents, fs, batch)
		if err != nil {
			return err
		}
		events, more = len(ids), len(ids) == batch || len(deltas) == batch
		if len(ids)+len(deltas) == 0 {
			return nil
		}
		if len(deltas) > 0 {
			if err := exactly(len(deltas))(tx.Exec(ctx, deleteDeltas, sqldb.IDs(deltas))); err != nil {
				return err
			}
		}
		if len(ids) > 0 {
			// Numbers may have gaps; they need only rise.
			offset := next - ids[0]
			if err := exactly(len(ids))(tx.Exec(ctx, numberEvents, offset, sqldb.IDs(ids))); err != nil {
				return err
			}
			next = ids[len(ids)-1] + offset + 1
		}
		return exactly(1)(tx.Exec(ctx, updateTotal, sum.Bytes, sum.Files, sum.Reserved, next, fs))
	})
	if err == nil && events > 0 {
		s.metrics.events.Add(float64(events))
		s.announce()
	}
	return more, err
}

func someOf(ctx context.Context, tx *sqldb.Tx, fs int64) (ids []int64, sum Delta, err error) {
	rows, err := tx.Query(ctx, someDeltas, fs, batch)
	if err != nil {
		return nil, sum, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var d Delta
		if err := rows.Scan(&id, &d.Bytes, &d.Files, &d.Reserved); err != nil {
			return nil, sum, err
		}
		ids = append(ids, id)
		sum.Bytes += d.Bytes
		sum.Files += d.Files
		sum.Reserved += d.Reserved
	}
	return ids, sum, rows.Err()
}

// exactly returns a check that a write hit n rows.
func exactly(n int) func(int64, error) error {
	return func(hit int64, err error) error {
		if err == nil && hit != int64(n) {
			return errMovedOn
		}
		return err
	}
}

func (s *Store) ids(ctx context.Context, r sqldb.Reader, q sqldb.Statement, args ...any) ([]int64, error) {
	rows, err := r.Query(ctx, q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// Prune removes events that are older than the retention, the oldest first. Readers that
// had not read them are told to begin anew.
func (s *Store) Prune(ctx context.Context) error {
	for {
		ids, last, err := s.aged(ctx)
		if err != nil || len(ids) == 0 {
			return err
		}
		// First the bounds, so that no reader takes a hole for the whole.
		for _, fs := range slices.Sorted(maps.Keys(last)) {
			if _, err := s.sweeper.Exec(ctx, raiseOldest, last[fs]+1, fs, last[fs]+1); err != nil {
				return err
			}
		}
		if _, err := s.sweeper.Exec(ctx, deleteEvents, sqldb.IDs(ids)); err != nil {
			return err
		}
	}
}

// aged reads a batch of events that are too old, and the last number among them of each
// drive.
func (s *Store) aged(ctx context.Context) (ids []int64, last map[int64]int64, err error) {
	rows, err := s.sweeper.Query(ctx, agedEvents, s.cfg.Retention.Milliseconds(), batch)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	last = map[int64]int64{}
	for rows.Next() {
		var id, fs, seq int64
		if err := rows.Scan(&id, &fs, &seq); err != nil {
			return nil, nil, err
		}
		ids = append(ids, id)
		last[fs] = max(last[fs], seq)
	}
	return ids, last, rows.Err()
}

// Sequencer folds and numbers in the background.
type Sequencer struct {
	store *Store
	stop  context.CancelFunc
	done  sync.WaitGroup
}

// pruneEvery is how many rounds of folding lie between two of pruning.
const pruneEvery = 60

// StartSequencer begins to fold every interval, until Stop.
func (s *Store) StartSequencer(ctx context.Context) *Sequencer {
	ctx, cancel := context.WithCancel(sqldb.Patient(context.WithoutCancel(ctx)))
	q := &Sequencer{store: s, stop: cancel}
	q.done.Go(func() { q.run(ctx) })
	return q
}

func (q *Sequencer) run(ctx context.Context) {
	tick := time.NewTicker(q.store.cfg.Interval)
	defer tick.Stop()
	for round := 1; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := q.store.Fold(ctx)
		if err == nil && round%pruneEvery == 0 {
			err = q.store.Prune(ctx)
		}
		if err != nil && ctx.Err() == nil {
			q.store.metrics.failures.Inc()
			q.store.cfg.Logger.WarnContext(ctx, "usage not folded, events not numbered", "error", err)
		}
	}
}

// Stop ends the sequencer and waits for it. What is not folded stays as it is.
func (q *Sequencer) Stop() {
	q.stop()
	q.done.Wait()
}
