package responder

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// API holds the answers below /v1 to api/openapi.yaml.
type API struct {
	match *Responder
	paths map[string]map[string]operation // by pattern, then by method in upper case
}

type operation struct {
	responses map[string]any
	fails     []any
}

// NewAPI reads api/openapi.yaml.
func NewAPI(tb testing.TB) *API {
	tb.Helper()
	root, err := moduleRoot()
	if err != nil {
		tb.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "api", "openapi.yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	var doc struct {
		Paths      map[string]map[string]any `yaml:"paths"`
		Components struct {
			Schemas   map[string]any `yaml:"schemas"`
			Responses map[string]any `yaml:"responses"`
		} `yaml:"components"`
	}
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		tb.Fatal(err)
	}
	a := &API{match: &Responder{Defs: map[string]map[string]any{}}, paths: map[string]map[string]operation{}}
	for name, schema := range doc.Components.Schemas {
		a.match.Defs[name], _ = local(schema).(map[string]any)
	}
	for pattern, item := range doc.Paths {
		a.paths[pattern] = map[string]operation{}
		for method, v := range item {
			op, ok := v.(map[string]any)
			if !ok {
				continue // parameters of all methods
			}
			responses, _ := op["responses"].(map[string]any)
			for status, r := range responses {
				if body, ok := r.(map[string]any); ok {
					if ref, ok := body["$ref"].(string); ok {
						responses[status] = doc.Components.Responses[strings.TrimPrefix(ref, "#/components/responses/")]
					}
				}
			}
			fails, _ := op["x-fails"].([]any)
			a.paths[pattern][strings.ToUpper(method)] = operation{responses, fails}
		}
	}
	return a
}

// local turns the references of OpenAPI into those that the matcher knows.
func local(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, inner := range v {
			if text, ok := inner.(string); ok && k == "$ref" {
				out[k] = "#/$defs/" + strings.TrimPrefix(text, "#/components/schemas/")
				continue
			}
			out[k] = local(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = local(inner)
		}
		return out
	case int:
		return float64(v)
	}
	return v
}

// Operations lists "METHOD pattern" of everything described, sorted.
func (a *API) Operations() (list []string) {
	for pattern, methods := range a.paths {
		for method := range methods {
			list = append(list, method+" "+pattern)
		}
	}
	slices.Sort(list)
	return list
}

// Check returns what is wrong with one answer; path is escaped, without its query.
func (a *API) Check(method, path string, status int, header http.Header, body []byte) []string {
	op, ok := a.find(method, path)
	if !ok {
		if status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusBadRequest {
			return nil
		}
		return []string{fmt.Sprintf("%s %s is not described", method, path)}
	}
	answer, ok := op.responses[strconv.Itoa(status)].(map[string]any)
	if !ok {
		if !slices.Contains(op.fails, any(status)) {
			return []string{fmt.Sprintf("%s %s: status %d is not described", method, path, status)}
		}
		answer, _ = op.responses["default"].(map[string]any)
	}
	content, _ := answer["content"].(map[string]any)
	if method == http.MethodHead || len(body) == 0 && content == nil {
		return nil
	}
	if !strings.HasPrefix(header.Get("Content-Type"), "application/json") || content["application/json"] == nil {
		return nil // the bytes of a file, or events
	}
	media, _ := content["application/json"].(map[string]any)
	schema, _ := local(media["schema"]).(map[string]any)
	if _, anything := content["*/*"]; anything && header.Get("X-Lethe-Type") != "" {
		return nil // a stored file that happens to be JSON
	}
	value, err := ParseJSON(body)
	if err != nil {
		return []string{err.Error()}
	}
	alternatives, ok := schema["oneOf"].([]any)
	if !ok {
		return a.match.match("", schema, value)
	}
	var faults []string
	for _, alternative := range alternatives {
		one, _ := alternative.(map[string]any)
		if faults = a.match.match("", one, value); len(faults) == 0 {
			return nil
		}
	}
	return append(faults, "and none of the other shapes")
}

func (a *API) find(method, path string) (operation, bool) {
	for pattern, methods := range a.paths {
		if op, ok := methods[method]; ok && matches(pattern, path) {
			return op, true
		}
	}
	return operation{}, false
}

func matches(pattern, path string) bool {
	if pattern == "/v1/fs/{path}" {
		return path == "/v1/fs" || strings.HasPrefix(path, "/v1/fs/")
	}
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(w, g string) bool {
		return w == g || strings.HasPrefix(w, "{") && g != ""
	})
}
