package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lethe-project/lethe/client"
)

// dropFlags are the flags of a drop that may purge.
type dropFlags struct {
	inWarehouse
	Purge bool `name:"purge" help:"Delete the files too. The server goes on until the last one is gone."`
	Async bool `name:"async" help:"With --purge: return when the entry is gone; its files follow."`
	Wait  bool `name:"wait" help:"With --purge: wait until the last file is gone, however long it takes."`
}

type tableDropCmd struct {
	dropFlags
	Table string `arg:"" help:"Table, such as shop.eu.orders."`
}

// Run drops one table.
func (t *tableDropCmd) Run(ctx context.Context, c *console) error {
	return t.drop(ctx, c, "table", t.Table, client.Warehouse.DropTable)
}

type viewDropCmd struct {
	dropFlags
	View string `arg:"" help:"View, such as shop.eu.recent."`
}

// Run drops one view.
func (v *viewDropCmd) Run(ctx context.Context, c *console) error {
	return v.drop(ctx, c, "view", v.View, client.Warehouse.DropView)
}

type dropFunc func(client.Warehouse, context.Context, client.Identifier, client.DropOptions) (client.Dropped, error)

// drop drops one thing of a kind, table or view.
func (d *dropFlags) drop(ctx context.Context, c *console, kind, name string, do dropFunc) error {
	id, err := identifierArg(name)
	if err != nil {
		return err
	}
	if (d.Async || d.Wait) && !d.Purge {
		return usageError{errors.New("--async and --wait are about the files: they need --purge")}
	}
	warehouse, server, err := d.open()
	if err != nil {
		return err
	}
	// Who waits here sees the progress, which one long request could not show.
	dropped, err := do(warehouse, ctx, id, client.DropOptions{Purge: d.Purge, Async: d.Async || d.Wait})
	switch {
	case client.IsNotFound(err):
		return missing(err, kind, id)
	case errors.Is(err, errInterrupted):
		return hintError{err, "The " + kind + " may be gone, and the server then goes on by itself: lethe job ls --table " + shell(id.Name)}
	case err != nil:
		return err
	}
	if dropped.Job == "" {
		if d.Purge {
			return fmt.Errorf("the %s is gone, but the server told of no job that deletes its files", kind)
		}
		if d.JSON {
			return c.json(map[string]any{kind: id, "dropped": true})
		}
		return c.print("Dropped %s %s. Its files stay.", kind, id)
	}
	if d.Wait {
		if !d.JSON {
			if err := c.print("Dropped %s %s. %s deletes its files.", kind, id, dropped.Job); err != nil {
				return err
			}
		}
		return c.await(ctx, server.Jobs(), dropped.Job, d.JSON)
	}
	return d.report(ctx, c, server.Jobs(), kind, id, dropped)
}

// report tells how far the purge has come when the drop was answered.
func (d *dropFlags) report(ctx context.Context, c *console, jobs client.Jobs, kind string, id client.Identifier, dropped client.Dropped) error {
	var job client.Job
	if dropped.State.Ended() {
		var err error
		if job, err = jobs.Get(ctx, dropped.Job); err != nil {
			return hintError{
				fmt.Errorf("the %s is gone and %s ended %s, but its result cannot be read: %w", kind, dropped.Job, dropped.State, err),
				"Look again with lethe job show " + dropped.Job,
			}
		}
	}
	if d.JSON {
		out := map[string]any{kind: id, "dropped": true, "job": dropped.Job, "state": dropped.State}
		if job.Progress != nil {
			out["progress"] = job.Progress
		}
		if err := c.json(out); err != nil {
			return err
		}
	}
	switch {
	case dropped.State == client.Succeeded && d.JSON, !dropped.State.Ended() && d.JSON:
		return nil
	case dropped.State == client.Succeeded:
		return c.print("Dropped %s %s and deleted its files: %s.", kind, id, summary(job.Counts()))
	case dropped.State.Ended():
		return jobFailed(job)
	}
	if err := c.print("Dropped %s %s. %s deletes its files (%s).", kind, id, dropped.Job, dropped.State); err != nil {
		return err
	}
	c.note("Watch it with lethe job wait %s", dropped.Job)
	return nil
}
