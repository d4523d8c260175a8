package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/alecthomas/kong"

	"github.com/lethe-project/lethe/internal/server"
)

type serveCmd struct {
	server.Settings `embed:""`
}

// Help tells what --help cannot show at each flag.
func (*serveCmd) Help() string {
	return `Without settings: SQLite and a local store under ./lethe-data, on 127.0.0.1:8181.

Every flag is also a key of the YAML file that --config names, and an environment variable:
--async-purge-max-attempts is async-purge.max-attempts and LETHE_ASYNC_PURGE_MAX_ATTEMPTS.
A flag wins over the environment, that over the file. The admin's token is LETHE_ADMIN_TOKEN,
or a file.`
}

// BeforeResolve lets the environment and the file speak for flags that are not given.
func (*serveCmd) BeforeResolve(ctx *kong.Context) error {
	ctx.AddResolver(server.SettingsSource(os.LookupEnv))
	return nil
}

// Run serves until a signal; then it drains, which is a clean end.
func (s *serveCmd) Run(ctx context.Context, c *console) error {
	tell := context.AfterFunc(ctx, func() { c.note("Stopping: requests and deletes under way may finish. A second signal ends at once.") })
	defer tell()
	return own(server.Run(ctx, server.Config{
		Settings: s.Settings,
		Logger:   s.logger(c),
		Started: func(started server.Started) {
			if _, err := fmt.Fprint(c.out, welcome(started)); err != nil {
				c.note("lethe: %s", err)
			}
		},
	}))
}

func (s *serveCmd) logger(c *console) *slog.Logger {
	opts := &slog.HandlerOptions{Level: s.Log.Level}
	if s.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(c.err, opts))
	}
	return slog.New(slog.NewTextHandler(c.err, opts))
}

// welcome is the first screen: what runs, where, and lines to paste into a client.
func welcome(s server.Started) string {
	token, python := s.TokenFile, ""
	switch {
	case s.NoAuth:
		token = "none: everybody on this machine is the admin"
	case s.TokenFile == "":
		token = "the one in " + server.AdminTokenVariable
		python = fmt.Sprintf(", token=os.environ[%q]", server.AdminTokenVariable)
	default:
		python = fmt.Sprintf(", token=open(%q).read().strip()", s.TokenFile)
		if s.TokenMade {
			token += " (just made)"
		}
	}
	imports := ""
	if !s.NoAuth && s.TokenFile == "" {
		imports = "  import os\n"
	}
	return fmt.Sprintf(`Lethe %s is running.

  catalog    %s
  warehouse  default, %s
  drive      %s, %s
  database   %s
  token      %s

Use it from Python (pip install "pyiceberg[pyarrow]"):

%s  from pyiceberg.catalog import load_catalog
  catalog = load_catalog("lethe", type="rest", uri=%q, warehouse="default"%s)

Files: lethe fs put FILE lethe:/FILE, lethe fs ls /, lethe fs rm -r /DIR.

Stop with Ctrl-C.
`, version, s.CatalogURI, s.Storage, s.DriveURI, s.DriveStorage, s.Database, token, imports, s.CatalogURI, python)
}
