package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/local"
	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/edge/iceberg"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

// statements is what one request sends to the database.
type statements struct {
	Operation  string `json:"operation"`
	Statements int64  `json:"statements"`
}

// limits of the statements, and the operations they are for.
var statementLimits = []struct {
	operation string
	limit     float64
}{{"load, warm cache", 1}, {"HEAD", 1}, {"commit", 4}, {"append", 4}}

func statementChecks(counted []statements) []check {
	var checks []check
	for _, l := range statementLimits {
		for _, s := range counted {
			if s.Operation == l.operation {
				checks = append(checks, atMost("SQL statements, "+s.Operation, float64(s.Statements), l.limit))
			}
		}
	}
	return checks
}

// rooms are the catalog's face and what lies below it, without a worker or anything else
// that sends statements by itself.
type rooms struct {
	db      *sqldb.DB
	handler http.Handler
	root    string
	close   func() error
}

func (b *bench) rooms(ctx context.Context) (_ *rooms, err error) {
	data, err := os.MkdirTemp(b.dir, "rooms-")
	if err != nil {
		return nil, err
	}
	dsn, cleanup, err := b.emptyDatabase(ctx)
	if err != nil {
		return nil, err
	}
	r := &rooms{close: func() error { return errors.Join(os.RemoveAll(data), cleanup()) }}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if dsn == "" {
		dsn = "sqlite:" + filepath.Join(data, "lethe.db")
	}
	if r.db, err = sqldb.Open(ctx, dsn, sqldb.Config{}); err != nil {
		return nil, err
	}
	r.close = closing(r.db.Close, r.close)
	if err := r.db.Migrate(ctx, tenant.Migrations, purge.Migrations, catalog.Migrations); err != nil {
		return nil, err
	}
	warehouse := filepath.Join(data, "warehouse")
	bucket, err := local.Open(warehouse)
	if err != nil {
		return nil, err
	}
	r.close = closing(bucket.Close, r.close)
	root, err := blob.ParseLocation("file://" + warehouse)
	if err != nil {
		return nil, err
	}
	space, err := blob.NewSpace(blob.Mount{Root: root, Bucket: bucket})
	if err != nil {
		return nil, err
	}
	r.root = string(root)
	tenants, err := tenant.Open(ctx, r.db, tenant.Config{Default: tenant.Storage{RootURI: r.root, Space: space}})
	if err != nil {
		return nil, err
	}
	ownership := catalog.NewOwnership(r.db, tenants)
	jobs := purge.NewStore(r.db, job.Config{}, ownership.Hooks(), job.Observer{})
	ownership.Bind(jobs)
	r.handler = http.StripPrefix("/iceberg", iceberg.New(iceberg.Config{
		Catalog: catalog.New(catalog.Config{DB: r.db, Jobs: jobs}), Tenants: tenants, Jobs: waitingJobs{jobs}, Cleanups: jobs,
		Authenticate: func(context.Context, string) (*tenant.Principal, error) {
			return &tenant.Principal{Name: "bench", Tenant: tenants.Tenant(), TenantName: tenant.Default, Operator: true}, nil
		},
	}))
	return r, nil
}

func closing(first, then func() error) func() error {
	return func() error { return errors.Join(first(), then()) }
}

// waitingJobs are purge jobs that nobody runs.
type waitingJobs struct{ store *purge.Store }

func (j waitingJobs) Name(id job.ID) string                { return j.store.Name(id) }
func (j waitingJobs) ParseName(name string) (job.ID, bool) { return j.store.Jobs().ParseName(name) }
func (j waitingJobs) Wake()                                {}
func (j waitingJobs) Wait(context.Context, job.ID, time.Duration) (job.Row, error) {
	return job.Row{}, errors.New("no purge is waited for here")
}

// request is one request to a face without a network.
type request struct {
	method, path string
	header       map[string]string
	body         any
}

func (r *rooms) do(ctx context.Context, q request) error {
	var raw bytes.Buffer
	if q.body != nil {
		if err := json.NewEncoder(&raw).Encode(q.body); err != nil {
			return err
		}
	}
	req := httptest.NewRequestWithContext(ctx, q.method, q.path, &raw)
	req.Header.Set("Authorization", "Bearer bench")
	for name, value := range q.header {
		req.Header.Set(name, value)
	}
	answer := httptest.NewRecorder()
	r.handler.ServeHTTP(answer, req)
	if answer.Code/100 != 2 {
		return fmt.Errorf("%s %s: %d: %s", q.method, q.path, answer.Code, answer.Body)
	}
	return nil
}

// countStatements sends every operation once and counts what reaches the database.
func (b *bench) countStatements(ctx context.Context) (_ []statements, err error) {
	r, err := b.rooms(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	const tables = "/iceberg/v1/default/namespaces/" + namespace + "/tables"
	post := func(path string, body any) request { return request{method: http.MethodPost, path: path, body: body} }
	keyed := post(tables+"/a", propertyBody("3"))
	keyed.header = map[string]string{"Idempotency-Key": uuid.NewString()}
	drop := func(name string) request { return request{method: http.MethodDelete, path: tables + "/" + name} }
	dropPurge := drop("b?" + url.Values{"purgeRequested": {"true"}}.Encode())
	dropPurge.header = map[string]string{"X-Gravitino-Async-Purge": "true"}
	change := func(name string) any {
		body := propertyBody("4")
		body["identifier"] = object{"namespace": []string{namespace}, "name": name}
		return body
	}
	located := createBody("located")
	located["location"] = r.root + "/elsewhere/located"
	var counted []statements
	for _, step := range []struct {
		operation string // empty: not counted
		request
	}{
		{"", post("/iceberg/v1/default/namespaces", object{"namespace": []string{namespace}})},
		{"create", post(tables, createBody("a"))},
		{"", post(tables, createBody("b"))},
		{"", post(tables, createBody("c"))},
		{"load, warm cache", request{method: http.MethodGet, path: tables + "/a"}},
		{"HEAD", request{method: http.MethodHead, path: tables + "/a"}},
		{"list", request{method: http.MethodGet, path: tables}},
		{"commit", post(tables+"/a", propertyBody("1"))},
		{"append", post(tables+"/a", appendBody(0, 1))},
		{"commit with an Idempotency-Key", keyed},
		{"commit with an Idempotency-Key, sent again", keyed},
		{"transaction of 2 tables", post("/iceberg/v1/default/transactions/commit", object{"table-changes": []any{change("a"), change("b")}})},
		{"rename", post("/iceberg/v1/default/tables/rename", object{
			"source":      object{"namespace": []string{namespace}, "name": "c"},
			"destination": object{"namespace": []string{namespace}, "name": "d"},
		})},
		{"create staged", post(tables, staged("e"))},
		{"create at a location", post(tables, located)},
		{"drop", drop("a")},
		{"drop with purge", dropPurge},
	} {
		before := r.db.Statements()
		if err := r.do(ctx, step.request); err != nil {
			return nil, err
		}
		if step.operation != "" {
			counted = append(counted, statements{step.operation, r.db.Statements() - before})
		}
	}
	return counted, nil
}

func staged(name string) object {
	body := createBody(name)
	body["stage-create"] = true
	return body
}
