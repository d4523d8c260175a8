package admin_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/edge/admin"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/secret"
	"github.com/lethe-project/lethe/internal/tenant"
)

// warehouses keep what they are told.
type warehouses struct {
	tenant tenant.ID
	spec   tenant.Spec
	change tenant.Change
	calls  []string
	err    error
}

func (w *warehouses) told(call string, t tenant.ID) { w.tenant, w.calls = t, append(w.calls, call) }

var lake = tenant.Info{
	Name: "lake", Storage: tenant.StorageSpec{URL: "s3://lake/x", Region: "eu"},
	Credentials: tenant.Shown{Type: tenant.CredentialsStatic, AccessKeyID: "…0001"}, CreatedAt: 1000, UpdatedAt: 2000, Version: 2,
}

func (w *warehouses) Warehouses(_ context.Context, t tenant.ID, after string, limit int) ([]tenant.Info, string, error) {
	w.told("list "+after, t)
	if limit == 1 {
		return []tenant.Info{lake}, "lake", w.err
	}
	return nil, "", w.err
}

func (w *warehouses) Info(_ context.Context, t tenant.ID, name string) (tenant.Info, error) {
	w.told("info "+name, t)
	if name == "dir" {
		return tenant.Info{Name: "dir", Storage: tenant.StorageSpec{URL: "file:///x"}}, nil
	}
	if name == "own" {
		return tenant.Info{Name: "own", Storage: lake.Storage, Credentials: tenant.Shown{Type: tenant.CredentialsDefault}}, nil
	}
	return lake, w.err
}

func (w *warehouses) Create(_ context.Context, t tenant.ID, spec tenant.Spec) (tenant.Info, error) {
	w.told("create "+spec.Name, t)
	w.spec = spec
	return lake, w.err
}

func (w *warehouses) Update(_ context.Context, t tenant.ID, name string, change tenant.Change) (tenant.Info, error) {
	w.told("update "+name, t)
	w.change = change
	return lake, w.err
}

func (w *warehouses) Drop(_ context.Context, t tenant.ID, name string) error {
	w.told("drop "+name, t)
	return w.err
}

const lakeJSON = `{"name":"lake","storage":{"type":"s3","url":"s3://lake/x","region":"eu"},"credentials":{"type":"static","accessKeyId":"…0001"},` +
	`"tableDefaults":{},"tableOverrides":{},"createdAt":"1970-01-01T00:00:01Z","updatedAt":"1970-01-01T00:00:02Z","version":2,"closing":false}`

// ask sends one request and returns the answer.
func ask(t *testing.T, h http.Handler, method, path, body string) (status int, text string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func TestWarehouseRoutes(t *testing.T) {
	t.Parallel()
	const key = `{"type":"static","accessKeyId":"AKIA0001","secretAccessKey":"geheim"}`
	operator := &tenant.Principal{Name: "admin", Tenant: 1, TenantName: "default", Operator: true}
	ann := &tenant.Principal{Name: "ann", Tenant: 2, TenantName: "other", Grants: []tenant.Grant{{Admin: true}}}
	reader := &tenant.Principal{Name: "bob", Tenant: 2, TenantName: "other", Grants: []tenant.Grant{{Warehouse: "*", Actions: []tenant.Action{tenant.Read}}}}
	conflict := fault.New("test", fault.Conflict, tenant.CodeInUse, "tables")
	for _, tt := range []struct {
		name, method, path, body string
		who                      *tenant.Principal
		err                      error
		status                   int
		call                     string // the last one; empty is none
		audit                    string // in the audit line; empty is no line
		answer                   string
	}{
		{name: "list", method: "GET", path: "/v1/warehouses?pageSize=1&pageToken=a", who: ann, status: 200, call: "list a", answer: `{"warehouses":[` + lakeJSON + `],"nextPageToken":"lake"}`},
		{name: "list nothing", method: "GET", path: "/v1/warehouses", who: operator, status: 200, call: "list ", answer: `{"warehouses":[],"nextPageToken":null}`},
		{name: "show", method: "GET", path: "/v1/warehouses/lake", who: operator, status: 200, call: "info lake", answer: lakeJSON},
		{name: "create", method: "POST", path: "/v1/warehouses", body: `{"name":"lake","storage":{"type":"s3","url":"s3://lake/x"},"credentials":` + key + `}`, who: ann, status: 201, call: "create lake", audit: "warehouse.create principal=ann requestId=req-1 tenant=other warehouse=lake outcome=ok", answer: lakeJSON},
		{name: "create refused", method: "POST", path: "/v1/warehouses", body: `{"name":"lake","credentials":` + key + `}`, who: ann, err: conflict, status: 409, call: "create lake", audit: "outcome=conflict"},
		{name: "a directory by a tenant", method: "POST", path: "/v1/warehouses", body: `{"name":"x","storage":{"url":"file:///etc"}}`, who: ann, status: 403, audit: "outcome=denied"},
		{name: "a directory by the operator", method: "POST", path: "/v1/warehouses", body: `{"name":"x","storage":{"url":"file:///srv"}}`, who: operator, status: 201, call: "create x", audit: "outcome=ok"},
		{name: "the server's rights by a tenant", method: "POST", path: "/v1/warehouses", body: `{"name":"x","storage":{"url":"s3://lake"}}`, who: ann, status: 403, audit: "outcome=denied"},
		{name: "a role by a tenant", method: "PATCH", path: "/v1/warehouses/lake", body: `{"credentials":{"type":"assume-role","roleArn":"x"}}`, who: ann, status: 403, call: "info lake", audit: "outcome=denied"},
		{name: "a wider directory by a tenant", method: "PATCH", path: "/v1/warehouses/dir", body: `{"storage":{"allowedLocations":["file:///etc"]}}`, who: ann, status: 403, call: "info dir", audit: "outcome=denied"},
		{name: "another endpoint for the server's rights", method: "PATCH", path: "/v1/warehouses/own", body: `{"storage":{"endpoint":"http://elsewhere"}}`, who: ann, status: 403, call: "info own", audit: "outcome=denied"},
		{name: "the same by the operator", method: "PATCH", path: "/v1/warehouses/own", body: `{"storage":{"endpoint":"http://elsewhere"}}`, who: operator, status: 200, call: "update own", audit: "outcome=ok"},
		{name: "properties by a tenant", method: "PATCH", path: "/v1/warehouses/dir", body: `{"tableDefaults":{"a":"b"}}`, who: ann, status: 200, call: "update dir", audit: "outcome=ok"},
		{name: "update", method: "PATCH", path: "/v1/warehouses/lake", body: `{"storage":{"region":"eu"},"credentials":` + key + `}`, who: ann, status: 200, call: "update lake", audit: "warehouse.update", answer: lakeJSON},
		{name: "drop", method: "DELETE", path: "/v1/warehouses/lake", who: ann, status: 204, call: "drop lake", audit: "warehouse.drop"},
		{name: "drop refused", method: "DELETE", path: "/v1/warehouses/lake?purge=false", who: ann, err: conflict, status: 409, call: "drop lake", audit: "outcome=conflict"},
		{name: "purge", method: "DELETE", path: "/v1/warehouses/lake?purge=true", who: ann, status: 501, audit: "outcome=unsupported purge=true"},
		{name: "a reader", method: "GET", path: "/v1/warehouses", who: reader, status: 403},
		{name: "a reader drops", method: "DELETE", path: "/v1/warehouses/lake", who: reader, status: 403},
		{name: "another method", method: "PUT", path: "/v1/warehouses/lake", who: operator, status: 405},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			w := &warehouses{err: tt.err}
			h := admin.New(admin.Config{
				Warehouses: w,
				Principal:  func(context.Context) string { return tt.who.Name }, Caller: func(context.Context) *tenant.Principal { return tt.who },
				RequestID: func(context.Context) string { return "req-1" }, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			status, body := ask(t, h, tt.method, tt.path, tt.body)
			if status != tt.status || (tt.answer != "" && strings.TrimSpace(body) != tt.answer) {
				t.Errorf("status %d, want %d: %s", status, tt.status, body)
			}
			last := ""
			if len(w.calls) > 0 {
				last = w.calls[len(w.calls)-1]
				if w.tenant != tt.who.Tenant {
					t.Errorf("asked for tenant %d, want %d", w.tenant, tt.who.Tenant)
				}
			}
			if last != tt.call {
				t.Errorf("calls %v, want %q at the end", w.calls, tt.call)
			}
			if !strings.Contains(log.String(), tt.audit) || (tt.audit == "" && strings.Contains(log.String(), "audit")) {
				t.Errorf("log %s, want %q", log.String(), tt.audit)
			}
			if strings.Contains(log.String()+body, "geheim") {
				t.Errorf("the secret is shown: %s %s", log.String(), body)
			}
		})
	}
}

// What the body says reaches the directory, absent fields as absent.
func TestWarehouseBodies(t *testing.T) {
	t.Parallel()
	w := &warehouses{}
	h := admin.New(admin.Config{Warehouses: w})
	status, body := ask(t, h, "POST", "/v1/warehouses", `{"name":"n","storage":{"url":"s3://u","endpoint":"e","region":"r","pathStyle":false,"allowedLocations":["l"]},
		"credentials":{"type":"assume-role","roleArn":"a","externalId":"x","sessionName":"s","stsEndpoint":"t"},"tableDefaults":{"a":"b"},"tableOverrides":{"c":"d"}}`)
	if status != http.StatusCreated {
		t.Fatalf("status %d: %s", status, body)
	}
	off := false
	want := tenant.Spec{
		Name: "n", Storage: tenant.StorageSpec{URL: "s3://u", Endpoint: "e", Region: "r", PathStyle: &off, AllowedLocations: []string{"l"}},
		Credentials:   tenant.Credentials{Type: tenant.CredentialsRole, RoleARN: "a", ExternalID: secret.NewText("x"), SessionName: "s", STSEndpoint: "t"},
		TableDefaults: map[string]string{"a": "b"}, TableOverrides: map[string]string{"c": "d"},
	}
	same := cmp.Comparer(func(a, b secret.Text) bool { return a == b })
	if diff := cmp.Diff(want, w.spec, same); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if status, body = ask(t, h, "PATCH", "/v1/warehouses/n", `{"storage":{"region":"","allowedLocations":[]},"tableDefaults":{}}`); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	empty, none, nothing := "", map[string]string{}, []string{}
	if diff := cmp.Diff(tenant.Change{Region: &empty, AllowedLocations: &nothing, TableDefaults: &none}, w.change, same); diff != "" {
		t.Errorf("change (-want +got):\n%s", diff)
	}
}
