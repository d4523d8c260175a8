package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/lethe-project/lethe/internal/server"
)

type migrateCmd struct {
	Status migrateStatusCmd `cmd:"" help:"Say which migrations the database has, and which are pending (exit code 1). Changes nothing."`
	Up     migrateUpCmd     `cmd:"" help:"Apply what is pending. Several may run at once."`
}

// Help tells where the database comes from.
func (*migrateCmd) Help() string {
	return `Works on the database itself, which the settings of lethe serve name: flags, environment or
the file of --config. No server needs to run; on an embedded database none may.`
}

// database are the settings of commands that work without a server.
type database struct {
	server.DatabaseSettings `embed:""`

	JSON bool `name:"json" help:"Print JSON: one object a line."`
}

// BeforeResolve lets the environment and the file speak for flags that are not given.
func (*database) BeforeResolve(ctx *kong.Context) error {
	ctx.AddResolver(server.SettingsSource(os.LookupEnv))
	return nil
}

// migration is one of them, as it is shown.
type migration struct {
	Owner   string `json:"owner"`
	Version int64  `json:"version"`
	Name    string `json:"name,omitempty"`
	State   string `json:"state"` // applied, pending, newer
	// CompatibleFrom is the oldest version of the owner whose servers work on a schema
	// that has this one; 0 when nobody noted it.
	CompatibleFrom int64 `json:"compatibleFrom,omitempty"`
}

// needs says which servers work on a schema that has the migration.
func (m migration) needs() string {
	switch m.CompatibleFrom {
	case 0:
		return "unknown"
	case m.Version:
		return "that know it"
	default:
		return fmt.Sprintf("that know %05d", m.CompatibleFrom)
	}
}

func (d *database) show(c *console, all []migration) error {
	if d.JSON {
		for _, m := range all {
			if err := c.json(m); err != nil {
				return err
			}
		}
		return nil
	}
	out := c.rows("OWNER", "MIGRATION", "STATE", "SERVERS")
	for _, m := range all {
		name := m.Name
		if name == "" {
			name = fmt.Sprintf("%05d", m.Version)
		}
		out.add(m.Owner, name, m.State, m.needs())
	}
	return out.flush()
}

type migrateStatusCmd struct{ database }

// Run lists the migrations.
func (m *migrateStatusCmd) Run(ctx context.Context, c *console) error {
	steps, err := server.MigrationStatus(ctx, &m.DatabaseSettings)
	var all []migration
	var pending []string
	for _, s := range steps {
		all = append(all, migration{s.Owner, s.Version, s.Name, string(s.State), s.Floor})
		if s.State == "pending" {
			pending = append(pending, s.Owner+" "+s.Name)
		}
	}
	if len(all) > 0 {
		if err := m.show(c, all); err != nil {
			return err
		}
	}
	if err != nil {
		return own(err)
	}
	if len(pending) > 0 {
		return hintError{fmt.Errorf("pending: %s", strings.Join(pending, ", ")), "Apply them with lethe migrate up, or by starting a server."}
	}
	return nil
}

type migrateUpCmd struct{ database }

// Run applies what is pending.
func (m *migrateUpCmd) Run(ctx context.Context, c *console) error {
	done, err := server.MigrateUp(ctx, &m.DatabaseSettings)
	var all []migration
	for _, s := range done {
		all = append(all, migration{s.Owner, s.Version, s.Name, string(s.State), s.Floor})
	}
	if len(all) > 0 {
		if err := m.show(c, all); err != nil {
			return err
		}
	}
	if err == nil && len(all) == 0 && !m.JSON {
		return c.print("Nothing to do: the schema of %s is up to date.", m.RedactedDatabase())
	}
	return own(err)
}
