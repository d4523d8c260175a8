package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/server"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/leaks"
	"github.com/lethe-project/lethe/test/responder"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// captured is a log that may be read while it is written.
type captured struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (c *captured) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.Write(p)
}

func (c *captured) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}

// running is a server under test.
type running struct {
	t       *testing.T
	started server.Started
	log     *captured
	client  *http.Client
	token   string
	cancel  context.CancelFunc
	done    chan error
}

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

// config is a server's on a free port of this machine.
func config(t *testing.T, dir string, env map[string]string, args ...string) server.Config {
	t.Helper()
	settings, err := load(t, env, append([]string{"--data", dir, "--listen", "127.0.0.1:0", "--log-level", "DEBUG"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return server.Config{Settings: settings, Lookup: lookup(env)}
}

// start runs a server until the test ends or stop is called.
func start(t *testing.T, cfg server.Config) *running {
	t.Helper()
	r := &running{t: t, log: &captured{}, client: &http.Client{Transport: &http.Transport{}}, done: make(chan error, 1)}
	cfg.Logger = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	up := make(chan server.Started, 1)
	cfg.Started = func(s server.Started) { up <- s }
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r.cancel = cancel
	go func() { r.done <- server.Run(ctx, cfg) }()
	select {
	case r.started = <-up:
	case err := <-r.done:
		cancel()
		t.Fatalf("the server did not start: %v", err)
	}
	t.Cleanup(func() { _ = r.stop() })
	if token, err := cfg.Settings.AdminToken(cfg.Lookup); err == nil {
		r.token = token
	}
	return r
}

// stop ends the server, once, and returns what Run returned.
func (r *running) stop() error {
	r.client.CloseIdleConnections()
	r.cancel()
	err, ok := <-r.done
	if ok {
		close(r.done)
	}
	return err
}

// refused runs a server that must not start, and returns why.
func refused(t *testing.T, cfg server.Config) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Started = func(server.Started) {
		t.Error("the server started")
		cancel()
	}
	err := server.Run(ctx, cfg)
	if err == nil {
		t.Fatal("no error")
	}
	return err
}

type reply struct {
	status int
	header http.Header
	body   string
}

func (r *running) do(method, path, body string, headers ...string) reply {
	r.t.Helper()
	out, err := r.try(r.t.Context(), method, path, body, headers...)
	if err != nil {
		r.t.Fatal(err)
	}
	if where, _, _ := strings.Cut(path, "?"); strings.HasPrefix(where, "/v1/") {
		described.Do(func() { api = responder.NewAPI(r.t) })
		for _, problem := range api.Check(method, where, out.status, out.header, []byte(out.body)) {
			r.t.Errorf("%s %s: %d: api/openapi.yaml: %s: %s", method, path, out.status, problem, out.body)
		}
	}
	return out
}

// api is what answers below /v1 are held to.
var (
	described sync.Once
	api       *responder.API
)

func (r *running) try(ctx context.Context, method, path, body string, headers ...string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, r.started.BaseURL+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := r.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(data)}, err
}

func (r *running) want(status int, method, path, body string, headers ...string) reply {
	r.t.Helper()
	out := r.do(method, path, body, headers...)
	if out.status != status {
		r.t.Fatalf("%s %s: status %d, want %d: %s", method, path, out.status, status, out.body)
	}
	return out
}

const (
	space  = "/iceberg/v1/default/namespaces"
	create = `{"name":"t","schema":{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"id","required":true,"type":"long"}]}}`
)

func (r *running) table() {
	r.t.Helper()
	if got := r.do("POST", space, `{"namespace":["n"]}`).status; got != 200 && got != 409 {
		r.t.Fatalf("namespace: status %d", got)
	}
	r.want(200, "POST", space+"/n/tables", create)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestRunServesAndStops(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, config(t, dir, nil))
	for _, path := range []string{"/healthz", "/readyz"} {
		r.want(200, "GET", path, "", "Authorization", "")
	}
	if r.started.CatalogURI != r.started.BaseURL+"/iceberg" || !strings.HasPrefix(r.started.BaseURL, "http://127.0.0.1:") {
		t.Errorf("started as %+v", r.started)
	}
	address, err := os.ReadFile(filepath.Join(dir, "address"))
	if err != nil || strings.TrimSpace(string(address)) != r.started.BaseURL {
		t.Errorf("address file %q, %v", address, err)
	}
	r.want(200, "GET", "/iceberg/v1/config", "")
	r.want(401, "GET", "/iceberg/v1/config", "", "Authorization", "Bearer nobody")
	for _, path := range []string{"/", "/iceberg", "/v2/jobs", "/%69ceberg/v1/config", "/iceberg/../metrics"} {
		if got := r.do("GET", path, "").status; got != 404 {
			t.Errorf("GET %s: status %d", path, got)
		}
	}
	r.table()
	a := r.want(204, "DELETE", space+"/n/tables/t?purgeRequested=true", "")
	if got := a.header.Get("X-Lethe-Job-State"); got != "SUCCEEDED" {
		t.Errorf("X-Lethe-Job-State %q", got)
	}
	r.want(200, "GET", "/v1/jobs/"+a.header.Get("X-Lethe-Job"), "")
	cleanups := r.want(200, "GET", "/api/metalakes/default/catalogs/default/cleanups?state=SUCCEEDED", "")
	if !strings.Contains(cleanups.body, `"job":"`+a.header.Get("X-Lethe-Job")+`"`) {
		t.Errorf("cleanups %s", cleanups.body)
	}
	var left []string
	_ = filepath.WalkDir(filepath.Join(dir, "warehouse"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != ".lethe-root" { // which marks the storage root
			left = append(left, path)
		}
		return err
	})
	if len(left) > 0 {
		t.Errorf("files were left: %q", left)
	}

	var metrics string
	await(t, func() bool { // the end of a job is seen before it is counted
		metrics = r.want(200, "GET", "/metrics", "", "Authorization", "").body
		return strings.Contains(metrics, "\nlethe_purge_completed_total 1\n")
	})
	for _, line := range []string{
		`lethe_purge_jobs{state="SUCCEEDED"} 1`, `lethe_purge_jobs{state="FAILED"} 0`, "lethe_purge_oldest_pending_age_seconds 0", "lethe_purge_completed_total 1",
		"lethe_purge_failed_total 0", "lethe_purge_files_deleted_total 1", "lethe_purge_files_missing_total 0", "lethe_purge_files_skipped_total 0",
		"lethe_purge_files_failed_total 0", "lethe_purge_leftovers_total 0",
		"lethe_db_tx_retries_total 0",
	} {
		if !strings.Contains(metrics, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, " ")
			t.Errorf("no line %q among the metrics, but %q", line, grep(metrics, name))
		}
	}

	if strings.Contains(metrics, "\nlethe_db_statements_total 0\n") || !strings.Contains(metrics, "\nlethe_db_statements_total ") {
		t.Errorf("statements are not counted: %q", grep(metrics, "lethe_db_statements_total"))
	}

	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if exists(filepath.Join(dir, "address")) {
		t.Error("the address file was left")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if got, err := r.try(ctx, "GET", "/iceberg/v1/config", ""); err == nil && got.status == 200 { // another server may have the port, and not the token
		t.Error("the port still answers")
	}
	// What was written is there after a restart.
	again := start(t, config(t, dir, nil))
	again.want(200, "GET", space+"/n", "")
	again.want(404, "GET", space+"/n/tables/t", "")
}

func grep(text, part string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, part) && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "; ")
}

func TestTokenIsMadeOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "admin-token")
	r := start(t, config(t, dir, nil))
	if !r.started.TokenMade || r.started.TokenFile != path || r.started.NoAuth {
		t.Errorf("started as %+v", r.started)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", info.Mode().Perm())
	}
	first := r.token
	if len(first) < 40 {
		t.Errorf("a token of %d characters", len(first))
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	again := start(t, config(t, dir, nil))
	if again.started.TokenMade || again.token != first {
		t.Errorf("another token was made: %v", again.started.TokenMade)
	}
	again.want(200, "GET", "/iceberg/v1/config", "")
	again.want(200, "POST", "/iceberg/v1/oauth/tokens", "grant_type=client_credentials&client_secret="+url.QueryEscape(first), "Content-Type", "application/x-www-form-urlencoded", "Authorization", "")
}

func TestTokenFromTheEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, config(t, dir, map[string]string{server.AdminTokenVariable: "from-the-environment"}))
	if r.started.TokenMade || r.started.TokenFile != "" || exists(filepath.Join(dir, "admin-token")) {
		t.Errorf("started as %+v", r.started)
	}
	r.want(200, "GET", "/iceberg/v1/config", "", "Authorization", "Bearer from-the-environment")
	r.want(401, "GET", "/iceberg/v1/config", "", "Authorization", "Bearer from-the-environmen")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	err := refused(t, config(t, dir, map[string]string{server.AdminTokenVariable: "short"}))
	if !strings.Contains(err.Error(), server.AdminTokenVariable) || strings.Contains(err.Error(), "short ") {
		t.Errorf("error %v", err)
	}
}

func TestNoAuthentication(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, config(t, dir, nil, "--authentication", "none"))
	if !r.started.NoAuth || exists(filepath.Join(dir, "admin-token")) {
		t.Errorf("started as %+v", r.started)
	}
	r.want(200, "GET", "/iceberg/v1/config", "", "Authorization", "")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0"} {
		data := filepath.Join(t.TempDir(), "data")
		cfg := config(t, data, nil, "--authentication", "none")
		cfg.Settings.Listen = listen
		err := refused(t, cfg)
		if !strings.Contains(err.Error(), "listen") || !strings.Contains(err.Error(), "authentication") {
			t.Errorf("%s: %v", listen, err)
		}
		if exists(data) {
			t.Errorf("%s: the refused server left its data folder", listen)
		}
	}
}

func TestRefusedStarts(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for _, c := range []struct {
		name string
		set  func(*server.Settings)
		want string
	}{
		{"no workers", func(s *server.Settings) { s.AsyncPurge.WorkerThreads = 0 }, "async-purge.worker-threads"},
		{"a store that is not there yet", func(s *server.Settings) { s.Storage = "gs://bucket/x" }, "setting storage"},
		{"half of TLS", func(s *server.Settings) { s.TLSCertFile = "x.pem" }, "setting tls-key-file"},
		{"a certificate that is missing", func(s *server.Settings) { s.TLSCertFile, s.TLSKeyFile = missing, missing }, "tls-cert-file"},
		{"a port that is taken", func(s *server.Settings) { s.Listen = taken.Addr().String() }, "listen"},
		{"a data folder that is a file", func(s *server.Settings) { s.Data = blocked }, "data folder"},
		{"storage that is a file", func(s *server.Settings) { s.Storage = blocked }, "storage"},
		{"a location that holds the root", func(s *server.Settings) {
			s.Storage = filepath.Join(s.Data, "deep", "root")
			s.Warehouse.AllowedLocations = []string{"file://" + s.Data}
		}, "overlap"},
		{"a token file that cannot be made", func(s *server.Settings) { s.AdminTokenFile = filepath.Join(blocked, "token") }, "token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, t.TempDir(), nil)
			c.set(&cfg.Settings)
			err := refused(t, cfg)
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not name %s", err, c.want)
			}
		})
	}
}

func TestOneServerHoldsADataFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := start(t, config(t, dir, nil))
	for name, args := range map[string][]string{
		"the same":         nil,
		"another database": {"--database", "sqlite:" + filepath.Join(t.TempDir(), "other.db"), "--storage", t.TempDir()},
	} {
		if err := refused(t, config(t, dir, nil, args...)); !errors.Is(err, server.ErrDataLocked) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error %v, want ErrDataLocked with the folder", name, err)
		}
	}
	other := config(t, t.TempDir(), nil, "--database", "sqlite:"+filepath.Join(dir, "lethe.db"))
	if err := refused(t, other); !errors.Is(err, sqldb.ErrLocked) {
		t.Errorf("another folder and the same database: error %v, want ErrLocked", err)
	}
	r.want(200, "GET", "/readyz", "") // the first one did not notice
	if !exists(filepath.Join(dir, "address")) {
		t.Error("the refused server took the address file away")
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	start(t, config(t, dir, nil)).want(200, "GET", "/readyz", "")
}

func TestStorageRootMayNotChange(t *testing.T) {
	t.Parallel()
	dir, one, two := t.TempDir(), t.TempDir(), t.TempDir()
	r := start(t, config(t, dir, nil, "--storage", one))
	r.table()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	err := refused(t, config(t, dir, nil, "--storage", two))
	if !strings.Contains(err.Error(), one) || !strings.Contains(err.Error(), two) {
		t.Errorf("error %v names not both roots", err)
	}
	// Another spelling of the same place is the same place.
	start(t, config(t, dir, nil, "--storage", "file://"+one+"/")).want(200, "GET", space+"/n/tables/t", "")
}

// A drop that waits when the server stops is answered, and the next server finishes its
// purge.
func TestStopDuringAPurge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// Each commit leaves a metadata file; two deletes a second make the purge last.
	slow := config(t, dir, nil, "--async-purge-rate-limit", "2", "--async-purge-delete-batch-size", "1", "--async-purge-worker-threads", "1")
	r := start(t, slow)
	r.table()
	for i := range 30 {
		r.want(200, "POST", space+"/n/tables/t", fmt.Sprintf(`{"requirements":[],"updates":[{"action":"set-properties","updates":{"n":"%d"}}]}`, i))
	}
	answers := make(chan reply, 1)
	failed := make(chan error, 1)
	go func() {
		a, err := r.try(context.WithoutCancel(t.Context()), "DELETE", space+"/n/tables/t?purgeRequested=true", "")
		if err != nil {
			failed <- err
			return
		}
		answers <- a
	}()
	await(t, func() bool { return strings.Contains(r.do("GET", "/v1/jobs/purge-1", "").body, `"state":"RUNNING"`) })
	if err := r.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	select {
	case a := <-answers:
		if a.status != 204 || a.header.Get("X-Lethe-Job") != "purge-1" || a.header.Get("X-Lethe-Job-State") == "SUCCEEDED" {
			t.Errorf("status %d, %v", a.status, a.header)
		}
	case err := <-failed:
		t.Errorf("the waiting drop got no answer: %v", err)
	}
	again := start(t, config(t, dir, nil))
	var job struct {
		State    string
		Attempts int
		Progress struct{ Files, Missing int }
	}
	await(t, func() bool {
		if err := json.Unmarshal([]byte(again.do("GET", "/v1/jobs/purge-1", "").body), &job); err != nil {
			t.Fatal(err)
		}
		return job.State != "PENDING" && job.State != "RUNNING"
	})
	if job.State != "SUCCEEDED" {
		t.Errorf("job %+v", job)
	}
}

// await polls a real server.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	over := time.NewTimer(2 * time.Minute)
	defer over.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-over.C:
			t.Fatal("it never came")
		}
	}
}

// Neither the token nor the database's password stands in the log, in what is shown at
// the start, in an error or in an answer.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	const token, password = "the-admins-very-own-token", "p4ssw0rd-of-the-database"
	env := map[string]string{server.AdminTokenVariable: token}
	for _, s := range sqldbtest.Servers(t) {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			database := s.URL(t)
			if s.Name != sqldb.SQLite {
				u, err := url.Parse(database)
				if err != nil {
					t.Fatal(err)
				}
				user := u.User.Username() // PostgreSQL takes any password here
				if s.Name == sqldb.MySQL {
					user = strings.TrimPrefix(u.Path, "/")[:16]
					s.Account(t, user, password)
				}
				u.User = url.UserPassword(user, password)
				database = u.String()
			}
			r := start(t, config(t, t.TempDir(), env, "--database", database))
			r.table()
			shown := []string{
				r.do("POST", space+"/n/tables", create).body, r.do("GET", "/iceberg/v1/config", "", "Authorization", "Bearer x"+token).body,
				r.do("DELETE", space+"/n/tables/t?purgeRequested=true", "").body, r.do("GET", "/v1/jobs/purge-1", "").body,
				r.do("GET", "/metrics", "").body, r.do("GET", "/readyz", "").body, fmt.Sprintf("%+v", r.started),
			}
			if err := r.stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
			for _, text := range append(shown, r.log.String()) {
				for _, secret := range []string{token, password} {
					if strings.Contains(text, secret) {
						t.Errorf("%q stands in %s", secret, text)
					}
				}
			}
			if log := r.log.String(); !strings.Contains(log, "msg=audit action=table.drop principal=admin") {
				t.Errorf("the drop left no audit line in %s", log)
			}
		})
	}
	for scheme, parameters := range map[string]string{"postgres": "?connect_timeout=1", "mysql": "?timeout=1s"} {
		t.Run("no database of "+scheme, func(t *testing.T) {
			t.Parallel()
			log := &captured{}
			cfg := config(t, t.TempDir(), env, "--database", scheme+"://lethe:"+password+"@127.0.0.1:1/none"+parameters)
			cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			err := refused(t, cfg)
			if text := err.Error() + log.String(); strings.Contains(text, password) || strings.Contains(text, token) {
				t.Errorf("a secret stands in %s", text)
			}
		})
	}
}
