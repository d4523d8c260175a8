package sqldbtest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// PlanTest is a test of the ways by which engines answer statements on filled tables.
type PlanTest struct {
	Owners []sqldb.Migrations
	Dirs   []string // folders whose statements Queries name; "." when there are none
	// Fill rewrites a statement's own placeholders first (nil: as it is).
	Fill func(sqldb.Statement) sqldb.Statement
	Rows []Rows
	// Shared are columns, as table.column, that many rows have in common: who enters an index
	// by one of them alone reads far more than was asked for.
	Shared  []string
	Queries []Query
}

// Rows are those of one table: Values(i), as "(1,'a')", is row i of N.
type Rows struct {
	Into   string // as "table (column, column)"
	N      int
	Values func(i int) string
}

func (r Rows) table() string { return strings.Fields(r.Into)[0] }

// insert writes the rows from one number up to another.
func (r Rows) insert(ctx context.Context, tx *sqldb.Tx, from, to int) error {
	for ; from < to; from += 500 {
		var values []string
		for i := from; i < min(from+500, to); i++ {
			values = append(values, r.Values(i))
		}
		if _, err := tx.Exec(ctx, sqldb.Statement("INSERT INTO "+r.Into+" VALUES "+strings.Join(values, ","))); err != nil {
			return fmt.Errorf("%s: %w", r.Into, err)
		}
	}
	return nil
}

// Query is a statement whose plan is tested. It must keep to an index and not sort.
type Query struct {
	Name    string // of the constant, where Text is empty
	Text    sqldb.Statement
	Args    []any
	Sweeper bool       // it runs on the sweeper's connections
	Engine  sqldb.Name // the only one that runs it ("": all)
	// By are the columns by which an index must be entered, separated by commas ("": any).
	By    string
	Sorts bool     // of a few rows
	Whole []string // tables and indexes that it reads from end to end, and needs all of
	// Counts is set where PostgreSQL chooses well only as long as it does not believe that
	// there are hardly any rows, and Custom where it needs to know the arguments.
	Counts, Custom bool
}

// few is how many rows of a table there are when an engine looks that sees a few.
const few = 2

// knowledge is what an engine knows of the tables.
type knowledge string

// Nobody analyzes tables as they fill. What an engine saw last is nothing, that they were
// empty, a few rows, or all. PostgreSQL multiplies what it saw with the pages that there
// are now, so it looks when there are the pages and the rows are not committed yet, as its
// autovacuum may; the others count from time to time.
const (
	knowsNothing knowledge = "nothing"
	knowsEmpty   knowledge = "that they were empty"
	knowsFew     knowledge = "a few rows"
	knowsAll     knowledge = "all"
)

// Plans tests that every query keeps to an index, whatever the engine knows of the tables.
// On PostgreSQL it tests both plans that a prepared statement can get.
func Plans(t *testing.T, p PlanTest) {
	t.Helper()
	queries := p.resolve(t)
	for _, known := range []knowledge{knowsNothing, knowsEmpty, knowsFew} {
		t.Run("known is "+string(known), func(t *testing.T) {
			t.Parallel()
			Each(t, p.Owners, func(t *testing.T, db *sqldb.DB) {
				t.Helper()
				switch db.Dialect().Name {
				case sqldb.SQLite:
					if known != knowsNothing {
						return // the product never lets it look
					}
				case sqldb.MySQL:
					if known == knowsEmpty {
						return // it looks when it makes a table, so that is what nothing means
					}
				case sqldb.Postgres:
				}
				p.fill(t, db, known)
				p.check(t, db, known, queries)
				if known == knowsNothing {
					p.analyze(t, db)
					p.check(t, db, knowsAll, queries)
				}
			})
		})
	}
}

// resolve returns the queries with their texts.
func (p PlanTest) resolve(t *testing.T) []Query {
	t.Helper()
	dirs := p.Dirs
	if dirs == nil {
		dirs = []string{"."}
	}
	texts := map[string]sqldb.Statement{}
	for _, dir := range dirs {
		for name, s := range Statements(t, dir) {
			if p.Fill != nil {
				s = p.Fill(s)
			}
			texts[name] = s
		}
	}
	queries := slices.Clone(p.Queries)
	for i, q := range queries {
		if q.Text != "" {
			continue
		}
		if queries[i].Text = texts[q.Name]; queries[i].Text == "" {
			t.Fatalf("no statement is named %s", q.Name)
		}
	}
	return queries
}

// fill writes the rows, and lets the engine look at the tables when they are as it knows
// them.
func (p PlanTest) fill(t *testing.T, db *sqldb.DB, known knowledge) {
	t.Helper()
	ctx, postgres := t.Context(), db.Dialect().Name == sqldb.Postgres
	for _, rows := range p.Rows { // it does not look by itself
		alter := map[sqldb.Name]string{sqldb.Postgres: "SET (autovacuum_enabled = false)", sqldb.MySQL: "STATS_AUTO_RECALC = 0"}[db.Dialect().Name]
		if alter == "" {
			continue
		}
		if _, err := db.Exec(ctx, sqldb.Statement("ALTER TABLE "+rows.table()+" "+alter)); err != nil {
			t.Fatal(err)
		}
	}
	write := func(of func(Rows) (from, to int), then func()) {
		err := db.Tx(ctx, func(tx *sqldb.Tx) error {
			for _, rows := range p.Rows {
				from, to := of(rows)
				if err := rows.insert(ctx, tx, from, to); err != nil {
					return err
				}
			}
			then()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	looks := func() { p.analyze(t, db) }
	rests := func() {}
	first := 0
	if known == knowsFew {
		first = few
		write(func(Rows) (int, int) { return 0, first }, rests)
		if !postgres {
			looks()
		}
	}
	if !postgres || known == knowsNothing {
		looks = rests
	}
	write(func(r Rows) (int, int) { return first, r.N }, looks)
}

// analyze lets the engine look at the tables, on a connection of its own.
func (p PlanTest) analyze(t *testing.T, db *sqldb.DB) {
	t.Helper()
	verb := "ANALYZE "
	if db.Dialect().Name == sqldb.MySQL {
		verb = "ANALYZE TABLE "
	}
	for _, rows := range p.Rows {
		if _, err := db.Exec(t.Context(), sqldb.Statement(verb+rows.table())); err != nil {
			t.Fatal(err)
		}
	}
}

// joined matches statements that look for the rows of a list. As long as PostgreSQL believes
// that there are hardly any rows it reads an index from end to end for them, and no setting
// of a session keeps it from that.
var joined = regexp.MustCompile(`\{keys:|IN \(SELECT`)

func (p PlanTest) check(t *testing.T, db *sqldb.DB, known knowledge, queries []Query) {
	t.Helper()
	e := newExplainer(t, db, p.Rows)
	for _, q := range queries {
		on := db
		if q.Sweeper {
			on = db.Sweeper()
		}
		if q.Engine != "" && q.Engine != db.Dialect().Name {
			continue
		}
		hardly := db.Dialect().Name == sqldb.Postgres && (known == knowsEmpty || known == knowsFew)
		if hardly && (q.Counts || joined.MatchString(string(q.Text))) {
			continue
		}
		for _, plan := range e.explain(t, on, q.Text, q.Args) {
			if plan.generic && q.Custom {
				continue
			}
			if bad := p.bad(q, plan); bad != "" {
				t.Errorf("%s%s, known is %s%s: %s\n%s", q.Name, map[bool]string{true: " of the sweeper"}[q.Sweeper], known, plan.way(), bad, plan)
				if testing.Verbose() {
					t.Log(plan.raw)
				}
			}
		}
	}
}

// bad says what a plan does that it should not.
func (p PlanTest) bad(q Query, plan plan) string {
	entered := q.By == ""
	var by []string
	if !entered {
		by = strings.Split(q.By, ",")
	}
	for _, a := range plan.accesses {
		whole := slices.Contains(q.Whole, a.table) || slices.Contains(q.Whole, a.index)
		switch {
		case len(a.by) == 0 && !whole:
			return "it reads all of " + a.table
		case len(a.by) == 1 && !whole && slices.Contains(p.Shared, a.table+"."+a.by[0]):
			return "it reads all of " + a.table + " with one " + a.by[0]
		}
		entered = entered || len(a.by) >= len(by) && slices.Equal(by, a.by[:len(by)])
	}
	switch {
	case !entered:
		return "it is not by " + q.By
	case plan.sorts && !q.Sorts:
		return "it sorts"
	}
	return ""
}
