package metadata

import (
	"errors"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// The updates of schemas, partition specs and sort orders.

type addSchema struct {
	Schema *iceberg.Schema `json:"schema"`
}

func (u *addSchema) prepare() error { return checkNames(u.Schema) }

func (u *addSchema) apply(ed *editor) error { return ed.addSchema(u.Schema) }

type setCurrentSchema struct {
	ID int `json:"schema-id"`
}

func (u *setCurrentSchema) apply(ed *editor) error {
	id := u.ID
	if id == -1 {
		if ed.lastSchema == nil {
			return errors.New("schema-id is -1 (the last added), but this commit adds no schema")
		}
		id = *ed.lastSchema
	}
	ed.chosen = true
	return ed.b.SetCurrentSchemaID(id)
}

type removeSchemas struct {
	IDs []int `json:"schema-ids"`
}

func (u *removeSchemas) apply(ed *editor) error {
	if err := ed.b.RemoveSchemas(u.IDs); err != nil {
		return err
	}
	ed.schemas = slices.DeleteFunc(ed.schemas, func(s *iceberg.Schema) bool { return slices.Contains(u.IDs, s.ID) })
	return nil
}

type addSpec struct {
	Spec *iceberg.UnboundPartitionSpec `json:"spec"`
}

func (u *addSpec) apply(ed *editor) error { return ed.addSpec(u.Spec.Clone()) }

type setDefaultSpec struct {
	ID int `json:"spec-id"`
}

func (u *setDefaultSpec) apply(ed *editor) error {
	id := u.ID
	if id == -1 {
		if ed.lastSpec == nil {
			return errors.New("spec-id is -1 (the last added), but this commit adds no partition spec")
		}
		id = *ed.lastSpec
	}
	return ed.b.SetDefaultSpecID(id)
}

type removeSpecs struct {
	IDs []int `json:"spec-ids"`
}

func (u *removeSpecs) apply(ed *editor) error {
	if err := ed.b.RemovePartitionSpecs(u.IDs); err != nil {
		return err
	}
	ed.specs = slices.DeleteFunc(ed.specs, func(s iceberg.PartitionSpec) bool { return slices.Contains(u.IDs, s.ID()) })
	return nil
}

type addSortOrder struct {
	Order *table.UnboundSortOrder `json:"sort-order"`
}

func (u *addSortOrder) apply(ed *editor) error { return ed.addOrder(u.Order.SortOrder) }

type setDefaultSortOrder struct {
	ID int `json:"sort-order-id"`
}

func (u *setDefaultSortOrder) apply(ed *editor) error { return ed.b.SetDefaultSortOrderID(u.ID) }
