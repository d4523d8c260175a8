package iceberg_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// listed reads a list to its end in pages of size, and returns the names in it.
func (b *bench) listed(target, field string, size int) (names []string, pages int) {
	b.tb.Helper()
	join := "?"
	if strings.Contains(target, "?") {
		join = "&"
	}
	token := ""
	for {
		a := b.do("GET", fmt.Sprintf("%s%spageToken=%s&pageSize=%d", target, join, url.QueryEscape(token), size), "").want(200)
		rows := a.get(field).([]any)
		if len(rows) > size {
			b.tb.Fatalf("%d rows in a page of %d", len(rows), size)
		}
		for _, row := range rows {
			names = append(names, nameOf(row))
		}
		pages++
		if token = a.text("next-page-token"); token == "" {
			return names, pages
		}
		if pages > 100 {
			b.tb.Fatal("the list has no end")
		}
	}
}

func nameOf(row any) string {
	switch r := row.(type) {
	case []any:
		return strings.Join(strs(r), "/")
	case map[string]any:
		return fmt.Sprint(r["name"])
	}
	return ""
}

func TestPages(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		ns := b.namespace("n")
		var want, children []string
		for _, name := range []string{"B", "a", "b", "é", "z", "a b", "%", "日"} {
			b.do("POST", ns+"/tables", createBody(name)).want(200)
			b.namespace("n", name)
			want = append(want, name)
			children = append(children, "n/"+name)
		}
		slices.Sort(want) // by bytes
		for _, c := range []struct {
			name, target, field string
			want                []string
		}{
			{"tables", ns + "/tables", "identifiers", want},
			{"namespaces", base + "namespaces?parent=n", "namespaces", children},
		} {
			t.Run(c.name, func(t *testing.T) {
				b := b.on(t)
				all := b.do("GET", c.target, "").want(200)
				if all.get("next-page-token") != nil {
					t.Errorf("no pageToken, and yet a next one: %v", all.get("next-page-token"))
				}
				var everything []string
				for _, row := range all.get(c.field).([]any) {
					everything = append(everything, nameOf(row))
				}
				sorted := slices.Clone(everything)
				slices.Sort(sorted)
				expected := slices.Clone(c.want)
				slices.Sort(expected)
				if diff := cmp.Diff(expected, sorted); diff != "" {
					t.Error(diff)
				}
				for _, size := range []int{1, 3, 7, 8, 9, 1000} {
					got, pages := b.listed(c.target, c.field, size)
					if diff := cmp.Diff(everything, got); diff != "" {
						t.Errorf("pages of %d: %s", size, diff)
					}
					if most := (len(want) + size - 1) / size; pages > most {
						t.Errorf("%d pages of %d", pages, size)
					}
				}
				// A page size alone does not start paging.
				join := "?"
				if strings.Contains(c.target, "?") {
					join = "&"
				}
				if got := b.do("GET", c.target+join+"pageSize=1", "").want(200); len(got.get(c.field).([]any)) != len(want) {
					t.Error("pageSize without pageToken cut the list")
				}
			})
		}
		if got, _ := b.listed(ns+"/tables", "identifiers", 2); !slices.Equal(got, want) {
			t.Errorf("tables in order %q", got)
		}
	})
}

// A token serves the list it was given for, and nothing else.
func TestPageTokensAreBound(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		for _, levels := range [][]string{{"n"}, {"m"}, {"a.b"}, {"a"}, {"a", "b.c"}, {"a.b", "c"}} {
			ns := b.namespace(levels...)
			b.table(ns, "t1")
			b.table(ns, "t2")
			b.namespace(append(slices.Clone(levels), "c1")...)
			b.namespace(append(slices.Clone(levels), "c2")...)
		}
		token := func(target string) string {
			join := "?"
			if strings.Contains(target, "?") {
				join = "&"
			}
			got := b.do("GET", target+join+"pageToken=&pageSize=1", "").want(200).text("next-page-token")
			if got == "" {
				t.Fatalf("%s has one page", target)
			}
			return got
		}
		tables := func(ns string) string { return base + "namespaces/" + ns + "/tables" }
		children := func(ns string) string { return base + "namespaces?parent=" + ns }
		for _, c := range []struct{ name, from, to string }{
			{"another namespace", tables("n"), tables("m")},
			{"the same text, other levels", tables("a.b%1Fc"), tables("a%1Fb.c")},
			{"namespaces for tables", children("n"), tables("n")},
			{"tables for namespaces", tables("n"), children("n")},
			{"another parent", children("n"), children("m")},
			{"a parent for the top", children("n"), base + "namespaces"},
			{"the top for a parent", base + "namespaces", children("n")},
		} {
			t.Run(c.name, func(t *testing.T) {
				b := b.on(t)
				join := "?"
				if strings.Contains(c.to, "?") {
					join = "&"
				}
				tok := token(c.from)
				b.do("GET", c.from+map[bool]string{true: "&", false: "?"}[strings.Contains(c.from, "?")]+"pageToken="+tok, "").want(200)
				a := b.do("GET", c.to+join+"pageToken="+tok, "")
				a.want(400, "BadRequestException")
			})
		}
		enc := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
		for name, tok := range map[string]string{
			"garbage": "x", "spaces": "%20", "not base64": "%21%21", "base64 of nothing known": enc("hello"), "empty object": enc("{}"), "an array": enc("[]"),
			"null": enc("null"), "another warehouse": enc(`{"w":"other","k":"tables","n":["n"],"a":"t1"}`), "a NUL": enc(`{"w":"default","k":"tables","n":["n"],"a":"t\u0000"}`),
			"no place": enc(`{"w":"default","k":"tables","n":["n"],"a":""}`), "another type": enc(`{"w":"default","k":"tables","n":["n"],"a":1}`),
			"padded": enc(`{"w":"default","k":"tables","n":["n"],"a":"t1"}`) + "==", "cut": token(tables("n"))[:8], "long": strings.Repeat("A", 10000),
		} {
			t.Run(name, func(t *testing.T) {
				b := b.on(t)
				a := b.do("GET", tables("n")+"?pageToken="+tok, "")
				a.want(400, "BadRequestException")
			})
		}
		for _, size := range []string{"0", "-1", "x", "1.5", "99999999999999999999", "%00"} {
			b.do("GET", tables("n")+"?pageToken=&pageSize="+size, "").want(400, "BadRequestException")
		}
		b.do("GET", tables("n")+"?pageToken=&pageSize=1000000", "").want(200)
	})
}

func TestPageTokenSurvivesDrops(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	ns := b.namespace("n")
	for _, name := range []string{"a", "b", "c"} {
		b.table(ns, name)
	}
	tok := b.do("GET", ns+"/tables?pageToken=&pageSize=2", "").want(200).text("next-page-token")
	b.do("DELETE", ns+"/tables/b", "").want(204)
	b.do("DELETE", ns+"/tables/c", "").want(204)
	a := b.do("GET", ns+"/tables?pageSize=2&pageToken="+tok, "").want(200)
	if got, _ := json.Marshal(a.get("identifiers")); string(got) != "[]" {
		t.Errorf("identifiers %s", got)
	}
}
