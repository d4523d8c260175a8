package content

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	selectParts sqldb.Statement = `SELECT number, size, sha256, etag, object_key FROM upload_parts
		WHERE fs_id = ? AND upload_id = ? ORDER BY number`
	sumParts sqldb.Statement = `SELECT COALESCE(SUM(size), 0) FROM upload_parts WHERE fs_id = ? AND upload_id = ? AND number <> ?`
	lockPart sqldb.Statement = `SELECT object_key FROM upload_parts
		WHERE fs_id = ? AND upload_id = ? AND number = ? {for update}`
	updatePart sqldb.Statement = `UPDATE upload_parts {key} SET size = ?, sha256 = ?, etag = ?, object_key = ?, created_at = {now}
		WHERE fs_id = ? AND upload_id = ? AND number = ?`
	insertPart sqldb.Statement = `{insert ignore} upload_parts (size, sha256, etag, object_key, created_at, fs_id, upload_id, number)
		VALUES (?, ?, ?, ?, {now}, ?, ?, ?) {ignore}`
)

// Bounds of uploads.
const (
	MaxParts    = 10_000  // part numbers are 1 to MaxParts
	MaxPartSize = 5 << 30 // bytes
)

// Part is one part of an upload.
type Part struct {
	Number int
	Size   int64  // bytes
	SHA256 string // hexadecimal

	etag string
	key  blob.Key
}

// Parts lists the parts that arrived, by number.
func (s *Store) Parts(ctx context.Context, r sqldb.Reader, fs int64, id string) (out []Part, err error) {
	rows, err := r.Query(ctx, selectParts, fs, id)
	if err != nil {
		return nil, fmt.Errorf("content: parts: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var p Part
		var key sql.NullString
		if err := rows.Scan(&p.Number, &p.Size, &p.SHA256, &p.etag, &key); err != nil {
			return nil, fmt.Errorf("content: parts: %w", err)
		}
		p.key = blob.Key(key.String)
		out = append(out, p)
	}
	return out, rows.Err()
}

// Sent is how many bytes of an upload arrived, the part of a number left out.
func (s *Store) Sent(ctx context.Context, r sqldb.Reader, fs int64, id string, without int) (size int64, err error) {
	if err := r.QueryRow(ctx, sumParts, fs, id, without).Scan(&size); err != nil {
		return 0, fmt.Errorf("content: sum of parts: %w", err)
	}
	return size, nil
}

// PutPart takes one part of exactly size bytes, in any order and beside others. One that
// was sent before is replaced. sha256 (hexadecimal) may be empty.
func (s *Store) PutPart(ctx context.Context, fs int64, id string, number int, source io.Reader, size int64, sha256 string) (Part, error) {
	if number < 1 || number > MaxParts || size < 0 || size > MaxPartSize {
		return Part{}, fault.New("content.PutPart", fault.Invalid, CodeInvalidPart,
			"part numbers are 1 to %d, and a part has a known length of at most %d bytes", MaxParts, int64(MaxPartSize))
	}
	u, err := s.Upload(ctx, s.db, fs, id)
	if err == nil {
		err = u.Ended()
	}
	if err != nil {
		return Part{}, err
	}
	b := newBody(source, WriteOptions{ExpectSize: &size, ExpectSHA256: sha256})
	b.exact = true
	p := Part{Number: number}
	var stop func() error
	if u.key != "" {
		p.etag, err = s.sendPart(ctx, u, number, b, size)
	} else {
		p.key, stop, err = s.storePart(ctx, fs, b)
	}
	if crash := s.stepAfter(ctx, "part: stored", err); crash != nil {
		if stop != nil {
			crash = errors.Join(crash, stop())
		}
		return Part{}, crash
	}
	var late error
	if stop != nil {
		late = stop()
	}
	if u.key != "" && blob.IsNotExist(err) {
		err = fault.Wrap("content.PutPart", fault.Conflict, CodeUploadAborted, err, "the upload takes no parts any more")
	}
	err = b.outcome(ctx, "content.PutPart", err, late)
	stored := err == nil
	if stored {
		p.Size, p.SHA256 = b.size, b.sha256()
		err = s.db.Tx(ctx, func(tx *sqldb.Tx) error { return s.namePart(ctx, tx, fs, id, p) })
	}
	if err == nil {
		return p, nil
	}
	switch unknown := errors.Is(err, sqldb.ErrCommitUnknown); {
	case p.key != "" && !unknown:
		s.condemn(ctx, fs, p.key)
	case stored && u.key != "" && (fault.Is(err, CodeUploadAborted) || fault.Is(err, CodeNoSuchUpload)):
		// The part may have come after the store was told to forget them. One that the store
		// refused left nothing there, and what it is told of may be a Complete under way.
		s.condemn(ctx, fs, u.key)
	}
	return Part{}, err
}

// sendPart sends a part to the store's own multipart upload, whose task is due after the
// upload's time.
func (s *Store) sendPart(ctx context.Context, u Upload, number int, b *body, size int64) (etag string, err error) {
	parts, ok := s.bucket.(blob.Multiparter)
	if !ok {
		return "", errors.New("the bucket of this upload took parts, and this one does not")
	}
	return parts.PutPart(ctx, u.key, u.store, number, b, size)
}

// storePart writes a part as an object of its own.
func (s *Store) storePart(ctx context.Context, fs int64, b *body) (key blob.Key, stop func() error, err error) {
	key = s.newKey(fs)
	if err := s.know(ctx, fs, key); err != nil {
		return "", nil, err
	}
	if err := s.cfg.Step(ctx, "part: known"); err != nil {
		return "", nil, err
	}
	kept, stop := s.keep(ctx, fs, key)
	return key, stop, s.bucket.Put(kept, key, b)
}

// namePart makes a part that was sent one of the upload; the object of the part that it
// replaces goes after the grace, for a Complete that reads it.
func (s *Store) namePart(ctx context.Context, tx *sqldb.Tx, fs int64, id string, p Part) error {
	u, err := readUpload(ctx, tx, holdUpload, fs, id)
	if err == nil {
		err = u.Ended()
	}
	if err != nil {
		return err
	}
	var key any
	if p.key != "" {
		key = string(p.key)
		n, err := tx.Exec(ctx, takeTask, fs, string(p.key))
		if err != nil {
			return fmt.Errorf("content: name a part: %w", err)
		}
		if n != 1 {
			return ErrCollected
		}
	}
	args := []any{p.Size, p.SHA256, p.etag, key, fs, id, p.Number}
	for range 2 { // somebody else may send the same part for the first time
		var old sql.NullString
		switch err := tx.QueryRow(ctx, lockPart, fs, id, p.Number).Scan(&old); {
		case errors.Is(err, sql.ErrNoRows):
			n, err := tx.Exec(ctx, insertPart, args...)
			if err != nil || n == 1 {
				return err
			}
			continue
		case err != nil:
			return fmt.Errorf("content: name a part: %w", err)
		}
		if err := exactly(1)(tx.Exec(ctx, updatePart, args...)); err != nil || !old.Valid {
			return err
		}
		return exactly(1)(tx.Exec(ctx, insertTask, fs, old.String, s.cfg.Grace.Milliseconds(), 0))
	}
	return ErrChanged
}
