package catalog

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

// Loaded is a table as it stands.
type Loaded struct {
	Table            *metadata.Table
	MetadataLocation string // empty for a staged create
}

// LoadTable reads the pointer and the metadata it names.
func (c *Catalog) LoadTable(ctx context.Context, call Call, id Identifier) (*Loaded, error) {
	const op = "catalog.LoadTable"
	_, loaded, err := c.loadTable(ctx, op, call.Warehouse, id)
	return loaded, err
}

func (c *Catalog) loadTable(ctx context.Context, op string, w *tenant.Warehouse, id Identifier) (*entry, *Loaded, error) {
	e, doc, err := c.load(ctx, op, w, KindTable, id)
	if err != nil {
		return nil, nil, err
	}
	return e, &Loaded{Table: doc.(*metadata.Table), MetadataLocation: e.metadataLocation}, nil
}

func (c *Catalog) load(ctx context.Context, op string, w *tenant.Warehouse, kind Kind, id Identifier) (*entry, document, error) {
	if err := id.check(op); err != nil {
		return nil, nil, err
	}
	// A file may go between the pointer's read and its own (a commit that removes old
	// metadata): the pointer is read again as long as it moved.
	last := ""
	for range commitTries {
		e, err := findEntry(ctx, c.db, selectEntry, op, w.ID, kind, id)
		if err != nil {
			return nil, nil, err
		}
		t, err := c.metadataOf(ctx, op, w, e)
		if fault.Is(err, CodeMissingMetadata) && e.metadataLocation != last {
			last = e.metadataLocation
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		return e, t, nil
	}
	return nil, nil, &fault.Error{Op: op, Kind: fault.Busy, RetryAfter: time.Second, Message: "the entry changes faster than it can be read, try again"}
}

func (c *Catalog) metadataOf(ctx context.Context, op string, w *tenant.Warehouse, e *entry) (document, error) {
	k := cacheKey{e.key, e.metadataLocation}
	if t := c.cache.get(k); t != nil {
		return t, nil
	}
	t, err := c.readDocument(ctx, op, w, e.kind, e.metadataLocation)
	if err != nil {
		return nil, err
	}
	c.cache.put(k, t)
	return t, nil
}

// LoadRecalled loads what an operation on a table stored as its result: a metadata
// location, or the document of a staged create.
func (c *Catalog) LoadRecalled(ctx context.Context, call Call, result string) (*Loaded, error) {
	const op = "catalog.LoadRecalled"
	if strings.HasPrefix(result, "{") {
		t, err := metadata.Parse([]byte(result), c.limits)
		return &Loaded{Table: t}, err
	}
	t, err := c.readMetadata(ctx, op, call.Warehouse, result)
	return &Loaded{Table: t, MetadataLocation: result}, err
}

// Exists returns NoSuchTable or NoSuchView for what is not there.
func (c *Catalog) Exists(ctx context.Context, call Call, kind Kind, id Identifier) error {
	const op = "catalog.Exists"
	if err := id.check(op); err != nil {
		return err
	}
	_, err := findEntry(ctx, c.db, selectEntry, op, call.Warehouse.ID, kind, id)
	return err
}

func gone(err error) bool { return errors.Is(err, sql.ErrNoRows) }
