package sqldbtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// plan is how an engine answers a statement.
type plan struct {
	accesses []access
	sorts    bool
	generic  bool // that of PostgreSQL for any arguments
	raw      string
}

func (p plan) way() string {
	if p.generic {
		return ", with any arguments"
	}
	return ""
}

// access is how rows of a table are found: by the first columns of an index, none of which
// means that all of it is read.
type access struct {
	table, index string
	by           []string
}

// String lists the accesses.
func (p plan) String() string {
	var b strings.Builder
	for _, a := range p.accesses {
		fmt.Fprintf(&b, "  %s by %s(%s)\n", a.table, a.index, strings.Join(a.by, ", "))
	}
	return b.String()
}

// explainer reads the plans of one database.
type explainer struct {
	tables  map[string]bool // those that count: the rest is small, or made by the statement
	indexes map[string]index
}

type index struct {
	table   string
	columns []string
}

func newExplainer(t *testing.T, db *sqldb.DB, rows []Rows) *explainer {
	t.Helper()
	e := &explainer{tables: map[string]bool{}, indexes: map[string]index{}}
	for _, r := range rows {
		e.tables[r.table()] = true
	}
	if db.Dialect().Name == sqldb.Postgres {
		for _, r := range rows4(t, db, schemaQueries[sqldb.Postgres].indexes) {
			e.indexes[r[1]] = index{r[0], append(e.indexes[r[1]].columns, r[3])}
		}
	}
	return e
}

func (e *explainer) explain(t *testing.T, db *sqldb.DB, s sqldb.Statement, args []any) []plan {
	t.Helper()
	text, rendered, err := db.Dialect().Render(s, args)
	if err != nil {
		t.Fatal(err)
	}
	switch db.Dialect().Name {
	case sqldb.SQLite:
		return []plan{e.sqlite(text, e.read(t, db, nil, "EXPLAIN QUERY PLAN "+s, args))}
	case sqldb.MySQL:
		return []plan{e.json(t, text, e.read(t, db, nil, "EXPLAIN FORMAT=JSON "+s, args))}
	case sqldb.Postgres:
	}
	var plans []plan
	for _, mode := range []string{"custom", "generic"} {
		name := fmt.Sprint("plan", prepared.Add(1))
		before := []string{"SET LOCAL plan_cache_mode = force_" + mode + "_plan", "PREPARE " + name + " AS " + text}
		execute := sqldb.Statement("EXPLAIN (FORMAT JSON) EXECUTE " + name + literals(rendered))
		p := e.json(t, text, e.read(t, db, before, execute, nil))
		p.generic = mode == "generic"
		plans = append(plans, p)
	}
	return plans
}

var prepared atomic.Int64

// literals writes the arguments of an EXECUTE.
func literals(args []any) string {
	var values []string
	for _, a := range args {
		switch a := a.(type) {
		case []int64:
			values = append(values, "'{"+strings.Trim(strings.ReplaceAll(fmt.Sprint(a), " ", ","), "[]")+"}'")
		case []string:
			values = append(values, "'{"+strings.Join(a, ",")+"}'")
		case sqldb.Strings:
			values = append(values, "'{"+strings.Join(a, ",")+"}'")
		default:
			values = append(values, fmt.Sprintf("'%v'", a))
		}
	}
	if len(values) == 0 {
		return ""
	}
	return " (" + strings.Join(values, ",") + ")"
}

// read returns the last column of an EXPLAIN. It asks the connections that write: those of
// SQLite that read learn of statistics late.
func (e *explainer) read(t *testing.T, db *sqldb.DB, before []string, s sqldb.Statement, args []any) []string {
	t.Helper()
	var lines []string
	err := db.Tx(t.Context(), func(tx *sqldb.Tx) error {
		lines = nil
		for _, s := range before {
			if _, err := tx.Exec(t.Context(), sqldb.Statement(s)); err != nil {
				return err
			}
		}
		rows, err := tx.Query(t.Context(), s, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		names, err := rows.Columns()
		if err != nil {
			return err
		}
		values := make([]any, len(names))
		for i := range values {
			values[i] = new(any)
		}
		var last string
		values[len(values)-1] = &last
		for rows.Next() {
			if err := rows.Scan(values...); err != nil {
				return err
			}
			lines = append(lines, last)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return lines
}

// add notes an access unless it is one of something that does not count.
func (p *plan) add(e *explainer, a access) {
	if e.tables[a.table] {
		p.accesses = append(p.accesses, a)
	}
}

var (
	sqliteLine = regexp.MustCompile(`^(SCAN|SEARCH) (\S+)(?: USING (.*?)(?: \((.*)\))?)?(?: (?:LEFT|RIGHT)-JOIN)?$`)
	word       = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// sqlite reads lines as "SEARCH n USING COVERING INDEX inodes_x (fs_id=? AND inode_id>?)".
func (e *explainer) sqlite(text string, lines []string) plan {
	p := plan{raw: strings.Join(lines, "\n")}
	for _, line := range lines {
		p.sorts = p.sorts || strings.Contains(line, "TEMP B-TREE FOR") && strings.Contains(line, "ORDER BY")
		m := sqliteLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		a := access{table: e.table(text, m[2]), index: m[3]}
		if m[1] == "SEARCH" && !strings.HasPrefix(m[3], "AUTOMATIC") { // that one is made by a scan
			for _, name := range word.FindAllString(m[4], -1) {
				switch name {
				case "AND":
				case "rowid":
					a.by = append(a.by, "id")
				default:
					a.by = append(a.by, name)
				}
			}
		}
		words := strings.Fields(a.index)
		if len(words) > 0 {
			a.index = words[len(words)-1]
		}
		p.add(e, a)
	}
	return p
}

// table returns the table that a statement calls by a name.
func (e *explainer) table(text, name string) string {
	if e.tables[name] {
		return name
	}
	for table := range e.tables {
		if regexp.MustCompile(`(?i)\b` + table + `[ },]+(AS )?` + regexp.QuoteMeta(name) + `\b`).MatchString(text) {
			return table
		}
	}
	return ""
}

// json reads the plans of PostgreSQL, MySQL and MariaDB: objects within each other, some of
// which are accesses or sorts.
func (e *explainer) json(t *testing.T, text string, lines []string) plan {
	t.Helper()
	p := plan{raw: strings.Join(lines, "\n")}
	var root any
	if err := json.Unmarshal([]byte(p.raw), &root); err != nil {
		t.Fatalf("%v: %s", err, p.raw)
	}
	var walk func(any)
	walk = func(node any) {
		switch node := node.(type) {
		case []any:
			for _, n := range node {
				walk(n)
			}
		case map[string]any:
			if kind, ok := node["Node Type"].(string); ok {
				e.postgres(&p, kind, node)
			} else {
				e.mysql(&p, text, node)
			}
			for _, n := range node {
				walk(n)
			}
		}
	}
	walk(root)
	return p
}

func (e *explainer) mysql(p *plan, text string, node map[string]any) {
	_, sorts := node["filesort"]
	p.sorts = p.sorts || sorts || node["using_filesort"] == true
	name, _ := node["table_name"].(string)
	kind, _ := node["access_type"].(string)
	if name == "" || kind == "" {
		return
	}
	a := access{table: e.table(text, name)}
	a.index, _ = node["key"].(string)
	if parts, ok := node["used_key_parts"].([]any); ok && kind != "ALL" && kind != "index" {
		for _, part := range parts {
			a.by = append(a.by, fmt.Sprint(part))
		}
	}
	p.add(e, a)
}

var quoted = regexp.MustCompile(`'(?:[^']|'')*'|\w+\.\w+`) // literals, and columns of other tables

func (e *explainer) postgres(p *plan, kind string, node map[string]any) {
	p.sorts = p.sorts || strings.HasSuffix(kind, "Sort")
	table, _ := node["Relation Name"].(string)
	switch kind {
	case "Seq Scan", "Sample Scan":
		p.add(e, access{table: table})
	case "Index Scan", "Index Only Scan", "Bitmap Index Scan":
		name, _ := node["Index Name"].(string)
		condition, _ := node["Index Cond"].(string)
		a := access{table: e.indexes[name].table, index: name}
		words := word.FindAllString(quoted.ReplaceAllString(condition, ""), -1)
		for _, column := range e.indexes[name].columns {
			if !slices.Contains(words, column) {
				break
			}
			a.by = append(a.by, column)
		}
		p.add(e, a)
	}
}
