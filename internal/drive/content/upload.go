package content

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// UploadState is where an upload stands.
type UploadState string

// The states. A row leaves when it is aborted and its parts are queued, or when it is
// completed and its time is over.
const (
	Open      UploadState = "OPEN"
	Completed UploadState = "COMPLETED"
	Aborted   UploadState = "ABORTED"

	closed UploadState = "CLOSED" // completed, and its parts were given to the collector
)

// Where a key is given, the state is asked in a way that no index answers: the planners
// would take that of states while it looks short.
const (
	selectNow    sqldb.Statement = `SELECT {now}`
	insertUpload sqldb.Statement = `INSERT INTO uploads
		(fs_id, upload_id, base_inode, rest, path, state, declared_size, object_key, store_upload, created_by, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, 'OPEN', ?, ?, ?, ?, ?, ?)`
	uploadColumns = `SELECT upload_id, CASE WHEN state = 'OPEN' AND expires_at <= {now} THEN 'ABORTED' ELSE state END,
		base_inode, rest, path, declared_size, created_by, created_at, expires_at, object_key, store_upload FROM uploads `
	selectUpload sqldb.Statement = uploadColumns + `WHERE fs_id = ? AND upload_id = ?`
	holdUpload   sqldb.Statement = uploadColumns + `WHERE fs_id = ? AND upload_id = ? {for share}`
	lockUpload   sqldb.Statement = uploadColumns + `WHERE fs_id = ? AND upload_id = ? {for update}`
	listUploads  sqldb.Statement = uploadColumns + `WHERE fs_id = ? AND upload_id > ? AND NULLIF(state, '') = 'OPEN'
		ORDER BY upload_id LIMIT ?`
	endUpload    sqldb.Statement = `UPDATE uploads {key} SET state = ? WHERE fs_id = ? AND upload_id = ? AND NULLIF(state, '') = 'OPEN'`
	lockUploadIn sqldb.Statement = `SELECT upload_id, declared_size FROM uploads {index:uploads_base}
		WHERE {keys:fs_id,base_inode} AND NULLIF(state, '') = 'OPEN' {for update}`
	abortUploads sqldb.Statement = `UPDATE uploads {key} SET state = 'ABORTED' WHERE {on postgres}(fs_id, upload_id) IN (SELECT ?::bigint, unnest(?::text[])){else}fs_id = ? AND upload_id {in}{end} AND NULLIF(state, '') = 'OPEN'`
)

// NewUpload is what an upload is bound to.
type NewUpload struct {
	Base  int64  // inode of the deepest directory that exists
	Rest  string // path below it
	Path  string // whole path, for people
	Size  int64  // declared bytes, which the caller reserves; 0: not known
	Actor string
}

// Upload is a content that is sent in parts. Times are milliseconds since the Unix epoch.
type Upload struct {
	ID      string
	State   UploadState // an open one whose time is over is Aborted
	Base    int64
	Rest    string
	Path    string
	Size    int64 // declared bytes: also what is reserved
	Actor   string
	Created int64
	Expires int64

	fs    int64
	key   blob.Key // of the object to be, with a store's own multipart upload
	store string   // the store's id of that
}

// Draft is an upload that Initiate has not written yet.
type Draft struct {
	id    string
	fs    int64
	key   blob.Key
	store string
}

// Prepare begins an upload at the store, before the transaction that calls Initiate. A
// draft that is not used is collected after WriteTimeout.
func (s *Store) Prepare(ctx context.Context, fs int64) (Draft, error) {
	d := Draft{id: uuid.Must(uuid.NewV7()).String(), fs: fs}
	parts, ok := s.bucket.(blob.Multiparter)
	if !ok || s.plain.Load() {
		return d, nil
	}
	key := s.newKey(fs)
	if err := s.know(ctx, fs, key); err != nil {
		return Draft{}, err
	}
	if err := s.cfg.Step(ctx, "prepare: known"); err != nil {
		return Draft{}, err
	}
	id, err := parts.CreateMultipart(ctx, key)
	if err != nil {
		s.condemn(ctx, fs, key)
		if blob.ClassOf(err) == blob.NotSupported {
			s.plain.Store(true)
			return d, nil
		}
		return Draft{}, ofStore("content.Prepare", err)
	}
	if err := s.cfg.Step(ctx, "prepare: begun"); err != nil {
		return Draft{}, err
	}
	if err := s.push(ctx, fs, key, s.cfg.WriteTimeout); err != nil {
		s.condemn(ctx, fs, key)
		return Draft{}, err
	}
	d.key, d.store = key, id
	return d, nil
}

// Initiate is the step that makes a draft an upload. The caller holds the base directory
// and reserves u.Size in the same transaction.
func (s *Store) Initiate(ctx context.Context, tx *sqldb.Tx, fs int64, d Draft, u NewUpload) (Upload, error) {
	if d.fs != fs || d.id == "" || u.Size < 0 {
		return Upload{}, errors.New("content: Initiate without a draft of this drive, or with a negative size")
	}
	made := Upload{
		ID: d.id, State: Open, Base: u.Base, Rest: u.Rest, Path: u.Path, Size: u.Size, Actor: u.Actor,
		fs: fs, key: d.key, store: d.store,
	}
	if err := tx.QueryRow(ctx, selectNow).Scan(&made.Created); err != nil {
		return Upload{}, fmt.Errorf("content: initiate: %w", err)
	}
	made.Expires = made.Created + s.cfg.UploadExpiry.Milliseconds()
	var key, store any
	if d.key != "" {
		key, store = string(d.key), d.store
		due := (s.cfg.UploadExpiry + s.cfg.WriteTimeout).Milliseconds()
		n, err := tx.Exec(ctx, pushTask, due, due, fs, string(d.key))
		if err != nil {
			return Upload{}, fmt.Errorf("content: initiate: %w", err)
		}
		if n != 1 {
			return Upload{}, ErrCollected
		}
	}
	if _, err := tx.Exec(ctx, insertUpload, fs, made.ID, made.Base, made.Rest, made.Path, made.Size,
		key, store, made.Actor, made.Created, made.Expires); err != nil {
		return Upload{}, fmt.Errorf("content: initiate: %w", err)
	}
	return made, nil
}

// Upload describes an upload; NoSuchUpload when there is none.
func (s *Store) Upload(ctx context.Context, r sqldb.Reader, fs int64, id string) (Upload, error) {
	return readUpload(ctx, r, selectUpload, fs, id)
}

// Uploads lists the open uploads of a drive by id, those after an id, at most limit.
func (s *Store) Uploads(ctx context.Context, r sqldb.Reader, fs int64, after string, limit int) (out []Upload, err error) {
	rows, err := r.Query(ctx, listUploads, fs, after, limit)
	if err != nil {
		return nil, fmt.Errorf("content: uploads: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		u, err := scanUpload(rows, fs)
		if err != nil {
			return nil, fmt.Errorf("content: uploads: %w", err)
		}
		out = append(out, u)
	}
	return out, rows.Err()
}

func readUpload(ctx context.Context, r sqldb.Reader, s sqldb.Statement, fs int64, id string) (Upload, error) {
	u, err := scanUpload(r.QueryRow(ctx, s, fs, id), fs)
	if errors.Is(err, sql.ErrNoRows) {
		return Upload{}, fault.New("content.Upload", fault.NotFound, CodeNoSuchUpload, "there is no upload %q", id)
	}
	if err != nil {
		return Upload{}, fmt.Errorf("content: upload: %w", err)
	}
	return u, nil
}

func scanUpload(row interface{ Scan(dest ...any) error }, fs int64) (Upload, error) {
	u := Upload{fs: fs}
	var key, store sql.NullString
	err := row.Scan(&u.ID, &u.State, &u.Base, &u.Rest, &u.Path, &u.Size, &u.Actor, &u.Created, &u.Expires, &key, &store)
	u.key, u.store = blob.Key(key.String), store.String
	if u.State == closed {
		u.State = Completed
	}
	return u, err
}

// Ended says why an upload takes nothing any more: it was completed, or aborted. Nil while it
// is open.
func (u Upload) Ended() error {
	switch u.State {
	case Completed, closed:
		return fault.New("content.Upload", fault.Conflict, CodeUploadCompleted, "the upload is completed")
	case Aborted:
		return errAborted
	case Open:
	}
	return nil
}

var errAborted = fault.New("content.Upload", fault.Conflict, CodeUploadAborted,
	"the upload was aborted, its time is over, or its directory was removed")

// endUpload is the step of Commit that completes an upload.
func (s *Store) endUpload(ctx context.Context, tx *sqldb.Tx, fs int64, id string) error {
	n, err := tx.Exec(ctx, endUpload, string(Completed), fs, id)
	if err != nil {
		return fmt.Errorf("content: complete: %w", err)
	}
	if n == 1 {
		return nil
	}
	u, err := readUpload(ctx, tx, selectUpload, fs, id)
	if err == nil {
		err = u.Ended()
	}
	if err == nil {
		err = ErrChanged
	}
	return err
}

// Abort is the step that ends an upload without a content. The caller gives the reserved
// bytes back in the same transaction. An upload that was aborted already has none.
func (s *Store) Abort(ctx context.Context, tx *sqldb.Tx, fs int64, id string) (reserved int64, err error) {
	u, err := readUpload(ctx, tx, lockUpload, fs, id)
	if err != nil {
		return 0, err
	}
	if u.State == Completed {
		return 0, u.Ended()
	}
	n, err := tx.Exec(ctx, endUpload, string(Aborted), fs, id) // also one whose time is over
	if err != nil {
		return 0, fmt.Errorf("content: abort: %w", err)
	}
	return n * u.Size, nil
}

// AbortIn is the step that aborts the open uploads of directories which the caller holds
// exclusively and removes: their number and reserved bytes, which the caller gives back.
func (s *Store) AbortIn(ctx context.Context, tx *sqldb.Tx, fs int64, dirs []int64) (uploads, reserved int64, err error) {
	for start := 0; start < len(dirs); start += tx.Dialect().MaxList {
		list := dirs[start:min(start+tx.Dialect().MaxList, len(dirs))]
		ids, size, err := openUploads(ctx, tx, lockUploadIn, fs, sqldb.IDs(list))
		if err == nil {
			err = abort(ctx, tx, fs, ids)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("content: abort uploads: %w", err)
		}
		uploads, reserved = uploads+int64(len(ids)), reserved+size
	}
	return uploads, reserved, nil
}

// openUploads reads ids and the sum of their declared sizes.
func openUploads(ctx context.Context, tx *sqldb.Tx, s sqldb.Statement, args ...any) (ids sqldb.Strings, size int64, err error) {
	rows, err := tx.Query(ctx, s, args...)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id string
		var n int64
		if err := rows.Scan(&id, &n); err != nil {
			return nil, 0, err
		}
		ids, size = append(ids, id), size+n
	}
	return ids, size, rows.Err()
}

// abort ends uploads that the transaction has locked and found open.
func abort(ctx context.Context, tx *sqldb.Tx, fs int64, ids sqldb.Strings) error {
	for start := 0; start < len(ids); start += tx.Dialect().MaxList {
		list := ids[start:min(start+tx.Dialect().MaxList, len(ids))]
		if err := exactly(len(list))(tx.Exec(ctx, abortUploads, fs, list)); err != nil {
			return err
		}
	}
	return nil
}
