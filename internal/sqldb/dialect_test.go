package sqldb

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func dialects() map[string]*Dialect {
	return map[string]*Dialect{
		"sqlite": sqliteDialect(), "postgres": postgresDialect(), "mysql": mysqlDialect(false), "tidb": mysqlDialect(true),
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	type want struct {
		text string
		args []any
	}
	for _, tt := range []struct {
		name string
		in   Statement
		args []any
		want map[string]want
	}{
		{
			name: "parameters", in: "SELECT 1 FROM t WHERE a = ? AND b = ?", args: []any{1, "x"},
			want: map[string]want{
				"sqlite":   {"SELECT 1 FROM t WHERE a = ? AND b = ?", []any{1, "x"}},
				"postgres": {"SELECT 1 FROM t WHERE a = $1 AND b = $2", []any{1, "x"}},
				"mysql":    {"SELECT 1 FROM t WHERE a = ? AND b = ?", []any{1, "x"}},
			},
		},
		{
			name: "a literal is copied", in: "SELECT '?{now}' WHERE a = ?", args: []any{1},
			want: map[string]want{
				"sqlite":   {"SELECT '?{now}' WHERE a = ?", []any{1}},
				"postgres": {"SELECT '?{now}' WHERE a = $1", []any{1}},
			},
		},
		{
			name: "a list between parameters, padded to a power of two", in: "WHERE a = ? AND b {in} AND c = ?", args: []any{1, IDs{7, 8, 9}, 2},
			want: map[string]want{
				"sqlite":   {"WHERE a = ? AND b IN (?,?,?,?) AND c = ?", []any{1, int64(7), int64(8), int64(9), int64(9), 2}},
				"postgres": {"WHERE a = $1 AND b = ANY($2) AND c = $3", []any{1, []int64{7, 8, 9}, 2}},
				"mysql":    {"WHERE a = ? AND b IN (?,?,?,?) AND c = ?", []any{1, int64(7), int64(8), int64(9), int64(9), 2}},
			},
		},
		{
			name: "an empty list matches nothing", in: "WHERE b {in}", args: []any{Strings{}},
			want: map[string]want{
				"sqlite":   {"WHERE b IN (NULL)", []any{}},
				"postgres": {"WHERE b = ANY($1)", []any{[]string{}}},
				"mysql":    {"WHERE b IN (NULL)", []any{}},
			},
		},
		{
			name: "locks", in: "SELECT 1 {for share}; SELECT 1 {for update} {skip locked}",
			want: map[string]want{
				"sqlite":   {"SELECT 1 ; SELECT 1  ", []any{}},
				"postgres": {"SELECT 1 FOR SHARE; SELECT 1 FOR UPDATE SKIP LOCKED", []any{}},
				"mysql":    {"SELECT 1 LOCK IN SHARE MODE; SELECT 1 FOR UPDATE SKIP LOCKED", []any{}},
				"tidb":     {"SELECT 1 FOR UPDATE; SELECT 1 FOR UPDATE SKIP LOCKED", []any{}},
			},
		},
		{
			name: "a lock of the key", in: "SELECT 1 {for key share}",
			want: map[string]want{
				"sqlite":   {"SELECT 1 ", []any{}},
				"postgres": {"SELECT 1 FOR KEY SHARE", []any{}},
				"mysql":    {"SELECT 1 LOCK IN SHARE MODE", []any{}},
				"tidb":     {"SELECT 1 FOR UPDATE", []any{}},
			},
		},
		{
			name: "by key", in: "SELECT a FROM t {key} WHERE {keys:f,a} AND b = ?", args: []any{7, IDs{1, 2}, 3},
			want: map[string]want{
				"sqlite":   {"SELECT a FROM t  WHERE f = ? AND a IN (?,?) AND b = ?", []any{7, int64(1), int64(2), 3}},
				"postgres": {"SELECT a FROM t  WHERE (f, a) IN (SELECT $1::bigint, unnest($2::bigint[])) AND b = $3", []any{7, []int64{1, 2}, 3}},
				"mysql":    {"SELECT a FROM t FORCE INDEX (PRIMARY) WHERE f = ? AND a IN (?,?) AND b = ?", []any{7, int64(1), int64(2), 3}},
			},
		},
		{
			name: "deletes", in: "{delete:t} WHERE a = ?; {delete:t,t_b} WHERE b = ?; SELECT 1 FROM t {index:t_b}", args: []any{1, 2},
			want: map[string]want{
				"sqlite":   {"DELETE FROM t  WHERE a = ?; DELETE FROM t INDEXED BY t_b WHERE b = ?; SELECT 1 FROM t INDEXED BY t_b", []any{1, 2}},
				"postgres": {"DELETE FROM t  WHERE a = $1; DELETE FROM t  WHERE b = $2; SELECT 1 FROM t ", []any{1, 2}},
				"mysql":    {"DELETE x FROM t x FORCE INDEX (PRIMARY) WHERE a = ?; DELETE x FROM t x FORCE INDEX (t_b) WHERE b = ?; SELECT 1 FROM t FORCE INDEX (t_b)", []any{1, 2}},
			},
		},
		{
			name: "a text of its own", in: "SELECT {on postgres}unnest({array}), {again}{else}a {in}{end}, ?", args: []any{IDs{1}, 2},
			want: map[string]want{
				"sqlite":   {"SELECT a IN (?), ?", []any{int64(1), 2}},
				"postgres": {"SELECT unnest($1::bigint[]), $1, $2", []any{[]int64{1}, 2}},
				"mysql":    {"SELECT a IN (?), ?", []any{int64(1), 2}},
			},
		},
		{
			name: "insert or leave", in: "{insert ignore} t ({q:cursor}) VALUES (?) {ignore}", args: []any{1},
			want: map[string]want{
				"sqlite":   {`INSERT INTO t ("cursor") VALUES (?) ON CONFLICT DO NOTHING`, []any{1}},
				"postgres": {`INSERT INTO t ("cursor") VALUES ($1) ON CONFLICT DO NOTHING`, []any{1}},
				"mysql":    {"INSERT INTO t (`cursor`) VALUES (?) ", []any{1}},
			},
		},
		{
			name: "a name with its length", in: "{name:255}",
			want: map[string]want{
				"sqlite":   {"TEXT", []any{}},
				"postgres": {`TEXT COLLATE "C"`, []any{}},
				"mysql":    {"VARBINARY(255)", []any{}},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for name, w := range tt.want {
				d := dialects()[name]
				for range 2 { // the second answer may be a kept one
					text, args, err := d.Render(tt.in, tt.args)
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					if len(args) == 0 {
						args = []any{}
					}
					if diff := cmp.Diff(w, want{text, args}, cmp.AllowUnexported(want{})); diff != "" {
						t.Errorf("%s (-want +got):\n%s", name, diff)
					}
				}
			}
		})
	}
}

func TestRenderRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		in   Statement
		args []any
		want string
	}{
		{"an unclosed literal", "SELECT 'x", nil, "unclosed literal"},
		{"an unclosed token", "SELECT {now", nil, "unclosed token"},
		{"an unknown token", "SELECT {then}", nil, "unknown token {then}"},
		{"too few arguments", "SELECT ?, ?", []any{1}, "1 arguments for 2 places"},
		{"too many arguments", "SELECT ?", []any{1, 2}, "2 arguments for 1 places"},
		{"an unclosed choice", "SELECT {on sqlite}1{else}2", nil, "unclosed {on …}"},
		{"keys of one column", "WHERE {keys:a}", []any{1, IDs{2}}, "takes two columns"},
		{"nothing to repeat", "SELECT {again}", nil, "before the first"},
		{"a list that is none", "WHERE a {in}", []any{1}, "not int"},
		{"a list that is too long", "WHERE a {in}", []any{make(IDs, 100_001)}, "a list of 100001 items, at most"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for name, d := range dialects() {
				if tt.name == "a list that is too long" && d.arrays {
					continue // one parameter, however long
				}
				if _, _, err := d.Render(tt.in, tt.args); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s: %v, want %q", name, err, tt.want)
				}
			}
		})
	}
}

// Lists of all lengths render to few texts, and none longer than the engine bears.
func TestListLengths(t *testing.T) {
	t.Parallel()
	d := mysqlDialect(false)
	texts := map[string]bool{}
	for n := 1; n <= d.MaxList; n++ {
		text, args, err := d.Render("WHERE a {in}", []any{make(IDs, n)})
		if err != nil {
			t.Fatal(err)
		}
		if len(args) < n || len(args) > d.MaxList {
			t.Fatalf("%d items became %d", n, len(args))
		}
		texts[text] = true
	}
	if len(texts) != 10 { // 1, 2, 4, …, 256, 500
		t.Errorf("%d texts", len(texts))
	}
}

func TestEveryDialectKnowsEveryToken(t *testing.T) {
	t.Parallel()
	want := []string{"bytes", "clustered", "for key share", "for share", "for update", "ignore", "insert ignore", "now", "serial", "skip locked", "table", "text"}
	for name, d := range dialects() {
		var got []string
		for token := range d.tokens {
			if token != "name" { // {name:N} only
				got = append(got, token)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSplitStatements(t *testing.T) {
	t.Parallel()
	got := splitStatements("-- A comment; with a semicolon.\nCREATE TABLE a (\n    x BIGINT\n);\n\nUPDATE a SET x = 1;\n  -- more\nDROP TABLE a")
	want := []string{"CREATE TABLE a (\n    x BIGINT\n)", "\nUPDATE a SET x = 1", "DROP TABLE a"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
