// Package iceberg is the HTTP face of the catalog: the Apache Iceberg REST protocol
// under one base path, and the list of purge jobs in the manner of Gravitino.
//
// Paths are read from the request's raw bytes, segment by segment, and decoded once per
// namespace level: a level may hold slashes, dots and spaces (spec: parameters
// namespace and table). The package decides no rule of the business. Its one table of
// statuses is in errors.go.
package iceberg

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/tenant"
)

// Jobs is what the edge asks of the purge jobs.
type Jobs interface {
	// Name is the public name of a job.
	Name(id job.ID) string
	// ParseName is the job of a public name.
	ParseName(name string) (job.ID, bool)
	// Wake tells the workers that a job was inserted.
	Wake()
	// Wait lets the job run and returns its row when it has ended or the time is over.
	Wait(ctx context.Context, id job.ID, limit time.Duration) (job.Row, error)
}

// Config of the edge.
type Config struct {
	Catalog      *catalog.Catalog
	Tenants      *tenant.Directory
	Authenticate func(ctx context.Context, token string) (*tenant.Principal, error)
	Jobs         Jobs
	Cleanups     Cleanups
	KeyLifetime  time.Duration // how long an Idempotency-Key is kept, 30 m
	PurgeViews   bool          // a drop of a view always purges it
	PurgeWait    time.Duration // how long a synchronous purge is waited for, 45 s
	MaxBody      int64         // bytes of a request's body, 64 MiB
	Limits       metadata.Limits
	// Routed is told the pattern of the route that a request takes; nil is not told.
	Routed func(r *http.Request, route string)
	Logger *slog.Logger
}

type edge struct {
	Config
	endpoints []string
	packers   sync.Pool // of *gzip.Writer
}

// call is one authenticated request.
type call struct {
	w         http.ResponseWriter
	r         *http.Request
	id        string // request id
	principal *tenant.Principal
	warehouse *tenant.Warehouse
	vars      []string // the path's variable segments, still encoded
	key       *catalog.Idempotency
	read      []byte // the body, once it was read
}

func (c *call) on() catalog.Call {
	return catalog.Call{Warehouse: c.warehouse, Principal: c.principal.Name, RequestID: c.id, Idempotency: c.key}
}

func (cfg Config) withDefaults() Config {
	if cfg.KeyLifetime <= 0 {
		cfg.KeyLifetime = 30 * time.Minute
	}
	if cfg.PurgeWait <= 0 {
		cfg.PurgeWait = 45 * time.Second
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = 64 << 20
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// routed tells the pattern of the call's route, which is base and rest.
func (e *edge) routed(c *call, base, rest string) {
	if e.Routed != nil {
		e.Routed(c.r, base+rest)
	}
}

func newCall(w http.ResponseWriter, r *http.Request) *call {
	c := &call{w: w, r: r, id: uuid.NewString()}
	w.Header().Set("X-Request-Id", c.id)
	return c
}

// New returns the handler for everything below the base path, which is stripped before.
func New(cfg Config) http.Handler {
	e := &edge{Config: cfg.withDefaults()}
	for _, rt := range routes {
		e.endpoints = append(e.endpoints, rt.method+" /v1/{prefix}/"+rt.pattern)
	}
	return e
}

// ServeHTTP dispatches one request.
func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := newCall(w, r)
	r.Body = http.MaxBytesReader(w, r.Body, e.MaxBody)
	commits := false
	defer e.recovered(c, &commits)
	path := c.path()
	switch {
	case path == "v1/oauth/tokens" && r.Method == http.MethodPost:
		e.routed(c, "/", path)
		e.token(c)
		return
	case path == "v1/config":
		e.routed(c, "/", path)
		if err := e.authenticate(c); err != nil {
			e.fail(c, err, false)
			return
		}
		if err := e.config(c); err != nil {
			e.fail(c, err, false)
		}
		return
	}
	rt, err := e.route(c, path)
	if err == nil {
		e.routed(c, "/v1/{prefix}/", rt.pattern)
		err = e.authenticate(c)
	}
	if err == nil {
		err = c.checkQuery()
	}
	if err == nil {
		commits = rt.commits
		var prefix string
		if prefix, err = decodeSegment(c.vars[0]); err == nil {
			c.warehouse, err = e.Tenants.Warehouse(r.Context(), c.principal.Tenant, prefix)
		}
	}
	if err == nil {
		c.vars = c.vars[1:]
		err = c.granted(rt)
	}
	if err == nil {
		err = c.open(rt)
	}
	if err == nil {
		err = e.run(c, rt)
	}
	if err != nil {
		e.fail(c, err, commits)
	}
}

// recovered is deferred: it answers for a handler that panicked.
func (e *edge) recovered(c *call, commits *bool) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // the sentinel is compared by net/http the same way
		panic(p)
	}
	e.Logger.ErrorContext(c.r.Context(), "panic in a handler", "requestId", c.id, "panic", p, "path", c.r.URL.Path)
	kind := fault.Internal
	if *commits { // nobody knows how far it came
		kind = fault.Unknown
	}
	e.fail(c, &fault.Error{Op: "iceberg", Kind: kind, Message: "internal error"}, *commits)
}

func (e *edge) authenticate(c *call) error {
	scheme, token, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		token = ""
	}
	p, err := e.Authenticate(c.r.Context(), strings.TrimSpace(token))
	c.principal = p
	return err
}

// config answers GET /v1/config (spec: getConfig).
func (e *edge) config(c *call) error {
	if c.r.Method != http.MethodGet {
		return fault.New("iceberg.config", fault.Unsupported, "", "%s is not offered here", c.r.Method)
	}
	name := c.r.URL.Query().Get("warehouse")
	if name == "" {
		name = tenant.Default
	}
	w, err := e.Tenants.Warehouse(c.r.Context(), c.principal.Tenant, name)
	if err != nil {
		return err
	}
	c.warehouse = w
	if !c.sees(nil) {
		return tenant.Denied("iceberg.config", tenant.Read, "warehouse "+name)
	}
	return e.reply(c, http.StatusOK, map[string]any{
		"defaults":                 prefixed(clientConfig(w), "table-default.", w.TableDefaults),
		"overrides":                prefixed(map[string]string{"prefix": w.Name}, "table-override.", w.TableOverrides),
		"endpoints":                e.endpoints,
		"idempotency-key-lifetime": fmt.Sprintf("PT%dS", int64(e.KeyLifetime.Seconds())),
	})
}

// clientConfig is what a client's FileIO needs, never nil: null is no JSON object.
func clientConfig(w *tenant.Warehouse) map[string]string {
	if w.ClientConfig == nil {
		return map[string]string{}
	}
	return w.ClientConfig
}

// prefixed adds properties of new tables as the catalog properties that clients know them
// by: the reference implementation's clients apply them when they build a table, a default
// below and an override above what the user says; the server does not.
func prefixed(to map[string]string, prefix string, properties map[string]string) map[string]string {
	if len(properties) == 0 {
		return to
	}
	out := maps.Clone(to)
	for k, v := range properties {
		out[prefix+k] = v
	}
	return out
}
