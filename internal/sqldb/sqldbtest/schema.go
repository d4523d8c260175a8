package sqldbtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Table is what a table looks like on any engine.
type Table struct {
	Columns []Column // in order
	Indexes []string // "a, b" or "unique a, b", sorted; the primary key is a unique one
	Refers  []string // "a to t.b", sorted
}

// Column is a column; Kind is int, text or bytes.
type Column struct {
	Name, Kind string
	Null       bool
}

// schemaQueries of one engine each list (table, column, type, nullable) in order,
// (table, index, unique, column) in order, and (table, column, other table, other column).
var schemaQueries = map[sqldb.Name]struct{ columns, indexes, refers sqldb.Statement }{
	sqldb.SQLite: {
		`SELECT m.name, c.name, c.type, c."notnull" = 0 AND c.pk = 0 FROM sqlite_master m JOIN pragma_table_info(m.name) c
			WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY m.name, c.cid`,
		`SELECT m.name, l.name, l."unique", c.name FROM sqlite_master m JOIN pragma_index_list(m.name) l JOIN pragma_index_info(l.name) c
			WHERE m.type = 'table' UNION ALL
			SELECT m.name, 'rowid', 1, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
			WHERE m.type = 'table' AND c.pk = 1 AND c.type = 'INTEGER' AND NOT EXISTS (SELECT 1 FROM pragma_index_list(m.name) l WHERE l.origin = 'pk')`,
		`SELECT m.name, f."from", f."table", f."to" FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) f WHERE m.type = 'table'`,
	},
	sqldb.Postgres: {
		`SELECT table_name, column_name, data_type, is_nullable = 'YES' FROM information_schema.columns
			WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position`,
		`SELECT t.relname, i.relname, x.indisunique, a.attname FROM pg_index x JOIN pg_class t ON t.oid = x.indrelid JOIN pg_class i ON i.oid = x.indexrelid
			JOIN pg_namespace n ON n.oid = t.relnamespace CROSS JOIN unnest(x.indkey) WITH ORDINALITY k (n, place)
			JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.n WHERE n.nspname = current_schema() ORDER BY t.relname, i.relname, k.place`,
		`SELECT k.table_name, k.column_name, o.table_name, o.column_name FROM information_schema.referential_constraints r
			JOIN information_schema.key_column_usage k ON k.constraint_schema = r.constraint_schema AND k.constraint_name = r.constraint_name
			JOIN information_schema.key_column_usage o ON o.constraint_schema = r.unique_constraint_schema AND o.constraint_name = r.unique_constraint_name
			WHERE r.constraint_schema = current_schema()`,
	},
	sqldb.MySQL: {
		`SELECT table_name, column_name, data_type, is_nullable = 'YES' FROM information_schema.columns
			WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position`,
		`SELECT table_name, index_name, non_unique = 0, column_name FROM information_schema.statistics
			WHERE table_schema = DATABASE() ORDER BY table_name, index_name, seq_in_index`,
		`SELECT table_name, column_name, referenced_table_name, referenced_column_name FROM information_schema.key_column_usage
			WHERE table_schema = DATABASE() AND referenced_table_name IS NOT NULL`,
	},
}

var kinds = map[string]string{
	"integer": "int", "bigint": "int", "smallint": "int", "int": "int",
	"text": "text", "varbinary": "text", "longtext": "text",
	"blob": "bytes", "bytea": "bytes", "longblob": "bytes",
}

// Schema reads the tables of a database, those that note versions left out.
func Schema(tb testing.TB, db *sqldb.DB) map[string]Table {
	tb.Helper()
	tables := map[string]Table{}
	change := func(name string, do func(*Table)) {
		if strings.HasPrefix(name, "schema_") {
			return
		}
		t := tables[name]
		do(&t)
		tables[name] = t
	}
	queries := schemaQueries[db.Dialect().Name]
	for _, r := range rows4(tb, db, queries.columns) {
		change(r[0], func(t *Table) {
			kind := kinds[strings.ToLower(r[2])]
			if kind == "" {
				tb.Errorf("%s.%s has the unknown type %s", r[0], r[1], r[2])
			}
			t.Columns = append(t.Columns, Column{r[1], kind, yes(r[3])})
		})
	}
	var last [2]string
	for _, r := range rows4(tb, db, queries.indexes) {
		change(r[0], func(t *Table) {
			switch {
			case last == [2]string{r[0], r[1]}:
				t.Indexes[len(t.Indexes)-1] += ", " + r[3]
			case yes(r[2]):
				t.Indexes = append(t.Indexes, "unique "+r[3])
			default:
				t.Indexes = append(t.Indexes, r[3])
			}
		})
		last = [2]string{r[0], r[1]}
	}
	for _, r := range rows4(tb, db, queries.refers) {
		change(r[0], func(t *Table) { t.Refers = append(t.Refers, r[1]+" to "+r[2]+"."+r[3]) })
	}
	for _, t := range tables {
		slices.Sort(t.Indexes)
		slices.Sort(t.Refers)
	}
	return tables
}

func yes(s string) bool { return s == "1" || s == "true" }

func rows4(tb testing.TB, db *sqldb.DB, s sqldb.Statement) (out [][4]string) {
	tb.Helper()
	rows, err := db.Query(tb.Context(), s)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var r [4]string
		if err := rows.Scan(&r[0], &r[1], &r[2], &r[3]); err != nil {
			tb.Fatal(err)
		}
		out = append(out, r)
	}
	if err := rows.Err(); err != nil {
		tb.Fatal(err)
	}
	return out
}
