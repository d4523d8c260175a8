package sqldbtest

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// floor is the least version of an owner that a server must know after all the steps.
func floor(steps []sqldb.Step, owner string) (least int64) {
	for _, s := range steps {
		if s.Owner == owner {
			least = max(least, s.Floor)
		}
	}
	return least
}

// additive matches statements that older servers need not know of: their INSERTs name
// no new column, and no new key can refuse what they write.
var additive = regexp.MustCompile(`(?is)^(CREATE TABLE|CREATE INDEX|INSERT INTO|UPDATE|ALTER TABLE \S+ ADD COLUMN) `)

var comment = regexp.MustCompile(`(?m)^\s*--.*\n`)

// adds fails for a file that says that older servers may go on and does more than add.
func adds(t *testing.T, m sqldb.Migrations) {
	t.Helper()
	known, err := sqldb.Known(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range known {
		if s.Floor == s.Version {
			continue
		}
		raw, err := fs.ReadFile(m.Files, "migrations/"+s.Name+".sql")
		if err != nil {
			t.Fatal(err)
		}
		for text := range strings.SplitSeq(comment.ReplaceAllString(string(raw), ""), ";\n") {
			if text = strings.Join(strings.Fields(text), " "); text == "" {
				continue
			}
			upper := strings.ToUpper(text)
			column := strings.HasPrefix(upper, "ALTER TABLE")
			if !additive.MatchString(text) || column && strings.Contains(upper, "NOT NULL") && !strings.Contains(upper, " DEFAULT ") {
				t.Errorf("%s %s is not only additive, so servers that do not know it cannot go on: %s", m.Owner, s.Name, text)
			}
		}
	}
}

// beside migrates a filled database while a server of an earlier release reads and
// writes it.
func beside(t *testing.T, server Server, old, owners []sqldb.Migrations) {
	t.Helper()
	url := server.URL(t)
	theirs := server.OpenURL(t, url, sqldb.Config{}, old...)
	tables := fill(t, theirs)
	ours := theirs
	if server.Name != sqldb.SQLite { // there it is one server only
		ours = server.OpenURL(t, url, sqldb.Config{})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rounds, migrated, ended := make(chan int), make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(rounds)
		for n, more := 2, 2; more > 0; n++ {
			if err := work(ctx, theirs, tables, n); err != nil {
				ended <- err
				return
			}
			select {
			case rounds <- n:
			case <-migrated:
				more-- // whole rounds after the end
			}
		}
		ended <- nil
	}()
	<-rounds // it works before
	if err := ours.Migrate(t.Context(), owners...); err != nil {
		t.Error(err)
	}
	close(migrated)
	for range rounds {
	}
	if err := <-ended; err != nil {
		t.Fatalf("the older server: %v", err)
	}
	for table := range tables {
		if got := count(t, ours, table); got < 4 {
			t.Errorf("table %s has %d rows, want the first and those of the older server", table, got)
		}
	}
	if err := theirs.Migrate(t.Context(), old...); err != nil {
		t.Errorf("the older server starts again: %v", err)
	}
}

// work inserts row n into every table and reads it, by the columns of the schema that it
// knows. References name the first row.
func work(ctx context.Context, db *sqldb.DB, tables map[string]Table, n int) error {
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		var names, marks, where []string
		var values []any
		for _, c := range tables[table].Columns {
			value := map[string]any{"int": int64(n), "text": fmt.Sprintf("[%d]", n), "bytes": []byte("x")}[c.Kind]
			if slices.ContainsFunc(tables[table].Refers, func(refers string) bool { return strings.HasPrefix(refers, c.Name+" to ") }) {
				value = int64(1)
			}
			names, marks, values = append(names, "{q:"+c.Name+"}"), append(marks, "?"), append(values, value)
			if c.Kind != "bytes" {
				where = append(where, "{q:"+c.Name+"} = ?")
			}
		}
		insert := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, strings.Join(names, ", "), strings.Join(marks, ", "))
		if _, err := db.Exec(ctx, sqldb.Statement(insert), values...); err != nil {
			return fmt.Errorf("%s: %w", insert, err)
		}
		look := fmt.Sprintf("SELECT COUNT(*) FROM %s WHERE %s", table, strings.Join(where, " AND "))
		values = slices.DeleteFunc(values, func(v any) bool { _, raw := v.([]byte); return raw })
		var found int
		if err := db.QueryRow(ctx, sqldb.Statement(look), values...).Scan(&found); err != nil {
			return fmt.Errorf("%s: %w", look, err)
		}
		if found != 1 {
			return fmt.Errorf("%s finds %d rows", look, found)
		}
	}
	return nil
}
