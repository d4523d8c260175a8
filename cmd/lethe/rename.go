package main

import (
	"context"

	"github.com/lethe-project/lethe/client"
)

// renameFlags are the arguments of a rename.
type renameFlags struct {
	inWarehouse
	From string `arg:"" help:"Name now, such as shop.orders."`
	To   string `arg:"" help:"Name from now on, with its namespace, such as archive.orders."`
}

type tableRenameCmd struct{ renameFlags }

// Run renames one table.
func (t *tableRenameCmd) Run(ctx context.Context, c *console) error {
	return t.rename(ctx, c, "table", client.Warehouse.RenameTable)
}

type viewRenameCmd struct{ renameFlags }

// Run renames one view.
func (v *viewRenameCmd) Run(ctx context.Context, c *console) error {
	return v.rename(ctx, c, "view", client.Warehouse.RenameView)
}

type renameFunc func(w client.Warehouse, ctx context.Context, from, to client.Identifier) error

// rename renames one thing of a kind, table or view.
func (r *renameFlags) rename(ctx context.Context, c *console, kind string, do renameFunc) error {
	from, err := identifierArg(r.From)
	if err != nil {
		return err
	}
	to, err := identifierArg(r.To)
	if err != nil {
		return err
	}
	warehouse, _, err := r.open()
	if err != nil {
		return err
	}
	err = do(warehouse, ctx, from, to)
	switch {
	case client.CodeOf(err) == noNamespace:
		return missingNamespace(err)
	case client.IsNotFound(err):
		return missing(err, kind, from)
	case err != nil:
		return err
	case r.JSON:
		return c.json(map[string]any{"from": from, "to": to, "renamed": true})
	}
	return c.print("Renamed %s %s to %s.", kind, from, to)
}
