package content

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const insertContent sqldb.Statement = `INSERT INTO contents
	(fs_id, content_id, refs, size, sha256, inline_bytes, object_key, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, {now})`

// WriteOptions say what the caller knows of a body.
type WriteOptions struct {
	ExpectSHA256 string // hexadecimal; empty: not known
	ExpectSize   *int64 // bytes; nil: not known
	MaxSize      int64  // bytes; 0: no limit
}

// Pending is a content that was written and that nothing names yet. It is committed or
// abandoned once.
type Pending struct {
	ID     int64
	Size   int64  // bytes
	SHA256 string // hexadecimal
	// Reserved bytes of the upload that made it: Commit ends the upload, the caller gives
	// them back in the same transaction. 0 for other writes.
	Reserved int64

	fs     int64
	inline []byte   // not nil: kept in the row
	key    blob.Key // of the object, otherwise
	upload string   // the upload that made it
	parts  bool     // the object is the upload's own
}

// Write streams a body into a new content. It opens short transactions of its own, so it
// is never called inside one.
func (s *Store) Write(ctx context.Context, fs int64, source io.Reader, opts WriteOptions) (Pending, error) {
	id, err := s.cfg.NewID(ctx, fs)
	if err != nil {
		return Pending{}, err
	}
	b := newBody(source, opts)
	var head []byte
	if s.cfg.InlineBytes > 0 {
		head = make([]byte, s.cfg.InlineBytes+1)
		n, err := io.ReadFull(b, head)
		head = head[:n]
		switch {
		case b.err != nil:
			return Pending{}, failedBody(ctx, b.err)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return Pending{ID: id, Size: b.size, SHA256: b.sha256(), fs: fs, inline: head}, nil
		}
	}
	key := s.newKey(fs)
	if err := s.know(ctx, fs, key); err != nil {
		return Pending{}, err
	}
	if err := s.cfg.Step(ctx, "write: known"); err != nil {
		return Pending{}, err
	}
	kept, stop := s.keep(ctx, fs, key)
	err = s.bucket.Put(kept, key, io.MultiReader(bytes.NewReader(head), b))
	if err := s.stepAfter(ctx, "write: stored", err); err != nil {
		return Pending{}, errors.Join(err, stop())
	}
	err = b.outcome(ctx, "content.Write", err, stop())
	if err != nil {
		s.condemn(ctx, fs, key)
		return Pending{}, err
	}
	return Pending{ID: id, Size: b.size, SHA256: b.sha256(), fs: fs, key: key}, nil
}

// stepAfter is a test's step after a call of the bucket that succeeded.
func (s *Store) stepAfter(ctx context.Context, step string, err error) error {
	if err != nil {
		return nil //nolint:nilerr // only a success has a step
	}
	return s.cfg.Step(ctx, step)
}

// outcome is how a call ended that sent a body to the store: err is the store's answer,
// late that of the task's keeper. The cause comes before what it led to.
func (b *body) outcome(ctx context.Context, op string, err, late error) error {
	switch {
	case err == nil && late == nil:
		return b.whole() // a store may not have asked for the end
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isCollected(late):
		return late
	case b.err != nil:
		return b.err
	case err != nil:
		return ofStore(op, err)
	}
	return late
}

// failedBody prefers why the caller's context ended to what that did to the body.
func failedBody(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func isCollected(err error) bool { return errors.Is(err, ErrCollected) }

// Abandon gives up a content that was not committed: its object is due at once. It works
// under a context that has ended. Nothing is lost if it is not called; after a commit
// whose outcome is unknown (fault.Unknown) it is not called.
func (s *Store) Abandon(ctx context.Context, p Pending) error {
	if p.key == "" || p.parts { // an upload may be completed again
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateBound)
	defer cancel()
	_, err := s.db.Exec(ctx, abandonTask, p.fs, string(p.key))
	return err
}

// Commit is the step that names a written content: refs is the number of inodes that use
// it. ErrCollected: the write came too late and failed. An upload that was aborted
// meanwhile is fault.Conflict.
func (s *Store) Commit(ctx context.Context, tx *sqldb.Tx, fs int64, p Pending, refs int64) error {
	if p.fs != fs || p.SHA256 == "" {
		return errors.New("content: Commit of a content that was not written in this drive")
	}
	if p.upload != "" {
		if err := s.endUpload(ctx, tx, fs, p.upload); err != nil {
			return err
		}
	}
	var key any
	if p.key != "" {
		key = string(p.key)
		n, err := tx.Exec(ctx, takeTask, fs, string(p.key))
		if err != nil {
			return fmt.Errorf("content: take the task back: %w", err)
		}
		if n != 1 {
			return ErrCollected
		}
	}
	var inline any // a nil []byte would be an empty one to some drivers
	if p.inline != nil {
		inline = p.inline
	}
	if _, err := tx.Exec(ctx, insertContent, fs, p.ID, refs, p.Size, p.SHA256, inline, key); err != nil {
		return fmt.Errorf("content: insert: %w", err)
	}
	return nil
}
