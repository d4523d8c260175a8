package responder

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestResponderCanFail(t *testing.T) {
	t.Parallel()
	r := New(t)
	const id = "11111111-2222-3333-4444-555555555555"
	ok := func(body string) (http.Header, []byte) {
		return http.Header{
			"X-Request-Id": {id}, "Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(body))},
			"Retry-After": {"1"}, "Www-Authenticate": {"Bearer"},
		}, []byte(body)
	}
	failure := func(name string, code int) string {
		return fmt.Sprintf(`{"error":{"message":"m","type":%q,"code":%d,"request-id":%q}}`, name, code, id)
	}
	const list, one = "/v1/p/namespaces", "/v1/p/namespaces/a"
	for _, c := range []struct {
		name, method, path string
		status             int
		body               string
		without            string // a header
		want               string // part of the fault, empty for none
	}{
		{"a good list", "GET", list, 200, `{"namespaces":[["a"]],"next-page-token":null}`, "", ""},
		{"a good error", "GET", one, 404, failure("NoSuchNamespaceException", 404), "", ""},
		{"a good refusal", "GET", one, 401, failure("NotAuthorizedException", 401), "", ""},
		{"no request id", "GET", list, 200, `{"namespaces":[],"next-page-token":null}`, "X-Request-Id", "no X-Request-Id"},
		{"no token", "GET", list, 200, `{"namespaces":[]}`, "", "next-page-token is missing"},
		{"a wrong type", "GET", list, 200, `{"namespaces":{},"next-page-token":null}`, "", "is not array"},
		{"an empty level", "GET", list, 200, `{"namespaces":[[""]],"next-page-token":null}`, "", ".namespaces[0][0]"},
		{"a namespace without levels", "GET", list, 200, `{"namespaces":[[]],"next-page-token":null}`, "", "0 items"},
		{"a property that is no string", "GET", one, 200, `{"namespace":["a"],"properties":{"n":1}}`, "", ".properties.n"},
		{"an undocumented status", "GET", one, 409, failure("AlreadyExistsException", 409), "", "status 409"},
		{"an undocumented name", "GET", one, 404, failure("ElsewhereException", 404), "", "not documented"},
		{"another code", "GET", one, 404, failure("NoSuchNamespaceException", 400), "", "error.code 400"},
		{"a bare error", "GET", one, 404, `{"message":"m"}`, "", "error is missing"},
		{"an HTML page", "GET", one, 404, "<html>", "", "no JSON"},
		{"a body of 204", "HEAD", one, 204, "x", "", "where none may be"},
		{"a body of a failed HEAD", "HEAD", one, 404, failure("NoSuchNamespaceException", 404), "", "where none may be"},
		{"busy without a hint", "GET", one, 503, failure("SlowDownException", 503), "Retry-After", "without Retry-After"},
		{"refused without a scheme", "GET", one, 401, failure("NotAuthorizedException", 401), "Www-Authenticate", "WWW-Authenticate"},
		{"no content type", "GET", one, 404, failure("NoSuchNamespaceException", 404), "Content-Type", "Content-Type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			header, body := ok(c.body)
			delete(header, c.without)
			got := strings.Join(r.Check(c.method, c.path, c.status, header, body), "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("faults %q, want %q", got, c.want)
			}
		})
	}
}

// The schema must stay readable by the checker above, and each name must lead somewhere.
func TestSchemaIsWhole(t *testing.T) {
	t.Parallel()
	r := New(t)
	known := []string{
		"type", "enum", "const", "pattern", "minLength", "minimum", "maximum", "required", "properties",
		"additionalProperties", "items", "minItems", "$ref", "description",
	}
	used := map[string]bool{"Error": true}
	var walk func(at string, schema map[string]any)
	walk = func(at string, schema map[string]any) {
		for key, v := range schema {
			if !slices.Contains(known, key) {
				t.Errorf("%s: %s is not checked", at, key)
			}
			switch v := v.(type) {
			case map[string]any:
				if key != "properties" {
					walk(at+"."+key, v)
					continue
				}
				for name, p := range v {
					walk(at+"."+name, p.(map[string]any))
				}
			case string:
				if key == "pattern" {
					regexp.MustCompile(v)
				}
				if name, ok := strings.CutPrefix(v, "#/$defs/"); ok && key == "$ref" {
					used[name] = true
					if r.Defs[name] == nil {
						t.Errorf("%s: %s is not defined", at, name)
					}
				}
			}
		}
	}
	for name, def := range r.Defs {
		walk(name, def)
	}
	for route, answers := range r.Routes {
		for status, raw := range answers {
			var shape *string
			if status == "fails" || json.Unmarshal(raw, &shape) != nil || shape == nil {
				continue
			}
			used[*shape] = true
			if r.Defs[*shape] == nil {
				t.Errorf("%s: %s is not defined", route, *shape)
			}
		}
	}
	for name := range r.Defs {
		if !used[name] {
			t.Errorf("%s is never used", name)
		}
	}
}
