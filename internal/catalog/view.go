package catalog

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// LoadedView is a view as it stands.
type LoadedView struct {
	View             *metadata.View
	MetadataLocation string
}

const (
	insertViewFile sqldb.Statement = "{insert ignore} view_files (tabular_id, location_hash, location) VALUES (?, ?, ?) {ignore}"
	freeViewFiles  sqldb.Statement = "DELETE FROM view_files WHERE tabular_id = ?"
	viewFiles      sqldb.Statement = "SELECT location FROM view_files WHERE tabular_id = ? ORDER BY location_hash"
)

// ListViews returns the names of a namespace's views in byte order.
func (c *Catalog) ListViews(ctx context.Context, call Call, n Namespace, page Page) ([]string, Page, error) {
	return c.listKind(ctx, "catalog.ListViews", call, KindView, n, page)
}

// LoadView reads the pointer and the metadata it names.
func (c *Catalog) LoadView(ctx context.Context, call Call, id Identifier) (*LoadedView, error) {
	e, doc, err := c.load(ctx, "catalog.LoadView", call.Warehouse, KindView, id)
	if err != nil {
		return nil, err
	}
	return &LoadedView{View: doc.(*metadata.View), MetadataLocation: e.metadataLocation}, nil
}

// CreateView makes a view.
func (c *Catalog) CreateView(ctx context.Context, call Call, n Namespace, req *metadata.CreateViewRequest) (*LoadedView, error) {
	const op = "catalog.CreateView"
	id := Identifier{n, req.Name}
	if err := id.check(op); err != nil {
		return nil, err
	}
	var m *member
	err := c.atHome(op, func() error {
		home, err := namespace(ctx, c.db, readNamespace, op, call.Warehouse.ID, n)
		if err != nil {
			return err
		}
		viewID := uuid.New()
		location := req.Location
		if location == "" {
			location = tableLocation(home.location, id.Name, viewID.String())
		}
		view, err := req.Build(location, viewID)
		if err != nil {
			return err
		}
		locs, err := places(op, call.Warehouse, view.Locations())
		if err != nil {
			return err
		}
		if err := c.nameFree(ctx, op, call, KindView, id); err != nil {
			return err
		}
		m = &member{id: id, kind: KindView, doc: view, places: locs, parent: home.location}
		if req.Location != "" || len(locs) > 1 {
			m.parent = ""
		}
		return c.createEntry(ctx, op, call, m)
	})
	if err != nil {
		return nil, err
	}
	return &LoadedView{View: m.doc.(*metadata.View), MetadataLocation: m.file}, nil
}

// atHome runs a create again when the namespace's location moved between its read and
// the insert.
func (c *Catalog) atHome(op string, create func() error) error {
	for range 3 {
		if err := create(); !errors.Is(err, errParentMoved) {
			return err
		}
	}
	return fault.New(op, fault.Busy, "", "the namespace's location keeps changing, try again")
}

// ReplaceView applies a commit to a view, as CommitTable does to a table.
func (c *Catalog) ReplaceView(ctx context.Context, call Call, id Identifier, commit *metadata.ViewCommit) (*LoadedView, error) {
	const op = "catalog.ReplaceView"
	var m *member
	queue := turnKey{int64(call.Warehouse.ID), id.Namespace.Key() + id.Name}
	err := c.retryCommit(ctx, op, &queue, func() error {
		e, doc, err := c.load(ctx, op, call.Warehouse, KindView, id)
		if err != nil {
			return err
		}
		base := doc.(*metadata.View)
		if err := commit.Check(base); err != nil {
			return err
		}
		result, err := commit.Apply(base)
		if err != nil {
			return err
		}
		m = &member{id: id, kind: KindView, doc: result.View, entry: e, file: e.metadataLocation, unchanged: !result.Changed}
		if m.unchanged {
			_, err := c.Remember(ctx, call, m.file, nil)
			return err
		}
		if m.places, err = newPlaces(op, call, base, result.View); err != nil {
			return err
		}
		return c.commit(ctx, op, call, m.file, m)
	})
	if err != nil {
		return nil, err
	}
	return &LoadedView{View: m.doc.(*metadata.View), MetadataLocation: m.file}, nil
}

// RegisterView adds an entry for view metadata that exists.
func (c *Catalog) RegisterView(ctx context.Context, call Call, id Identifier, metadataLocation string) (*LoadedView, error) {
	const op = "catalog.RegisterView"
	m, err := c.register(ctx, op, call, KindView, id, metadataLocation, false)
	if err != nil {
		return nil, err
	}
	return &LoadedView{View: m.doc.(*metadata.View), MetadataLocation: m.file}, nil
}

// LoadRecalledView loads the metadata file that an operation on a view stored as its
// result.
func (c *Catalog) LoadRecalledView(ctx context.Context, call Call, result string) (*LoadedView, error) {
	doc, err := c.readDocument(ctx, "catalog.LoadRecalledView", call.Warehouse, KindView, result)
	if err != nil {
		return nil, err
	}
	return &LoadedView{View: doc.(*metadata.View), MetadataLocation: result}, nil
}
