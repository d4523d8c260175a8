package iceberg_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func newServer(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() { srv.Client().CloseIdleConnections(); srv.Close() })
	return srv
}

// A namespace is made by its levels and found by each of the spellings that clients send.
func TestNamesInPaths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		levels []string
		paths  []string
	}{
		{"plain", []string{"a"}, []string{"a", "%61"}},
		{"two levels", []string{"a", "b"}, []string{"a%1Fb", "a%1fb", "%61%1F%62"}},
		{"three levels", []string{"a", "b", "c"}, []string{"a%1Fb%1fc"}},
		{"a dot", []string{"a.b"}, []string{"a.b", "a%2Eb", "a%2eb"}},
		{"two dots", []string{".."}, []string{"%2E%2E", ".%2e"}},
		{"a space", []string{"a b"}, []string{"a+b", "a%20b"}},
		{"a plus", []string{"a+b"}, []string{"a%2Bb", "a%2bb"}},
		{"a slash", []string{"a/b"}, []string{"a%2Fb", "a%2fb"}},
		{"a percent sign", []string{"a%2Fb"}, []string{"a%252Fb"}},
		{"an encoded separator as text", []string{"a%1Fb"}, []string{"a%251Fb"}},
		{"unicode", []string{"é", "日本"}, []string{"%C3%A9%1F%E6%97%A5%E6%9C%AC"}},
		{"decomposed unicode", []string{"e\u0301"}, []string{"e%CC%81"}},
		{"an emoji", []string{"🗑"}, []string{"%F0%9F%97%91"}},
		{"reserved", []string{"a?b#c&d=e;f"}, []string{"a%3Fb%23c%26d%3De%3Bf", "a%3Fb%23c&d=e;f"}},
		{"quotes beside a slash", []string{`a"b/c`}, []string{`a%22b%2Fc`, `a"b%2Fc`}},
		{"raw bytes beside a slash", []string{"é/x"}, []string{"é%2Fx", "%C3%A9%2Fx"}},
		{"brackets and a brace", []string{"[a]{b}"}, []string{"%5Ba%5D%7Bb%7D", "[a]{b}"}},
		{"case matters", []string{"Abc"}, []string{"Abc"}},
		{"a newline", []string{"a\nb"}, []string{"a%0Ab"}},
		{"a name of the protocol", []string{"tables"}, []string{"tables"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := open(t, options{})
			b.namespace(c.levels...) // the path it returns is not used
			for _, path := range c.paths {
				a := b.send(rawRequest(t, "GET", base+"namespaces/"+path, ""))
				if a.status != 200 {
					t.Errorf("%s: status %d: %s", path, a.status, a.body)
					continue
				}
				if diff := cmp.Diff(c.levels, strs(a.get("namespace"))); diff != "" {
					t.Errorf("%s: %s", path, diff)
				}
				b.send(rawRequest(t, "HEAD", base+"namespaces/"+path, "")).want(204)
			}
			// The same for a table of that name, and for the list of its parent.
			name := c.levels[len(c.levels)-1]
			enc := strings.Split(strings.ReplaceAll(c.paths[0], "%1f", "%1F"), "%1F")
			last := enc[len(enc)-1]
			b.send(rawRequest(t, "POST", base+"namespaces/"+c.paths[0]+"/tables", createBody(name))).want(200)
			a := b.send(rawRequest(t, "GET", base+"namespaces/"+c.paths[0]+"/tables/"+last, "")).want(200)
			if loc := a.text("metadata", "location"); strings.ContainsAny(strings.TrimPrefix(loc, rootURI), " +?#\"\n") || strings.Contains(loc, "/..") {
				t.Errorf("location %q holds what clients read differently", loc)
			}
			if parent := strings.Join(enc[:len(enc)-1], "%1F"); parent != "" {
				list := b.send(rawRequest(t, "GET", base+"namespaces?parent="+parent, "")).want(200)
				if diff := cmp.Diff(c.levels, strs(list.get("namespaces", 0))); diff != "" {
					t.Errorf("parent=%s: %s", parent, diff)
				}
			}
			b.send(rawRequest(t, "DELETE", base+"namespaces/"+c.paths[0]+"/tables/"+last, "")).want(204)
			b.send(rawRequest(t, "DELETE", base+"namespaces/"+c.paths[len(c.paths)-1], "")).want(204)
		})
	}
}

// namespace in setup makes them by JSON; rawRequest sends a path as it stands.
func rawRequest(tb testing.TB, method, target, body string) *http.Request {
	tb.Helper()
	r, err := readRequest(method, target, body)
	if err != nil {
		tb.Fatal(err)
	}
	return r.WithContext(tb.Context())
}

func strs(v any) (out []string) {
	list, _ := v.([]any)
	for _, s := range list {
		out = append(out, fmt.Sprint(s))
	}
	return out
}

func TestHostilePaths(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		b.namespace("a", "b")
		for _, c := range []struct {
			name, method, path string
			status             int
		}{
			{"an empty namespace", "GET", "namespaces/", 400},
			{"an empty namespace with tables", "GET", "namespaces//tables", 400},
			{"an empty table", "GET", "namespaces/a/tables/", 400},
			{"an empty first level", "GET", "namespaces/%1Fb", 400},
			{"an empty last level", "GET", "namespaces/a%1F", 400},
			{"an empty middle level", "GET", "namespaces/a%1F%1Fb", 400},
			{"only a separator", "HEAD", "namespaces/%1F", 400},
			{"NUL", "GET", "namespaces/a%00", 400},
			{"NUL in a table", "GET", "namespaces/a/tables/%00", 400},
			{"NUL in a table to drop", "DELETE", "namespaces/a/tables/t%00?purgeRequested=true", 400},
			{"the separator in a table", "GET", "namespaces/a/tables/t%1Fu", 400},
			{"invalid UTF-8", "GET", "namespaces/%FF", 400},
			{"cut UTF-8", "GET", "namespaces/%E6%97", 400},
			{"a surrogate", "GET", "namespaces/%ED%A0%80", 400},
			{"an overlong slash", "GET", "namespaces/%C0%AF", 400},
			{"invalid UTF-8 in a table", "GET", "namespaces/a/tables/%FF", 400},
			{"levels joined by a dot", "GET", "namespaces/a.b", 404},
			{"levels joined by a slash", "GET", "namespaces/a/b", 404},
			{"an encoded slash of the route", "GET", "namespaces%2Fa", 404},
			{"another case", "GET", "namespaces/A", 404},
			{"dots", "GET", "namespaces/../namespaces/a", 404},
			{"a doubled slash", "GET", "/namespaces/a", 404},
			{"a long name", "GET", "namespaces/" + strings.Repeat("x", 5000), 400},
			{"many levels", "GET", "namespaces/" + strings.Repeat("x%1F", 900) + "x", 400},
			{"a parent with NUL", "GET", "namespaces?parent=a%00", 400},
			{"a parent with an empty level", "GET", "namespaces?parent=a%1F", 400},
			{"a parent of invalid UTF-8", "GET", "namespaces?parent=%FF", 400},
			{"a parent of bad encoding", "GET", "namespaces?parent=%zz", 400},
			{"a query of bad encoding", "GET", "namespaces?pageToken=%zz", 400},
			{"a query with a semicolon", "DELETE", "namespaces/a/tables/t?purgeRequested=true;x=1", 400},
			{"a prefix of invalid UTF-8", "GET", "../%FF/namespaces", 404},
		} {
			t.Run(c.name, func(t *testing.T) {
				b := b.on(t)
				a := b.send(rawRequest(t, c.method, base+c.path, ""))
				a.want(c.status)
			})
		}
	})
}

// What a body names obeys the same rules as what a path names.
func TestHostileNamesInBodies(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	ns := b.namespace("n")
	b.table(ns, "t")
	for name, level := range map[string]string{
		"empty": "", "NUL": "\x00", "separator": "\x1f", "long": strings.Repeat("é", 400),
	} {
		t.Run(name, func(t *testing.T) {
			b := b.on(t)
			quoted, _ := json.Marshal(level) // a string encodes
			bad := fmt.Sprintf(`{"namespace":["n"],"name":%s}`, quoted)
			badNS := fmt.Sprintf(`{"namespace":[%s],"name":"t"}`, quoted)
			const good = `{"namespace":["n"],"name":"t"}`
			for _, pair := range [][2]string{{bad, good}, {good, bad}, {badNS, good}, {good, badNS}} {
				a := b.do("POST", base+"tables/rename", fmt.Sprintf(`{"source":%s,"destination":%s}`, pair[0], pair[1]))
				a.want(400, "BadRequestException")
			}
			for _, id := range []string{bad, badNS} {
				a := b.do("POST", base+"transactions/commit", fmt.Sprintf(`{"table-changes":[{"identifier":%s,"requirements":[],"updates":[]}]}`, id))
				a.want(400, "BadRequestException")
			}
		})
	}
}
