package server_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/server"
)

// load parses settings as the command does.
func load(t *testing.T, env map[string]string, args ...string) (server.Settings, error) {
	t.Helper()
	var s server.Settings
	parser, err := kong.New(&s, kong.Resolvers(server.SettingsSource(func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	return s, err
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lethe.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	s := server.DefaultSettings()
	if err := s.Validate(); err != nil {
		t.Fatalf("defaults do not validate: %v", err)
	}
	if s.AsyncPurge.HeartbeatTimeoutMS != 300000 || s.AsyncPurge.OutageGrace != time.Hour || s.LockWait != 5*time.Second {
		t.Errorf("defaults are %+v", s)
	}
	if got, want := s.DatabaseURL(), "sqlite:lethe-data/lethe.db"; got != want {
		t.Errorf("database %q, want %q", got, want)
	}
	parsed, err := load(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, parsed); diff != "" {
		t.Errorf("DefaultSettings differs from an empty command line (-default +parsed):\n%s", diff)
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	path := file(t, "async-purge:\n  max-attempts: 7\nlog.level: DEBUG\nlock-wait: 9s\n")
	tests := []struct {
		name string
		env  map[string]string
		args []string
		want int
	}{
		{"default", nil, nil, 5},
		{"file by flag", nil, []string{"--config", path}, 7},
		{"file by environment", map[string]string{"LETHE_CONFIG": path}, nil, 7},
		{"environment over file", map[string]string{"LETHE_ASYNC_PURGE_MAX_ATTEMPTS": "8"}, []string{"--config=" + path}, 8},
		{"an empty variable is none", map[string]string{"LETHE_ASYNC_PURGE_MAX_ATTEMPTS": ""}, []string{"--config=" + path}, 7},
		{"flag over all", map[string]string{"LETHE_ASYNC_PURGE_MAX_ATTEMPTS": "8"}, []string{"--config=" + path, "--async-purge-max-attempts=9"}, 9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := load(t, tt.env, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			if s.AsyncPurge.MaxAttempts != tt.want {
				t.Errorf("max-attempts %d, want %d", s.AsyncPurge.MaxAttempts, tt.want)
			}
			if fromFile := tt.want == 7; fromFile && (s.Log.Level != slog.LevelDebug || s.LockWait != 9*time.Second) {
				t.Errorf("log.level %v, lock-wait %v: not those of the file", s.Log.Level, s.LockWait)
			}
		})
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	want := []string{"file:///a", "file:///b"}
	tests := []struct {
		name string
		env  map[string]string
		args []string
	}{
		{"flags", nil, []string{"--warehouse-allowed-locations=file:///a", "--warehouse-allowed-locations=file:///b"}},
		{"environment", map[string]string{"LETHE_WAREHOUSE_ALLOWED_LOCATIONS": "file:///a, file:///b"}, nil},
		{"file", nil, []string{"--config", file(t, "warehouse:\n  allowed-locations: [file:///a, file:///b]\n")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := load(t, tt.env, tt.args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, s.Warehouse.AllowedLocations); diff != "" {
				t.Errorf("allowed locations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		env  map[string]string
		yaml string
		args []string
		want []string // parts of the message
		not  string   // must not be in it
	}{
		{name: "unknown key", yaml: "listn: x\n", want: []string{"lethe.yaml", "line 1", `unknown setting "listn"`}},
		{name: "unknown nested key", yaml: "async-purge:\n  max-atempts: 2\n", want: []string{"line 2", `"async-purge.max-atempts"`}},
		{name: "given twice", yaml: "async-purge:\n  views: true\nasync-purge.views: false\n", want: []string{"async-purge.views is given twice"}},
		{name: "no value", yaml: "listen:\n", want: []string{"setting listen", "has no value"}},
		{name: "section without keys", yaml: "async-purge: 3\n", want: []string{"line 1", "key: value"}},
		{name: "two documents", yaml: "listen: a:1\n---\nlisten: b:1\n", want: []string{"more than one YAML document"}},
		{name: "file names itself", yaml: "config: other\n", want: []string{`unknown setting "config"`}},
		{name: "missing file", args: []string{"--config=missing.yaml"}, want: []string{"missing.yaml", "LETHE_CONFIG"}},
		{
			name: "wrong type in the file", yaml: "async-purge.max-attempts: many\n",
			want: []string{"async-purge.max-attempts", "--async-purge-max-attempts", "LETHE_ASYNC_PURGE_MAX_ATTEMPTS", "many"},
		},
		{
			name: "wrong type in the environment", env: map[string]string{"LETHE_LOCK_WAIT": "5"},
			want: []string{"lock-wait", "--lock-wait", "LETHE_LOCK_WAIT", "the environment"},
		},
		{
			name: "too small", args: []string{"--async-purge-worker-threads=0"},
			want: []string{"async-purge.worker-threads (flag --async-purge-worker-threads, environment LETHE_ASYNC_PURGE_WORKER_THREADS)", "at least 1"},
		},
		{name: "batch too large", args: []string{"--async-purge-delete-batch-size=1001"}, want: []string{"at most 1000"}},
		{name: "negative duration", args: []string{"--async-purge-quantum=-1s"}, want: []string{"async-purge.quantum", "longer than 0s"}},
		{name: "word from the file", yaml: "async-purge.outside-locations: burn\n", want: []string{"outside-locations", "burn"}},
		{name: "open door", args: []string{"--listen=0.0.0.0:8181", "--authentication=none"}, want: []string{"without authentication", "LETHE_LISTEN"}},
		{name: "open door on all interfaces", args: []string{"--listen=:8181", "--authentication=none"}, want: []string{"without authentication"}},
		{name: "listen without port", args: []string{"--listen=localhost"}, want: []string{"HOST:PORT"}},
		{name: "another store", args: []string{"--storage=gs://bucket/x"}, want: []string{"storage", "gs://", "not supported yet"}},
		{name: "file URL with a host", args: []string{"--storage=file://data/x"}, want: []string{`"data"`, "file:///path"}},
		{name: "unknown database", args: []string{"--database=oracle://u:geheim@h/x"}, want: []string{"sqlite:PATH"}, not: "geheim"},
		{name: "broken database URL", args: []string{"--database=postgres://u:ge%heim@h/x"}, want: []string{"percent-encode"}, not: "heim"},
		{name: "broken MySQL URL", args: []string{"--database=mysql://u:ge%heim@h/x"}, want: []string{"percent-encode"}, not: "heim"},
		{name: "MySQL without a database", args: []string{"--database=mysql://u:geheim@h:3306/"}, want: []string{"mysql://user:password@host:port/name"}, not: "geheim"},
		{name: "half of TLS", args: []string{"--tls-cert-file=a.pem"}, want: []string{"tls-key-file"}},
		{name: "public url", args: []string{"--public-url=lethe.example"}, want: []string{"public-url"}},
		{name: "allowed location", args: []string{"--warehouse-allowed-locations=/data"}, want: []string{`"/data" is no location`}},
		{name: "migrate", args: []string{"--migrate=later"}, want: []string{"migrate", "auto"}},
		{name: "a retention that would overflow", args: []string{"--async-purge-retention-hours=5000000"}, want: []string{"LETHE_ASYNC_PURGE_RETENTION_HOURS", "must be at most 876000"}},
		{name: "a wait that would overflow", args: []string{"--drive-delete-retry-base-ms=9223372036855"}, want: []string{"LETHE_DRIVE_DELETE_RETRY_BASE_MS", "must be at most"}},
		{name: "more threads than a machine has", args: []string{"--async-purge-delete-threads=1025", "--async-purge-worker-threads=9223372036854775807", "--drive-delete-worker-threads=2000"}, want: []string{
			"LETHE_ASYNC_PURGE_DELETE_THREADS): is 1025, must be at most 1024", "LETHE_ASYNC_PURGE_WORKER_THREADS): is 9223372036854775807, must be", "LETHE_DRIVE_DELETE_WORKER_THREADS): is 2000, must be",
		}},
		{name: "a lease that cannot be kept", args: []string{"--drive-delete-heartbeat-timeout-ms=50"}, want: []string{"LETHE_DRIVE_DELETE_HEARTBEAT_TIMEOUT_MS", "must be at least 100"}},
		{name: "a lock wait that would be none", args: []string{"--lock-wait=900us"}, want: []string{"LETHE_LOCK_WAIT", "must be at least 10ms"}},
		{name: "a timeout within a lock wait", args: []string{"--database-timeout=5s"}, want: []string{"LETHE_DATABASE_TIMEOUT", "must be longer than lock-wait, 5s"}},
		{name: "a timeout that bounds nothing", args: []string{"--database-timeout=100h"}, want: []string{"LETHE_DATABASE_TIMEOUT", "must be at most 24h0m0s"}},
		{name: "too few connections", args: []string{"--database-max-connections=9", "--async-purge-worker-threads=3"}, want: []string{"LETHE_DATABASE_MAX_CONNECTIONS", "is 9, must be at least 14"}},
		{name: "negative times", args: []string{"--database-max-idle-time=-1s", "--database-max-lifetime=-1s"}, want: []string{"database-max-idle-time (", "database-max-lifetime ("}},
		{
			name: "all at once", args: []string{"--lock-wait=0s", "--max-body-bytes=1"},
			want: []string{"lock-wait", "max-body-bytes"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := tt.args
			if tt.yaml != "" {
				args = append(args, "--config", file(t, tt.yaml))
			}
			_, err := load(t, tt.env, args...)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("message lacks %q:\n%v", part, err)
				}
			}
			if tt.not != "" && strings.Contains(err.Error(), tt.not) {
				t.Errorf("message shows %q:\n%v", tt.not, err)
			}
		})
	}
}

func TestAccepted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		yaml string
		args []string
	}{
		{"empty file", "", nil},
		{"comments only", "# nothing yet\n", nil},
		{"null document", "---\n", nil},
		{"alias", "lock-wait: &d 9s\nasync-purge.quantum: *d\n", nil},
		{"no authentication on loopback", "", []string{"--authentication=none", "--listen=[::1]:0"}},
		{"open address with authentication", "", []string{"--listen=0.0.0.0:8181"}},
		{"postgres", "", []string{"--database=postgres://u:p%40ss@h:5432/lethe?sslmode=disable"}},
		{"mysql", "", []string{"--database=mysql://u:p%40ss@h:3306/lethe?tls=true"}},
		{"as few connections as may be", "", []string{"--database-max-connections=14", "--async-purge-worker-threads=3"}},
		{"connections without end", "", []string{"--database-max-idle-time=0s", "--database-max-lifetime=0s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := load(t, nil, append(tt.args, "--config", file(t, tt.yaml))...); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	s := server.DefaultSettings()
	s.Data = t.TempDir()
	for storage, want := range map[string]string{
		"":                          filepath.Join(s.Data, "warehouse"),
		"/srv/tables":               "/srv/tables",
		"file:///srv/a%20b/":        "/srv/a b",
		"file://localhost/srv/../x": "/x",
	} {
		s.Storage = storage
		got, err := s.StorageDir()
		if err != nil || got != want {
			t.Errorf("storage %q: %q, %v, want %q", storage, got, err, want)
		}
	}
	for database, want := range map[string]string{
		"postgres://lethe:geheim@db:5432/lethe?password=geheim": "postgres://lethe:xxxxx@db:5432/lethe",
		"mysql://lethe:geheim@db:3306/lethe?tls=true":           "mysql://lethe:xxxxx@db:3306/lethe",
		"mysql://lethe:ge%heim@db:3306/lethe":                   "mysql://…",
	} {
		s.Database = database
		if got := s.RedactedDatabase(); got != want {
			t.Errorf("redacted database %q, want %q", got, want)
		}
	}
	addr := &net.TCPAddr{IP: net.IPv4zero, Port: 8181}
	if got, want := s.BaseURL(addr), "http://127.0.0.1:8181"; got != want {
		t.Errorf("base URL %q, want %q", got, want)
	}
	s.PublicURL = "https://lethe.example/"
	if got, want := s.BaseURL(addr), "https://lethe.example"; got != want {
		t.Errorf("base URL %q, want %q", got, want)
	}
}

func TestAdminToken(t *testing.T) {
	t.Parallel()
	s := server.DefaultSettings()
	s.Data = t.TempDir()
	none := func(string) (string, bool) { return "", false }

	if _, err := s.AdminToken(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v, want fs.ErrNotExist", err)
	}
	if err := os.WriteFile(s.AdminTokenPath(), []byte("from-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := s.AdminToken(none); err != nil || got != "from-the-file" {
		t.Errorf("from the file: %q, %v", got, err)
	}
	env := func(value string) func(string) (string, bool) {
		return func(name string) (string, bool) { return value, name == server.AdminTokenVariable }
	}
	if got, err := s.AdminToken(env("from-the-environment")); err != nil || got != "from-the-environment" {
		t.Errorf("from the environment: %q, %v", got, err)
	}
	for _, bad := range []string{"kurz", "with a space in it", "zeile\nzwei-lang"} {
		if _, err := s.AdminToken(env(bad)); err == nil || strings.Contains(err.Error(), bad) {
			t.Errorf("token %q: error %v, want one that does not show it", bad, err)
		}
	}
}

func TestJobConfig(t *testing.T) {
	t.Parallel()
	s := server.DefaultSettings()
	got := s.AsyncPurge.JobConfig()
	if got.HeartbeatTimeout != 5*time.Minute || got.Retention != 720*time.Hour || got.RetryBase != 10*time.Second {
		t.Errorf("job config %+v", got)
	}
	if s.AsyncPurge.PurgeWait() != 45*time.Second {
		t.Errorf("purge wait %v", s.AsyncPurge.PurgeWait())
	}
}

// TestSettingsPage keeps the docs equal to the code. LETHE_WRITE_DOCS=1 writes the page.
func TestSettingsPage(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	if err := server.WriteSettingsTable(&page); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("..", "..", "docs", "settings.md")
	if os.Getenv("LETHE_WRITE_DOCS") != "" {
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	onDisk, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(onDisk), page.String()); diff != "" {
		t.Errorf("docs/settings.md is stale, run the test with LETHE_WRITE_DOCS=1 (-docs +code):\n%s", diff)
	}
}
