package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"

	"github.com/lethe-project/lethe/client"
)

type tableCmd struct {
	List       tableListCmd       `cmd:"" name:"ls" help:"List the tables of a namespace."`
	Show       tableShowCmd       `cmd:"" help:"Show a table."`
	Register   tableRegisterCmd   `cmd:"" help:"Make a table of a metadata file that exists already."`
	Unregister tableUnregisterCmd `cmd:"" help:"Forget a table and say where its metadata is; its files stay."`
	Rename     tableRenameCmd     `cmd:"" help:"Give a table another name; its files stay where they are."`
	Drop       tableDropCmd       `cmd:"" help:"Drop a table; with --purge, its files too."`
}

type tableListCmd struct {
	inWarehouse
	Namespace string `arg:"" help:"Namespace, such as shop.eu."`
}

// Run lists tables.
func (t *tableListCmd) Run(ctx context.Context, c *console) error {
	ns, err := namespaceArg(t.Namespace)
	if err != nil {
		return err
	}
	warehouse, _, err := t.open()
	if err != nil {
		return err
	}
	return c.identifiers(warehouse.Tables(ctx, ns), t.JSON)
}

// identifiers prints the names of tables or views, a line each.
func (c *console) identifiers(ids iter.Seq2[client.Identifier, error], asJSON bool) error {
	for id, err := range ids {
		if err != nil {
			return err
		}
		if asJSON {
			err = c.json(id)
		} else {
			err = c.print("%s", id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type tableShowCmd struct {
	inWarehouse
	Table string `arg:"" help:"Table, such as shop.eu.orders."`
}

// Run shows one table.
func (t *tableShowCmd) Run(ctx context.Context, c *console) error {
	id, err := identifierArg(t.Table)
	if err != nil {
		return err
	}
	warehouse, _, err := t.open()
	if err != nil {
		return err
	}
	info, err := warehouse.Table(ctx, id)
	if err != nil {
		return err
	}
	if t.JSON {
		return c.json(info)
	}
	var metadata struct {
		Version   int               `json:"format-version"`
		UUID      string            `json:"table-uuid"`
		Location  string            `json:"location"`
		Current   *int64            `json:"current-snapshot-id"`
		Snapshots []json.RawMessage `json:"snapshots"`
	}
	if err := json.Unmarshal(info.Metadata, &metadata); err != nil {
		return fmt.Errorf("the table's metadata cannot be read: %w", err)
	}
	current := "none"
	if metadata.Current != nil && *metadata.Current != -1 {
		current = strconv.FormatInt(*metadata.Current, 10)
	}
	out := c.rows()
	out.add("table", id.String())
	out.add("uuid", metadata.UUID)
	out.add("format version", strconv.Itoa(metadata.Version))
	out.add("location", metadata.Location)
	out.add("metadata", info.MetadataLocation)
	out.add("current snapshot", current)
	out.add("snapshots", strconv.Itoa(len(metadata.Snapshots)))
	return out.flush()
}
