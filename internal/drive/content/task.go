package content

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// That a task is unclaimed is asked in a way that no index answers: PostgreSQL would take
// that of claims while statistics say that few are not claimed.
const (
	insertTask sqldb.Statement = `{insert ignore} file_gc_tasks
		(fs_id, object_key, due_at, multipart, claim, claimed_at, attempts, last_error, created_at)
		VALUES (?, ?, {now} + ?, ?, NULL, NULL, 0, '', {now}) {ignore}`
	// A task is only ever pushed on: that of an upload is due much later already.
	pushTask sqldb.Statement = `UPDATE file_gc_tasks {key}
		SET due_at = CASE WHEN due_at < {now} + ? THEN {now} + ? ELSE due_at END
		WHERE fs_id = ? AND object_key = ? AND COALESCE(claim, '') = ''`
	// One that a collector has is taken from it: it may have asked the store before the
	// object came, and would then acknowledge what is still there.
	condemnTask sqldb.Statement = `UPDATE file_gc_tasks {key}
		SET due_at = {now}, claim = CASE WHEN claim IS NULL THEN NULL ELSE ? END
		WHERE fs_id = ? AND object_key = ?`
	abandonTask sqldb.Statement = `UPDATE file_gc_tasks {key} SET due_at = {now}
		WHERE fs_id = ? AND object_key = ? AND COALESCE(claim, '') = ''`
	takeTask sqldb.Statement = `{delete:file_gc_tasks} WHERE fs_id = ? AND object_key = ? AND COALESCE(claim, '') = ''`
)

// newKey returns a key that nobody has used.
func (s *Store) newKey(fs int64) blob.Key {
	id := uuid.Must(uuid.NewV7())
	return blob.Key(fmt.Sprintf("%s/%d/%s/%s", s.cfg.Prefix, fs, hex.EncodeToString(id[15:]), id))
}

// know writes the task of an object that does not exist yet.
func (s *Store) know(ctx context.Context, fs int64, key blob.Key) error {
	n, err := s.db.Exec(ctx, insertTask, fs, string(key), s.cfg.WriteTimeout.Milliseconds(), 1)
	if err == nil && n != 1 {
		err = fmt.Errorf("content: the new key %q is taken", key)
	}
	return err
}

// push keeps the task of an object from being due for another d. ErrCollected: a
// collector has it.
func (s *Store) push(ctx context.Context, fs int64, key blob.Key, d time.Duration) error {
	n, err := s.db.Exec(ctx, pushTask, d.Milliseconds(), d.Milliseconds(), fs, string(key))
	if err == nil && n != 1 {
		err = ErrCollected
	}
	return err
}

// keep pushes a task on until stop is called, which does so once more: then the object
// has a task that nobody had claimed while it was made, and its commit a whole term. The
// context ends with ErrCollected when a collector was faster. Trouble of the database is
// waited out: what it costs shows in stop.
func (s *Store) keep(ctx context.Context, fs int64, key blob.Key) (kept context.Context, stop func() error) {
	kept, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(s.cfg.WriteTimeout / 3)
		defer tick.Stop()
		for {
			select {
			case <-kept.Done():
				return
			case <-tick.C:
			}
			if err := s.push(kept, fs, key, s.cfg.WriteTimeout); isCollected(err) {
				cancel(ErrCollected)
			} else if err != nil && kept.Err() == nil {
				s.log.WarnContext(kept, "the task of a long write could not be pushed on", "key", string(key), "error", err)
			}
		}
	}()
	return kept, func() error {
		collected := isCollected(context.Cause(kept))
		cancel(nil)
		<-done
		if collected {
			return ErrCollected
		}
		return s.push(ctx, fs, key, s.cfg.WriteTimeout)
	}
}

// lateBound is the time that cleaning up behind an ended context may take.
const lateBound = 10 * time.Second

// condemn makes an object due at once that nothing will name, also one that a collector
// has deleted before it was there. It works under a context that has ended; where it
// fails, the task is due later.
func (s *Store) condemn(ctx context.Context, fs int64, key blob.Key) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateBound)
	defer cancel()
	n, err := s.db.Exec(ctx, condemnTask, "late-"+rand.Text(), fs, string(key))
	if err == nil && n == 0 {
		_, err = s.db.Exec(ctx, insertTask, fs, string(key), 0, 1)
	}
	if err != nil {
		s.log.WarnContext(ctx, "an object that failed is left to its time", "key", string(key), "error", err)
	}
}

// ofStore makes an error of the bucket one of this room.
func ofStore(op string, err error) error {
	switch {
	case fault.KindOf(err) != fault.Internal:
		return err
	case blob.ClassOf(err).Outage():
		return fault.Wrap(op, fault.Busy, CodeStore, err, "the object store can not be reached, nothing was changed")
	}
	return fmt.Errorf("%s: %w", op, err)
}
