package sqldbtest

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Migrations tests the owners' migrations, which stand in an order in which they may be
// applied: every engine ends with the same tables, columns, indexes and references;
// from every earlier version, filled with rows, the way leads to the same end and no
// row is lost; several servers may go it at once; and files that say that older servers
// may go on only add, and let a server of each such release read and write meanwhile.
func Migrations(t *testing.T, owners ...sqldb.Migrations) {
	t.Helper()
	servers := Servers(t)
	want := Schema(t, servers[0].Open(t, sqldb.Config{}, owners...))
	if len(want) == 0 {
		t.Fatal("no tables")
	}
	alike := func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		if diff := cmp.Diff(want, Schema(t, db)); diff != "" {
			t.Errorf("the schema differs from a new one on %s (-want +got):\n%s", servers[0], diff)
		}
	}
	known, err := sqldb.Known(owners...)
	if err != nil {
		t.Fatal(err)
	}
	for _, owner := range owners {
		adds(t, owner)
	}
	for _, server := range servers {
		t.Run(server.String()+" several servers at once", func(t *testing.T) {
			t.Parallel()
			url := server.URL(t)
			if server.Name == sqldb.SQLite {
				alike(t, server.OpenURL(t, url, sqldb.Config{}, owners...)) // one server only
				return
			}
			var wg sync.WaitGroup
			for range 3 {
				db := server.OpenURL(t, url, sqldb.Config{})
				wg.Go(func() {
					if err := db.Migrate(t.Context(), owners...); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			alike(t, server.OpenURL(t, url, sqldb.Config{}))
		})
		for i, owner := range owners {
			for version, name := range steps(t, owner) {
				t.Run(fmt.Sprintf("%s from %s %s", server, owner.Owner, name), func(t *testing.T) {
					t.Parallel()
					old := append(slices.Clone(owners[:i]), upTo(t, owner, version+1))
					db := server.Open(t, sqldb.Config{}, old...)
					before := fill(t, db)
					if err := db.Migrate(t.Context(), owners...); err != nil {
						t.Fatal(err)
					}
					alike(t, db)
					for table := range before {
						if got := count(t, db, table); got != 1 {
							t.Errorf("table %s has %d rows after the upgrade, want 1", table, got)
						}
					}
				})
				if floor(known, owner.Owner) > int64(version+1) {
					continue // servers of that release must end before
				}
				t.Run(fmt.Sprintf("%s beside a server that knows %s %s", server, owner.Owner, name), func(t *testing.T) {
					t.Parallel()
					beside(t, server, append(slices.Clone(owners[:i]), upTo(t, owner, version+1)), owners)
				})
			}
		}
	}
}

// steps returns the names of an owner's migrations in order.
func steps(tb testing.TB, m sqldb.Migrations) []string {
	tb.Helper()
	names, err := fs.Glob(m.Files, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		tb.Fatalf("migrations of %s: %v, %v", m.Owner, names, err)
	}
	for i := range names {
		names[i] = strings.TrimSuffix(path.Base(names[i]), ".sql")
	}
	return names
}

// upTo returns an owner's first n migrations.
func upTo(tb testing.TB, m sqldb.Migrations, n int) sqldb.Migrations {
	tb.Helper()
	files := fstest.MapFS{}
	for _, name := range steps(tb, m)[:n] {
		name = "migrations/" + name + ".sql"
		text, err := fs.ReadFile(m.Files, name)
		if err != nil {
			tb.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: text}
	}
	return sqldb.Migrations{Owner: m.Owner, Files: files}
}

// fill puts one row into every table: numbers are 1 and texts short, so that references
// hold. Tables come after those they refer to.
func fill(tb testing.TB, db *sqldb.DB) map[string]Table {
	tb.Helper()
	tables := Schema(tb, db)
	left := slices.Sorted(maps.Keys(tables))
	for len(left) > 0 {
		var wait []string
		for _, table := range left {
			if slices.ContainsFunc(tables[table].Refers, func(refers string) bool {
				_, to, _ := strings.Cut(refers, " to ")
				other, _, _ := strings.Cut(to, ".")
				return other != table && slices.Contains(left, other) && count(tb, db, other) == 0
			}) {
				wait = append(wait, table)
				continue
			}
			var names, marks []string
			var values []any
			for _, c := range tables[table].Columns {
				names, marks = append(names, "{q:"+c.Name+"}"), append(marks, "?")
				values = append(values, map[string]any{"int": int64(1), "text": "[]", "bytes": []byte("x")}[c.Kind])
			}
			s := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, strings.Join(names, ", "), strings.Join(marks, ", "))
			if _, err := db.Exec(tb.Context(), sqldb.Statement(s), values...); err != nil {
				tb.Fatalf("%s: %v", s, err)
			}
		}
		if len(wait) == len(left) {
			tb.Fatalf("tables refer to each other: %v", wait)
		}
		left = wait
	}
	return tables
}

func count(tb testing.TB, db *sqldb.DB, table string) (n int) {
	tb.Helper()
	if err := db.QueryRow(tb.Context(), sqldb.Statement("SELECT COUNT(*) FROM "+table)).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}
