package iceberg_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// responder holds every answer to docs/api/iceberg.json.
type responder struct {
	Routes map[string]map[string]json.RawMessage `json:"routes"`
	Errors map[string]any                        `json:"errors"`
	Defs   map[string]map[string]any             `json:"$defs"`
}

var loadResponder = sync.OnceValues(func() (*responder, error) {
	data, err := os.ReadFile("../../../docs/api/iceberg.json")
	if err != nil {
		return nil, err
	}
	var r responder
	return &r, json.Unmarshal(data, &r)
})

func newResponder(tb testing.TB) *responder {
	tb.Helper()
	r, err := loadResponder()
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// route is the operation of a request, empty where there is none. Paths are compared
// segment by segment, undecoded.
func (r *responder) route(method, path string) string {
	got := strings.Split(path, "/")
	for name := range r.Routes {
		verb, pattern, _ := strings.Cut(name, " ")
		want := strings.Split(pattern, "/")
		if verb == method && slices.EqualFunc(got, want, func(g, w string) bool { return strings.HasPrefix(w, "{") || g == w }) {
			return name
		}
	}
	return ""
}

// check returns what is wrong with one answer.
func (r *responder) check(method, path string, status int, header http.Header, body []byte) (faults []string) {
	bad := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	id := header.Get("X-Request-Id")
	if id == "" {
		bad("no X-Request-Id")
	}
	name := r.route(method, path)
	shape, ok := r.shape(name, status)
	if !ok {
		bad("status %d is not one of %q", status, name)
	}
	if (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) && header.Get("Retry-After") == "" {
		bad("%d without Retry-After", status)
	}
	if status == http.StatusUnauthorized && shape == "Error" && header.Get("WWW-Authenticate") == "" {
		bad("401 without WWW-Authenticate")
	}
	if method == http.MethodHead || shape == "" {
		if len(body) > 0 {
			bad("a body of %d bytes where none may be", len(body))
		}
		return faults
	}
	if got := header.Get("Content-Type"); got != "application/json" {
		bad("Content-Type %q", got)
	}
	if got := header.Get("Content-Length"); got != strconv.Itoa(len(body)) {
		bad("Content-Length %q of a body of %d bytes", got, len(body))
	}
	body, err := plainBody(header, body)
	if err != nil {
		bad("the body is not the gzip it claims to be: %v", err)
		return faults
	}
	value, err := parseJSON(body)
	if err != nil {
		bad("the body is no JSON: %v", err)
		return faults
	}
	faults = append(faults, r.match("", map[string]any{"$ref": "#/$defs/" + shape}, value)...)
	if shape == "Error" && len(faults) == 0 {
		e := value.(map[string]any)["error"].(map[string]any)
		if e["request-id"] != id {
			bad("request-id %v, the header says %s", e["request-id"], id)
		}
		if code, _ := e["code"].(json.Number).Int64(); int(code) != status {
			bad("error.code %d of an answer with %d", code, status)
		}
		if !oneOf(r.Errors[e["type"].(string)], status) {
			bad("%v is not documented for %d", e["type"], status)
		}
	}
	return faults
}

// plainBody is the body without its Content-Encoding.
func plainBody(header http.Header, body []byte) ([]byte, error) {
	if header.Get("Content-Encoding") != "gzip" {
		return body, nil
	}
	zr, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(zr)
}

// shape is the definition that an answer must fit, empty for one without a body.
func (r *responder) shape(name string, status int) (string, bool) {
	if name == "" { // no operation
		return "Error", slices.Contains([]int{400, 401, 403, 404, 406, 500, 503}, status)
	}
	route := r.Routes[name]
	if raw, ok := route[strconv.Itoa(status)]; ok {
		var shape *string
		if json.Unmarshal(raw, &shape) != nil || shape == nil {
			return "", true
		}
		return *shape, true
	}
	var fails []int
	_ = json.Unmarshal(route["fails"], &fails) // a missing list is an empty one
	return "Error", slices.Contains(fails, status)
}

func oneOf(documented any, status int) bool {
	switch d := documented.(type) {
	case float64:
		return int(d) == status
	case []any:
		return slices.ContainsFunc(d, func(one any) bool { return oneOf(one, status) })
	}
	return false
}

func parseJSON(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // snapshot ids do not fit a float
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one value")
	}
	return v, nil
}

// match holds a value to the part of JSON Schema that docs/api/README.md names.
func (r *responder) match(at string, schema map[string]any, value any) (faults []string) {
	bad := func(format string, args ...any) {
		faults = append(faults, cmpAt(at)+": "+fmt.Sprintf(format, args...))
	}
	if ref, ok := schema["$ref"].(string); ok {
		def, known := r.Defs[strings.TrimPrefix(ref, "#/$defs/")]
		if !known {
			bad("%s is not defined", ref)
			return faults
		}
		return r.match(at, def, value)
	}
	if want, ok := schema["type"]; ok && !hasType(want, value) {
		bad("%T is not %v", value, want)
		return faults
	}
	if want, ok := schema["const"]; ok && fmt.Sprint(want) != fmt.Sprint(value) {
		bad("%v is not %v", value, want)
	}
	if want, ok := schema["enum"].([]any); ok && !slices.Contains(want, value) {
		bad("%v is none of %v", value, want)
	}
	switch v := value.(type) {
	case string:
		if p, ok := schema["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(v) {
			bad("%q does not match %s", v, p)
		}
		if least, ok := schema["minLength"].(float64); ok && utf8.RuneCountInString(v) < int(least) {
			bad("%q is too short", v)
		}
	case json.Number:
		n, _ := v.Float64()
		if least, ok := schema["minimum"].(float64); ok && n < least {
			bad("%v is below %v", v, least)
		}
		if most, ok := schema["maximum"].(float64); ok && n > most {
			bad("%v is above %v", v, most)
		}
	case []any:
		if least, ok := schema["minItems"].(float64); ok && len(v) < int(least) {
			bad("%d items", len(v))
		}
		if items, ok := schema["items"].(map[string]any); ok {
			for i, item := range v {
				faults = append(faults, r.match(fmt.Sprintf("%s[%d]", at, i), items, item)...)
			}
		}
	case map[string]any:
		faults = append(faults, r.matchObject(at, schema, v)...)
	}
	return faults
}

func (r *responder) matchObject(at string, schema, value map[string]any) (faults []string) {
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := value[name.(string)]; !ok {
			faults = append(faults, fmt.Sprintf("%s: %s is missing", cmpAt(at), name))
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(value)) {
		if p, ok := properties[name].(map[string]any); ok {
			faults = append(faults, r.match(at+"."+name, p, value[name])...)
			continue
		}
		switch more := schema["additionalProperties"].(type) {
		case map[string]any:
			faults = append(faults, r.match(at+"."+name, more, value[name])...)
		case bool:
			if !more {
				faults = append(faults, fmt.Sprintf("%s: %s is unknown", cmpAt(at), name))
			}
		}
	}
	return faults
}

func cmpAt(at string) string {
	if at == "" {
		return "the answer"
	}
	return at
}

func hasType(want, value any) bool {
	if list, ok := want.([]any); ok {
		return slices.ContainsFunc(list, func(one any) bool { return hasType(one, value) })
	}
	switch v := value.(type) {
	case nil:
		return want == "null"
	case bool:
		return want == "boolean"
	case string:
		return want == "string"
	case json.Number:
		f, err := v.Float64()
		return want == "number" || want == "integer" && err == nil && f == math.Trunc(f)
	case []any:
		return want == "array"
	case map[string]any:
		return want == "object"
	}
	return false
}

// wrap checks each answer before it goes on.
func (r *responder) wrap(tb testing.TB, next http.Handler) http.Handler {
	tb.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		method, path := req.Method, rawPath(req)
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, req)
		for _, fault := range r.check(method, path, rec.Code, rec.Header(), rec.Body.Bytes()) {
			tb.Errorf("%s %s answered %d: %s\n%s", method, path, rec.Code, fault, clip(rec.Body.String()))
		}
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()) // the client may be gone
	})
}

// rawPath is the path as it was sent.
func rawPath(r *http.Request) string {
	if r.URL.RawPath != "" {
		return r.URL.RawPath
	}
	return r.URL.EscapedPath()
}

func clip(s string) string {
	if len(s) > 400 {
		return s[:400] + "…"
	}
	return s
}

func TestResponderCanFail(t *testing.T) {
	t.Parallel()
	r := newResponder(t)
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
			got := strings.Join(r.check(c.method, c.path, c.status, header, body), "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("faults %q, want %q", got, c.want)
			}
		})
	}
}

// The schema must stay readable by the checker above, and each name must lead somewhere.
func TestSchemaIsWhole(t *testing.T) {
	t.Parallel()
	r := newResponder(t)
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
