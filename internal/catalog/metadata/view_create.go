package metadata

import (
	"encoding/json"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/view"
	"github.com/google/uuid"
)

// CreateViewRequest is the body of createView.
type CreateViewRequest struct {
	Name       string
	Location   string // as the client asks, may be empty
	Properties map[string]string

	schema  *iceberg.Schema
	version *view.Version
}

// DecodeCreateView reads the body of createView.
func DecodeCreateView(body []byte, limits Limits) (req *CreateViewRequest, err error) {
	const op, what = "metadata.DecodeCreateView", "create view request"
	defer guard(op, what, &err)
	if err := limits.check(body); err != nil {
		return nil, invalid(op, what, err)
	}
	var wire struct {
		Name       *string            `json:"name"`
		Location   string             `json:"location"`
		Schema     *iceberg.Schema    `json:"schema"`
		Version    *versionFields     `json:"view-version"`
		Properties map[string]*string `json:"properties"`
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return nil, invalid(op, what, err)
	}
	if wire.Name == nil || *wire.Name == "" {
		return nil, invalidf(op, "%s: name is required", what)
	}
	if wire.Schema == nil {
		return nil, invalidf(op, "%s: schema is required", what)
	}
	if err := checkNames(wire.Schema); err != nil {
		return nil, invalid(op, what, err)
	}
	if wire.Version == nil {
		return nil, invalidf(op, "%s: view-version is required", what)
	}
	version, err := wire.Version.version()
	if err != nil {
		return nil, invalid(op, what, err)
	}
	properties, err := stringMap(wire.Properties)
	if err != nil {
		return nil, invalid(op, what, err)
	}
	return &CreateViewRequest{
		Name:       *wire.Name,
		Location:   stripSlashes(wire.Location),
		Properties: properties,
		schema:     wire.Schema,
		version:    version,
	}, nil
}

// Build makes the metadata of the new view at a location that the caller chose. The
// schema gets the id 0 and the version the id 1, whatever the client calls them; field
// ids stay as they are.
func (r *CreateViewRequest) Build(location string, id uuid.UUID) (v *View, err error) {
	const op, what = "metadata.CreateViewRequest.Build", "new view"
	defer guard(op, what, &err)
	if location = stripSlashes(location); location == "" {
		return nil, refusedf(op, "%s: location is required", what)
	}
	b, err := view.NewMetadataBuilder()
	if err != nil {
		return nil, refused(op, what, err)
	}
	b.SetUUID(id).SetLoc(location).SetProperties(r.Properties)
	ed := &viewEditor{b: b}
	first := r.version.Clone()
	first.VersionID, first.SchemaID = view.InitialVersionID, view.LastAddedID
	if err := ed.addSchema(r.schema); err != nil {
		return nil, refused(op, what, err)
	}
	if err := ed.addVersion(first); err != nil {
		return nil, refused(op, what, err)
	}
	if err := ed.setCurrent(view.LastAddedID); err != nil {
		return nil, refused(op, what, err)
	}
	return ed.finish(op, what)
}
