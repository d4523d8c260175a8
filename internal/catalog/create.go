package catalog

import (
	"context"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
)

// CreateTable makes a table, or only prepares one when the request is staged: then
// nothing is written, and the commit with assert-create that follows makes it.
func (c *Catalog) CreateTable(ctx context.Context, call Call, n Namespace, req *metadata.CreateRequest) (*Loaded, error) {
	const op = "catalog.CreateTable"
	id := Identifier{n, req.Name}
	if err := id.check(op); err != nil {
		return nil, err
	}
	var loaded *Loaded
	err := c.atHome(op, func() (err error) {
		loaded, err = c.createOnce(ctx, op, call, id, req)
		return err
	})
	return loaded, err
}

func (c *Catalog) createOnce(ctx context.Context, op string, call Call, id Identifier, req *metadata.CreateRequest) (*Loaded, error) {
	w := call.Warehouse
	row, err := namespace(ctx, c.db, readNamespace, op, w.ID, id.Namespace)
	if err != nil {
		return nil, err
	}
	tableID := uuid.New()
	location := req.Location
	if location == "" {
		location = tableLocation(row.location, id.Name, tableID.String())
	}
	table, err := req.Build(location, tableID)
	if err != nil {
		return nil, err
	}
	locs, err := places(op, w, table.Locations())
	if err != nil {
		return nil, err
	}
	if err := c.nameFree(ctx, op, call, KindTable, id); err != nil {
		return nil, err
	}
	if req.Stage {
		twin, err := c.Remember(ctx, call, string(table.JSON()), nil)
		if twin != nil { // was prepared first: its place and uuid are the answer
			return nil, ErrTwin
		}
		return &Loaded{Table: table}, err
	}
	m := &member{id: id, kind: KindTable, doc: table, places: locs, parent: row.location}
	if req.Location != "" || len(locs) > 1 {
		m.parent = ""
	}
	if err := c.createEntry(ctx, op, call, m); err != nil {
		return nil, err
	}
	return &Loaded{Table: table, MetadataLocation: m.file}, nil
}

// createEntry writes the first metadata file and the entry that names it.
func (c *Catalog) createEntry(ctx context.Context, op string, call Call, m *member) error {
	if m.parent == "" {
		// Nothing is written into a place that is not ours; the transaction asks again.
		if err := c.precheck(ctx, op, call, m.places); err != nil {
			return err
		}
	}
	if err := c.write(ctx, op, call, m, 0); err != nil {
		return err
	}
	c.step("create.written")
	if err := c.apply(ctx, op, call, m.file, m); err != nil {
		return err
	}
	c.remember(m)
	return nil
}

// nameFree refuses early what the transaction would refuse anyway: a name that a table
// or a view has.
func (c *Catalog) nameFree(ctx context.Context, op string, call Call, kind Kind, id Identifier) error {
	taken, err := kindAt(ctx, c.db, call.Warehouse.ID, id)
	if err != nil || taken == 0 {
		return err
	}
	return alreadyExists(op, kind, taken, id)
}

// precheck refuses locations that another owner holds, without a lock.
func (c *Catalog) precheck(ctx context.Context, op string, call Call, locs []blob.Location) error {
	for _, l := range locs {
		rows, err := overlaps(ctx, c.db, call.Warehouse.ID, l)
		if err != nil {
			return err
		}
		for _, r := range rows {
			return taken(ctx, c.db, op, l, r, c.jobs)
		}
	}
	return nil
}
