package purge

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

//go:embed migrations
var files embed.FS

// Migrations is the schema of this room.
var Migrations = sqldb.Migrations{Owner: "purge", Files: files}

// jobTable is the table iceberg_cleanup_job to the job engine.
var jobTable = job.Table{Name: "iceberg_cleanup_job", Prefix: "purge"}

// Store is the one place with SQL on the domain's columns of iceberg_cleanup_job; the
// generic ones belong to job. It is safe for concurrent use.
type Store struct {
	db   *sqldb.DB
	jobs *job.Store
}

// NewStore returns the store over a migrated database. hooks keep the owners of
// locations in step.
func NewStore(db *sqldb.DB, cfg job.Config, hooks job.Hooks, obs job.Observer) *Store {
	s := &Store{db: db}
	hooks.FilesLeft = filesLeft
	retrying := hooks.Retrying
	hooks.Retrying = func(ctx context.Context, tx *sqldb.Tx, row job.Row, opts job.RetryOptions) error {
		if retrying != nil {
			if err := retrying(ctx, tx, row, opts); err != nil {
				return err
			}
		}
		if !opts.AcceptMissing {
			return nil
		}
		_, err := tx.Exec(ctx, acceptMissing, int64(row.ID))
		return err
	}
	s.jobs = job.NewStore(db, jobTable, cfg, hooks, obs)
	return s
}

// filesLeft reports whether an ended job left files behind.
func filesLeft(row job.Row) bool { return row.State != job.Succeeded }

// Jobs returns the engine's view of the table.
func (s *Store) Jobs() *job.Store { return s.jobs }

// Name is a job's public name, such as purge-42.
func (s *Store) Name(id job.ID) string { return s.jobs.Name(id) }

// Request is a drop that hands its files over.
type Request struct {
	Tenant           string // metalake_name
	WarehouseID      int64
	Warehouse        string // catalog_name
	Namespace        string // JSON array of levels
	Name             string
	Type             ObjectType
	UUID             string // may be empty for v1 metadata
	UUIDKey          string
	TableLocation    string
	Locations        []string // all places the table owned, cleaned
	MetadataLocation string
	MetadataHash     string
	Files            []string // more files to delete, before the metadata file: a view's older metadata
	FileIOImpl       string
	FileIOProps      json.RawMessage // never a secret
	RequestID        string
	Principal        string
	Async            bool // the drop does not wait for its purge
}

// Insert writes a PENDING job inside the drop's transaction.
func (s *Store) Insert(ctx context.Context, tx *sqldb.Tx, r Request) (job.ID, error) {
	locations, err := json.Marshal(r.Locations)
	if err != nil {
		return 0, err
	}
	files, err := json.Marshal(r.Files)
	if err != nil {
		return 0, err
	}
	props := string(r.FileIOProps)
	if props == "" {
		props = "{}"
	}
	return s.jobs.Insert(ctx, tx, job.New{
		RequestID: r.RequestID, CreatedBy: r.Principal,
		Extra: []job.Extra{
			{Column: "metalake_name", Value: r.Tenant},
			{Column: "catalog_name", Value: r.Warehouse},
			{Column: "warehouse_id", Value: r.WarehouseID},
			{Column: "namespace", Value: r.Namespace},
			{Column: "table_name", Value: r.Name},
			{Column: "object_type", Value: string(r.Type)},
			{Column: "table_uuid", Value: r.UUID},
			{Column: "uuid_key", Value: r.UUIDKey},
			{Column: "table_location", Value: r.TableLocation},
			{Column: "locations", Value: string(locations)},
			{Column: "metadata_location", Value: r.MetadataLocation},
			{Column: "metadata_hash", Value: r.MetadataHash},
			{Column: "files", Value: string(files)},
			{Column: "file_io_impl", Value: r.FileIOImpl},
			{Column: "file_io_props", Value: props},
			{Column: "accept_missing", Value: 0},
			{Column: "async", Value: bit(r.Async)},
		},
	})
}

func bit(set bool) int {
	if set {
		return 1
	}
	return 0
}

const (
	acceptMissing sqldb.Statement = "UPDATE iceberg_cleanup_job SET accept_missing = 1 WHERE id = ?"

	tombstone sqldb.Statement = `SELECT id FROM iceberg_cleanup_job WHERE metalake_name = ? AND catalog_name = ? AND namespace = ? AND table_name = ?
		AND state IN ('PENDING', 'RUNNING') ORDER BY id LIMIT 1`

	// holder finds unsettled jobs: PENDING, RUNNING, or FAILED and not acknowledged.
	holder sqldb.Statement = `SELECT id FROM iceberg_cleanup_job WHERE warehouse_id = ? AND uuid_key = ? AND id <> ?
		AND (state IN ('PENDING', 'RUNNING') OR (state = 'FAILED' AND acked_at IS NULL))
		UNION SELECT id FROM iceberg_cleanup_job WHERE warehouse_id = ? AND metadata_hash = ? AND id <> ?
		AND (state IN ('PENDING', 'RUNNING') OR (state = 'FAILED' AND acked_at IS NULL)) LIMIT 1`

	keysOf      sqldb.Statement = "SELECT warehouse_id, uuid_key FROM iceberg_cleanup_job WHERE id {in}"
	idsWithKeys sqldb.Statement = "SELECT id, uuid_key FROM iceberg_cleanup_job WHERE warehouse_id = ? AND uuid_key {in}"
)

// Tombstone finds the PENDING or RUNNING job of an identifier. It looks after the entry
// was inserted, in the same transaction: the other order races.
func (s *Store) Tombstone(ctx context.Context, tx *sqldb.Tx, tenant, warehouse, namespace, name string) (job.ID, bool, error) {
	return one(tx.QueryRow(ctx, tombstone, tenant, warehouse, namespace, name))
}

// Holder finds an unsettled job, other than except, with this uuid key or metadata file.
func (s *Store) Holder(ctx context.Context, tx *sqldb.Tx, warehouse int64, key, metadataHash string, except job.ID) (job.ID, bool, error) {
	return one(tx.QueryRow(ctx, holder, warehouse, key, int64(except), warehouse, metadataHash, int64(except)))
}

// KeysOnlyOf returns, by warehouse, the uuid keys of the rows that no other row has,
// ended ones included.
func (s *Store) KeysOnlyOf(ctx context.Context, tx *sqldb.Tx, ids []job.ID) (map[int64][]string, error) {
	own := map[int64]bool{}
	list := make(sqldb.IDs, len(ids))
	for i, id := range ids {
		list[i], own[int64(id)] = int64(id), true
	}
	keys := map[int64][]string{}
	for part := range slices.Chunk(list, tx.Dialect().MaxList) {
		err := pairs(ctx, tx, keysOf, []any{part}, func(warehouse int64, key string) { keys[warehouse] = append(keys[warehouse], key) })
		if err != nil {
			return nil, err
		}
	}
	for warehouse, mine := range keys {
		held := map[string]bool{}
		for part := range slices.Chunk(mine, tx.Dialect().MaxList) {
			err := pairs(ctx, tx, idsWithKeys, []any{warehouse, sqldb.Strings(part)}, func(id int64, key string) {
				if !own[id] {
					held[key] = true
				}
			})
			if err != nil {
				return nil, err
			}
		}
		keys[warehouse] = slices.DeleteFunc(mine, func(key string) bool { return held[key] })
	}
	return keys, nil
}

// pairs reads rows of a number and a text.
func pairs(ctx context.Context, tx *sqldb.Tx, s sqldb.Statement, args []any, each func(n int64, text string)) error {
	rows, err := tx.Query(ctx, s, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var n int64
		var text string
		if err := rows.Scan(&n, &text); err != nil {
			return err
		}
		each(n, text)
	}
	return rows.Err()
}

func one(row *sqldb.Row) (id job.ID, found bool, err error) {
	err = row.Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return id, err == nil, err
}

// domainColumns are the columns of Job, in scanJob's order.
const domainColumns = "id, metalake_name, warehouse_id, catalog_name, namespace, table_name, object_type, table_uuid, uuid_key, table_location, locations, " +
	"metadata_location, metadata_hash, files, file_io_impl, file_io_props, accept_missing, phase, {q:cursor}, progress, created_by, request_id, async"

const (
	selectJob  sqldb.Statement = "SELECT " + domainColumns + " FROM iceberg_cleanup_job WHERE id = ?"
	selectJobs sqldb.Statement = "SELECT " + domainColumns + " FROM iceberg_cleanup_job WHERE id {in}"
)

type scanner interface{ Scan(dest ...any) error }

func scanJob(from scanner) (Job, error) {
	var j Job
	var locations, files, props, progress string
	err := from.Scan(&j.ID, &j.Tenant, &j.WarehouseID, &j.Warehouse, &j.Namespace, &j.Name, &j.Type, &j.UUID, &j.UUIDKey, &j.TableLocation, &locations,
		&j.MetadataLocation, &j.MetadataHash, &files, &j.FileIOImpl, &props, &j.AcceptMissing, &j.Phase, &j.Cursor, &progress, &j.CreatedBy, &j.RequestID, &j.Async)
	if err != nil {
		return j, err
	}
	j.FileIOProps, j.Progress = json.RawMessage(props), json.RawMessage(progress)
	if err := json.Unmarshal([]byte(locations), &j.Locations); err != nil {
		return j, fmt.Errorf("purge: locations of job %d: %w", j.ID, err)
	}
	if err := json.Unmarshal([]byte(files), &j.Files); err != nil {
		return j, fmt.Errorf("purge: files of job %d: %w", j.ID, err)
	}
	return j, nil
}

// Get returns what a job row says of its table.
func (s *Store) Get(ctx context.Context, r sqldb.Reader, id job.ID) (Job, error) {
	j, err := scanJob(r.QueryRow(ctx, selectJob, int64(id)))
	if errors.Is(err, sql.ErrNoRows) {
		return j, fault.New("purge.Get", fault.NotFound, "NoSuchJob", "job %s does not exist", s.Name(id))
	}
	return j, err
}

// Find is Get outside a transaction.
func (s *Store) Find(ctx context.Context, id job.ID) (Job, error) { return s.Get(ctx, s.db, id) }

// Filter chooses jobs; zero values mean any.
type Filter struct {
	Tenant    string
	Warehouse string
	Namespace string // JSON array of levels
	Name      string
	State     job.State
}

// Listed is a job with both halves of its row.
type Listed struct {
	Job Job
	Row job.Row
}

// List returns a page of jobs, newest first, and the page after it.
func (s *Store) List(ctx context.Context, f Filter, p job.Page) ([]Listed, job.Page, error) {
	filter := job.Filter{State: f.State}
	for _, c := range []job.Extra{
		{Column: "metalake_name", Value: f.Tenant},
		{Column: "catalog_name", Value: f.Warehouse},
		{Column: "namespace", Value: f.Namespace},
		{Column: "table_name", Value: f.Name},
	} {
		if c.Value != "" {
			filter.Extra = append(filter.Extra, c)
		}
	}
	rows, next, err := s.jobs.List(ctx, filter, p)
	if err != nil || len(rows) == 0 {
		return nil, next, err
	}
	out := make([]Listed, len(rows))
	at := make(map[job.ID]int, len(rows))
	ids := make(sqldb.IDs, len(rows))
	for i, row := range rows {
		out[i].Row, at[row.ID], ids[i] = row, i, int64(row.ID)
	}
	for len(ids) > 0 {
		n := min(len(ids), s.db.Dialect().MaxList)
		if err := s.fill(ctx, out, at, ids[:n]); err != nil {
			return nil, next, err
		}
		ids = ids[n:]
	}
	return out, next, nil
}

func (s *Store) fill(ctx context.Context, out []Listed, at map[job.ID]int, ids sqldb.IDs) (err error) {
	rows, err := s.db.Query(ctx, selectJobs, ids)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		j, err := scanJob(rows)
		if err != nil {
			return err
		}
		out[at[j.ID]].Job = j
	}
	return rows.Err()
}
