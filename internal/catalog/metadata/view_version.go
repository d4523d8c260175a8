package metadata

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/iceberg-go/view"
)

// representationSQL is the only type of representation that the specification has.
const representationSQL = "sql"

// versionFields is a view version as it is written. Pointers tell what is missing from
// what is zero.
type versionFields struct {
	ID               *int32             `json:"version-id"`
	SchemaID         *int32             `json:"schema-id"`
	Timestamp        *int64             `json:"timestamp-ms"`
	Summary          map[string]*string `json:"summary"`
	Representations  []*sqlFields       `json:"representations"`
	DefaultNamespace []*string          `json:"default-namespace"`
	DefaultCatalog   string             `json:"default-catalog"`
}

type sqlFields struct {
	Type    string  `json:"type"`
	SQL     *string `json:"sql"`
	Dialect *string `json:"dialect"`
}

// version demands all that Java's parser does. What a new version must have beyond that
// (a query, one for each dialect) the builder knows.
func (f *versionFields) version() (*view.Version, error) {
	if f == nil {
		return nil, errors.New("view version is null")
	}
	for _, field := range []struct {
		name string
		has  bool
	}{
		{"version-id", f.ID != nil},
		{"schema-id", f.SchemaID != nil},
		{"timestamp-ms", f.Timestamp != nil},
		{"summary", f.Summary != nil},
		{"representations", f.Representations != nil},
		{"default-namespace", f.DefaultNamespace != nil},
	} {
		if !field.has {
			return nil, fmt.Errorf("view version requires %s", field.name)
		}
	}
	summary, err := stringMap(f.Summary)
	if err != nil {
		return nil, fmt.Errorf("summary: %w", err)
	}
	v := &view.Version{
		VersionID:        int64(*f.ID),
		SchemaID:         int(*f.SchemaID),
		TimestampMS:      *f.Timestamp,
		Summary:          summary,
		Representations:  make([]view.Representation, 0, len(f.Representations)),
		DefaultNamespace: make([]string, 0, len(f.DefaultNamespace)),
		DefaultCatalog:   f.DefaultCatalog,
	}
	for _, level := range f.DefaultNamespace {
		if level == nil {
			return nil, errors.New("default-namespace has a level that is null")
		}
		v.DefaultNamespace = append(v.DefaultNamespace, *level)
	}
	for _, r := range f.Representations {
		// Of another type the library would keep nothing but the name.
		if r == nil || !strings.EqualFold(r.Type, representationSQL) {
			return nil, errors.New("view representation must be of type sql")
		}
		if r.SQL == nil || r.Dialect == nil {
			return nil, errors.New("view representation requires sql and dialect")
		}
		v.Representations = append(v.Representations,
			view.Representation{Type: representationSQL, Sql: *r.SQL, Dialect: *r.Dialect})
	}
	return v, nil
}
