package metadata

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// CreateRequest is the body of createTable.
type CreateRequest struct {
	Name       string
	Location   string // as the client asks, may be empty
	Stage      bool   // stage-create: the table comes to be by a later commit
	Properties map[string]string

	schema *iceberg.Schema
	spec   *iceberg.PartitionSpec // nil: unpartitioned
	order  table.SortOrder
}

// Properties that Java sets on new tables only, because the default of readers that
// find nothing is an older one.
var newTableProperties = map[string]string{"write.parquet.compression-codec": "zstd"}

// DecodeCreate reads the body of createTable.
func DecodeCreate(body []byte, limits Limits) (req *CreateRequest, err error) {
	const op, what = "metadata.DecodeCreate", "create table request"
	defer guard(op, what, &err)
	if err := limits.check(body); err != nil {
		return nil, invalid(op, what, err)
	}
	var wire struct {
		Name       *string                       `json:"name"`
		Location   string                        `json:"location"`
		Schema     *iceberg.Schema               `json:"schema"`
		Spec       *iceberg.UnboundPartitionSpec `json:"partition-spec"`
		Order      *table.UnboundSortOrder       `json:"write-order"`
		Stage      bool                          `json:"stage-create"`
		Properties map[string]*string            `json:"properties"`
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
	properties, err := stringMap(wire.Properties)
	if err != nil {
		return nil, invalid(op, what, err)
	}
	req = &CreateRequest{
		Name:       *wire.Name,
		Location:   stripSlashes(wire.Location),
		Stage:      wire.Stage,
		Properties: properties,
		schema:     wire.Schema,
		order:      table.UnsortedSortOrder,
	}
	if wire.Spec != nil {
		req.spec = &wire.Spec.PartitionSpec
	}
	if wire.Order != nil {
		req.order = wire.Order.SortOrder
	}
	return req, nil
}

// Build makes the metadata of the new table at a location that the caller chose. Field
// ids are assigned anew. The property format-version chooses the format; it and the
// other reserved properties are not kept.
func (r *CreateRequest) Build(location string, id uuid.UUID) (t *Table, err error) {
	const op, what = "metadata.CreateRequest.Build", "new table"
	defer guard(op, what, &err)
	if location = stripSlashes(location); location == "" {
		return nil, refusedf(op, "%s: location is required", what)
	}
	properties := iceberg.Properties(maps.Clone(newTableProperties))
	maps.Copy(properties, r.Properties)
	maps.DeleteFunc(properties, func(key, _ string) bool {
		return key != table.PropertyFormatVersion && slices.Contains(table.ReservedProperties[:], key)
	})
	meta, err := table.NewMetadataWithUUID(r.schema, r.spec, r.order, location, properties, id)
	if err != nil {
		return nil, refused(op, what, err)
	}
	return settle(op, what, meta)
}

// checkNames refuses a schema whose column names are ambiguous.
func checkNames(schema *iceberg.Schema) error {
	_, err := iceberg.IndexByName(schema)
	return err
}

// stringMap refuses null values, which the decoder would turn into empty ones.
func stringMap(in map[string]*string) (map[string]string, error) {
	out := make(map[string]string, len(in))
	for key, value := range in {
		if value == nil {
			return nil, fmt.Errorf("property %q is null", key)
		}
		out[key] = *value
	}
	return out, nil
}
