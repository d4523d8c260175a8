package iceberg

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

// route is one operation below /v1/{prefix}/. config names them all: what is not
// named is not promised.
type route struct {
	method  string
	pattern string // as the spec writes it
	handle  func(*edge, *call) error
	replay  replay        // nil where the spec knows no Idempotency-Key
	commits bool          // passing trouble is 429, 5xx means unknown
	needs   tenant.Action // of the token, on the namespace of the path; empty where the body names them
}

const (
	namespacePath = "namespaces/{namespace}"
	tablePath     = namespacePath + "/tables/{table}"
	viewPath      = namespacePath + "/views/{view}"
)

var routes = []route{
	{http.MethodGet, "namespaces", (*edge).listNamespaces, nil, false, ""},
	{http.MethodPost, "namespaces", (*edge).createNamespace, replayNamespace, false, ""},
	{http.MethodGet, namespacePath, (*edge).loadNamespace, nil, false, ""},
	{http.MethodHead, namespacePath, (*edge).namespaceExists, nil, false, ""},
	{http.MethodDelete, namespacePath, (*edge).dropNamespace, replayNone, false, tenant.Drop},
	{http.MethodPost, namespacePath + "/properties", (*edge).updateProperties, replayChanges, false, tenant.Write},
	{http.MethodGet, namespacePath + "/tables", (*edge).listTables, nil, false, tenant.Read},
	{http.MethodPost, namespacePath + "/tables", (*edge).createTable, replayTable, false, tenant.Write},
	{http.MethodPost, namespacePath + "/register", (*edge).registerTable, replayTable, false, tenant.Write},
	{http.MethodGet, tablePath, (*edge).loadTable, nil, false, tenant.Read},
	{http.MethodHead, tablePath, (*edge).tableExists, nil, false, tenant.Read},
	{http.MethodPost, tablePath, (*edge).commitTable, replayTable, true, tenant.Write},
	{http.MethodDelete, tablePath, (*edge).dropTable, replayDrop, false, tenant.Drop},
	{http.MethodPost, tablePath + "/metrics", (*edge).reportMetrics, nil, false, tenant.Read},
	{http.MethodPost, tablePath + "/unregister", (*edge).unregisterTable, replayUnregister, false, tenant.Drop},
	{http.MethodGet, namespacePath + "/views", (*edge).listViews, nil, false, tenant.Read},
	{http.MethodPost, namespacePath + "/views", (*edge).createView, replayView, false, tenant.Write},
	{http.MethodPost, namespacePath + "/register-view", (*edge).registerView, replayView, false, tenant.Write},
	{http.MethodGet, viewPath, (*edge).loadView, nil, false, tenant.Read},
	{http.MethodHead, viewPath, (*edge).viewExists, nil, false, tenant.Read},
	{http.MethodPost, viewPath, (*edge).replaceView, replayView, true, tenant.Write},
	{http.MethodDelete, viewPath, (*edge).dropView, replayDrop, false, tenant.Drop},
	{http.MethodPost, "views/rename", (*edge).renameView, replayNone, false, ""},
	{http.MethodPost, "tables/rename", (*edge).renameTable, replayNone, false, ""},
	{http.MethodPost, "transactions/commit", (*edge).commitTransaction, replayNone, true, ""},
}

// path is the request's path as it was sent, without its first slash. EscapedPath would
// encode a path anew that holds an unusual byte, and so turn its %2F into slashes.
func (c *call) path() string {
	raw := c.r.URL.RawPath
	if raw == "" {
		raw = c.r.URL.EscapedPath()
	}
	return strings.TrimPrefix(raw, "/")
}

// checkQuery refuses a query that url.Values would read only in part: a drop must not
// lose its purgeRequested.
func (c *call) checkQuery() error {
	if _, err := url.ParseQuery(c.r.URL.RawQuery); err != nil {
		return fault.Wrap("iceberg.checkQuery", fault.Invalid, "", err, "the query has a bad encoding")
	}
	return nil
}

// route finds the operation of a path and keeps its variable segments, the prefix first.
func (e *edge) route(c *call, path string) (*route, error) {
	const op = "iceberg.route"
	segments := strings.Split(path, "/")
	if len(segments) < 3 || segments[0] != "v1" {
		return nil, fault.New(op, fault.NotFound, "NoSuchRoute", "no such path")
	}
	known := false
	for i := range routes {
		vars, ok := match(routes[i].pattern, segments[2:])
		if !ok {
			continue
		}
		known = true
		if routes[i].method == c.r.Method {
			c.vars = append([]string{segments[1]}, vars...)
			return &routes[i], nil
		}
	}
	if known {
		return nil, fault.New(op, fault.Unsupported, "", "%s is not offered on this path", c.r.Method)
	}
	return nil, fault.New(op, fault.NotFound, "NoSuchRoute", "no such path")
}

func match(pattern string, segments []string) (vars []string, ok bool) {
	for part := range strings.SplitSeq(pattern, "/") {
		if len(segments) == 0 {
			return nil, false
		}
		if strings.HasPrefix(part, "{") {
			vars = append(vars, segments[0])
		} else if part != segments[0] {
			return nil, false
		}
		segments = segments[1:]
	}
	return vars, len(segments) == 0
}

// decodeSegment decodes one name of a path as Java's URLDecoder does: clients send a
// space as '+' or as %20.
func decodeSegment(raw string) (string, error) {
	s, err := url.QueryUnescape(raw)
	if err != nil {
		return "", fault.Wrap("iceberg.decodeSegment", fault.Invalid, "", err, "the path has a bad percent-encoding")
	}
	return s, nil
}

// separator is the encoded unit separator between the levels of a namespace.
const separator = "%1F"

// decodeNamespace splits at the separator first and decodes each level after that.
func decodeNamespace(raw string) (catalog.Namespace, error) {
	raw = strings.ReplaceAll(raw, "%1f", separator)
	var n catalog.Namespace
	for level := range strings.SplitSeq(raw, separator) {
		s, err := decodeSegment(level)
		if err != nil {
			return nil, err
		}
		n = append(n, s)
	}
	return n, nil
}

func (c *call) namespace() (catalog.Namespace, error) { return decodeNamespace(c.vars[0]) }

func (c *call) table() (catalog.Identifier, error) {
	n, err := decodeNamespace(c.vars[0])
	if err != nil {
		return catalog.Identifier{}, err
	}
	name, err := decodeSegment(c.vars[1])
	return catalog.Identifier{Namespace: n, Name: name}, err
}
