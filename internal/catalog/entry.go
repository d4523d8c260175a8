package catalog

import (
	"context"
	"database/sql"
	"errors"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

// entry is one row of tabulars.
type entry struct {
	id               int64
	namespace        int64
	name             string
	uuid             string
	key              string // of table_uuids
	location         string
	metadataLocation string
	metadataHash     string
}

const (
	entryColumns = "t.id, t.namespace_id, t.name, t.uuid, t.uuid_key, t.location, t.metadata_location, t.metadata_hash"

	selectEntry sqldb.Statement = "SELECT " + entryColumns + ` FROM tabulars t JOIN namespaces n ON n.id = t.namespace_id
		WHERE n.warehouse_id = ? AND n.name = ? AND t.name = ? AND t.kind = ?`
	lockEntry sqldb.Statement = "SELECT " + entryColumns + ` FROM tabulars t
		WHERE t.namespace_id = (SELECT id FROM namespaces WHERE warehouse_id = ? AND name = ?) AND t.name = ? AND t.kind = ? {for update}`
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
	return []any{&e.id, &e.namespace, &e.name, &e.uuid, &e.key, &e.location, &e.metadataLocation, &e.metadataHash}
}

// findEntry reads one entry; sql.ErrNoRows becomes NoSuchTable.
func findEntry(ctx context.Context, r sqldb.Reader, s sqldb.Statement, op string, w tenant.WarehouseID, id Identifier) (*entry, error) {
	var e entry
	err := r.QueryRow(ctx, s, w, id.Namespace.Key(), id.Name, kindTable).Scan(e.fields()...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noSuchTable(op, id)
	}
	if err != nil {
		return nil, err
	}
	return &e, nil
}

func findTwins(ctx context.Context, tx *sqldb.Tx, w tenant.WarehouseID, key, metadataHash string, self int64) ([]entry, error) {
	rows, err := tx.Query(ctx, twins, w, key, self, w, metadataHash, self)
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

// newEntry is what an insert writes.
type newEntry struct {
	id               Identifier
	table            *metadata.Table
	metadataLocation string
	places           []blob.Location
	// parent is the namespace's default parent that a default location was built from;
	// empty for an explicit location, which takes the warehouse row and all looks.
	parent string
	// shares lets the entry have a live table's uuid, metadata file and locations
	// (register only).
	shares bool
}

// errParentMoved says that the namespace's default parent changed since it was read.
var errParentMoved = errors.New("catalog: the namespace's location changed")

// insert writes an entry and its locations after all checks of its kind.
func (c *Catalog) insert(ctx context.Context, op string, call Call, n newEntry) error {
	w := call.Warehouse.ID
	explicit := n.parent == ""
	hash := hashOf(n.metadataLocation)
	key := uuidKey(n.table.UUID(), n.metadataLocation)
	confirm := sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		// The exclusive lock waits for the insert, which holds the row shared.
		row, err := namespace(ctx, tx, lockNamespace, op, w, n.id.Namespace)
		if fault.Is(err, CodeNoSuchNamespace) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		var e entry
		err = tx.QueryRow(ctx, entryInPlace, row.id, n.id.Name).Scan(e.fields()...)
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		return e.metadataLocation == n.metadataLocation, err
	})
	return c.db.Tx(ctx, func(tx *sqldb.Tx) error {
		if explicit {
			if err := exclusive(ctx, tx, w); err != nil {
				return err
			}
		}
		row, err := namespace(ctx, tx, shareNamespace, op, w, n.id.Namespace)
		if err != nil {
			return err
		}
		if !explicit && row.location != n.parent {
			return errParentMoved
		}
		id, err := tx.InsertID(ctx, insertEntry, w, row.id, kindTable, n.id.Name, n.table.UUID(), key, n.table.Location(), n.metadataLocation, hash)
		if tx.Dialect().Classify(err) == sqldb.ClassUnique {
			return alreadyExists(op, n.id)
		}
		if err != nil {
			return err
		}
		mine := owner{ownerEntry, id}
		if !explicit {
			if err := c.refuseTombstone(ctx, tx, op, call, n.id); err != nil {
				return err
			}
			return addLocations(ctx, tx, w, mine, n.places)
		}
		if err := lockKey(ctx, tx, w, key); err != nil {
			return err
		}
		if err := c.refuseTombstone(ctx, tx, op, call, n.id); err != nil {
			return err
		}
		holder, held, err := c.jobs.Holder(ctx, tx, int64(w), key, hash, 0)
		if err != nil {
			return err
		}
		if held {
			return fault.New(op, fault.Conflict, CodePurging, "table uuid %s belongs to %s, an unsettled purge", n.table.UUID(), c.jobs.Name(holder))
		}
		live, err := findTwins(ctx, tx, w, key, hash, id)
		if err != nil {
			return err
		}
		var shared []owner
		for _, t := range live {
			if !n.shares {
				return fault.New(op, fault.Conflict, CodeAlreadyExists, "table %s has the same uuid %s", t.name, n.table.UUID())
			}
			shared = append(shared, owner{ownerEntry, t.id})
		}
		return claimLocations(ctx, tx, op, w, mine, n.places, c.jobs, shared...)
	}, confirm)
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
