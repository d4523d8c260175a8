package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
)

// ViewInfo is what the catalog knows of a view.
type ViewInfo struct {
	MetadataLocation string          `json:"metadata-location"`
	Metadata         json.RawMessage `json:"metadata"` // the view metadata of the Iceberg specification
}

// Views walks the views of a namespace.
func (w Warehouse) Views(ctx context.Context, ns Namespace) iter.Seq2[Identifier, error] {
	return w.identifiers(ctx, w.namespace(ns)+"/views")
}

// View returns one view with its metadata.
func (w Warehouse) View(ctx context.Context, id Identifier) (info ViewInfo, err error) {
	_, err = w.c.do(ctx, request{method: http.MethodGet, path: w.view(id), into: &info})
	return info, err
}

// DropView drops a view. Its metadata files stay, unless opts or a setting of the server
// asks for a purge; then Dropped names the job, as with DropTable.
func (w Warehouse) DropView(ctx context.Context, id Identifier, opts DropOptions) (Dropped, error) {
	return w.drop(ctx, w.view(id), opts)
}

// RenameView gives a view another name, in any namespace of the warehouse.
func (w Warehouse) RenameView(ctx context.Context, from, to Identifier) error {
	return w.rename(ctx, "/views/rename", from, to)
}

func (w Warehouse) view(id Identifier) string {
	return w.namespace(id.Namespace) + "/views/" + segment(id.Name)
}
