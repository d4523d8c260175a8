package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/job"
)

// Settings is everything an operator can choose. Each setting has one name in three
// spellings (key async-purge.max-attempts, flag --async-purge-max-attempts, environment
// LETHE_ASYNC_PURGE_MAX_ATTEMPTS); a flag wins over the environment, that over the
// file, that over the default. The struct is parsed by kong; see SettingsSource.
//
// Secrets are no settings: they come from the environment or from a file that a
// setting names, see AdminToken.
type Settings struct {
	DatabaseSettings `embed:""`

	Listen  string `name:"listen" default:"127.0.0.1:8181" help:"Address to serve on." placeholder:"HOST:PORT"`
	Migrate string `name:"migrate" default:"auto" enum:"auto,check" help:"auto: the server brings the database's schema up to date when it starts. check: it refuses to start until lethe migrate up has done so."`
	Storage string `name:"storage" help:"Where tables live: a directory, a file:// URL or s3://BUCKET/PREFIX?endpoint=URL&region=NAME&path-style=true (all three optional; credentials come from the AWS SDK's default chain). Empty means DATA/warehouse." placeholder:"URL"`

	Authentication string `name:"authentication" default:"token" enum:"token,none" help:"token, or none: everybody is the admin, on loopback addresses only."`
	AdminTokenFile string `name:"admin-token-file" help:"File with the admin's bearer token, made when missing. Empty means DATA/admin-token; LETHE_ADMIN_TOKEN wins over both." placeholder:"FILE"`
	SecretKeyFile  string `name:"secret-key-file" help:"File with the keys that encrypt stored credentials; servers that share a database share it. Empty means DATA/secret.key, which is made when missing; LETHE_SECRET_KEY wins over both." placeholder:"FILE"`
	PublicURL      string `name:"public-url" help:"URL under which clients reach the server, when it is not the address it listens on." placeholder:"URL"`
	TLSCertFile    string `name:"tls-cert-file" help:"PEM file with the server's certificate chain." placeholder:"FILE"`
	TLSKeyFile     string `name:"tls-key-file" help:"PEM file with the certificate's key." placeholder:"FILE"`
	OTLPEndpoint   string `name:"otlp-endpoint" help:"URL of an OpenTelemetry collector (OTLP over HTTP, such as http://127.0.0.1:4318) that gets traces of requests and jobs. Empty means none. The OTEL_* variables of OpenTelemetry say the rest." placeholder:"URL"`

	MaxBodyBytes        int64         `name:"max-body-bytes" default:"33554432" help:"Longest request body that is read, in bytes." placeholder:"N"`
	IdempotencyLifetime time.Duration `name:"idempotency-lifetime" default:"30m" help:"How long an answer is kept for its Idempotency-Key." placeholder:"DURATION"`

	Warehouse   WarehouseSettings   `embed:"" prefix:"warehouse-"`
	AsyncPurge  PurgeSettings       `embed:"" prefix:"async-purge-"`
	Drive       DriveSettings       `embed:""`
	DriveDelete DriveDeleteSettings `embed:"" prefix:"drive-delete-"`
	Log         LogSettings         `embed:"" prefix:"log-"`
}

// DatabaseSettings name the database and bound what the server asks of it. Commands that
// work on it without a server take them too.
type DatabaseSettings struct {
	Data   string `name:"data" default:"./lethe-data" help:"Folder of the embedded database, the local store, the admin token and the key file." placeholder:"DIR"`
	Config string `name:"config" help:"YAML file with settings." placeholder:"FILE"`
	// The database URL may hold a password: print it with RedactedDatabase only.
	Database       string        `name:"database" help:"sqlite:PATH, postgres://… or mysql://… (MySQL, MariaDB, TiDB). Empty means sqlite:DATA/lethe.db." placeholder:"URL"`
	MaxConnections int           `name:"database-max-connections" default:"16" help:"Connections to the database, for each server; at least two for each worker thread of async-purge and drive-delete, and four. With SQLite, those that read." placeholder:"N"`
	MaxIdleTime    time.Duration `name:"database-max-idle-time" default:"5m" help:"A connection that was idle for so long is closed. 0s means never." placeholder:"DURATION"`
	MaxLifetime    time.Duration `name:"database-max-lifetime" default:"1h" help:"A connection that is so old is closed when it is free, so that a balancer or a new address is seen. 0s means never." placeholder:"DURATION"`
	Timeout        time.Duration `name:"database-timeout" default:"30s" help:"Longest time for one read or transaction of a request, waiting for a connection included; four times as long for work in the background. Then the database counts as not there. Migrations are not bounded." placeholder:"DURATION"`
	LockWait       time.Duration `name:"lock-wait" default:"5s" help:"Longest wait for a lock of the database." placeholder:"DURATION"`
}

// WarehouseSettings describe the default warehouse.
type WarehouseSettings struct {
	AllowedLocations []string `name:"allowed-locations" help:"Locations besides the storage root where tables of the default warehouse may lie." placeholder:"URL"`
}

// PurgeSettings bound the deletion of dropped tables.
type PurgeSettings struct {
	WorkerThreads        int           `name:"worker-threads" default:"2" help:"Purges worked on at a time." placeholder:"N"`
	DeleteThreads        int           `name:"delete-threads" default:"4" help:"Bulk deletes on the wire at a time, for the whole server." placeholder:"N"`
	DeleteBatchSize      int           `name:"delete-batch-size" default:"1000" help:"Keys a bulk delete, 1 to 1000." placeholder:"N"`
	PollIntervalMS       int           `name:"poll-interval-ms" default:"5000" help:"How often a free worker looks for work it was not told of." placeholder:"N"`
	HeartbeatTimeoutMS   int           `name:"heartbeat-timeout-ms" default:"300000" help:"Silence after which another server takes a purge over." placeholder:"N"`
	MaxAttempts          int           `name:"max-attempts" default:"5" help:"Failures in a row, without progress, that end a purge as FAILED." placeholder:"N"`
	RetentionHours       int           `name:"retention-hours" default:"720" help:"How long SUCCEEDED and acknowledged jobs are kept." placeholder:"N"`
	FailedRetentionHours int           `name:"failed-retention-hours" default:"0" help:"How long FAILED and CANCELLED jobs with files left are kept. 0 means until they are acknowledged." placeholder:"N"`
	PurgeWaitMS          int           `name:"purge-wait-ms" default:"45000" help:"Longest time a synchronous drop waits for its purge." placeholder:"N"`
	RetryBaseMS          int           `name:"retry-base-ms" default:"10000" help:"First wait between attempts; it grows fourfold, up to 30 minutes." placeholder:"N"`
	OutageGrace          time.Duration `name:"outage-grace" default:"1h" help:"How long an outage of the whole store does not count as failed attempts." placeholder:"DURATION"`
	Quantum              time.Duration `name:"quantum" default:"30s" help:"How long a purge may run while others wait." placeholder:"DURATION"`
	OutsideLocations     string        `name:"outside-locations" default:"skip" enum:"skip,delete" help:"What becomes of files that a table names outside its own locations: skip or delete. Never those under another table's location."`
	Views                bool          `name:"views" help:"Dropping a view deletes its metadata files too."`
	RateLimit            int           `name:"rate-limit" default:"0" help:"Most deletes a second for one warehouse. 0 means no limit." placeholder:"N"`
}

// LogSettings choose what is logged, and how it looks.
type LogSettings struct {
	Level  slog.Level `name:"level" default:"INFO" help:"DEBUG, INFO, WARN or ERROR." placeholder:"LEVEL"`
	Format string     `name:"format" default:"text" enum:"text,json" help:"text or json."`
}

// JobConfig returns the bounds of the purge engine.
func (p *PurgeSettings) JobConfig() job.Config {
	return job.Config{
		Workers:          p.WorkerThreads,
		PollInterval:     time.Duration(p.PollIntervalMS) * time.Millisecond,
		HeartbeatTimeout: time.Duration(p.HeartbeatTimeoutMS) * time.Millisecond,
		MaxAttempts:      p.MaxAttempts,
		RetryBase:        time.Duration(p.RetryBaseMS) * time.Millisecond,
		OutageGrace:      p.OutageGrace,
		Quantum:          p.Quantum,
		Retention:        time.Duration(p.RetentionHours) * time.Hour,
		FailedRetention:  time.Duration(p.FailedRetentionHours) * time.Hour,
	}
}

// PurgeWait returns how long a synchronous drop waits for its purge.
func (p *PurgeSettings) PurgeWait() time.Duration {
	return time.Duration(p.PurgeWaitMS) * time.Millisecond
}

// Path returns the path of a file of the data folder.
func (s *DatabaseSettings) Path(name string) string { return filepath.Join(s.Data, name) }

// DatabaseURL returns the database to open. It may hold a password.
func (s *DatabaseSettings) DatabaseURL() string {
	if s.Database == "" {
		return "sqlite:" + s.Path("lethe.db")
	}
	return s.Database
}

// RedactedDatabase returns the database for people: without password and parameters.
func (s *DatabaseSettings) RedactedDatabase() string {
	raw := s.DatabaseURL()
	if strings.HasPrefix(raw, "sqlite:") {
		return raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		scheme, _, _ := strings.Cut(raw, ":")
		return scheme + "://…"
	}
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}

// StorageDir returns the absolute directory below which tables live, if not in S3.
func (s *Settings) StorageDir() (string, error) {
	if s.Storage == "" {
		return filepath.Abs(s.Path("warehouse"))
	}
	return directory(s.Storage)
}

// directory returns the absolute directory that a path or a file:// URL names.
func directory(where string) (string, error) {
	scheme, _, found := strings.Cut(where, "://")
	if !found {
		return filepath.Abs(where)
	}
	if scheme != "file" {
		return "", fmt.Errorf("%s:// is not supported yet: give a directory, a file:// or an s3:// URL", scheme)
	}
	u, err := url.Parse(where)
	switch {
	case err != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("not a file:// URL")
	case u.Host != "" && u.Host != "localhost":
		return "", fmt.Errorf("a file:// URL has no host, this one names %q: write file:///path", u.Host)
	case u.Path == "":
		return "", errors.New("a file:// URL needs a path: write file:///path")
	}
	return filepath.Clean(u.Path), nil
}

// BaseURL returns the URL under which clients reach a server that listens on addr.
func (s *Settings) BaseURL(addr net.Addr) string {
	if s.PublicURL != "" {
		return strings.TrimRight(s.PublicURL, "/")
	}
	scheme := "http"
	if s.TLSCertFile != "" {
		scheme = "https"
	}
	host := addr.String()
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		host = net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	return scheme + "://" + host
}

// AdminTokenVariable is the environment variable with the admin's bearer token.
const AdminTokenVariable = "LETHE_ADMIN_TOKEN" //nolint:gosec // the name, not the token

// AdminTokenPath returns the file that holds the admin's token.
func (s *Settings) AdminTokenPath() string {
	if s.AdminTokenFile != "" {
		return s.AdminTokenFile
	}
	return s.Path("admin-token")
}

// AdminToken returns the admin's bearer token: from the environment, else from the
// file. A missing file is fs.ErrNotExist; the server makes it then.
func (s *Settings) AdminToken(lookup func(string) (string, bool)) (string, error) {
	if token, ok := lookup(AdminTokenVariable); ok && token != "" {
		return token, checkToken(AdminTokenVariable, token)
	}
	raw, err := os.ReadFile(s.AdminTokenPath())
	if err != nil {
		return "", fmt.Errorf("server: read the admin token: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	return token, checkToken(s.AdminTokenPath(), token)
}

// checkToken refuses what could not be sent in an Authorization header, or is a joke.
func checkToken(where, token string) error {
	if len(token) < 8 {
		return fmt.Errorf("server: the admin token in %s is shorter than 8 characters", where)
	}
	for _, r := range token {
		if r <= ' ' || r > '~' {
			return fmt.Errorf("server: the admin token in %s holds characters that no header can carry", where)
		}
	}
	return nil
}
