package catalog

import (
	"context"

	"github.com/lethe-project/lethe/internal/fault"
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
	if err := c.nameFree(ctx, op, call, id); err != nil {
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
	m := &member{id: id, kind: KindTable, doc: table, file: metadataLocation, places: locs, shares: true}
	if err := c.apply(ctx, op, call, metadataLocation, m); err != nil {
		return nil, err
	}
	return &Loaded{Table: table, MetadataLocation: metadataLocation}, nil
}
