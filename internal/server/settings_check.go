package server

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Validate reports every setting that cannot work, each in its three spellings. Values
// that may hold a password are never part of a message.
func (s *Settings) Validate() error {
	v, err := newValidator()
	if err != nil {
		return err
	}
	v.database(&s.DatabaseSettings)
	v.places(s)
	v.access(s)
	v.bounds(s)
	v.drive(s)
	return errors.Join(v.errs...)
}

// Validate is Settings.Validate of these alone.
func (s *DatabaseSettings) Validate() error {
	v, err := newValidator()
	if err != nil {
		return err
	}
	v.database(s)
	return errors.Join(v.errs...)
}

func newValidator() (*validator, error) {
	all, err := settingsOf(&Settings{})
	if err != nil {
		return nil, err
	}
	v := &validator{names: map[string]setting{}}
	for _, known := range all {
		v.names[known.key] = known
	}
	return v, nil
}

type validator struct {
	names map[string]setting // by key
	errs  []error
}

func (v *validator) bad(key, format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf("setting %s: %w", v.names[key], fmt.Errorf(format, args...)))
}

func (v *validator) least(key string, value, least int64) {
	if value < least {
		v.bad(key, "is %d, must be at least %d", value, least)
	}
}

// Longer spans than these do not fit into a time.Duration of nanoseconds, or come close: a
// retention that overflows would be a short one.
const (
	mostMS    = 365 * 24 * 3600 * 1000 // a year
	mostHours = 100 * 365 * 24         // a century
)

const mostThreads = 1024 // each has its queue, and a connection

const (
	leastLockWait = 10 * time.Millisecond
	mostTimeout   = 24 * time.Hour
)

// span bounds a whole number by what it counts, which is the end of its key.
func (v *validator) span(key string, value int) {
	switch {
	case strings.HasSuffix(key, "-ms") && value > mostMS:
		v.bad(key, "is %d, must be at most %d, a year", value, mostMS)
	case strings.HasSuffix(key, "-hours") && value > mostHours:
		v.bad(key, "is %d, must be at most %d, a hundred years", value, mostHours)
	case strings.HasSuffix(key, "-threads") && value > mostThreads:
		v.bad(key, "is %d, must be at most %d", value, mostThreads)
	}
}

func (v *validator) positive(key string, value time.Duration) {
	if value <= 0 {
		v.bad(key, "is %s, must be longer than 0s", value)
	}
}

func (v *validator) oneOf(key, value string, words ...string) {
	if !slices.Contains(words, value) {
		v.bad(key, "is %q, must be %s", value, strings.Join(words, " or "))
	}
}

func (v *validator) notNegative(key string, value time.Duration) {
	if value < 0 {
		v.bad(key, "is %s, must not be negative", value)
	}
}

func (v *validator) database(s *DatabaseSettings) {
	if s.Data == "" {
		v.bad("data", "must name a folder")
	}
	v.least("database-max-connections", int64(s.MaxConnections), 1)
	v.notNegative("database-max-idle-time", s.MaxIdleTime)
	v.notNegative("database-max-lifetime", s.MaxLifetime)
	if s.LockWait < leastLockWait { // PostgreSQL takes 0 ms for no bound at all
		v.bad("lock-wait", "is %s, must be at least %s", s.LockWait, leastLockWait)
	}
	switch { // who waits for a lock would take the database for dead
	case s.Timeout <= s.LockWait:
		v.bad("database-timeout", "is %s, must be longer than lock-wait, %s", s.Timeout, s.LockWait)
	case s.Timeout > mostTimeout:
		v.bad("database-timeout", "is %s, must be at most %s", s.Timeout, mostTimeout)
	}
	scheme, rest, _ := strings.Cut(s.DatabaseURL(), ":")
	switch {
	case scheme == "sqlite" && rest != "":
	case (scheme == "postgres" || scheme == "postgresql" || scheme == "mysql") && strings.HasPrefix(rest, "//"):
		// url.Parse's error holds the URL, and with it the password.
		if u, err := url.Parse(s.Database); err != nil {
			v.bad("database", "is no URL: percent-encode special characters of the password")
		} else if scheme == "mysql" && (u.Host == "" || strings.Trim(u.Path, "/") == "") {
			v.bad("database", "must name a host and a database: mysql://user:password@host:port/name")
		}
	default:
		v.bad("database", "must be sqlite:PATH, postgres://user:password@host:port/name or mysql://user:password@host:port/name")
	}
}

func (v *validator) places(s *Settings) {
	if _, err := s.storagePlace(); err != nil {
		v.bad("storage", "%w", err)
	}
	for _, location := range s.Warehouse.AllowedLocations {
		if _, err := s.allowedPlace(location); err != nil {
			v.bad("warehouse.allowed-locations", "%w", err)
		}
	}
	if s.Data != "" {
		v.apart(s)
	}
}

func (v *validator) access(s *Settings) {
	host, port, err := net.SplitHostPort(s.Listen)
	if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
		v.bad("listen", "%q is not HOST:PORT", s.Listen)
	} else if s.Authentication == "none" && !loopback(host) {
		v.bad("listen", "refusing to serve %s without authentication: set authentication to token, or listen on 127.0.0.1", s.Listen)
	}
	v.oneOf("authentication", s.Authentication, "token", "none")
	if s.PublicURL != "" {
		u, err := url.Parse(s.PublicURL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.User != nil || u.Fragment != "" {
			v.bad("public-url", "must be http://host[:port][/path] or the same with https")
		}
	}
	if s.OTLPEndpoint != "" {
		u, err := url.Parse(s.OTLPEndpoint)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.User != nil || u.Fragment != "" {
			v.bad("otlp-endpoint", "must be http://host[:port][/path] or the same with https; passwords go into OTEL_EXPORTER_OTLP_HEADERS")
		}
	}
	if s.TLSCertFile != "" && s.TLSKeyFile == "" {
		v.bad("tls-key-file", "is missing: tls-cert-file is set")
	}
	if s.TLSKeyFile != "" && s.TLSCertFile == "" {
		v.bad("tls-cert-file", "is missing: tls-key-file is set")
	}
}

func (v *validator) bounds(s *Settings) {
	v.least("max-body-bytes", s.MaxBodyBytes, 1024)
	v.positive("idempotency-lifetime", s.IdempotencyLifetime)
	v.oneOf("migrate", s.Migrate, "auto", "check")
	v.oneOf("log.format", s.Log.Format, "text", "json")

	p := &s.AsyncPurge
	for _, bound := range []struct {
		key          string
		value, least int
	}{
		{"worker-threads", p.WorkerThreads, 1},
		{"delete-threads", p.DeleteThreads, 1},
		{"delete-batch-size", p.DeleteBatchSize, 1},
		{"poll-interval-ms", p.PollIntervalMS, 1},
		{"heartbeat-timeout-ms", p.HeartbeatTimeoutMS, 100},
		{"max-attempts", p.MaxAttempts, 1},
		{"retention-hours", p.RetentionHours, 1},
		{"failed-retention-hours", p.FailedRetentionHours, 0},
		{"purge-wait-ms", p.PurgeWaitMS, 0},
		{"retry-base-ms", p.RetryBaseMS, 1},
		{"rate-limit", p.RateLimit, 0},
	} {
		v.least("async-purge."+bound.key, int64(bound.value), int64(bound.least))
		v.span("async-purge."+bound.key, bound.value)
	}
	if p.DeleteBatchSize > 1000 {
		v.bad("async-purge.delete-batch-size", "is %d, must be at most 1000", p.DeleteBatchSize)
	}
	// Every worker and every slot of a waiting delete may hold one; the heartbeats, which
	// keep their leases, another; and requests must not wait for all of these.
	workers := p.WorkerThreads + s.DriveDelete.WorkerThreads
	if need := 2*workers + 4; s.MaxConnections < need {
		v.bad("database-max-connections", "is %d, must be at least %d: two for each of %d worker-threads, one for heartbeats, three for requests", s.MaxConnections, need, workers)
	}
	v.positive("async-purge.outage-grace", p.OutageGrace)
	v.positive("async-purge.quantum", p.Quantum)
	v.oneOf("async-purge.outside-locations", p.OutsideLocations, "skip", "delete")
}

// loopback reports whether only this machine reaches the host. No host means all.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
