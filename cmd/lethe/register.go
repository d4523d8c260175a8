package main

import (
	"context"

	"github.com/lethe-project/lethe/client"
)

type tableRegisterCmd struct {
	inWarehouse
	Table            string `arg:"" help:"Table, such as shop.eu.orders."`
	MetadataLocation string `name:"metadata-location" required:"" help:"The metadata file, such as file:///w/orders/metadata/00002-….metadata.json." placeholder:"URL"`
	Overwrite        bool   `name:"overwrite" help:"Take the place of a table that has the name; its files stay."`
}

// Run registers one table.
func (t *tableRegisterCmd) Run(ctx context.Context, c *console) error {
	id, err := identifierArg(t.Table)
	if err != nil {
		return err
	}
	warehouse, _, err := t.open()
	if err != nil {
		return err
	}
	info, err := warehouse.RegisterTable(ctx, id, t.MetadataLocation, client.RegisterOptions{Overwrite: t.Overwrite})
	switch {
	case client.CodeOf(err) == noNamespace:
		return missingNamespace(err)
	case err != nil:
		return err
	case t.JSON:
		return c.json(map[string]any{"table": id, "metadata-location": info.MetadataLocation})
	}
	return c.print("Registered table %s with %s.", id, printable(info.MetadataLocation))
}

type tableUnregisterCmd struct {
	inWarehouse
	Table string `arg:"" help:"Table, such as shop.eu.orders."`
}

// Run unregisters one table.
func (t *tableUnregisterCmd) Run(ctx context.Context, c *console) error {
	id, err := identifierArg(t.Table)
	if err != nil {
		return err
	}
	warehouse, _, err := t.open()
	if err != nil {
		return err
	}
	info, err := warehouse.UnregisterTable(ctx, id)
	switch {
	case client.IsNotFound(err):
		return missing(err, "table", id)
	case err != nil:
		return err
	case t.JSON:
		return c.json(map[string]any{"table": id, "metadata-location": info.MetadataLocation})
	}
	if err := c.print("Unregistered table %s. Its files stay; its metadata is %s", id, printable(info.MetadataLocation)); err != nil {
		return err
	}
	c.note("Undo it with lethe table register%s %s --metadata-location %s", t.flag(), shell(id.String()), shell(info.MetadataLocation))
	return nil
}
