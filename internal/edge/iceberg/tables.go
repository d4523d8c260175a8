package iceberg

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

// identifier is the JSON form of a table's name.
type identifier struct {
	Namespace catalog.Namespace `json:"namespace"`
	Name      string            `json:"name"`
}

func (i identifier) parse() catalog.Identifier {
	return catalog.Identifier{Namespace: i.Namespace, Name: i.Name}
}

func (e *edge) listTables(c *call) error { return e.list(c, "tables", e.Catalog.ListTables) }

func (e *edge) listViews(c *call) error { return e.list(c, "views", e.Catalog.ListViews) }

func (e *edge) list(c *call, kind string, names func(context.Context, catalog.Call, catalog.Namespace, catalog.Page) ([]string, catalog.Page, error)) error {
	n, err := c.namespace()
	if err != nil {
		return err
	}
	page, err := c.page(kind, n)
	if err != nil {
		return err
	}
	found, next, err := names(c.r.Context(), c.on(), n, page)
	if err != nil {
		return err
	}
	list := make([]identifier, len(found))
	for i, name := range found {
		list[i] = identifier{n, name}
	}
	return e.reply(c, http.StatusOK, map[string]any{"identifiers": list, "next-page-token": c.token(kind, n, next)})
}

func (e *edge) createTable(c *call) error {
	n, err := c.namespace()
	if err != nil {
		return err
	}
	body, err := c.body()
	if err != nil {
		return err
	}
	req, err := metadata.DecodeCreate(body, e.Limits)
	if err != nil {
		return err
	}
	loaded, err := e.Catalog.CreateTable(c.r.Context(), c.on(), n, req)
	if err != nil {
		return err
	}
	if !req.Stage {
		e.audit(c, "table.create", "namespace", n.String(), "table", req.Name)
	}
	return e.loaded(c, loaded, false)
}

// registration is the body of register and register-view.
type registration struct {
	Name      string `json:"name"`
	Location  string `json:"metadata-location"`
	Overwrite bool   `json:"overwrite"` // tables only
}

func (e *edge) registration(c *call) (req registration, err error) {
	if err := e.decode(c, &req); err != nil {
		return req, err
	}
	if req.Location == "" {
		err = fault.New("iceberg.register", fault.Invalid, "", "metadata-location is required")
	}
	return req, err
}

func (e *edge) registerTable(c *call) error {
	n, err := c.namespace()
	if err != nil {
		return err
	}
	req, err := e.registration(c)
	if err != nil {
		return err
	}
	id := catalog.Identifier{Namespace: n, Name: req.Name}
	loaded, err := e.Catalog.RegisterTable(c.r.Context(), c.on(), id, req.Location, req.Overwrite)
	if err != nil {
		return err
	}
	e.audit(c, "table.register", "table", id.String(), "overwrite", req.Overwrite)
	return e.loaded(c, loaded, false)
}

// unregisterTable removes the entry and answers with what it pointed to.
func (e *edge) unregisterTable(c *call) error {
	id, err := c.table()
	if err != nil {
		return err
	}
	loaded, err := e.Catalog.UnregisterTable(c.r.Context(), c.on(), id)
	if err != nil {
		return err
	}
	return e.document(c, loaded.MetadataLocation, loaded.Table.JSON())
}

func (e *edge) loadTable(c *call) error {
	id, err := c.table()
	if err != nil {
		return err
	}
	refs := false
	switch mode := c.r.URL.Query().Get("snapshots"); strings.ToLower(mode) {
	case "", "all":
	case "refs":
		refs = true
	default:
		return fault.New("iceberg.load", fault.Invalid, "", "snapshots must be refs or all, not %q", mode)
	}
	loaded, err := e.Catalog.LoadTable(c.r.Context(), c.on(), id)
	if err != nil {
		return err
	}
	if tag := etag(loaded, refs, c.warehouse.ClientConfig); noneMatch(c.r.Header.Values("If-None-Match"), tag) {
		c.w.Header().Set("ETag", tag)
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return e.loaded(c, loaded, refs)
}

// loaded writes a LoadTableResult around the metadata's own bytes.
func (e *edge) loaded(c *call, l *catalog.Loaded, refs bool) error {
	doc := l.Table.JSON()
	if refs {
		doc = l.Table.RefsOnlyJSON()
	}
	if l.MetadataLocation != "" {
		c.w.Header().Set("ETag", etag(l, refs, c.warehouse.ClientConfig))
	}
	return e.document(c, l.MetadataLocation, doc)
}

// document answers with metadata's own bytes and where they lie (spec: LoadTableResult,
// LoadViewResult).
func (e *edge) document(c *call, location string, doc []byte) error {
	var b bytes.Buffer
	b.Grow(len(doc) + len(location) + 64)
	b.WriteByte('{')
	if location != "" {
		if err := member(&b, "metadata-location", location); err != nil {
			return err
		}
		b.WriteByte(',')
	}
	b.WriteString(`"metadata":`)
	b.Write(doc)
	b.WriteByte(',')
	if err := member(&b, "config", clientConfig(c.warehouse)); err != nil {
		return err
	}
	b.WriteByte('}')
	return e.send(c, http.StatusOK, b.Bytes())
}

func member(b *bytes.Buffer, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	b.WriteString(`"` + name + `":`)
	b.Write(text)
	return nil
}

func (e *edge) tableExists(c *call) error { return e.exists(c, catalog.KindTable) }

func (e *edge) viewExists(c *call) error { return e.exists(c, catalog.KindView) }

func (e *edge) exists(c *call, kind catalog.Kind) error {
	id, err := c.table()
	if err != nil {
		return err
	}
	if err := e.Catalog.Exists(c.r.Context(), c.on(), kind, id); err != nil {
		return err
	}
	return e.none(c)
}

func (e *edge) commitTable(c *call) error {
	id, err := c.table()
	if err != nil {
		return err
	}
	body, err := c.body()
	if err != nil {
		return err
	}
	commit, err := metadata.DecodeCommit(body, e.Limits)
	if err != nil {
		return err
	}
	loaded, err := e.Catalog.CommitTable(c.r.Context(), c.on(), id, commit)
	if err != nil {
		return err
	}
	if commit.AssertsCreate() {
		e.audit(c, "table.create", "namespace", id.Namespace.String(), "table", id.Name)
	}
	return e.loaded(c, loaded, false)
}

func (e *edge) renameTable(c *call) error { return e.rename(c, catalog.KindTable) }

func (e *edge) renameView(c *call) error { return e.rename(c, catalog.KindView) }

func (e *edge) rename(c *call, kind catalog.Kind) error {
	var req struct {
		Source      identifier `json:"source"`
		Destination identifier `json:"destination"`
	}
	if err := e.decode(c, &req); err != nil {
		return err
	}
	from, to := req.Source.parse(), req.Destination.parse()
	if err := c.may(from.Namespace, tenant.Write, tenant.Drop); err != nil {
		return err
	}
	if err := c.may(to.Namespace, tenant.Write); err != nil {
		return err
	}
	if err := e.Catalog.Rename(c.r.Context(), c.on(), kind, from, to); err != nil {
		return err
	}
	e.audit(c, kind.String()+".rename", "name", from.String(), "to", to.String())
	return e.none(c)
}

// reportMetrics takes a client's report and keeps nothing of it but that it came.
func (e *edge) reportMetrics(c *call) error {
	id, err := c.table()
	if err != nil {
		return err
	}
	var report struct {
		Type string `json:"report-type"`
	}
	if err := e.decode(c, &report); err != nil {
		return err
	}
	if report.Type == "" {
		return fault.New("iceberg.metrics", fault.Invalid, "", "report-type is required")
	}
	if err := e.Catalog.Exists(c.r.Context(), c.on(), catalog.KindTable, id); err != nil {
		return err
	}
	e.Logger.DebugContext(c.r.Context(), "client metrics", "table", id.String(), "type", report.Type)
	return e.none(c)
}
