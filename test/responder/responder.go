// Package responder holds the answers of the Iceberg REST catalog, and of the list of
// cleanups, to docs/api/iceberg.json: the status is one of the operation's, the body has
// the shape of that status, errors are complete, the headers that go with them are there.
//
// Handler checks the answers of a handler, Proxy those of a server that runs elsewhere,
// on their way to any client. Both pass everything on unchanged and report what is wrong
// as errors of the test, with operation, status and place.
//
// Only the standard library is used, so that every package of tests may link this one.
package responder

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Responder knows the documented answers.
type Responder struct {
	Routes map[string]map[string]json.RawMessage `json:"routes"`
	Errors map[string]any                        `json:"errors"`
	Defs   map[string]map[string]any             `json:"$defs"`

	patterns sync.Map // of the shapes: text to *regexp.Regexp
}

var load = sync.OnceValues(func() (*Responder, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(root, "docs", "api", "iceberg.json"))
	if err != nil {
		return nil, err
	}
	var r Responder
	return &r, json.Unmarshal(data, &r)
})

// moduleRoot is the nearest folder with a go.mod: tests run in the folder of their package.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		_, err = os.Stat(filepath.Join(dir, "go.mod"))
		if up := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && up != dir {
			dir, err = up, nil
			continue
		}
		break
	}
	return dir, err
}

// New reads docs/api/iceberg.json.
func New(tb testing.TB) *Responder {
	tb.Helper()
	r, err := load()
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// route is the operation of a request, empty where there is none. Paths are compared
// segment by segment, undecoded.
func (r *Responder) route(method, path string) string {
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

// Check returns what is wrong with one answer. The path is the one that was sent, without
// the catalog's base; the body is as it came, compressed or not.
func (r *Responder) Check(method, path string, status int, header http.Header, body []byte) (faults []string) {
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
	body, err := PlainBody(header, body)
	if err != nil {
		bad("the body is not the gzip it claims to be: %v", err)
		return faults
	}
	value, err := ParseJSON(body)
	if err != nil {
		bad("the body is no JSON: %v", err)
		return faults
	}
	wrong := r.match("", map[string]any{"$ref": "#/$defs/" + shape}, value)
	faults = append(faults, wrong...)
	if shape == "Error" && len(wrong) == 0 {
		faults = append(faults, r.checkError(value, status, id)...)
	}
	return faults
}

// checkError holds an error's fields to its answer; they have the right types.
func (r *Responder) checkError(value any, status int, id string) (faults []string) {
	e := value.(map[string]any)["error"].(map[string]any)
	if e["request-id"] != id {
		faults = append(faults, fmt.Sprintf("request-id %v, the header says %s", e["request-id"], id))
	}
	if code, _ := e["code"].(json.Number).Int64(); int(code) != status {
		faults = append(faults, fmt.Sprintf("error.code %d of an answer with %d", code, status))
	}
	if !oneOf(r.Errors[e["type"].(string)], status) {
		faults = append(faults, fmt.Sprintf("%v is not documented for %d", e["type"], status))
	}
	return faults
}

// shape is the definition that an answer must fit, empty for one without a body.
func (r *Responder) shape(name string, status int) (string, bool) {
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

// PlainBody is a body without its Content-Encoding.
func PlainBody(header http.Header, body []byte) ([]byte, error) {
	if header.Get("Content-Encoding") != "gzip" {
		return body, nil
	}
	zr, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(zr)
}
