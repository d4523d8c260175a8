package catalog

import (
	"context"
	"database/sql"
	"errors"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

// entry is one row of tabulars.
type entry struct {
	id               int64
	namespace        int64
	kind             Kind
	name             string
	uuid             string
	key              string // of table_uuids
	location         string
	metadataLocation string
	metadataHash     string
}

const (
	entryColumns = "t.id, t.namespace_id, t.kind, t.name, t.uuid, t.uuid_key, t.location, t.metadata_location, t.metadata_hash"

	// Not a join: where the statistics say that there are hardly any rows, PostgreSQL would
	// read all entries for one.
	selectEntry sqldb.Statement = "SELECT " + entryColumns + ` FROM tabulars t
		WHERE t.namespace_id = (SELECT id FROM namespaces WHERE warehouse_id = ? AND name = ?) AND t.name = ?`
	lockEntry     sqldb.Statement = selectEntry + " {for update}"
	lockEntryByID sqldb.Statement = "SELECT " + entryColumns + " FROM tabulars t WHERE t.id = ? {for update}"
	entryInPlace  sqldb.Statement = "SELECT " + entryColumns + " FROM tabulars t WHERE t.namespace_id = ? AND t.name = ?"
	insertEntry   sqldb.Statement = `INSERT INTO tabulars (warehouse_id, namespace_id, kind, name, uuid, uuid_key, location,
		metadata_location, metadata_hash, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, {now}, {now})`
	deleteEntry sqldb.Statement = "DELETE FROM tabulars WHERE id = ?"
	// twins are the entries of one warehouse that name the same table or the same file.
	twins sqldb.Statement = "SELECT " + entryColumns + " FROM tabulars t WHERE t.warehouse_id = ? AND t.uuid_key = ? AND t.id <> ? UNION SELECT " +
		entryColumns + " FROM tabulars t WHERE t.warehouse_id = ? AND t.metadata_hash = ? AND t.id <> ? ORDER BY 1 LIMIT 100"
)

func (e *entry) fields() []any {
	return []any{&e.id, &e.namespace, &e.kind, &e.name, &e.uuid, &e.key, &e.location, &e.metadataLocation, &e.metadataHash}
}

// findEntry reads one entry of a kind, or answers NoSuchTable or NoSuchView.
func findEntry(ctx context.Context, r sqldb.Reader, s sqldb.Statement, op string, w tenant.WarehouseID, kind Kind, id Identifier) (*entry, error) {
	var e entry
	err := r.QueryRow(ctx, s, w, id.Namespace.Key(), id.Name).Scan(e.fields()...)
	if errors.Is(err, sql.ErrNoRows) || (err == nil && e.kind != kind) {
		return nil, noSuch(op, kind, id)
	}
	if err != nil {
		return nil, err
	}
	return &e, nil
}

// kindAt is the kind of the entry that has a name, 0 when the name is free.
func kindAt(ctx context.Context, r sqldb.Reader, w tenant.WarehouseID, id Identifier) (Kind, error) {
	var e entry
	err := r.QueryRow(ctx, selectEntry, w, id.Namespace.Key(), id.Name).Scan(e.fields()...)
	if gone(err) {
		return 0, nil
	}
	return e.kind, err
}

func findTwins(ctx context.Context, r sqldb.Reader, w tenant.WarehouseID, key, metadataHash string, self int64) ([]entry, error) {
	rows, err := r.Query(ctx, twins, w, key, self, w, metadataHash, self)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []entry
	for rows.Next() {
		var e entry
		if err := rows.Scan(e.fields()...); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, rows.Err()
}

// refuseTombstone looks, after the entry was inserted or moved, for a PENDING or
// RUNNING purge of the same identifier.
func (c *Catalog) refuseTombstone(ctx context.Context, tx *sqldb.Tx, op string, call Call, id Identifier) error {
	j, found, err := c.jobs.Tombstone(ctx, tx, call.Warehouse.TenantName, call.Warehouse.Name, id.Namespace.Key(), id.Name)
	if err != nil || !found {
		return err
	}
	return purging(op, id, c.jobs.Name(j))
}

func purging(op string, id Identifier, name string) error {
	return fault.New(op, fault.Conflict, CodePurging, "Table %s is being purged by %s: try again when it has ended, or use another name", id, name)
}
