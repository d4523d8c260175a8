// Package server puts the rooms together: settings, assembly, the order in which things
// start and stop. It decides nothing of the business.
//
// Start: tracing, data folder, database and migrations, storage, tenants, catalog, purge jobs,
// HTTP. Stop: not ready any more, no new connections, purges give their leases back
// (so that waiting drops answer), HTTP drained, delete pool, database, tracing.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lethe-project/lethe/internal/blob/deletepool"
	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/pace"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

// Config of one server.
type Config struct {
	Settings Settings
	Lookup   func(string) (string, bool) // of the environment; nil means the process's own
	Logger   *slog.Logger
	Started  func(Started) // called once, when requests are served
	Drain    time.Duration // how long requests and purges may take to end, 30 s

	migrations []sqldb.Migrations // of a test; nil means owners()
}

// Started is what a person wants to read when the server is up.
type Started struct {
	BaseURL      string // where it listens or is reached
	CatalogURI   string // for clients
	Database     string // without its password
	Storage      string
	DriveURI     string // of its files
	DriveStorage string
	TokenFile    string // empty when the token came from the environment
	TokenMade    bool   // just now
	NoAuth       bool
}

// Run serves until ctx ends, then drains. It returns nil after a clean stop.
func Run(ctx context.Context, cfg Config) (err error) {
	if cfg.Lookup == nil {
		cfg.Lookup = os.LookupEnv
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Drain <= 0 {
		cfg.Drain = 30 * time.Second
	}
	if err := cfg.Settings.Validate(); err != nil {
		return err
	}
	s := &server{cfg: cfg, set: &cfg.Settings, log: cfg.Logger, registry: prometheus.NewRegistry(), pace: pace.New(pace.Config{}), stopping: make(chan struct{})}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	return s.serve(ctx)
}

type server struct {
	cfg      Config
	set      *Settings
	log      *slog.Logger
	registry *prometheus.Registry
	tracing  *tracing // nil when it is off

	auth     *authenticator
	db       *sqldb.DB
	tenants  *tenant.Directory
	purges   *purge.Store
	metrics  *purge.Metrics
	pace     *pace.Governor // of purges beside requests
	runner   *job.Runner
	stopping chan struct{}
	catalog  *catalog.Catalog
	tokens   *tenant.Tokens
	drives   drives
	closer   *closer
	started  Started
	ready    readiness
	closers  []func() error // run last to first
}

func (s *server) onClose(f func() error) { s.closers = append(s.closers, f) }

func (s *server) close() error {
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// open builds everything below HTTP.
func (s *server) open(ctx context.Context) error {
	if err := s.openTracing(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(s.set.Data, 0o750); err != nil {
		return fmt.Errorf("server: data folder: %w", err)
	}
	release, err := lockData(s.set)
	if err != nil {
		return err
	}
	s.onClose(release)
	if s.auth, err = s.openAuth(); err != nil {
		return err
	}
	database := s.set.config(s.log)
	database.Watch = s.tracing.transactions()
	if s.db, err = sqldb.Open(ctx, s.set.DatabaseURL(), database); err != nil {
		return err
	}
	s.onClose(s.db.Close)
	s.watchDatabase()
	if err := s.migrate(ctx); err != nil {
		return err
	}
	storage, err := s.openStorage(ctx)
	if err != nil {
		return err
	}
	contents, err := s.set.drivePlace()
	if err != nil {
		return err
	}
	if err := s.openTenants(ctx, storage, contents); err != nil {
		return err
	}
	s.tokens = tenant.NewTokens(s.db)
	s.auth.tokens = s.tokens
	s.started.DriveStorage = string(contents.root)
	if err := s.openDrive(ctx, contents); err != nil {
		return err
	}
	s.started.Database, s.started.Storage = s.set.RedactedDatabase(), storage.RootURI
	return s.openPurge(ctx)
}

// openPurge builds the purge jobs and the catalog, which hands them its dropped tables.
func (s *server) openPurge(ctx context.Context) error {
	set := &s.set.AsyncPurge
	pool := deletepool.New(deletepool.Config{Threads: set.DeleteThreads, Pace: s.pace, Logger: s.log, Registerer: s.registry})
	s.onClose(func() error { pool.Close(); return nil })

	ownership := catalog.NewOwnership(s.db, s.tenants)
	events := job.Events{Ended: func(row job.Row) { s.metrics.Ended(row) }} // the metrics need the store first
	s.purges = purge.NewStore(s.db, s.tracing.jobs(set.JobConfig()), ownership.Hooks(), job.Observer{Logger: s.log, Events: events})
	ownership.Bind(s.purges)
	s.tenants.Bind(ownership)
	s.metrics = purge.NewMetrics(s.registry, s.purges.Jobs(), s.log)
	walker := purge.NewWalker(purge.Config{
		BatchSize: set.DeleteBatchSize, RateLimit: float64(set.RateLimit), DeleteOutside: set.OutsideLocations == "delete",
		Events: s.purgeEvents(), Pace: s.pace, Step: stepOfLevel(),
	}, ownership, pool)
	s.runner = job.NewRunner(s.purges.Jobs(), purge.NewHandler(s.purges, walker), owner())
	if s.db.Dialect().Name == sqldb.SQLite {
		// One server at a time: whoever was RUNNING died with the one before.
		if _, err := s.purges.Jobs().ReclaimAll(ctx); err != nil {
			return err
		}
	}
	s.catalog = catalog.New(catalog.Config{DB: s.db, Jobs: s.purges, Logger: s.log, Steps: step(), Events: s.catalogEvents()})
	return s.openClosing(ctx)
}

// owner names this process in the rows it works on, for people.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), uuid.NewString()[:8])
}

// serve runs HTTP until ctx ends, then stops in order.
func (s *server) serve(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.set.Listen)
	if err != nil {
		return fmt.Errorf("server: listen: %w", err)
	}
	secure, err := s.tlsConfig()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	httpServer := &http.Server{
		TLSConfig:         secure,
		Handler:           s.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       5 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	if secure == nil && !s.auth.open {
		s.warnPlain(ctx)
	}
	s.runner.Start()
	s.drives.start(ctx)
	s.closer.jobs.Start()
	stopHousekeeping := s.housekeeping(ctx)
	defer stopHousekeeping()
	served := make(chan error, 1)
	go func() {
		if secure != nil {
			served <- httpServer.ServeTLS(listener, "", "")
		} else {
			served <- httpServer.Serve(listener)
		}
	}()
	s.started.BaseURL = s.set.BaseURL(listener.Addr())
	s.started.CatalogURI = s.started.BaseURL + "/iceberg"
	s.started.DriveURI = s.started.BaseURL + "/v1/fs"
	addressFile := s.set.Path(addressName)
	err = writeWhole(addressFile, s.started.BaseURL+"\n")
	s.ready.set(err == nil)
	if err == nil {
		if s.cfg.Started != nil {
			s.cfg.Started(s.started)
		}
		select {
		case <-ctx.Done():
		case err = <-served:
			err = fmt.Errorf("server: %w", err)
		}
	}
	s.ready.set(false)
	_ = os.Remove(addressFile) // a stale one only misleads; the next start writes it anew
	close(s.stopping)
	s.log.InfoContext(ctx, "draining")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Drain)
	defer cancel()
	runs := make(chan error, 3)
	go func() { runs <- s.runner.Stop(drain) }() // beside Shutdown: drops that wait answer when it begins
	go func() { runs <- s.drives.stop(drain) }()
	go func() { runs <- s.closer.jobs.Stop(drain) }()
	shutdown := httpServer.Shutdown(drain)
	if shutdown != nil {
		shutdown = errors.Join(shutdown, httpServer.Close())
	}
	return errors.Join(err, shutdown, <-runs, <-runs, <-runs)
}

// warnPlain tells, once, of tokens that anybody on the way can read. A public URL with
// https says that a proxy ends TLS before the server.
func (s *server) warnPlain(ctx context.Context) {
	host, _, err := net.SplitHostPort(s.set.Listen)
	if err != nil || loopback(host) || strings.HasPrefix(s.set.PublicURL, "https://") {
		return
	}
	s.log.WarnContext(ctx, "bearer tokens cross the network in the clear: set tls-cert-file and tls-key-file, or serve behind a proxy with TLS and set public-url", "listen", s.set.Listen)
}

// writeWhole writes a small file so that nobody ever reads half of it.
func writeWhole(path, text string) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// housekeepingEvery is how often answers of old Idempotency-Keys are forgotten.
const housekeepingEvery = 5 * time.Minute

// housekeeping runs until the function it returns is called, which waits for its end.
func (s *server) housekeeping(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(sqldb.Patient(context.WithoutCancel(ctx)))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(housekeepingEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := s.catalog.Expire(ctx, s.set.IdempotencyLifetime); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "old idempotency keys not removed", "error", err)
			}
		}
	}()
	return func() { cancel(); <-done }
}
