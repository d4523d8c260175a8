package iceberg_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/deletepool"
	"github.com/lethe-project/lethe/internal/blob/faulty"
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/edge/iceberg"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/internal/tenant"
	"github.com/lethe-project/lethe/test/leaks"
	"github.com/lethe-project/lethe/test/responder"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const (
	rootURI = "s3://lake/wh"
	annKey  = "ann-holds-this-token"
	bobKey  = "bob-holds-this-token"
	base    = "/v1/default/"
)

// options of a bench; the zero value is a server as it is by default.
type options struct {
	maxBody   int64
	purgeWait time.Duration
	limits    metadata.Limits
	paused    bool          // no worker runs
	lockWait  time.Duration // 20 s: also how long a lost answer is looked for
	cleanups  iceberg.Cleanups
	steps     func(string)
}

// bench is the whole face over a real catalog, real jobs and a store in memory. Every
// answer is held to docs/api/iceberg.json.
type bench struct {
	tb       testing.TB
	db       *sqldb.DB
	store    *mem.Bucket
	bucket   *faulty.Bucket // over store
	jobs     *purge.Store
	runner   *job.Runner
	log      *logged
	bare     http.Handler // without the responder
	list     http.Handler // of cleanups, without the responder
	handler  http.Handler
	cleanups http.Handler
}

// each runs fn on every database.
func each(t *testing.T, o options, fn func(t *testing.T, b *bench)) {
	t.Helper()
	for _, server := range sqldbtest.Servers(t) {
		t.Run(string(server.Name), func(t *testing.T) {
			t.Parallel()
			fn(t, newBench(t, server, o))
		})
	}
}

// open is a bench on the embedded database, for what no database changes.
func open(tb testing.TB, o options) *bench {
	tb.Helper()
	return newBench(tb, sqldbtest.Server{Name: sqldb.SQLite}, o)
}

func newBench(tb testing.TB, server sqldbtest.Server, o options) *bench {
	tb.Helper()
	b := &bench{tb: tb, store: mem.New(), log: &logged{}}
	b.bucket = faulty.New(b.store)
	logger := slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if o.lockWait == 0 {
		o.lockWait = 20 * time.Second
	}
	b.db = server.Open(tb, sqldb.Config{
		LockWait: o.lockWait, Logger: logger, Hooks: sqldb.Hooks{BeforeCommit: beforeCommit, AfterCommit: afterCommit},
	}, tenant.Migrations, purge.Migrations, catalog.Migrations)
	root, err := blob.ParseLocation(rootURI)
	b.must(err)
	space, err := blob.NewSpace(blob.Mount{Root: root, Bucket: b.bucket})
	b.must(err)
	tenants, err := tenant.Open(tb.Context(), b.db, tenant.Config{Default: tenant.Storage{RootURI: rootURI, Space: space}})
	b.must(err)

	pool := deletepool.New(deletepool.Config{Threads: 2, Logger: logger})
	tb.Cleanup(pool.Close)
	ownership := catalog.NewOwnership(b.db, tenants)
	b.jobs = purge.NewStore(b.db, job.Config{
		Workers: 2, PollInterval: 50 * time.Millisecond, RetryBase: time.Millisecond, MaxAttempts: 2,
	}, ownership.Hooks(), job.Observer{Logger: logger})
	ownership.Bind(b.jobs)
	b.runner = job.NewRunner(b.jobs.Jobs(), purge.NewHandler(b.jobs, purge.NewWalker(purge.Config{}, ownership, pool)), "test")
	if !o.paused {
		b.runner.Start()
		tb.Cleanup(func() {
			if err := b.runner.Stop(context.WithoutCancel(tb.Context())); err != nil {
				tb.Errorf("runner: %v", err)
			}
		})
	}
	cfg := iceberg.Config{
		Catalog: catalog.New(catalog.Config{DB: b.db, Jobs: b.jobs, Logger: logger, Limits: o.limits, Steps: o.steps}),
		Tenants: tenants, Authenticate: authenticator(tenants), Jobs: purgeJobs{b.jobs, b.runner}, Cleanups: b.jobs,
		PurgeWait: o.purgeWait, MaxBody: o.maxBody, Limits: o.limits, Logger: logger,
	}
	if o.cleanups != nil {
		cfg.Cleanups = o.cleanups
	}
	b.bare, b.list = iceberg.New(cfg), iceberg.NewCleanups(cfg)
	return b.on(tb)
}

// on is the same bench for another test.
func (b *bench) on(tb testing.TB) *bench {
	tb.Helper()
	other := *b
	other.tb = tb
	other.handler = responder.New(tb).Handler(tb, b.bare)
	other.cleanups = responder.New(tb).Handler(tb, b.list)
	return &other
}

func authenticator(tenants *tenant.Directory) func(context.Context, string) (*tenant.Principal, error) {
	names := map[string]string{annKey: "ann", bobKey: "bob"}
	return func(_ context.Context, token string) (*tenant.Principal, error) {
		p := &tenant.Principal{Tenant: tenants.Tenant(), TenantName: tenant.Default}
		if name, ok := names[token]; ok {
			p.Name, p.Grants = name, []tenant.Grant{{Admin: true}}
			return p, nil
		}
		// A token may be its own grants: "namespace action action".
		if words := strings.Fields(token); len(words) > 1 && words[0] == "grant" {
			g := tenant.Grant{Warehouse: tenant.Default, Namespace: strings.Split(words[1], ".")}
			for _, a := range words[2:] {
				g.Actions = append(g.Actions, tenant.Action(a))
			}
			p.Name, p.Grants = "scoped", []tenant.Grant{g}
			return p, nil
		}
		if token == "denied-token" {
			return nil, fault.New("test", fault.Denied, "", "not for you")
		}
		return nil, fault.New("test", fault.Unauthenticated, "", "the token is not known")
	}
}

// purgeJobs is what the server gives the edge.
type purgeJobs struct {
	store  *purge.Store
	runner *job.Runner
}

func (p purgeJobs) Name(id job.ID) string                { return p.store.Name(id) }
func (p purgeJobs) ParseName(name string) (job.ID, bool) { return p.store.Jobs().ParseName(name) }
func (p purgeJobs) Wake()                                { p.runner.Wake() }
func (p purgeJobs) Wait(ctx context.Context, id job.ID, limit time.Duration) (job.Row, error) {
	return p.runner.Wait(ctx, id, limit)
}

// trouble is what happens to the transactions of one request, by their number from 1.
type trouble struct {
	before func(nth int) error // the first answers before COMMIT was sent
	after  func(nth int) error // the answer of COMMIT is lost

	mu       sync.Mutex
	sent     int
	answered int
}

type troubleKey struct{}

func beforeCommit(ctx context.Context) error {
	t, ok := ctx.Value(troubleKey{}).(*trouble)
	if !ok || t.before == nil {
		return nil
	}
	t.mu.Lock()
	t.sent++
	nth := t.sent
	t.mu.Unlock()
	return t.before(nth)
}

func afterCommit(ctx context.Context) error {
	t, ok := ctx.Value(troubleKey{}).(*trouble)
	if !ok || t.after == nil {
		return nil
	}
	t.mu.Lock()
	t.answered++
	nth := t.answered
	t.mu.Unlock()
	return t.after(nth)
}

// logged is the captured log.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (b *bench) must(err error) {
	b.tb.Helper()
	if err != nil {
		b.tb.Fatal(err)
	}
}

// answer is what a client sees.
type answer struct {
	tb     testing.TB
	status int
	header http.Header
	body   []byte
}

// request makes a request of ann. headers are names and values in turn; an empty value
// removes a header.
func (b *bench) request(method, target, body string, headers ...string) *http.Request {
	b.tb.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(b.tb.Context(), method, target, reader)
	r.Header.Set("Authorization", "Bearer "+annKey)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	return r
}

func (b *bench) send(r *http.Request) *answer {
	b.tb.Helper()
	handler := b.handler
	if strings.HasPrefix(r.URL.Path, "/api/") {
		handler = b.cleanups
	}
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, r)
	return &answer{b.tb, rec.Code, rec.Header(), rec.Body.Bytes()}
}

func (b *bench) do(method, target, body string, headers ...string) *answer {
	b.tb.Helper()
	return b.send(b.request(method, target, body, headers...))
}

// in sends a request whose transactions meet trouble.
func (b *bench) in(t *trouble, method, target, body string, headers ...string) *answer {
	b.tb.Helper()
	r := b.request(method, target, body, headers...)
	return b.send(r.WithContext(context.WithValue(r.Context(), troubleKey{}, t)))
}

// want checks the status and, of an error, the exception's name.
func (a *answer) want(status int, name ...string) *answer {
	a.tb.Helper()
	if a.status != status {
		a.tb.Fatalf("status %d, want %d: %s", a.status, status, clip(string(a.body)))
	}
	if len(name) > 0 && a.errorType() != name[0] {
		a.tb.Fatalf("type %q, want %q: %s", a.errorType(), name[0], clip(string(a.body)))
	}
	return a
}

func (a *answer) errorType() string {
	var e struct {
		Error struct{ Type string }
	}
	_ = json.Unmarshal(a.body, &e) // another shape has no type
	return e.Error.Type
}

func (a *answer) message() string {
	var e struct {
		Error struct{ Message string }
	}
	_ = json.Unmarshal(a.body, &e) // another shape has no message
	return e.Error.Message
}

// get walks into the answer by names and indices.
func (a *answer) get(path ...any) any {
	a.tb.Helper()
	v, err := responder.ParseJSON(a.body)
	if err != nil {
		a.tb.Fatal(err)
	}
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			l, _ := v.([]any)
			if s >= len(l) {
				return nil
			}
			v = l[s]
		}
	}
	return v
}

func (a *answer) text(path ...any) string {
	a.tb.Helper()
	s, _ := a.get(path...).(string)
	return s
}

const schema = `{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"id","required":true,"type":"long"},{"id":2,"name":"data","required":false,"type":"string"}]}`

// createBody is a create request; extra is more JSON, such as `"location":"…"`.
func createBody(name string, extra ...string) string {
	quoted, _ := json.Marshal(name) // a string encodes
	return fmt.Sprintf(`{"name":%s,"schema":%s%s}`, quoted, schema, strings.Join(append([]string{""}, extra...), ","))
}

// namespace makes a namespace of encoded name.
func (b *bench) namespace(levels ...string) string {
	b.tb.Helper()
	for i := range levels {
		body, _ := json.Marshal(map[string]any{"namespace": levels[:i+1]}) // strings encode
		if a := b.do("POST", base+"namespaces", string(body)); a.status != 200 && a.status != 409 {
			a.want(200)
		}
	}
	return base + "namespaces/" + strings.Join(levels, "%1F")
}

// table makes a table and returns its path.
func (b *bench) table(ns, name string, extra ...string) string {
	b.tb.Helper()
	b.do("POST", ns+"/tables", createBody(name, extra...)).want(200)
	return ns + "/tables/" + name
}

func setProperty(key, value string) string {
	return fmt.Sprintf(`{"requirements":[],"updates":[{"action":"set-properties","updates":{%q:%q}}]}`, key, value)
}

// addSnapshots commits two snapshots, the older of which no branch names.
func addSnapshots(at time.Time) string {
	snapshot := func(id, parent string, number int) string {
		return fmt.Sprintf(`{"action":"add-snapshot","snapshot":{"snapshot-id":%s,%s"sequence-number":%d,"timestamp-ms":%d,"manifest-list":"s3://lake/wh/x/%s.avro","summary":{"operation":"append"},"schema-id":0}}`,
			id, parent, number, at.UnixMilli()+int64(number), id)
	}
	return `{"requirements":[],"updates":[` + snapshot("17", "", 1) + "," + snapshot("3051729675574597004", `"parent-snapshot-id":17,`, 2) +
		`,{"action":"set-snapshot-ref","ref-name":"main","type":"branch","snapshot-id":3051729675574597004}]}`
}

// keys is what the store holds.
func (b *bench) keys() []string {
	var out []string
	for _, k := range b.store.Keys() {
		out = append(out, string(k))
	}
	return out
}

// unchanged runs fn and fails when it left or took a file.
func (b *bench) unchanged(fn func()) {
	b.tb.Helper()
	before := b.keys()
	fn()
	if after := b.keys(); !slices.Equal(before, after) {
		b.tb.Errorf("the store holds %q, before it held %q", after, before)
	}
}

// put lays a file into the store.
func (b *bench) put(key, text string) string {
	b.tb.Helper()
	b.must(b.store.Put(b.tb.Context(), blob.Key(key), strings.NewReader(text)))
	return rootURI + "/" + key
}

// row is the job that a drop's header names.
func (b *bench) row(a *answer) job.Row {
	b.tb.Helper()
	id, ok := b.jobs.Jobs().ParseName(a.header.Get("X-Lethe-Job"))
	if !ok {
		b.tb.Fatalf("no job in X-Lethe-Job %q", a.header.Get("X-Lethe-Job"))
	}
	row, err := b.jobs.Jobs().Get(b.tb.Context(), id)
	b.must(err)
	return row
}

func (b *bench) count(s sqldb.Statement, args ...any) (n int) {
	b.tb.Helper()
	b.must(b.db.QueryRow(b.tb.Context(), s, args...).Scan(&n))
	return n
}

func newKey() string { return uuid.Must(uuid.NewV7()).String() }

// errBusy is contention of the database that outlasted its retries.
var errBusy = fault.New("test", fault.Busy, "DatabaseBusy", "the database is busy")

func clip(s string) string {
	if len(s) > 400 {
		return s[:400] + "…"
	}
	return s
}
