package content

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	addReference sqldb.Statement = `UPDATE contents {key} SET refs = refs + 1
		WHERE fs_id = ? AND content_id = ? AND refs > 0`
	lockContents sqldb.Statement = `{on postgres}SELECT n.content_id, n.refs, n.keyed FROM unnest({array}) u (i)
		CROSS JOIN LATERAL (SELECT content_id, refs, CASE WHEN object_key IS NULL THEN 0 ELSE 1 END AS keyed
			FROM contents WHERE fs_id = ? AND content_id = u.i FOR UPDATE) n
		{else}SELECT content_id, refs, CASE WHEN object_key IS NULL THEN 0 ELSE 1 END FROM contents {key}
		WHERE content_id {in} AND fs_id = ? ORDER BY content_id {for update}{end}`
	// lastContents tells of contents that lose one reference each whether all go: how many
	// there are that have no other, and of them with an object.
	lastContents sqldb.Statement = `SELECT COUNT(*), COUNT(object_key) FROM contents {key}
		WHERE {keys:fs_id,content_id} AND refs = 1`
	lowerReferences sqldb.Statement = `UPDATE contents {key} SET refs = refs - ? WHERE {keys:fs_id,content_id}`
	queueObjects    sqldb.Statement = `INSERT INTO file_gc_tasks
		(fs_id, object_key, due_at, multipart, claim, claimed_at, attempts, last_error, created_at)
		SELECT fs_id, object_key, {now} + ?, 0, NULL, NULL, 0, '', {now} FROM contents {key}
		WHERE {keys:fs_id,content_id} AND LENGTH(object_key) > 0`
	deleteContents sqldb.Statement = `{delete:contents} WHERE {keys:fs_id,content_id}`
)

// Ref adds one reference, as a copy does. ErrGone: the content went meanwhile.
func (s *Store) Ref(ctx context.Context, tx *sqldb.Tx, fs, id int64) error {
	n, err := tx.Exec(ctx, addReference, fs, id)
	if err != nil {
		return fmt.Errorf("content: add a reference: %w", err)
	}
	if n != 1 {
		return ErrGone
	}
	return nil
}

// Unref takes references away: uses of each content by id. Contents whose last one goes
// are removed and their objects queued for the collector. ErrChanged: the rows are not
// what the caller believes.
func (s *Store) Unref(ctx context.Context, tx *sqldb.Tx, fs int64, uses map[int64]int64) error {
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(uses)), tx.Dialect().MaxList) {
		if err := s.unref(ctx, tx, fs, ids, uses); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) unref(ctx context.Context, tx *sqldb.Tx, fs int64, ids []int64, uses map[int64]int64) error {
	if tx.Dialect().Name == sqldb.SQLite && len(ids) > 1 && !slices.ContainsFunc(ids, func(id int64) bool { return uses[id] != 1 }) {
		// The transaction is the only one that writes: a look is as good as a lock, and
		// need not tell of each.
		var last, keyed int
		if err := tx.QueryRow(ctx, lastContents, fs, sqldb.IDs(ids)).Scan(&last, &keyed); err != nil {
			return fmt.Errorf("content: look: %w", err)
		}
		if last == len(ids) {
			return s.free(ctx, tx, fs, ids, keyed)
		}
	}
	held, err := lock(ctx, tx, fs, ids)
	if err != nil {
		return fmt.Errorf("content: lock: %w", err)
	}
	if len(held) != len(ids) {
		return fmt.Errorf("%w: %d of %d are there", ErrChanged, len(held), len(ids))
	}
	var free sqldb.IDs
	stay := map[int64]sqldb.IDs{} // by the references that go
	keyed := 0
	for _, c := range held {
		switch k := uses[c.id]; {
		case k <= 0 || c.refs < k:
			return fmt.Errorf("content: damaged: content %d has %d references and lost %d", c.id, c.refs, k)
		case c.refs == k:
			free = append(free, c.id)
			keyed += c.keyed
		default:
			stay[k] = append(stay[k], c.id)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(stay)) {
		if err := exactly(len(stay[k]))(tx.Exec(ctx, lowerReferences, k, fs, stay[k])); err != nil {
			return err
		}
	}
	return s.free(ctx, tx, fs, free, keyed)
}

// free removes contents whose last references go, and queues their objects, keyed in number.
func (s *Store) free(ctx context.Context, tx *sqldb.Tx, fs int64, ids sqldb.IDs, keyed int) error {
	if len(ids) == 0 {
		return nil
	}
	if keyed > 0 {
		if err := exactly(keyed)(tx.Exec(ctx, queueObjects, s.cfg.Grace.Milliseconds(), fs, ids)); err != nil {
			return err
		}
	}
	return exactly(len(ids))(tx.Exec(ctx, deleteContents, fs, ids))
}

// held is a content that the transaction has locked.
type held struct {
	id, refs int64
	keyed    int // 1: it has an object
}

// lock locks contents by ascending id and returns those that are there.
func lock(ctx context.Context, tx *sqldb.Tx, fs int64, ids []int64) (out []held, err error) {
	rows, err := tx.Query(ctx, lockContents, sqldb.IDs(ids), fs)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var c held
		if err := rows.Scan(&c.id, &c.refs, &c.keyed); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, rows.Err()
}

// exactly turns the count of a set write into ErrChanged when it is not want.
func exactly(want int) func(int64, error) error {
	return func(n int64, err error) error {
		if err != nil {
			return fmt.Errorf("content: %w", err)
		}
		if n != int64(want) {
			return fmt.Errorf("%w: %d of %d rows", ErrChanged, n, want)
		}
		return nil
	}
}
