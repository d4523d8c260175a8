package catalog

import (
	"context"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// RegisterTable adds an entry for metadata that exists. Metadata whose uuid or file is
// that of a live table shares its locations; from then on only purge is refused.
func (c *Catalog) RegisterTable(ctx context.Context, call Call, id Identifier, metadataLocation string) (*Loaded, error) {
	const op = "catalog.RegisterTable"
	if err := id.check(op); err != nil {
		return nil, err
	}
	if len(metadataLocation) > maxMetadataPath {
		return nil, fault.New(op, fault.Invalid, CodeBadLocation, "metadata-location is longer than %d bytes", maxMetadataPath)
	}
	if _, err := namespace(ctx, c.db, readNamespace, op, call.Warehouse.ID, id.Namespace); err != nil {
		return nil, err
	}
	if _, err := findEntry(ctx, c.db, selectEntry, op, call.Warehouse.ID, id); err == nil {
		return nil, alreadyExists(op, id)
	} else if !fault.Is(err, CodeNoSuchTable) {
		return nil, err
	}
	table, err := c.readMetadata(ctx, op, call.Warehouse, metadataLocation)
	if err != nil {
		return nil, err
	}
	locs, err := places(op, call.Warehouse, table.Locations())
	if err != nil {
		return nil, err
	}
	c.step("register.read")
	err = c.insert(ctx, op, call, newEntry{id: id, table: table, metadataLocation: metadataLocation, places: locs, shares: true})
	if err != nil {
		return nil, err
	}
	return &Loaded{Table: table, MetadataLocation: metadataLocation}, nil
}

const moveEntry sqldb.Statement = "UPDATE tabulars SET namespace_id = ?, name = ?, updated_at = {now} WHERE id = ?"

// RenameTable gives a table another name, in any namespace of its warehouse. Its files
// and locations stay where they are.
func (c *Catalog) RenameTable(ctx context.Context, call Call, from, to Identifier) error {
	const op = "catalog.RenameTable"
	if err := from.check(op); err != nil {
		return err
	}
	if err := to.check(op); err != nil {
		return err
	}
	w := call.Warehouse.ID
	var moved int64
	confirm := sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		var now entry
		if err := tx.QueryRow(ctx, lockEntryByID, moved).Scan(now.fields()...); err != nil {
			return false, err
		}
		e, err := findEntry(ctx, tx, selectEntry, op, w, to)
		if fault.Is(err, CodeNoSuchTable) {
			return false, nil
		}
		return err == nil && e.id == moved, err
	})
	return c.db.Tx(ctx, func(tx *sqldb.Tx) error {
		row, err := namespace(ctx, tx, shareNamespace, op, w, to.Namespace)
		if err != nil {
			return err
		}
		e, err := findEntry(ctx, tx, lockEntry, op, w, from)
		if err != nil {
			return err
		}
		moved = e.id
		if e.namespace == row.id && e.name == to.Name {
			return alreadyExists(op, to)
		}
		if _, err := tx.Exec(ctx, moveEntry, row.id, to.Name, e.id); err != nil {
			if tx.Dialect().Classify(err) == sqldb.ClassUnique {
				return alreadyExists(op, to)
			}
			return err
		}
		return c.refuseTombstone(ctx, tx, op, call, to)
	}, confirm)
}
