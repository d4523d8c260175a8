package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/edge/files"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
	"github.com/lethe-project/lethe/test/leaks"
	"github.com/lethe-project/lethe/test/responder"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// described is api/openapi.yaml, to which every answer of these tests is held.
var (
	once      sync.Once
	described *responder.API
)

// bench is a face over a real drive, with two tenants.
type bench struct {
	tb      testing.TB
	server  *httptest.Server
	feed    *feed.Store
	bucket  *mem.Bucket
	removal *removal.Removal
	drive   *drive.Drive
	as      string // the caller: a key of callers
	log     *bytes.Buffer
}

// callers are who may ask, by the value of the header X-Test-Caller.
var callers = map[string]*tenant.Principal{
	"ann":    {Name: "ann", Tenant: 1, TenantName: "one", Grants: []tenant.Grant{{Admin: true}}},
	"bob":    {Name: "bob", Tenant: 2, TenantName: "two", Grants: []tenant.Grant{{Admin: true}}},
	"scoped": {Name: "scoped", Tenant: 1, TenantName: "one", Grants: []tenant.Grant{{Drive: "/mine", Actions: []tenant.Action{tenant.Read, tenant.Write, tenant.Delete}}}},
	"reader": {Name: "reader", Tenant: 1, TenantName: "one", Grants: []tenant.Grant{{Drive: "/", Actions: []tenant.Action{tenant.Read}}}},
	"borrower": {Name: "borrower", Tenant: 1, TenantName: "one", Grants: []tenant.Grant{
		{Drive: "/mine", Actions: []tenant.Action{tenant.Read, tenant.Write, tenant.Delete}},
		{Drive: "/pub", Actions: []tenant.Action{tenant.Read}},
		{Drive: "/inbox", Actions: []tenant.Action{tenant.Write, tenant.Delete}},
	}},
	"deep":    {Name: "deep", Tenant: 1, TenantName: "one", Grants: []tenant.Grant{{Drive: "/a/b/f", Actions: []tenant.Action{tenant.Read}}}},
	"catalog": {Name: "catalog", Tenant: 1, TenantName: "one", Grants: []tenant.Grant{{Warehouse: "*", Actions: []tenant.Action{tenant.Read, tenant.Write}}}},
}

type callerKey struct{}

type options struct {
	trash     time.Duration
	inline    int
	heartbeat time.Duration
	recheck   time.Duration
	idle      time.Duration
	still     func(*http.Request) error
	step      func(op, point string) error
}

func open(tb testing.TB, o options) *bench {
	tb.Helper()
	db, err := sqldb.Open(tb.Context(), "sqlite:"+tb.TempDir()+"/drive.db", sqldb.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	if err := db.Migrate(tb.Context(), tree.Migrations, content.Migrations, feed.Migrations, removal.Migrations); err != nil {
		tb.Fatal(err)
	}
	once.Do(func() { described = responder.NewAPI(tb) })
	b := &bench{tb: tb, as: "ann", bucket: mem.New(), log: &bytes.Buffer{}}
	t := tree.New(db)
	b.feed = feed.New(feed.Config{DB: db, Interval: 10 * time.Millisecond})
	contents := content.New(content.Config{
		DB: db, Bucket: b.bucket, InlineBytes: o.inline,
		NewID: func(ctx context.Context, fs int64) (int64, error) { return t.NewID(ctx, tree.FS(fs)) },
	})
	b.removal = removal.New(removal.Config{DB: db, Tree: t, Content: contents, Feed: b.feed, TrashRetention: o.trash, BatchSize: 20, Job: job.Config{PollInterval: 20 * time.Millisecond}})
	d := drive.New(drive.Config{DB: db, Tree: t, Content: contents, Feed: b.feed, Removal: b.removal, Steps: drive.Steps{At: o.step}})
	b.drive = d
	for _, fs := range []tree.FS{1, 2} {
		if err := d.CreateDrive(tb.Context(), fs); err != nil {
			tb.Fatal(err)
		}
	}
	b.removal.Start()
	tb.Cleanup(func() { _ = b.removal.Stop(context.Background()) })
	sequencer := b.feed.StartSequencer(tb.Context())
	tb.Cleanup(sequencer.Stop)
	stopping := make(chan struct{})
	handler := files.New(files.Config{
		Drive: d, Content: contents, Feed: b.feed, Removal: b.removal, Heartbeat: o.heartbeat, Recheck: o.recheck, Idle: o.idle, Still: o.still, Stopping: stopping,
		Authenticate: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, callers[r.Header.Get("X-Test-Caller")])))
			})
		},
		Principal: func(ctx context.Context) *tenant.Principal {
			p, _ := ctx.Value(callerKey{}).(*tenant.Principal)
			return p
		},
		RequestID: func(context.Context) string { return "request-1" },
		Logger:    slog.New(slog.NewTextHandler(&locked{w: b.log}, nil)),
	})
	b.server = httptest.NewServer(handler)
	tb.Cleanup(func() { close(stopping); b.server.Close() })
	return b
}

// locked is a log that several requests may write.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

// Write writes one line.
func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// by is the same bench for another caller.
func (b *bench) by(caller string) *bench {
	other := *b
	other.as = caller
	return &other
}

type answer struct {
	b      *bench
	what   string
	status int
	header http.Header
	body   []byte
}

// do sends a request; headers are names and values.
func (b *bench) do(method, target, body string, headers ...string) answer {
	b.tb.Helper()
	req, err := http.NewRequestWithContext(b.tb.Context(), method, b.server.URL+target, strings.NewReader(body))
	if err != nil {
		b.tb.Fatal(err)
	}
	req.Header.Set("X-Test-Caller", b.as)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.server.Client().Do(req)
	if err != nil {
		b.tb.Fatalf("%s %s: %v", method, target, err)
	}
	defer resp.Body.Close()
	a := answer{b: b, what: method + " " + target, status: resp.StatusCode, header: resp.Header}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		b.tb.Fatalf("%s: %v", a.what, err)
	}
	path, _, _ := strings.Cut(target, "?")
	for _, problem := range described.Check(method, path, a.status, a.header, a.body) {
		b.tb.Errorf("%s: %d: api/openapi.yaml: %s: %.300s", a.what, a.status, problem, a.body)
	}
	return a
}

// want asserts the status, and the code of an error.
func (a answer) want(status int, code ...string) answer {
	a.b.tb.Helper()
	if a.status != status {
		a.b.tb.Errorf("%s: %d, want %d: %s", a.what, a.status, status, a.body)
		return a
	}
	if status < 400 || len(a.body) == 0 {
		return a
	}
	var body struct {
		Error struct{ Code, Message, RequestID string }
	}
	a.decode(&body)
	if body.Error.RequestID != "request-1" || body.Error.Message == "" || len(code) > 0 && body.Error.Code != code[0] {
		a.b.tb.Errorf("%s: error %+v, want code %v", a.what, body.Error, code)
	}
	return a
}

func (a answer) decode(v any) answer {
	a.b.tb.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		a.b.tb.Errorf("%s: %v: %s", a.what, err, a.body)
	}
	return a
}

func (a answer) text(want string) {
	a.b.tb.Helper()
	if string(a.body) != want {
		a.b.tb.Errorf("%s: %q, want %q", a.what, a.body, want)
	}
}

// put writes a file that must be new.
func (b *bench) put(path, body string) {
	b.tb.Helper()
	b.do("PUT", "/v1/fs"+path, body).want(201)
}

// names lists a directory.
func (b *bench) names(path string) (names []string) {
	b.tb.Helper()
	for cursor := ""; ; {
		var page struct {
			Entries    []struct{ Name string }
			NextCursor *string
		}
		b.do("GET", "/v1/fs"+path+"?list&limit=3&cursor="+cursor, "").want(200).decode(&page)
		for _, e := range page.Entries {
			names = append(names, e.Name)
		}
		if page.NextCursor == nil {
			return names
		}
		cursor = *page.NextCursor
	}
}

// serve asks the handler without a connection.
func serve(t *testing.T, handler http.Handler, method, target, ranges, match, body string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	r.Header.Set("X-Test-Caller", "ann")
	r.Header.Set("Range", ranges)
	r.Header.Set("If-Match", match)
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // the sentinel is compared by net/http the same way
				panic(p)
			}
		}()
		handler.ServeHTTP(w, r)
	}()
	return w.Code
}

// quota bounds a tenant's drive.
func (b *bench) quota(fs tree.FS, bytes, files int64) error {
	return b.drive.SetQuota(b.tb.Context(), fs, bytes, files)
}
