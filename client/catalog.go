package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
)

// Config is what the catalog tells its clients.
type Config struct {
	Defaults            map[string]string `json:"defaults"`
	Overrides           map[string]string `json:"overrides"`
	Endpoints           []string          `json:"endpoints"`
	IdempotencyLifetime string            `json:"idempotency-key-lifetime"` // ISO 8601, such as PT30M
}

// Config returns the configuration of a warehouse; an empty name means default.
func (c *Client) Config(ctx context.Context, warehouse string) (cfg Config, err error) {
	query := url.Values{"warehouse": {orDefault(warehouse)}}
	_, err = c.do(ctx, request{method: http.MethodGet, path: "/iceberg/v1/config", query: query, into: &cfg})
	return cfg, err
}

// Warehouse is what a person needs of the tables and views of one warehouse.
type Warehouse struct {
	c    *Client
	path string
}

// Warehouse returns a warehouse by its name; an empty name means default. It sends nothing.
func (c *Client) Warehouse(name string) Warehouse {
	return Warehouse{c: c, path: "/iceberg/v1/" + segment(orDefault(name))}
}

// NamespaceInfo is a namespace with its properties.
type NamespaceInfo struct {
	Namespace  Namespace         `json:"namespace"`
	Properties map[string]string `json:"properties"`
}

// TableInfo is what the catalog knows of a table.
type TableInfo struct {
	MetadataLocation string          `json:"metadata-location"`
	Metadata         json.RawMessage `json:"metadata"` // the table metadata of the Iceberg specification
}

// Namespaces walks the namespaces directly below parent; none means the top.
func (w Warehouse) Namespaces(ctx context.Context, parent Namespace) iter.Seq2[Namespace, error] {
	query := url.Values{"pageToken": {""}}
	set(query, "parent", parent.query())
	return paged(query, func(query url.Values) ([]Namespace, string, error) {
		var page struct {
			Namespaces []Namespace `json:"namespaces"`
			Next       string      `json:"next-page-token"`
		}
		_, err := w.c.do(ctx, request{method: http.MethodGet, path: w.path + "/namespaces", query: query, into: &page})
		return page.Namespaces, page.Next, err
	})
}

// Namespace returns one namespace.
func (w Warehouse) Namespace(ctx context.Context, ns Namespace) (info NamespaceInfo, err error) {
	_, err = w.c.do(ctx, request{method: http.MethodGet, path: w.namespace(ns), into: &info})
	return info, err
}

// DropNamespace drops an empty namespace.
func (w Warehouse) DropNamespace(ctx context.Context, ns Namespace) error {
	_, err := w.c.do(ctx, request{method: http.MethodDelete, path: w.namespace(ns)})
	return err
}

// Tables walks the tables of a namespace.
func (w Warehouse) Tables(ctx context.Context, ns Namespace) iter.Seq2[Identifier, error] {
	return w.identifiers(ctx, w.namespace(ns)+"/tables")
}

// identifiers walks a list of tables or views.
func (w Warehouse) identifiers(ctx context.Context, path string) iter.Seq2[Identifier, error] {
	query := url.Values{"pageToken": {""}}
	return paged(query, func(query url.Values) ([]Identifier, string, error) {
		var page struct {
			Identifiers []Identifier `json:"identifiers"`
			Next        string       `json:"next-page-token"`
		}
		_, err := w.c.do(ctx, request{method: http.MethodGet, path: path, query: query, into: &page})
		return page.Identifiers, page.Next, err
	})
}

// Table returns one table with its metadata.
func (w Warehouse) Table(ctx context.Context, id Identifier) (info TableInfo, err error) {
	_, err = w.c.do(ctx, request{method: http.MethodGet, path: w.table(id), into: &info})
	return info, err
}

// RegisterOptions of RegisterTable.
type RegisterOptions struct {
	Overwrite bool // a table of that name makes way; its files stay
}

// RegisterTable makes a table of a metadata file that exists already. The file's
// location must lie in the warehouse.
func (w Warehouse) RegisterTable(ctx context.Context, id Identifier, metadataLocation string, opts RegisterOptions) (info TableInfo, err error) {
	body := map[string]any{"name": id.Name, "metadata-location": metadataLocation}
	if opts.Overwrite {
		body["overwrite"] = true
	}
	_, err = w.c.do(ctx, request{method: http.MethodPost, path: w.namespace(id.Namespace) + "/register", body: body, into: &info, keyed: true})
	return info, err
}

// UnregisterTable removes a table's entry and returns what it pointed to: all commits
// before are in there, all later ones fail. Its files stay.
func (w Warehouse) UnregisterTable(ctx context.Context, id Identifier) (info TableInfo, err error) {
	_, err = w.c.do(ctx, request{method: http.MethodPost, path: w.table(id) + "/unregister", into: &info, keyed: true})
	return info, err
}

// RenameTable gives a table another name, in any namespace of the warehouse.
func (w Warehouse) RenameTable(ctx context.Context, from, to Identifier) error {
	return w.rename(ctx, "/tables/rename", from, to)
}

func (w Warehouse) rename(ctx context.Context, path string, from, to Identifier) error {
	body := map[string]any{"source": from, "destination": to}
	_, err := w.c.do(ctx, request{method: http.MethodPost, path: w.path + path, body: body, keyed: true})
	return err
}

// DropOptions of DropTable and DropView.
type DropOptions struct {
	Purge bool // delete the files too
	Async bool // with Purge: do not wait for the files
}

// Dropped is what became of a drop. Job and State are empty without a purge.
type Dropped struct {
	Job   string
	State JobState // PENDING, RUNNING: the server goes on by itself
}

// DropTable drops a table. With Purge the entry is gone when this returns, whatever
// State is: the server owns the deletion of the files, and Jobs tells about it.
func (w Warehouse) DropTable(ctx context.Context, id Identifier, opts DropOptions) (Dropped, error) {
	return w.drop(ctx, w.table(id), opts)
}

func (w Warehouse) drop(ctx context.Context, path string, opts DropOptions) (Dropped, error) {
	r := request{method: http.MethodDelete, path: path}
	if opts.Purge {
		r.query = url.Values{"purgeRequested": {"true"}}
		if opts.Async {
			r.header = map[string]string{"X-Gravitino-Async-Purge": "true"}
		}
	}
	header, err := w.c.do(ctx, r)
	if err != nil {
		return Dropped{}, err
	}
	return Dropped{Job: header.Get("X-Lethe-Job"), State: JobState(header.Get("X-Lethe-Job-State"))}, nil
}

func (w Warehouse) namespace(ns Namespace) string { return w.path + "/namespaces/" + ns.path() }

func (w Warehouse) table(id Identifier) string {
	return w.namespace(id.Namespace) + "/tables/" + segment(id.Name)
}
