// Package files is the HTTP face of the drive: files and directories below /v1/fs/,
// uploads in parts, events, usage and the trash. It decides no rule of the business; it
// decodes requests, asks whether the token's grants cover them, and maps answers. Its one
// table of statuses is in errors.go; api/openapi.yaml describes every route, and a test
// holds the table of routes here to it.
//
// Paths are taken from the request's raw bytes and percent-decoded once. net/http's mux is
// not asked about them: it would clean dots and double slashes away, and %2E%2E is an
// error here, not a way up.
package files

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

// Config of the face. Drive, Content, Feed, Removal and Principal are required.
type Config struct {
	Drive   *drive.Drive
	Content *content.Store
	Feed    *feed.Store
	Removal *removal.Removal
	// Authenticate wraps the handler and puts the caller into the context, or answers
	// itself. Nil lets everybody in.
	Authenticate func(http.Handler) http.Handler
	Principal    func(context.Context) *tenant.Principal
	RequestID    func(context.Context) string // may be nil
	// Still asks again who sent a request, while a stream goes on: a token that was revoked,
	// or has expired, is fault.Unauthenticated. Nil asks once.
	Still    func(*http.Request) error
	Stopping <-chan struct{} // closed when the server stops: streams end; may be nil
	// Routed is told the pattern of the route that a request takes, with the parameter that
	// chose it; nil is not told.
	Routed    func(r *http.Request, route string)
	Idle      time.Duration // 1 m, how long a body may bring nothing, or a reader take nothing
	Heartbeat time.Duration // 15 s, between comments of a quiet event stream
	Recheck   time.Duration // 2 s, how long an event stream goes on before Still is asked again
	MaxBody   int64         // 2 MiB, bytes of a JSON body: 10,000 parts with checksums fit
	Logger    *slog.Logger  // nil discards
}

func (c Config) withDefaults() Config {
	if c.Authenticate == nil {
		c.Authenticate = func(h http.Handler) http.Handler { return h }
	}
	if c.RequestID == nil {
		c.RequestID = func(context.Context) string { return "" }
	}
	if c.Idle <= 0 {
		c.Idle = time.Minute
	}
	if c.Heartbeat <= 0 {
		c.Heartbeat = 15 * time.Second
	}
	if c.Recheck <= 0 {
		c.Recheck = 2 * time.Second
	}
	if c.MaxBody <= 0 {
		c.MaxBody = 2 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

type edge struct {
	Config
}

// call is one authenticated request.
type call struct {
	w         http.ResponseWriter
	r         *http.Request
	principal *tenant.Principal
	fs        tree.FS
	vars      []string // of the route, decoded; for /v1/fs the path
	query     url.Values
}

func (c *call) ctx() context.Context { return c.r.Context() }

// route is one operation. A pattern's {…} is one segment, {path…} all that is left.
type route struct {
	method  string
	pattern string
	query   string // the parameter that chooses it among routes of one pattern
	handle  func(*edge, *call) error
}

// routes is every request that this face answers; the order decides among those that
// differ by a parameter only.
var routes = []route{
	{http.MethodGet, "/v1/fs/{path...}", "stat", (*edge).stat},
	{http.MethodGet, "/v1/fs/{path...}", "list", (*edge).list},
	{http.MethodGet, "/v1/fs/{path...}", "tags", (*edge).tags},
	{http.MethodGet, "/v1/fs/{path...}", "", (*edge).get},
	{http.MethodHead, "/v1/fs/{path...}", "", (*edge).head},
	{http.MethodPut, "/v1/fs/{path...}", "", (*edge).put},
	{http.MethodPost, "/v1/fs/{path...}", "op", (*edge).operate},
	{http.MethodDelete, "/v1/fs/{path...}", "", (*edge).remove},
	{http.MethodGet, "/v1/uploads", "", (*edge).listUploads},
	{http.MethodPost, "/v1/uploads", "", (*edge).initiate},
	{http.MethodGet, "/v1/uploads/{id}", "", (*edge).showUpload},
	{http.MethodDelete, "/v1/uploads/{id}", "", (*edge).abortUpload},
	{http.MethodPut, "/v1/uploads/{id}/parts/{number}", "", (*edge).putPart},
	{http.MethodPost, "/v1/uploads/{id}/complete", "", (*edge).completeUpload},
	{http.MethodGet, "/v1/events", "", (*edge).events},
	{http.MethodGet, "/v1/usage", "", (*edge).usage},
	{http.MethodPost, "/v1/check", "", (*edge).check},
	{http.MethodGet, "/v1/trash", "", (*edge).listTrash},
	{http.MethodDelete, "/v1/trash", "", (*edge).emptyTrash},
	{http.MethodPost, "/v1/trash/{id}/restore", "", (*edge).restore},
	{http.MethodDelete, "/v1/trash/{id}", "", (*edge).emptyOne},
	{http.MethodPost, "/v1/reconcile", "", (*edge).reconcile},
	{http.MethodPost, "/v1/scrub", "", (*edge).scrub},
}

// Operations lists "METHOD pattern" of every route, once each.
func Operations() (list []string) {
	for _, r := range routes {
		if op := r.method + " " + strings.ReplaceAll(r.pattern, "...", ""); !slices.Contains(list, op) {
			list = append(list, op)
		}
	}
	return list
}

// Serves reports whether a request's escaped path belongs to this face.
func Serves(path string) bool {
	if path == "/v1/fs" || strings.HasPrefix(path, "/v1/fs/") {
		return true
	}
	for _, r := range routes {
		if _, ok := match(r.pattern, path); ok {
			return true
		}
	}
	return false
}

// New returns the handler of all routes.
func New(cfg Config) http.Handler {
	e := &edge{cfg.withDefaults()}
	return e.Authenticate(http.HandlerFunc(e.serve))
}

func (e *edge) serve(w http.ResponseWriter, r *http.Request) {
	c := &call{w: &begun{ResponseWriter: w}, r: r, principal: e.Principal(r.Context())}
	defer e.recovered(c)
	if err := e.dispatch(c); err != nil {
		e.fail(c, err)
	}
}

func (e *edge) dispatch(c *call) error {
	const op = "files.dispatch"
	c.fs = tree.FS(c.principal.Tenant)
	var err error
	// A query that is read only in part could turn one delete into another.
	if c.query, err = url.ParseQuery(c.r.URL.RawQuery); err != nil {
		return fault.Wrap(op, fault.Invalid, "", err, "the query has a bad encoding")
	}
	for _, values := range c.query {
		if slices.ContainsFunc(values, unstorable) {
			return fault.New(op, fault.Invalid, "", "the query holds what is no UTF-8, or a NUL")
		}
	}
	raw := rawPath(c.r)
	if raw == "/v1/fs" {
		raw += "/"
	}
	var allowed []string
	for _, rt := range routes {
		vars, ok := match(rt.pattern, raw)
		if !ok {
			continue
		}
		if rt.method != c.r.Method {
			if !slices.Contains(allowed, rt.method) {
				allowed = append(allowed, rt.method)
			}
			continue
		}
		if rt.query != "" && !c.query.Has(rt.query) {
			continue
		}
		for _, v := range vars {
			decoded, err := url.PathUnescape(v)
			if err != nil {
				return fault.Wrap(op, fault.Invalid, "InvalidPath", err, "the path has a bad percent-encoding")
			}
			if unstorable(decoded) {
				return fault.New(op, fault.Invalid, "InvalidPath", "the path holds what is no UTF-8, or a NUL")
			}
			c.vars = append(c.vars, decoded)
		}
		e.routed(c, rt)
		if err := c.understood(rt); err != nil {
			return err
		}
		return rt.handle(e, c)
	}
	if allowed == nil {
		return fault.New(op, fault.NotFound, "NoSuchRoute", "there is nothing at this path")
	}
	c.w.Header().Set("Allow", strings.Join(allowed, ", "))
	if c.r.Method == http.MethodPost && strings.HasPrefix(raw, "/v1/fs/") {
		return fault.New(op, fault.Invalid, "", "a POST to a file names what to do: ?op=%s", operationNames())
	}
	return errMethod
}

func (e *edge) routed(c *call, rt route) {
	if e.Routed == nil {
		return
	}
	name := strings.Replace(rt.pattern, "...", "", 1)
	if rt.query != "" {
		name += "?" + rt.query
	}
	if op := c.query.Get("op"); rt.query == "op" && operations[op] != nil {
		name += "=" + op
	}
	e.Routed(c.r, name)
}

// unstorable tells of text that some database refuses as the value of a parameter.
func unstorable(text string) bool { return !utf8.ValidString(text) || strings.ContainsRune(text, 0) }

// rawPath is the path as it was sent. EscapedPath would encode a path anew that holds an
// unusual byte, and so turn its %2F into slashes.
func rawPath(r *http.Request) string {
	if r.URL.RawPath != "" {
		return r.URL.RawPath
	}
	return r.URL.EscapedPath()
}

func match(pattern, path string) (vars []string, ok bool) {
	for {
		head, rest, more := strings.Cut(pattern, "{")
		if !strings.HasPrefix(path, head) || !more && path != head {
			return nil, false
		}
		if !more {
			return vars, true
		}
		path = path[len(head):]
		name, after, _ := strings.Cut(rest, "}")
		if strings.HasSuffix(name, "...") {
			return append(vars, path), true
		}
		value, tail, found := strings.Cut(path, "/")
		if value == "" {
			return nil, false
		}
		if found {
			tail = "/" + tail
		}
		vars, path, pattern = append(vars, value), tail, after
	}
}

// path is the drive's path that the request names, in its one spelling.
func (c *call) path() (string, error) {
	p, err := parsePath("/" + c.vars[0])
	if err != nil {
		return "", err
	}
	return p.String(), nil
}

// parsePath is stricter than the tree: a path is absolute, and an empty last component is
// as empty as any other.
func parsePath(text string) (tree.Path, error) {
	if !strings.HasPrefix(text, "/") || len(text) > 1 && strings.HasSuffix(text, "/") {
		return tree.Path{}, fault.New("files.parsePath", fault.Invalid, "InvalidPath", "a path begins with a slash, and does not end with one")
	}
	return tree.ParsePath(text)
}

// allowed returns the path of the request if the token lets its holder do every action
// there, and a context that keeps symbolic links inside what the token covers.
func (c *call) allowed(actions ...tenant.Action) (context.Context, string, error) {
	path, err := c.path()
	if err != nil {
		return nil, "", err
	}
	ctx, err := c.may(path, actions...)
	return ctx, path, err
}

func (c *call) may(path string, actions ...tenant.Action) (context.Context, error) {
	check := c.check(actions)
	return drive.WithScope(c.ctx(), check), check(path)
}

// check is the question whether the token allows all of actions on a path.
func (c *call) check(actions []tenant.Action) func(path string) error {
	return func(path string) error {
		for _, a := range actions {
			if !c.principal.MayDrive(a, path) {
				return tenant.Denied("files", a, path)
			}
		}
		return nil
	}
}

// moving is the pair of checks of what takes something from one place to another. What the
// token may not read where it is must not come to where it may.
func (c *call) moving(here, there []tenant.Action) (from, to func(path string) error) {
	hidden := ""
	from = func(path string) error {
		if !c.principal.MayDrive(tenant.Read, path) {
			hidden = path
		}
		return c.check(here)(path)
	}
	to = func(path string) error {
		if hidden != "" && c.principal.MayDrive(tenant.Read, path) {
			return tenant.Denied("files", tenant.Read, hidden)
		}
		return c.check(there)(path)
	}
	return from, to
}
