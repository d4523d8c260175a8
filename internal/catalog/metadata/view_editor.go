package metadata

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/view"
	"github.com/google/uuid"
)

// viewEditor is one replay of updates on the library's builder. It decides itself what
// is the same and what -1 means: the builder stores a version twice that the view had
// before the commit, and forgets a schema or version that it reused.
type viewEditor struct {
	b    *view.MetadataBuilder
	uuid uuid.UUID // of the base

	schemas     []*iceberg.Schema
	lastSchema  *int // what schema-id -1 of a new version means
	versions    []*view.Version
	lastVersion *int64 // what set-current-view-version -1 means
}

func editView(base view.Metadata) (*viewEditor, error) {
	b, err := view.MetadataBuilderFromBase(base)
	if err != nil {
		return nil, err
	}
	return &viewEditor{b: b, uuid: base.ViewUUID(), schemas: base.Schemas(), versions: base.Versions()}, nil
}

// addSchema adds a schema under the id of an identical one, else the highest plus 1.
func (ed *viewEditor) addSchema(schema *iceberg.Schema) error {
	own, known := placeSchema(ed.schemas, schema)
	if !known {
		if err := ed.b.AddSchema(own).Err(); err != nil {
			return err
		}
		ed.schemas = append(ed.schemas, own)
	}
	ed.lastSchema = &own.ID
	return nil
}

// addVersion adds a version under the id of one that behaves the same (id and time play
// no part), else under its own id or the highest plus 1, whichever is more. So a commit
// that is repeated, or meets another with the same result, adds nothing.
func (ed *viewEditor) addVersion(version *view.Version) error {
	own := version.Clone()
	if own.SchemaID == view.LastAddedID {
		if ed.lastSchema == nil {
			return errors.New("schema-id is -1 (the last added), but this commit adds no schema")
		}
		own.SchemaID = *ed.lastSchema
	}
	own.VersionID = max(own.VersionID, view.InitialVersionID)
	for _, known := range ed.versions {
		if known.Equals(own) {
			ed.lastVersion = &known.VersionID
			return nil
		}
		own.VersionID = max(own.VersionID, known.VersionID+1)
	}
	if err := ed.b.AddVersion(own).Err(); err != nil {
		return err
	}
	ed.versions = append(ed.versions, own)
	ed.lastVersion = &own.VersionID
	return nil
}

func (ed *viewEditor) setCurrent(id int64) error {
	if id == view.LastAddedID {
		if ed.lastVersion == nil {
			return errors.New("view-version-id is -1 (the last added), but this commit adds no view version")
		}
		id = *ed.lastVersion
	}
	return ed.b.SetCurrentVersionID(id).Err()
}

// finish writes what the builder made and reads it back, so that nothing is ever stored
// that could not be loaded again. The builder trims the versions and refuses to lose a
// dialect.
func (ed *viewEditor) finish(op, what string) (*View, error) {
	built, err := ed.b.Build()
	if err != nil {
		return nil, refused(op, what, err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // people read the SQL in this file, and "<" is common there
	if err := enc.Encode(built.Metadata); err != nil {
		return nil, refused(op, what, err)
	}
	v, err := decodeView(bytes.TrimSuffix(out.Bytes(), []byte("\n")))
	if err != nil {
		return nil, refused(op, what, err)
	}
	if err := checkViewProperties(v.props); err != nil {
		return nil, refused(op, what, err)
	}
	return v, nil
}
