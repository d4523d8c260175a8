package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/lethe-project/lethe/internal/server"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

const (
	firstSecret  = "geheim-eins-0123456789"
	secondSecret = "geheim-zwei-0123456789"
	newSecret    = "geheim-drei-0123456789"
	// secondSpace is to the warehouse second what space is to the default one.
	secondSpace = "/iceberg/v1/second/namespaces"
)

// signedStore is S3 that notes which access key signed for which bucket.
type signedStore struct {
	*httptest.Server
	backend gofakes3.Backend
	mu      sync.Mutex
	keys    map[string]map[string]bool // bucket → access key ids
	revoked string                     // an access key id that is not known any more
}

func newSignedStore(t *testing.T, buckets ...string) *signedStore {
	t.Helper()
	s := &signedStore{backend: s3mem.New(), keys: map[string]map[string]bool{}}
	for _, b := range buckets {
		if err := s.backend.CreateBucket(b); err != nil {
			t.Fatal(err)
		}
	}
	fake := gofakes3.New(s.backend, gofakes3.WithTimeSkewLimit(0)).Server()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bucket, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		key, _, _ := strings.Cut(rest, "/")
		s.mu.Lock()
		if s.keys[bucket] == nil {
			s.keys[bucket] = map[string]bool{}
		}
		s.keys[bucket][key] = true
		known := key != s.revoked
		s.mu.Unlock()
		if !known {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, "<Error><Code>InvalidAccessKeyId</Code><Message>no such key</Message></Error>")
			return
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *signedStore) revoke(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = key
}

// signers returns who signed since it was asked last.
func (s *signedStore) signers() map[string]map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.keys
	s.keys = map[string]map[string]bool{}
	return out
}

func (s *signedStore) warehouse(name, bucket, key, secret string) string {
	return `{"name":"` + name + `","storage":{"url":"s3://` + bucket + `/root","region":"eu-test-1","endpoint":"` + s.URL + `"},
		"credentials":{"type":"static","accessKeyId":"` + key + `","secretAccessKey":"` + secret + `"},
		"tableDefaults":{"write.format.default":"orc"},"tableOverrides":{"owner":"lethe"}}`
}

// noSecrets fails when one of the secrets is in a text.
func noSecrets(t *testing.T, where, text string) {
	t.Helper()
	for _, secret := range []string{firstSecret, secondSecret, newSecret} {
		if strings.Contains(text, secret) {
			t.Errorf("%s shows the secret %s", where, secret)
		}
	}
}

// Two warehouses in two buckets, each used with its own key; nothing shows a secret.
func TestWarehousesOverHTTP(t *testing.T) {
	t.Parallel()
	store := newSignedStore(t, "first", "second")
	dir := t.TempDir()
	r := start(t, config(t, dir, nil))
	var bodies []string
	want := func(status int, method, path, body string) reply {
		t.Helper()
		out := r.want(status, method, path, body)
		bodies = append(bodies, out.body)
		return out
	}
	want(201, "POST", "/v1/warehouses", store.warehouse("first", "first", "AKIAFIRST0001", firstSecret))
	made := want(201, "POST", "/v1/warehouses", store.warehouse("second", "second", "AKIASECOND002", secondSecret))
	var shown struct {
		Name        string
		Storage     map[string]any
		Credentials map[string]string
	}
	decode(t, made, &shown)
	if diff := cmp.Diff(map[string]string{"type": "static", "accessKeyId": "…D002"}, shown.Credentials); diff != "" || shown.Storage["type"] != "s3" {
		t.Errorf("the answer shows %s", made.body)
	}
	if got := made.header.Get("Location"); got != "/v1/warehouses/second" {
		t.Errorf("location %q", got)
	}
	want(409, "POST", "/v1/warehouses", store.warehouse("second", "second", "AKIASECOND002", secondSecret))
	want(409, "POST", "/v1/warehouses", strings.Replace(store.warehouse("third", "second", "AKIATHIRD0003", secondSecret), "/root", "/root/in", 1))
	if got := want(400, "POST", "/v1/warehouses", store.warehouse("none", "missing", "AKIATHIRD0003", secondSecret)); !strings.Contains(got.body, "bucket") {
		t.Errorf("a missing bucket: %s", got.body)
	}

	var cfg struct{ Defaults, Overrides, Config map[string]string }
	decode(t, want(200, "GET", "/iceberg/v1/config?warehouse=second", ""), &cfg)
	reach := map[string]string{"s3.endpoint": store.URL, "s3.path-style-access": "true", "client.region": "eu-test-1"}
	defaults := map[string]string{"table-default.write.format.default": "orc"}
	maps.Copy(defaults, reach)
	if diff := cmp.Diff(defaults, cfg.Defaults); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"prefix": "second", "table-override.owner": "lethe"}, cfg.Overrides); diff != "" {
		t.Errorf("overrides (-want +got):\n%s", diff)
	}

	want(200, "POST", secondSpace, `{"namespace":["n"]}`)
	decode(t, want(200, "POST", secondSpace+"/n/tables", create), &cfg)
	if diff := cmp.Diff(reach, cfg.Config); diff != "" {
		t.Errorf("config of a table (-want +got):\n%s", diff)
	}
	if a, b := objects(t, store.backend, "first"), objects(t, store.backend, "second"); a != 0 || b != 1 {
		t.Errorf("%d and %d objects, want the metadata file in the second", a, b)
	}
	if got := want(409, "DELETE", "/v1/warehouses/second", ""); !strings.Contains(got.body, "table n.t") {
		t.Errorf("a drop with tables: %s", got.body)
	}
	dropped := want(204, "DELETE", secondSpace+"/n/tables/t?purgeRequested=true", "")
	if dropped.header.Get("X-Lethe-Job-State") != "SUCCEEDED" || objects(t, store.backend, "second") != 0 {
		t.Errorf("purge %s, %d objects left", dropped.header.Get("X-Lethe-Job-State"), objects(t, store.backend, "second"))
	}
	bySecond := map[string]map[string]bool{"first": {"AKIAFIRST0001": true}, "second": {"AKIASECOND002": true}}
	signers := store.signers()
	delete(signers, "missing")
	if diff := cmp.Diff(bySecond, signers); diff != "" {
		t.Errorf("who signed (-want +got):\n%s", diff)
	}

	want(200, "PATCH", "/v1/warehouses/second", `{"credentials":{"type":"static","accessKeyId":"AKIANEW00003","secretAccessKey":"`+newSecret+`"}}`)
	want(200, "POST", secondSpace+"/n/tables", create)
	tag := want(200, "GET", secondSpace+"/n/tables/t", "").header.Get("ETag")
	r.want(304, "GET", secondSpace+"/n/tables/t", "", "If-None-Match", tag)
	want(200, "PATCH", "/v1/warehouses/second", `{"storage":{"region":"eu-test-2"}}`)
	if got := r.want(200, "GET", secondSpace+"/n/tables/t", "", "If-None-Match", tag); !strings.Contains(got.body, `"client.region":"eu-test-2"`) {
		t.Errorf("a client that has the table is not told of the new region: %s", got.body)
	}
	// What the table has goes by the new credentials, with the warehouse.
	var closing struct{ Job string }
	decode(t, want(202, "DELETE", "/v1/warehouses/second?purge=true", ""), &closing)
	if j := r.job(closing.Job); j.State != "SUCCEEDED" || objects(t, store.backend, "second") != 0 {
		t.Errorf("%+v, %d objects left", j, objects(t, store.backend, "second"))
	}
	if diff := cmp.Diff(map[string]map[string]bool{"second": {"AKIANEW00003": true}}, store.signers()); diff != "" {
		t.Errorf("who signed after the change (-want +got):\n%s", diff)
	}
	want(404, "GET", "/v1/warehouses/second", "")
	want(404, "GET", secondSpace+"/n", "")
	want(404, "GET", "/iceberg/v1/config?warehouse=second", "")
	var list struct{ Warehouses []struct{ Name string } }
	decode(t, want(200, "GET", "/v1/warehouses", ""), &list)
	if len(list.Warehouses) != 2 || list.Warehouses[0].Name != "default" || list.Warehouses[1].Name != "first" {
		t.Errorf("listed %v", list)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}

	log := r.log.String()
	for _, line := range []string{"action=warehouse.create principal=admin", "action=warehouse.update", "action=warehouse.drop", "warehouse=second outcome=ok", "outcome=conflict"} {
		if !strings.Contains(log, line) {
			t.Errorf("no audit line with %q", line)
		}
	}
	noSecrets(t, "the log", log)
	noSecrets(t, "an answer", strings.Join(bodies, "\n"))
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		files++
		noSecrets(t, path, string(raw))
		if entry.Name() != "secret.key" && bytes.Contains(raw, []byte("AKIASECOND002")) {
			t.Errorf("%s holds the access key's id", path)
		}
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("%d files in the data folder, %v", files, err)
	}
	db, err := sqldb.Open(t.Context(), "sqlite:"+filepath.Join(dir, "lethe.db"), sqldb.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var impl, props string
	if err := db.QueryRow(t.Context(), "SELECT file_io_impl, file_io_props FROM iceberg_cleanup_job ORDER BY id LIMIT 1").Scan(&impl, &props); err != nil {
		t.Fatal(err)
	}
	var known map[string]string
	if err := json.Unmarshal([]byte(props), &known); err != nil || known["credentials-id"] == "" || known["s3.endpoint"] != store.URL || !strings.HasSuffix(impl, "S3FileIO") {
		t.Errorf("the job's file io is %s %s", impl, props)
	}
}

// A server whose keys do not open the stored credentials does not start, and says which
// key it lacks.
func TestWrongKeyRefused(t *testing.T) {
	t.Parallel()
	store := newSignedStore(t, "first")
	dir := t.TempDir()
	path := filepath.Join(dir, "secret.key")
	r := start(t, config(t, dir, nil))
	r.want(201, "POST", "/v1/warehouses", store.warehouse("first", "first", "AKIAFIRST0001", firstSecret))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("key file %v, %v", info, err)
	}
	keys, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(keys))
	used := lines[len(lines)-1]
	id, material, _ := strings.Cut(used, ":")

	const other = "other:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
	for name, env := range map[string]string{
		"another key":              other,
		"another key with that id": strings.Replace(other, "other", id, 1),
	} {
		err := refused(t, config(t, dir, map[string]string{server.SecretKeyVariable: env}))
		if !strings.Contains(err.Error(), id) || strings.Contains(err.Error(), material) || strings.Contains(err.Error(), "AQEB") {
			t.Errorf("%s: %v", name, err)
		}
		noSecrets(t, name, err.Error())
	}
	if err := refused(t, config(t, dir, map[string]string{server.SecretKeyVariable: "nonsense"})); !strings.Contains(err.Error(), server.SecretKeyVariable) {
		t.Errorf("a variable that is no key: %v", err)
	}
	if err := refused(t, config(t, dir, nil, "--secret-key-file="+filepath.Join(dir, "none"))); !strings.Contains(err.Error(), "secret-key-file") {
		t.Errorf("a file that is not there: %v", err)
	}

	apart := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(apart, []byte(other+"\n"+used), 0o644); err != nil {
		t.Fatal(err)
	}
	r = start(t, config(t, dir, nil, "--secret-key-file="+apart))
	if log := r.log.String(); !strings.Contains(log, "credentials encrypted anew") || !strings.Contains(log, "everybody can read the key file") {
		t.Error("the log tells nothing of the rotation, or of the file's mode")
	}
	r.want(200, "GET", "/v1/warehouses/first", "")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if err := refused(t, config(t, dir, nil)); !strings.Contains(err.Error(), "other") { // the old key is of no use now
		t.Errorf("after the rotation: %v", err)
	}
}

func TestWarehouseDirectories(t *testing.T) {
	t.Parallel()
	dir, free := t.TempDir(), t.TempDir()
	if resolved, err := filepath.EvalSymlinks(free); err == nil {
		free = resolved
	}
	if err := os.Symlink(free, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	r := start(t, config(t, dir, nil))
	body := func(name, path string) string {
		return `{"name":"` + name + `","storage":{"url":"file://` + path + `"}}`
	}
	for i, tt := range []struct {
		path   string
		status int
		want   string
	}{
		{dir, 400, "the data folder"},
		{filepath.Dir(dir), 400, "the data folder"},
		{"/", 400, "the data folder"},
		{filepath.Join(dir, "link"), 400, "link"},
		{filepath.Join(dir, "secret.key"), 400, "the key file"},
		{filepath.Join(dir, "warehouse", "x"), 400, "overlaps"},
		{filepath.Join(dir, "drive", "x"), 400, "overlaps"},
		{free + "?x=1", 400, "parameters"},
		{free + "/lake", 201, ""},
		{free + "/lake/in", 409, "overlaps"},
		{free + "/lake2", 201, ""},
	} {
		got := r.do("POST", "/v1/warehouses", body(fmt.Sprintf("w%d", i), tt.path))
		if got.status != tt.status || !strings.Contains(got.body, tt.want) {
			t.Errorf("%s: status %d, want %d with %q: %s", tt.path, got.status, tt.status, tt.want, got.body)
		}
	}
	lake := "/iceberg/v1/w8/namespaces"
	r.want(200, "POST", lake, `{"namespace":["n"]}`)
	r.want(200, "POST", lake+"/n/tables", create)
	r.want(409, "DELETE", "/v1/warehouses/w8", "")
	r.want(204, "DELETE", lake+"/n/tables/t?purgeRequested=true", "")
	if exists(filepath.Join(free, "lake", "n")) {
		left, _ := filepath.Glob(filepath.Join(free, "lake", "n", "*"))
		if len(left) > 0 {
			t.Errorf("left after the purge: %v", left)
		}
	}
	r.want(204, "DELETE", "/v1/warehouses/w8", "")
	r.want(201, "POST", "/v1/warehouses", body("again", free+"/lake"))
}

func TestWarehouseRequestsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, config(t, t.TempDir(), nil))
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
	}{
		{"no body", "POST", "/v1/warehouses", ``, 400},
		{"no JSON", "POST", "/v1/warehouses", `{"name":"` + firstSecret, 400},
		{"an unknown field", "POST", "/v1/warehouses", `{"name":"x","secretAccessKey":"` + firstSecret + `"}`, 400},
		{"a secret of the wrong type", "POST", "/v1/warehouses", `{"name":"x","credentials":{"secretAccessKey":{"` + firstSecret + `":1}}}`, 400},
		{"a type that the URL is not", "POST", "/v1/warehouses", `{"name":"x","storage":{"type":"file","url":"s3://abc"}}`, 400},
		{"a password in the URL", "POST", "/v1/warehouses", `{"name":"x","storage":{"url":"s3://AKIA:` + firstSecret + `@bucket/x"}}`, 400},
		{"parameters in the URL", "POST", "/v1/warehouses", `{"name":"x","storage":{"url":"s3://bucket/x?secret=` + firstSecret + `"}}`, 400},
		{"a password in the endpoint", "POST", "/v1/warehouses", `{"name":"x","storage":{"url":"s3://bucket/x","endpoint":"http://u:` + firstSecret + `@h"}}`, 400},
		{"nothing to change", "PATCH", "/v1/warehouses/none", `{}`, 404},
		{"the default one's storage", "PATCH", "/v1/warehouses/default", `{"storage":{"region":"x"}}`, 409},
		{"drop the default one", "DELETE", "/v1/warehouses/default", ``, 409},
		{"drop none", "DELETE", "/v1/warehouses/none", ``, 404},
		{"another purge", "DELETE", "/v1/warehouses/default?purge=yes", ``, 400},
		{"another method", "PUT", "/v1/warehouses", ``, 405},
	} {
		got := r.do(tt.method, tt.path, tt.body)
		if got.status != tt.status {
			t.Errorf("%s: status %d, want %d: %s", tt.name, got.status, tt.status, got.body)
		}
		noSecrets(t, tt.name, got.body)
	}
	r.want(200, "PATCH", "/v1/warehouses/default", `{"tableDefaults":{"a":"b"}}`)
	if got := r.want(200, "GET", "/iceberg/v1/config", ""); !strings.Contains(got.body, `"table-default.a":"b"`) {
		t.Errorf("config %s", got.body)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	noSecrets(t, "the log", r.log.String())
}

// A warehouse that one server makes is one of the others' too, with its credentials, when
// they share the keys.
func TestWarehousesOfSeveralServers(t *testing.T) {
	t.Parallel()
	for _, s := range sqldbtest.Servers(t) {
		if s.Name == sqldb.SQLite {
			continue // one server only
		}
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			store := newSignedStore(t, "first")
			env := map[string]string{server.SecretKeyVariable: "k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}
			shared, drive, url := t.TempDir(), t.TempDir(), s.URL(t)
			var servers []*running
			for range 2 {
				servers = append(servers, start(t, config(t, t.TempDir(), env, "--database="+url, "--storage="+shared, "--drive-storage="+drive)))
			}
			a, b := servers[0], servers[1]
			first := "/iceberg/v1/first/namespaces"
			a.want(201, "POST", "/v1/warehouses", store.warehouse("first", "first", "AKIAFIRST0001", firstSecret))
			b.want(200, "POST", first, `{"namespace":["n"]}`)
			b.want(200, "POST", first+"/n/tables", create)
			a.want(409, "DELETE", "/v1/warehouses/first", "")
			a.want(204, "DELETE", first+"/n/tables/t?purgeRequested=true", "")
			if got := objects(t, store.backend, "first"); got != 0 {
				t.Errorf("%d objects left", got)
			}
			a.want(200, "PATCH", "/v1/warehouses/first", `{"tableDefaults":{"a":"b"}}`)
			b.eventually(func() bool {
				return strings.Contains(b.do("GET", "/iceberg/v1/config?warehouse=first", "").body, "table-default.a")
			})
			a.want(204, "DELETE", "/v1/warehouses/first", "")
			b.eventually(func() bool { return b.do("GET", "/iceberg/v1/config?warehouse=first", "").status == 404 })
		})
	}
}

func (r *running) eventually(ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); <-tick.C {
		if ok() {
			return
		}
	}
	r.t.Error("another server's change was not seen in time")
}

// A bearer token that crosses a network in the clear is worth one line.
func TestPlainHTTPWarns(t *testing.T) {
	t.Parallel()
	const warning = "bearer tokens cross the network in the clear"
	for _, tt := range []struct {
		name string
		args []string
		want int
	}{
		{"on this machine", nil, 0},
		{"everywhere", []string{"--listen=0.0.0.0:0"}, 1},
		{"behind a proxy that speaks TLS", []string{"--listen=0.0.0.0:0", "--public-url=https://lethe.example"}, 0},
		{"behind one that does not", []string{"--listen=0.0.0.0:0", "--public-url=http://lethe.example"}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, config(t, t.TempDir(), nil, tt.args...))
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			if got := strings.Count(r.log.String(), warning); got != tt.want {
				t.Errorf("warned %d times, want %d", got, tt.want)
			}
		})
	}
}
