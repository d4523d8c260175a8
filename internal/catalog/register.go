package catalog

import (
	"context"

	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// RegisterTable adds an entry for metadata that exists. Metadata whose uuid or file is
// that of a live table shares its locations; from then on only purge is refused. With
// overwrite a table of that name is dropped, without purge, in the same transaction.
func (c *Catalog) RegisterTable(ctx context.Context, call Call, id Identifier, metadataLocation string, overwrite bool) (*Loaded, error) {
	const op = "catalog.RegisterTable"
	m, err := c.register(ctx, op, call, KindTable, id, metadataLocation, overwrite)
	if err != nil {
		return nil, err
	}
	return &Loaded{Table: m.doc.(*metadata.Table), MetadataLocation: m.file}, nil
}

func (c *Catalog) register(ctx context.Context, op string, call Call, kind Kind, id Identifier, metadataLocation string, overwrite bool) (*member, error) {
	if err := id.check(op); err != nil {
		return nil, err
	}
	if len(metadataLocation) > maxMetadataPath {
		return nil, fault.New(op, fault.Invalid, CodeBadLocation, "metadata-location is longer than %d bytes", maxMetadataPath)
	}
	if _, err := namespace(ctx, c.db, readNamespace, op, call.Warehouse.ID, id.Namespace); err != nil {
		return nil, err
	}
	if !overwrite {
		if err := c.nameFree(ctx, op, call, kind, id); err != nil {
			return nil, err
		}
	}
	doc, err := c.readDocument(ctx, op, call.Warehouse, kind, metadataLocation)
	if err != nil {
		return nil, err
	}
	locs, err := places(op, call.Warehouse, doc.Locations())
	if err != nil {
		return nil, err
	}
	c.step("register.read")
	m := &member{id: id, kind: kind, doc: doc, file: metadataLocation, places: locs, shares: true, overwrite: overwrite}
	return m, c.apply(ctx, op, call, metadataLocation, m)
}

// UnregisterTable removes a table's entry and returns what it pointed to: every commit
// acknowledged before is in there, every later one fails. Files stay.
func (c *Catalog) UnregisterTable(ctx context.Context, call Call, id Identifier) (*Loaded, error) {
	const op = "catalog.UnregisterTable"
	var out *Loaded
	err := c.retryCommit(ctx, op, nil, func() error {
		e, loaded, err := c.loadTable(ctx, op, call.Warehouse, id)
		if err != nil {
			return err
		}
		out = loaded
		return c.change(ctx, call, func(tx *sqldb.Tx) (string, error) {
			now, err := findEntry(ctx, tx, lockEntry, op, call.Warehouse.ID, KindTable, id)
			if err != nil {
				return "", err
			}
			if now.id != e.id || now.metadataLocation != e.metadataLocation {
				return "", errLostSwap
			}
			return e.metadataLocation, removeEntry(ctx, tx, e)
		})
	})
	if err != nil {
		return nil, err
	}
	if c.events.Dropped != nil {
		c.events.Dropped(ctx, Dropped{Call: call, Kind: KindTable, Identifier: id})
	}
	return out, nil
}

// removeEntry deletes an entry that the transaction has locked, and all that it owns.
func removeEntry(ctx context.Context, tx *sqldb.Tx, e *entry) error {
	if err := deleteLocked(ctx, tx, e); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, freeLocations, ownerEntry, e.id)
	return err
}

func deleteLocked(ctx context.Context, tx *sqldb.Tx, e *entry) error {
	n, err := tx.Exec(ctx, deleteEntry, e.id)
	if err == nil && n != 1 {
		err = errChanged
	}
	if err == nil && e.kind == KindView {
		_, err = tx.Exec(ctx, freeViewFiles, e.id)
	}
	return err
}
