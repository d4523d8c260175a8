package server

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lethe-project/lethe/internal/edge/admin"
	"github.com/lethe-project/lethe/internal/edge/files"
	"github.com/lethe-project/lethe/internal/edge/iceberg"
)

// readiness is whether new requests are wanted.
type readiness struct{ on atomic.Bool }

func (r *readiness) set(on bool) { r.on.Store(on) }

// handler dispatches by prefix. http.ServeMux is not asked: it would clean the paths,
// and names of namespaces may hold slashes and dots.
func (s *server) handler() http.Handler {
	jobs := &purgeJobs{store: s.purges, runner: s.runner}
	deletes := &driveJobs{removal: s.drives.removal}
	cfg := iceberg.Config{
		Catalog: s.catalog, Tenants: s.tenants, Authenticate: s.auth.principal, Jobs: jobs, Cleanups: s.purges,
		KeyLifetime: s.set.IdempotencyLifetime, PurgeViews: s.set.AsyncPurge.Views, PurgeWait: s.set.AsyncPurge.PurgeWait(), MaxBody: s.set.MaxBodyBytes, Logger: s.log,
		Routed: s.tracing.routed(""),
	}
	cleanups := iceberg.NewCleanups(cfg)
	cfg.Routed = s.tracing.routed("/iceberg")
	ice := http.StripPrefix("/iceberg", iceberg.New(cfg))
	adm := admin.New(admin.Config{
		Warehouses: s.tenants,
		Kinds: []admin.Kind{
			{Name: "purge", Reader: jobs, Control: jobs},
			{Name: "delete", Reader: deletes, Control: deletes},
			{Name: "close", Reader: s.closer, Control: s.closer.jobs.Store()},
		},
		Tenants: s.closer.tenants, Tokens: s.tokens, Closer: s.closer,
		Authenticate: s.auth.middleware, Principal: principalOf, Caller: callerOf, RequestID: requestIDOf, Stopping: s.stopping, Routed: s.tracing.routed(""), Logger: s.log,
	})
	drv := files.New(files.Config{
		Drive: s.drives.drive, Content: s.drives.content, Feed: s.drives.feed, Removal: s.drives.removal,
		Authenticate: s.auth.middleware, Principal: callerOf, RequestID: requestIDOf, Still: s.auth.still, Stopping: s.stopping, Routed: s.tracing.routed(""), Logger: s.log,
	})
	ice, cleanups, drv, adm = s.tracing.requests(ice), s.tracing.requests(cleanups), s.tracing.requests(drv), s.tracing.requests(adm)
	metrics := promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.pace.Request()()
		switch path := r.URL.EscapedPath(); {
		case strings.HasPrefix(path, "/iceberg/"):
			ice.ServeHTTP(w, r)
		case strings.HasPrefix(path, "/api/metalakes/"):
			cleanups.ServeHTTP(w, r)
		case files.Serves(path):
			drv.ServeHTTP(w, r)
		case path == "/v1", strings.HasPrefix(path, "/v1/"):
			adm.ServeHTTP(w, r)
		case path == "/metrics":
			metrics.ServeHTTP(w, r)
		case path == "/healthz":
			w.WriteHeader(http.StatusOK)
		case path == "/readyz":
			s.readyz(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}

func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	switch {
	case !s.ready.on.Load():
		http.Error(w, "starting or draining", http.StatusServiceUnavailable)
	case s.db.Ping(ctx) != nil:
		http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
	default:
		w.WriteHeader(http.StatusOK)
	}
}
