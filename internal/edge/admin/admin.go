// Package admin is the HTTP face for operators: jobs are listed, watched and controlled
// here. It holds no rule of the business; those are behind the interfaces of Kind.
//
// Every answer is JSON, errors are {"error":{"code","message","requestId"}} by the one
// table in error.go. Who controls a job is an audit line in the log. A request sees only
// what its Reader shows it: each control first reads the job under the caller's context,
// so that a job of another tenant is 404 and never touched.
package admin

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/tenant"
)

// Object is what a job deletes.
type Object struct {
	Warehouse string
	Namespace []string
	Name      string
	Type      string // TABLE or VIEW; of a drive TREE or FILE
	Location  string
	Path      string // of the drive, where it was deleted
}

// Job is a job with what it is about.
type Job struct {
	Row    job.Row
	Object Object
}

// Filter chooses jobs; zero values choose all.
type Filter struct {
	State     job.State
	Warehouse string
	Namespace []string
	Table     string
}

// Reader reads the jobs of one kind that the caller, who is in the context, may see.
type Reader interface {
	// Job returns one job, or a fault of kind NotFound.
	Job(ctx context.Context, id job.ID) (Job, error)
	// Jobs returns a page, newest first, and the page after it, whose Before is 0 at the end.
	Jobs(ctx context.Context, filter Filter, page job.Page) ([]Job, job.Page, error)
}

// Control changes jobs; *job.Store does it. Each method returns the row after it.
type Control interface {
	Cancel(ctx context.Context, id job.ID) (job.Row, error)
	Retry(ctx context.Context, id job.ID, opts job.RetryOptions) (job.Row, error)
	Ack(ctx context.Context, id job.ID) (job.Row, error)
	Pause(ctx context.Context, id job.ID) (job.Row, error)
	Resume(ctx context.Context, id job.ID) (job.Row, error)
}

// Kind is one sort of job.
type Kind struct {
	Name    string // purge; its jobs are called purge-42
	Reader  Reader
	Control Control
}

// Config of the face. Kinds is required.
type Config struct {
	Kinds []Kind
	// Authenticate wraps the handler and puts the caller into the context, or answers
	// itself. Nil lets everybody in.
	Authenticate func(http.Handler) http.Handler
	Principal    func(context.Context) string // who the caller is, for the audit lines; may be nil
	// Caller is who asks, with grants; nil means that everybody is an operator.
	Caller     func(context.Context) *tenant.Principal
	Tenants    Tenants                      // nil: the server has one tenant, and no routes for more
	Tokens     *tenant.Tokens               // with Tenants
	Warehouses Warehouses                   // nil: there is only the default one, and no routes for more
	Closer     Closer                       // nil: warehouses with tables are not dropped
	RequestID  func(context.Context) string // may be nil
	Stopping   <-chan struct{}              // closed when the server stops: waits are answered at once; may be nil
	// Routed is told the pattern of the route that a request takes; nil is not told.
	Routed func(r *http.Request, route string)
	Logger *slog.Logger // nil discards
}

func (c Config) withDefaults() Config {
	nobody := func(context.Context) string { return "" }
	if c.Authenticate == nil {
		c.Authenticate = func(h http.Handler) http.Handler { return h }
	}
	if c.Principal == nil {
		c.Principal = nobody
	}
	if c.Caller == nil {
		everybody := &tenant.Principal{Operator: true}
		c.Caller = func(context.Context) *tenant.Principal { return everybody }
	}
	if c.RequestID == nil {
		c.RequestID = nobody
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

type handler struct{ Config }

// New returns the handler of /v1/jobs and everything below it.
func New(cfg Config) http.Handler {
	h := handler{cfg.withDefaults()}
	mux := http.NewServeMux()
	methods := map[string][]string{}
	route := func(method, path string, serve serve) {
		mux.HandleFunc(method+" "+path, h.answer(serve))
		methods[path] = append(methods[path], method)
	}
	h.jobRoutes(route)
	if h.Tenants != nil {
		h.tenantRoutes(route)
	}
	if h.Warehouses != nil {
		h.warehouseRoutes(route)
	}
	for path, allowed := range methods {
		mux.HandleFunc(path, h.wrongMethod(allowed)) // the mux's own answer would not be JSON
	}
	mux.HandleFunc("/", h.answer(func(http.ResponseWriter, *http.Request) error {
		return fault.New("admin", fault.NotFound, "NoSuchRoute", "there is nothing at this path")
	}))
	return h.Authenticate(mux)
}

func (h *handler) jobRoutes(route func(method, path string, serve serve)) {
	route(http.MethodGet, "/v1/jobs", h.list)
	route(http.MethodGet, "/v1/jobs/{name}", h.show)
	for _, action := range actions {
		route(http.MethodPost, "/v1/jobs/{name}/"+action.name, h.control(action))
	}
}

// Operations lists "METHOD pattern" of every route that a server may have.
func Operations() (list []string) {
	h := handler{Config{}.withDefaults()}
	for _, routes := range []func(func(method, path string, serve serve)){h.jobRoutes, h.tenantRoutes, h.warehouseRoutes} {
		routes(func(method, path string, _ serve) { list = append(list, method+" "+path) })
	}
	return list
}

// answer turns the error of a handler, which has written nothing then, into its body.
func (h *handler) answer(serve func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer h.recovered(w, r)
		if _, route, ok := strings.Cut(r.Pattern, " "); ok && h.Routed != nil {
			h.Routed(r, route)
		}
		err := readable(r)
		if err == nil {
			err = serve(w, r)
		}
		if err != nil {
			h.fail(w, r, err)
		}
	}
}

// recovered is deferred: it answers for a handler that panicked, which has written nothing
// yet: bodies are written last, and whole.
func (h *handler) recovered(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // the sentinel is compared by net/http the same way
		panic(p)
	}
	h.Logger.ErrorContext(r.Context(), "panic in a handler",
		"method", r.Method, "path", r.URL.Path, "requestId", h.RequestID(r.Context()), "panic", p, "stack", string(debug.Stack()))
	h.write(w, r, http.StatusInternalServerError, h.body(r, statuses[fault.Internal].code, "internal error"))
}

// readable refuses a query of which only a part would be read, lest a drop lose its purge,
// and what some database would not take as the value of a parameter.
func readable(r *http.Request) error {
	bad := func(text string) bool { return !utf8.ValidString(text) || strings.ContainsRune(text, 0) }
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fault.Wrap("admin.readable", fault.Invalid, "", err, "the query has a bad encoding")
	}
	for _, values := range query {
		if slices.ContainsFunc(values, bad) {
			return invalid("the query holds what is no UTF-8, or a NUL")
		}
	}
	if bad(r.URL.Path) {
		return invalid("the path holds what is no UTF-8, or a NUL")
	}
	return nil
}

func (h *handler) wrongMethod(methods []string) http.HandlerFunc {
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	slices.Sort(methods)
	allowed := strings.Join(methods, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allowed)
		h.write(w, r, http.StatusMethodNotAllowed, h.body(r, "MethodNotAllowed", "this path answers "+allowed))
	}
}
