package content

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	selectContent sqldb.Statement = `SELECT size, sha256, inline_bytes, object_key FROM contents
		WHERE fs_id = ? AND content_id = ?`
	selectInfo sqldb.Statement = `SELECT size, sha256 FROM contents WHERE fs_id = ? AND content_id = ?`
)

// Info describes a content.
type Info struct {
	Size   int64  // bytes
	SHA256 string // hexadecimal
}

// Open streams length bytes from offset; a negative length means to the end. A range
// beyond the end is cut. When the whole content is read its checksum is verified: the
// last Read fails with CodeDamaged instead of io.EOF. ErrGone: row or object are not
// there any more. The stream ends with ctx.
func (s *Store) Open(ctx context.Context, r sqldb.Reader, fs, id, offset, length int64) (io.ReadCloser, Info, error) {
	var info Info
	var inline []byte
	var key sql.NullString
	err := r.QueryRow(ctx, selectContent, fs, id).Scan(&info.Size, &info.SHA256, &inline, &key)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, Info{}, ErrGone
	}
	if err != nil {
		return nil, Info{}, fmt.Errorf("content: open: %w", err)
	}
	offset = min(max(offset, 0), info.Size)
	if length < 0 || length > info.Size-offset {
		length = info.Size - offset
	}
	var raw io.ReadCloser
	switch {
	case !key.Valid && int64(len(inline)) != info.Size:
		return nil, Info{}, damaged(id, "its row holds %d bytes of %d", len(inline), info.Size)
	case !key.Valid:
		raw = io.NopCloser(bytes.NewReader(inline[offset : offset+length]))
	case length == 0 && info.Size > 0:
		raw = io.NopCloser(bytes.NewReader(nil))
	default:
		if raw, err = s.openObject(ctx, blob.Key(key.String), info.Size, offset, length); err != nil {
			return nil, Info{}, err
		}
	}
	v := &verified{raw: raw, id: id, left: length}
	if length == info.Size {
		v.sum, v.want = sha256.New(), info.SHA256
	}
	return v, info, nil
}

// openObject streams a range of an object.
func (s *Store) openObject(ctx context.Context, key blob.Key, size, offset, length int64) (io.ReadCloser, error) {
	if ranger, ok := s.bucket.(blob.Ranger); ok && length < size {
		raw, err := ranger.OpenRange(ctx, key, offset, length)
		if err == nil || blob.ClassOf(err) != blob.NotSupported {
			return raw, opened(err)
		}
	}
	raw, _, err := s.bucket.Open(ctx, key)
	if err != nil {
		return nil, opened(err)
	}
	if _, err := io.CopyN(io.Discard, raw, offset); err != nil {
		return nil, errors.Join(opened(err), raw.Close())
	}
	return raw, nil
}

func opened(err error) error {
	if blob.IsNotExist(err) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	if err == nil {
		return nil
	}
	return ofStore("content.Open", err)
}

// verified ends where it must, or fails.
type verified struct {
	raw  io.ReadCloser
	id   int64
	left int64     // bytes that are to come
	sum  hash.Hash // nil: only a part is read
	want string
	err  error
}

// Read reads on.
func (v *verified) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	if v.left == 0 {
		v.err = v.end()
		return 0, v.err
	}
	n, err := v.raw.Read(p[:min(int64(len(p)), v.left)])
	v.left -= int64(n)
	if v.sum != nil {
		_, _ = v.sum.Write(p[:n])
	}
	switch {
	case errors.Is(err, io.EOF) && v.left > 0:
		v.err = damaged(v.id, "its object ends %d bytes early", v.left)
	case errors.Is(err, io.EOF):
		v.err = v.end()
	case err != nil:
		v.err = opened(err)
	}
	return n, v.err
}

func (v *verified) end() error {
	if v.sum != nil {
		if got := hex.EncodeToString(v.sum.Sum(nil)); got != v.want {
			return damaged(v.id, "its bytes have the SHA-256 %s", got)
		}
	}
	return io.EOF
}

// Close ends the stream.
func (v *verified) Close() error { return v.raw.Close() }

func damaged(id int64, format string, args ...any) error {
	return fault.Wrap("content.Open", fault.Internal, CodeDamaged, fmt.Errorf(format, args...), "content %d is damaged", id)
}

// Stat describes a content without reading it.
func (s *Store) Stat(ctx context.Context, r sqldb.Reader, fs, id int64) (Info, error) {
	var info Info
	err := r.QueryRow(ctx, selectInfo, fs, id).Scan(&info.Size, &info.SHA256)
	if errors.Is(err, sql.ErrNoRows) {
		return Info{}, ErrGone
	}
	if err != nil {
		return Info{}, fmt.Errorf("content: stat: %w", err)
	}
	return info, nil
}
