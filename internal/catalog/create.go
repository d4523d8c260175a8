package catalog

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// CreateTable makes a table, or only prepares one when the request is staged: then
// nothing is written, and the commit with assert-create that follows makes it.
func (c *Catalog) CreateTable(ctx context.Context, call Call, n Namespace, req *metadata.CreateRequest) (*Loaded, error) {
	const op = "catalog.CreateTable"
	id := Identifier{n, req.Name}
	if err := id.check(op); err != nil {
		return nil, err
	}
	for range 3 { // the namespace's location may move between the read and the insert
		loaded, err := c.createOnce(ctx, op, call, id, req)
		if !errors.Is(err, errParentMoved) {
			return loaded, err
		}
	}
	return nil, fault.New(op, fault.Busy, "", "the namespace's location keeps changing, try again")
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
	if _, err := findEntry(ctx, c.db, selectEntry, op, w.ID, id); err == nil {
		return nil, alreadyExists(op, id)
	} else if !fault.Is(err, CodeNoSuchTable) {
		return nil, err
	}
	if req.Stage {
		return &Loaded{Table: table}, nil
	}
	ne := newEntry{id: id, table: table, places: locs, parent: row.location}
	if req.Location != "" || len(locs) > 1 {
		ne.parent = ""
	}
	return c.createEntry(ctx, op, call, ne, 0)
}

// createEntry writes the first metadata file and the entry that names it.
func (c *Catalog) createEntry(ctx context.Context, op string, call Call, ne newEntry, version int) (*Loaded, error) {
	w := call.Warehouse
	if ne.parent == "" {
		// Nothing is written into a place that is not ours; the transaction asks again.
		if err := c.precheck(ctx, op, call, ne.places); err != nil {
			return nil, err
		}
	}
	file, err := c.writeMetadata(ctx, op, w, ne.table, version)
	if err != nil {
		return nil, err
	}
	ne.metadataLocation = file
	c.step("create.written")
	if err := c.insert(ctx, op, call, ne); err != nil {
		if !errors.Is(err, sqldb.ErrCommitUnknown) {
			c.discard(ctx, w, file)
		}
		return nil, err
	}
	c.cache.put(cacheKey{uuidKey(ne.table.UUID(), file), file}, ne.table)
	return &Loaded{Table: ne.table, MetadataLocation: file}, nil
}

// precheck refuses locations that another owner holds, without a lock.
func (c *Catalog) precheck(ctx context.Context, op string, call Call, locs []blob.Location) error {
	for _, l := range locs {
		rows, err := overlaps(ctx, c.db, call.Warehouse.ID, l)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if !r.above(l) {
				return taken(ctx, c.db, op, l, r, c.jobs)
			}
		}
	}
	return nil
}

// createByCommit makes a table by a commit that asserts its absence.
func (c *Catalog) createByCommit(ctx context.Context, call Call, id Identifier, commit *metadata.Commit) (*Loaded, error) {
	const op = "catalog.createByCommit"
	if err := id.check(op); err != nil {
		return nil, err
	}
	if _, err := namespace(ctx, c.db, readNamespace, op, call.Warehouse.ID, id.Namespace); err != nil {
		return nil, err
	}
	if _, err := findEntry(ctx, c.db, selectEntry, op, call.Warehouse.ID, id); err == nil {
		return nil, fault.New(op, fault.Conflict, CodeCommitFailed, "Requirement failed: table already exists: %s", id)
	} else if !fault.Is(err, CodeNoSuchTable) {
		return nil, err
	}
	if err := commit.Check(nil); err != nil {
		return nil, err
	}
	table, err := commit.Build()
	if err != nil {
		return nil, err
	}
	locs, err := places(op, call.Warehouse, table.Locations())
	if err != nil {
		return nil, err
	}
	return c.createEntry(ctx, op, call, newEntry{id: id, table: table, places: locs}, 0)
}
