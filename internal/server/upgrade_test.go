package server_test

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lethe-project/lethe/internal/server"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// newest returns the highest version of an owner in this release.
func newest(t *testing.T, m sqldb.Migrations) int64 {
	t.Helper()
	steps, err := sqldb.Known(m)
	if err != nil {
		t.Fatal(err)
	}
	return steps[len(steps)-1].Version
}

// later returns the schemas of a later release: this one's and, for the owner, one file
// more. It is compatible from what this one knows, or not.
func later(t *testing.T, owner string, bears bool, text string) []sqldb.Migrations {
	t.Helper()
	all := slices.Clone(server.Owners())
	i := slices.IndexFunc(all, func(m sqldb.Migrations) bool { return m.Owner == owner })
	files := fstest.MapFS{"migrations/90000_later.sql": {Data: []byte(text)}}
	if bears {
		files["migrations/90000_later.sql"].Data = fmt.Appendf(nil, "-- compatible from %d\n%s", newest(t, all[i]), text)
	}
	names, err := fs.Glob(all[i].Files, "migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		raw, err := fs.ReadFile(all[i].Files, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: raw}
	}
	all[i] = sqldb.Migrations{Owner: owner, Files: files}
	return all
}

// expansion is as much as a release may do while the one before still runs.
const expansion = `
ALTER TABLE tabulars ADD COLUMN later {text};
ALTER TABLE namespaces ADD COLUMN later BIGINT NOT NULL DEFAULT 0;
CREATE TABLE laters (id {serial}, name {name:255} NOT NULL, UNIQUE (name)){table};
CREATE INDEX tabulars_later ON tabulars (warehouse_id, updated_at);
UPDATE tabulars SET later = '' WHERE later IS NULL;
`

// Servers of two releases work on one schema while they are replaced, and one that
// cannot go on says so.
func TestUpgradeOneByOne(t *testing.T) {
	t.Parallel()
	for _, db := range sqldbtest.Servers(t) {
		t.Run(db.String(), func(t *testing.T) {
			t.Parallel()
			args := []string{"--database", db.URL(t), "--storage", t.TempDir()}
			old := func() server.Config {
				return config(t, t.TempDir(), map[string]string{server.AdminTokenVariable: "one-for-all"}, args...)
			}
			release := func(schemas []sqldb.Migrations) server.Config {
				cfg := old()
				cfg.Release(schemas)
				return cfg
			}
			expanded := later(t, "catalog", true, expansion)

			first := start(t, old())
			first.want(200, "POST", space, `{"namespace":["n"]}`)
			if db.Name == sqldb.SQLite { // one server at a time: only the order of releases is left to try
				if err := first.stop(); err != nil {
					t.Fatal(err)
				}
				next := start(t, release(expanded))
				if err := next.work(0); err != nil {
					t.Error(err)
				}
				if err := next.stop(); err != nil {
					t.Fatal(err)
				}
			} else {
				replaced(t, first, release(expanded))
			}

			again := start(t, old()) // one that was restarted, or rolled back
			if err := again.work(1); err != nil {
				t.Errorf("on a schema with a compatible step: %v", err)
			}
			if err := again.stop(); err != nil {
				t.Fatal(err)
			}

			contracted := later(t, "tenant", false, "CREATE TABLE tenants_later (id {serial}){table};\n")
			next := start(t, release(contracted))
			if err := next.stop(); err != nil {
				t.Fatal(err)
			}
			err := refused(t, old())
			if want := "tenant is at version 90000"; !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "newer release") {
				t.Errorf("on a schema that it cannot work with: %v, want %q", err, want)
			}
		})
	}
}

// replaced lets a server work while one of a later release starts and migrates.
func replaced(t *testing.T, first *running, next server.Config) {
	t.Helper()
	rounds, migrated, ended := make(chan int), make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(rounds)
		for n, more := 100, 2; more > 0; n++ {
			if err := first.work(n); err != nil {
				ended <- err
				return
			}
			select {
			case rounds <- n:
			case <-migrated:
				more--
			}
		}
		ended <- nil
	}()
	<-rounds
	second := start(t, next)
	close(migrated)
	for range rounds {
	}
	if err := <-ended; err != nil {
		t.Errorf("the older server beside the upgrade: %v", err)
	}
	// What one writes the other sees, both ways.
	first.want(200, "POST", space+"/n/tables", create)
	second.want(200, "GET", space+"/n/tables/t", "")
	second.want(204, "DELETE", space+"/n/tables/t?purgeRequested=true", "")
	first.want(404, "GET", space+"/n/tables/t", "")
	for _, r := range []*running{first, second} {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
}

// work is a round of what a client asks of a server: a table's life.
func (r *running) work(n int) error {
	table := fmt.Sprintf("%s/n/tables/w%d", space, n)
	for _, step := range []struct {
		status             int
		method, path, body string
	}{
		{200, "POST", space + "/n/tables", strings.Replace(create, `"t"`, fmt.Sprintf(`"w%d"`, n), 1)},
		{200, "GET", table, ""},
		{200, "POST", table, `{"requirements":[],"updates":[{"action":"set-properties","updates":{"a":"b"}}]}`},
		{204, "DELETE", table + "?purgeRequested=true", ""},
		{404, "GET", table, ""},
	} {
		got, err := r.try(context.WithoutCancel(r.t.Context()), step.method, step.path, step.body)
		if err != nil {
			return err
		}
		if got.status != step.status {
			return fmt.Errorf("%s %s: status %d, want %d: %s", step.method, step.path, got.status, step.status, got.body)
		}
	}
	return nil
}

// A server that only checks starts on an up-to-date schema and changes no other.
func TestMigrateCheck(t *testing.T) {
	t.Parallel()
	for _, db := range sqldbtest.Servers(t) {
		t.Run(db.String(), func(t *testing.T) {
			t.Parallel()
			url := db.URL(t)
			cfg := config(t, t.TempDir(), nil, "--database", url, "--migrate", "check")
			for _, pending := range [][]string{{"tenant 00001_tenants", "catalog 00001_catalog"}, {"catalog 90000_later"}} {
				if len(pending) == 1 {
					up(t, &cfg.Settings.DatabaseSettings)
					if err := start(t, cfg).stop(); err != nil {
						t.Fatal(err)
					}
					cfg.Release(later(t, "catalog", true, expansion))
				}
				err := refused(t, cfg)
				for _, name := range append(pending, "lethe migrate up") {
					if !strings.Contains(err.Error(), name) {
						t.Errorf("%v, want it to name %q", err, name)
					}
				}
			}
			steps, err := server.MigrationStatus(t.Context(), &cfg.Settings.DatabaseSettings)
			if err != nil || len(sqldb.Pending(steps)) > 0 {
				t.Errorf("status %+v, %v", steps, err)
			}
		})
	}
}

func up(t *testing.T, set *server.DatabaseSettings) {
	t.Helper()
	steps, err := server.MigrationStatus(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}
	done, err := server.MigrateUp(t.Context(), set)
	if err != nil || len(done) != len(steps) {
		t.Fatalf("up: %d of %d, %v", len(done), len(steps), err)
	}
	if done, err = server.MigrateUp(t.Context(), set); err != nil || len(done) > 0 {
		t.Errorf("up again: %v, %v", done, err)
	}
}
