package sqldb_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// grown is pairs after two more releases.
var grown = sqldb.Migrations{Owner: "pairs", Files: fstest.MapFS{
	"migrations/00001_init.sql": pairs.Files.(fstest.MapFS)["migrations/00001_init.sql"],
	"migrations/00002_more.sql": {Data: []byte(`
-- compatible from 1
ALTER TABLE parents ADD COLUMN body {text};
CREATE INDEX parents_n ON parents (n, name);
`)},
	"migrations/00003_fill.sql": {Data: []byte(`
-- compatible from 1
UPDATE parents SET body = '' WHERE body IS NULL;
CREATE TABLE leaves (
    a BIGINT NOT NULL,
    b {name:255} NOT NULL,
    raw {bytes},
    PRIMARY KEY (a, b)
){table};
`)},
}}

func TestMigrations(t *testing.T) {
	t.Parallel()
	sqldbtest.Migrations(t, things, grown)
}

// The comparison of schemas sees what there is.
func TestSchema(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{grown}, func(t *testing.T, db *sqldb.DB) {
		want := map[string]sqldbtest.Table{
			"parents": {
				Columns: []sqldbtest.Column{{Name: "id", Kind: "int"}, {Name: "n", Kind: "int"}, {Name: "name", Kind: "text"}, {Name: "body", Kind: "text", Null: true}},
				Indexes: []string{"n, name", "unique id", "unique name"},
			},
			"children": {
				Columns: []sqldbtest.Column{{Name: "id", Kind: "int"}, {Name: "parent_id", Kind: "int"}, {Name: "n", Kind: "int"}},
				Indexes: []string{"unique id", "unique parent_id, n"},
				Refers:  []string{"parent_id to parents.id"},
			},
			"leaves": {
				Columns: []sqldbtest.Column{{Name: "a", Kind: "int"}, {Name: "b", Kind: "text"}, {Name: "raw", Kind: "bytes", Null: true}},
				Indexes: []string{"unique a, b"},
			},
		}
		if diff := cmp.Diff(want, sqldbtest.Schema(t, db)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A migration that fails leaves nothing on engines whose DDL is transactional.
func TestMigrationFails(t *testing.T) {
	t.Parallel()
	broken := sqldb.Migrations{Owner: "pairs", Files: fstest.MapFS{
		"migrations/00001_init.sql": {Data: []byte("CREATE TABLE parents (id {serial}){table};\nCREATE NONSENSE;\n")},
	}}
	sqldbtest.Each(t, nil, func(t *testing.T, db *sqldb.DB) {
		if err := db.Migrate(t.Context(), broken); err == nil {
			t.Fatal("no error")
		}
		tables := sqldbtest.Schema(t, db)
		if _, left := tables["parents"]; left != (db.Dialect().Name == sqldb.MySQL) {
			t.Errorf("tables %v", tables)
		}
	})
}

// On MySQL every DDL statement commits by itself: a migration that was cut short runs
// again, over its own tables only.
func TestMigrationCutShort(t *testing.T) {
	t.Parallel()
	for _, server := range sqldbtest.Servers(t) {
		if server.Name != sqldb.MySQL {
			continue
		}
		made := []sqldb.Statement{
			"CREATE TABLE parents (id {serial}, n BIGINT NOT NULL, name {name:8} NOT NULL, UNIQUE (name)){table}",
			"CREATE TABLE children (id {serial}, parent_id BIGINT NOT NULL, n BIGINT NOT NULL, UNIQUE (parent_id, n), FOREIGN KEY (parent_id) REFERENCES parents (id)){table}",
			"ALTER TABLE parents ADD COLUMN body {text}",
			"CREATE INDEX parents_n ON parents (n, name)",
		}
		for n := range len(made) + 1 {
			t.Run(fmt.Sprintf("%s after %d statements", server, n), func(t *testing.T) {
				t.Parallel()
				db := server.Open(t, sqldb.Config{})
				if n > 2 {
					if err := db.Migrate(t.Context(), pairs); err != nil {
						t.Fatal(err)
					}
					exec(t, db, insertParent, "a") // the first release was in use
				}
				for i := range n {
					if n <= 2 || i >= 2 {
						exec(t, db, made[i])
					}
				}
				if err := db.Migrate(t.Context(), grown); err != nil {
					t.Fatal(err)
				}
				want := sqldbtest.Schema(t, server.Open(t, sqldb.Config{}, grown))
				if diff := cmp.Diff(want, sqldbtest.Schema(t, db)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
		t.Run(server.String()+" after the version table", func(t *testing.T) {
			t.Parallel()
			db := server.Open(t, sqldb.Config{}, pairs)
			exec(t, db, "DELETE FROM schema_pairs")
			if err := db.Migrate(t.Context(), grown); err != nil {
				t.Error(err)
			}
		})
		t.Run(server.String()+" somebody else's table", func(t *testing.T) {
			t.Parallel()
			db := server.Open(t, sqldb.Config{})
			exec(t, db, made[0])
			exec(t, db, insertParent, "a")
			if err := db.Migrate(t.Context(), pairs); err == nil {
				t.Error("a table that holds rows was taken over")
			}
		})
	}
}
