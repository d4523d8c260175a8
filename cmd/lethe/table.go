package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lethe-project/lethe/client"
)

type tableCmd struct {
	List tableListCmd `cmd:"" name:"ls" help:"List the tables of a namespace."`
	Show tableShowCmd `cmd:"" help:"Show a table."`
	Drop tableDropCmd `cmd:"" help:"Drop a table; with --purge, its files too."`
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
	for id, err := range warehouse.Tables(ctx, ns) {
		if err != nil {
			return err
		}
		if t.JSON {
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
	id, err := tableArg(t.Table)
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

type tableDropCmd struct {
	inWarehouse
	Table string `arg:"" help:"Table, such as shop.eu.orders."`
	Purge bool   `name:"purge" help:"Delete the table's files too. The server goes on until the last one is gone."`
	Async bool   `name:"async" help:"With --purge: return when the table is gone; its files follow."`
	Wait  bool   `name:"wait" help:"With --purge: wait until the last file is gone, however long it takes."`
}

// Run drops one table.
func (t *tableDropCmd) Run(ctx context.Context, c *console) error {
	id, err := tableArg(t.Table)
	if err != nil {
		return err
	}
	if (t.Async || t.Wait) && !t.Purge {
		return usageError{errors.New("--async and --wait are about the files: they need --purge")}
	}
	warehouse, server, err := t.open()
	if err != nil {
		return err
	}
	// Who waits here sees the progress, which one long request could not show.
	opts := client.DropOptions{Purge: t.Purge, Async: t.Async || t.Wait}
	dropped, err := warehouse.DropTable(ctx, id, opts)
	switch {
	case client.IsNotFound(err):
		return hintError{err, "See which tables there are: lethe table ls " + shell(id.Namespace.String())}
	case errors.Is(err, errInterrupted):
		return hintError{err, "The table may be gone, and the server then goes on by itself: lethe job ls --table " + shell(id.Name)}
	case err != nil:
		return err
	}
	if dropped.Job == "" {
		if t.Purge {
			return errors.New("the table is gone, but the server told of no job that deletes its files")
		}
		if t.JSON {
			return c.json(map[string]any{"table": id, "dropped": true})
		}
		return c.print("Dropped table %s. Its files stay.", id)
	}
	if t.Wait {
		if !t.JSON {
			if err := c.print("Dropped table %s. %s deletes its files.", id, dropped.Job); err != nil {
				return err
			}
		}
		return c.await(ctx, server.Jobs(), dropped.Job, t.JSON)
	}
	return t.report(ctx, c, server.Jobs(), id, dropped)
}

// report tells how far the purge has come when the drop was answered.
func (t *tableDropCmd) report(ctx context.Context, c *console, jobs client.Jobs, id client.Identifier, dropped client.Dropped) error {
	var job client.Job
	if dropped.State.Ended() {
		var err error
		if job, err = jobs.Get(ctx, dropped.Job); err != nil {
			return hintError{
				fmt.Errorf("the table is gone and %s ended %s, but its result cannot be read: %w", dropped.Job, dropped.State, err),
				"Look again with lethe job show " + dropped.Job,
			}
		}
	}
	if t.JSON {
		out := map[string]any{"table": id, "dropped": true, "job": dropped.Job, "state": dropped.State}
		if job.Progress != nil {
			out["progress"] = job.Progress
		}
		if err := c.json(out); err != nil {
			return err
		}
	}
	switch {
	case dropped.State == client.Succeeded && t.JSON, !dropped.State.Ended() && t.JSON:
		return nil
	case dropped.State == client.Succeeded:
		return c.print("Dropped table %s and deleted its files: %s.", id, summary(job.Counts()))
	case dropped.State.Ended():
		return jobFailed(job)
	}
	if err := c.print("Dropped table %s. %s deletes its files (%s).", id, dropped.Job, dropped.State); err != nil {
		return err
	}
	c.note("Watch it with lethe job wait %s", dropped.Job)
	return nil
}

// shell quotes an argument for the shell, where that is needed.
func shell(arg string) string {
	plain := func(r rune) bool {
		return r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if strings.IndexFunc(arg, func(r rune) bool { return !plain(r) }) < 0 {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
