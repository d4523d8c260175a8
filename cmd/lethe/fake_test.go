package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lethe-project/lethe/client"
)

const fakeToken = "test-token"

// fake is a server made up of a few answers. What it is asked it writes to a file, so
// that scripts can look at it.
type fake struct {
	mux  *http.ServeMux
	file string

	mu    sync.Mutex
	jobs  map[string]client.Job
	looks map[string]int // how often a job was read
}

var day = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newFake(file string) *fake {
	f := &fake{mux: http.NewServeMux(), file: file, jobs: map[string]client.Job{}, looks: map[string]int{}}
	f.add("close-3", client.Succeeded, `{"begun":2}`, "lake")
	closing := f.jobs["close-3"]
	closing.Object = client.JobObject{Warehouse: "lake", Name: "lake", Type: "WAREHOUSE"}
	f.jobs["close-3"] = closing
	f.add("purge-1", client.Succeeded, `{"files":1200,"bytes":34000000}`, "orders")
	f.add("purge-2", client.Failed, `{"files":10,"bytes":500,"failed":2,"skipped":{"foreign":1}}`, "clicks")
	f.add("purge-3", client.Running, `{"files":5}`, "orders")
	f.add("purge-4", client.Running, `{}`, "users")
	f.add("purge-5", client.Running, `{}`, "users")
	f.add("purge-6", client.Pending, `{}`, "d.ots")
	f.add("purge-7", client.Running, `{}`, "users")

	f.add("purge-8", client.Succeeded, `{"files":7,"bytes":70,"acceptedMissing":1,"directories":2,"leftovers":100000,"leftoversMore":true,"notes":["bucket b keeps versions"]}`, "logs")
	f.add("purge-9", client.Succeeded, `{"files":1,"bytes":10,"leftovers":0,"leftoversUnknown":true}`, "logs")

	f.get("/iceberg/v1/default/namespaces", f.namespaces)
	f.get("/iceberg/v1/default/namespaces/shop", func(*http.Request) (any, error) {
		return client.NamespaceInfo{Namespace: client.Namespace{"shop"}, Properties: map[string]string{"owner": "eve", "location": "file:///w/shop"}}, nil
	})
	f.mux.HandleFunc("DELETE /iceberg/v1/default/namespaces/{ns}", f.dropNamespace)
	f.get("/iceberg/v1/default/namespaces/{ns}/tables", f.tables)
	f.get("/iceberg/v1/default/namespaces/shop/tables/orders", func(*http.Request) (any, error) {
		return json.RawMessage(`{"metadata-location":"file:///w/shop/orders/metadata/1.json","metadata":{"format-version":2,` +
			`"table-uuid":"u-1","location":"file:///w/shop/orders","current-snapshot-id":42,"snapshots":[{},{}]}}`), nil
	})
	f.mux.HandleFunc("DELETE /iceberg/v1/default/namespaces/shop/tables/{table}", f.dropTable)
	f.mux.HandleFunc("POST /iceberg/v1/default/namespaces/{ns}/register", f.register)
	f.mux.HandleFunc("POST /iceberg/v1/default/namespaces/shop/tables/{table}/unregister", f.unregister)
	f.mux.HandleFunc("POST /iceberg/v1/lake/namespaces/shop/tables/{table}/unregister", f.unregister)
	f.mux.HandleFunc("POST /iceberg/v1/default/{kind}/rename", f.rename)
	f.get("/iceberg/v1/default/namespaces/shop/views", func(*http.Request) (any, error) {
		return map[string]any{"identifiers": []client.Identifier{{Namespace: client.Namespace{"shop"}, Name: "recent"}}}, nil
	})
	f.get("/iceberg/v1/default/namespaces/shop/views/{view}", f.view)
	f.mux.HandleFunc("DELETE /iceberg/v1/default/namespaces/shop/views/{view}", f.dropView)
	f.get("/v1/jobs", f.listJobs)
	f.get("/v1/jobs/{job}", f.getJob)
	f.mux.HandleFunc("POST /v1/jobs/{job}/{action}", f.control)
	f.get("/api/metalakes/default/catalogs/default/cleanups", f.cleanups)
	f.warehouseRoutes()
	return f
}

func (f *fake) add(name string, state client.JobState, progress, table string) {
	job := client.Job{
		Job: name, Kind: "purge", State: state, Progress: json.RawMessage(progress), CreatedBy: "admin",
		CreatedAt: day, UpdatedAt: day.Add(time.Minute), AvailableAt: day,
		Object: client.JobObject{Warehouse: "default", Namespace: client.Namespace{"shop"}, Name: table, Type: "TABLE", Location: "file:///w/shop/" + table},
	}
	switch state {
	case client.Running:
		job.Phase, job.Owner = "DATA", "host/1"
	case client.Failed:
		job.Phase, job.Attempts, job.LastError = "DATA", 5, "access denied"
	case client.Succeeded:
		job.Phase = "ROOT"
	case client.Pending, client.Cancelled:
	}
	f.jobs[name] = job
}

// ServeHTTP asks for the token, and keeps what was asked.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	line := fmt.Sprintf("%s %s async=%s%s\n", r.Method, r.URL.RequestURI(), r.Header.Get("X-Gravitino-Async-Purge"), body)
	log, err := os.OpenFile(f.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, _ = log.WriteString(line)
		_ = log.Close()
	}
	if r.Header.Get("Authorization") != "Bearer "+fakeToken {
		refuse(w, 401, "Unauthenticated", "the token is not known")
		return
	}
	f.mux.ServeHTTP(w, r)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": code, "message": message, "requestId": "req-1"}})
}

func (f *fake) get(path string, answer func(*http.Request) (any, error)) {
	f.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		body, err := answer(r)
		if err != nil {
			refuse(w, 404, "NotFound", err.Error())
			return
		}
		_ = json.NewEncoder(w).Encode(body)
	})
}

func (f *fake) namespaces(r *http.Request) (any, error) {
	list := []client.Namespace{{"shop"}, {"v1.0"}}
	if r.URL.Query().Get("parent") == "v1.0" {
		list = []client.Namespace{{"v1.0", "a"}}
	}
	return map[string]any{"namespaces": list}, nil
}

func (f *fake) dropNamespace(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("ns") == "shop" {
		refuse(w, 409, "NamespaceNotEmptyException", "namespace shop is not empty")
		return
	}
	w.WriteHeader(204)
}

func (f *fake) tables(r *http.Request) (any, error) {
	if ns := r.PathValue("ns"); ns != "shop" {
		return nil, fmt.Errorf("namespace %s does not exist", ns)
	}
	return map[string]any{"identifiers": []client.Identifier{
		{Namespace: client.Namespace{"shop"}, Name: "orders"}, {Namespace: client.Namespace{"shop"}, Name: "d.ots"},
	}}, nil
}

// dropTable answers by the table: orders is purged at once, users is not finished in
// time, clicks fails.
func (f *fake) dropTable(w http.ResponseWriter, r *http.Request) {
	job := map[string]string{"orders": "purge-1", "users": "purge-3", "clicks": "purge-2"}[r.PathValue("table")]
	if job == "" {
		refuse(w, 404, "NoSuchTableException", "table shop."+r.PathValue("table")+" does not exist")
		return
	}
	if r.URL.Query().Get("purgeRequested") == "true" {
		state := f.jobs[job].State
		if r.Header.Get("X-Gravitino-Async-Purge") == "true" {
			state = client.Pending
		}
		w.Header().Set("X-Lethe-Job", job)
		w.Header().Set("X-Lethe-Job-State", string(state))
	}
	w.WriteHeader(204)
}

// register knows the namespace shop, whose table orders is taken.
func (f *fake) register(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Name      string `json:"name"`
		Location  string `json:"metadata-location"`
		Overwrite bool   `json:"overwrite"`
	}
	_ = json.NewDecoder(r.Body).Decode(&req)
	switch {
	case r.PathValue("ns") != "shop":
		refuse(w, 404, "NoSuchNamespaceException", "namespace "+r.PathValue("ns")+" does not exist")
	case req.Name == "orders" && !req.Overwrite:
		refuse(w, 409, "AlreadyExistsException", "Table already exists: shop.orders")
	default:
		_ = json.NewEncoder(w).Encode(client.TableInfo{MetadataLocation: req.Location, Metadata: json.RawMessage(`{}`)})
	}
}

func (f *fake) unregister(w http.ResponseWriter, r *http.Request) {
	if table := r.PathValue("table"); table != "orders" {
		refuse(w, 404, "NoSuchTableException", "Table does not exist: shop."+table)
		return
	}
	_ = json.NewEncoder(w).Encode(client.TableInfo{MetadataLocation: "file:///w/shop/orders/metadata/1.json", Metadata: json.RawMessage(`{}`)})
}

// rename knows one table, one view and the namespace shop.
func (f *fake) rename(w http.ResponseWriter, r *http.Request) {
	var req struct {
		From client.Identifier `json:"source"`
		To   client.Identifier `json:"destination"`
	}
	_ = json.NewDecoder(r.Body).Decode(&req)
	known := map[string]string{"tables": "orders", "views": "recent"}[r.PathValue("kind")]
	switch {
	case req.From.Name != known:
		refuse(w, 404, map[string]string{"tables": "NoSuchTableException", "views": "NoSuchViewException"}[r.PathValue("kind")], req.From.String()+" does not exist")
	case req.To.Namespace.String() != "shop":
		refuse(w, 404, "NoSuchNamespaceException", "namespace "+req.To.Namespace.String()+" does not exist")
	case req.To.Name == "d.ots":
		refuse(w, 409, "AlreadyExistsException", `Table already exists: shop.d\.ots`)
	default:
		w.WriteHeader(204)
	}
}

func (f *fake) view(r *http.Request) (any, error) {
	if view := r.PathValue("view"); view != "recent" {
		return nil, fmt.Errorf("View does not exist: shop.%s", view)
	}
	return json.RawMessage(`{"metadata-location":"file:///w/shop/recent/metadata/2.json","metadata":{"format-version":1,"view-uuid":"u-2",` +
		`"location":"file:///w/shop/recent","current-version-id":2,"versions":[` +
		`{"version-id":1,"representations":[{"type":"sql","dialect":"spark","sql":"SELECT 1"}]},` +
		`{"version-id":2,"representations":[{"type":"sql","dialect":"spark","sql":"SELECT *\n\tFROM orders\u001b[2J"},` +
		`{"type":"sql","dialect":"trino","sql":"SELECT 2"}]}]}}`), nil
}

func (f *fake) dropView(w http.ResponseWriter, r *http.Request) {
	view := r.PathValue("view")
	if view != "recent" && view != "purging" { // the server may be set to purge every view
		refuse(w, 404, "NoSuchViewException", "View does not exist: shop."+view)
		return
	}
	if view == "purging" || r.URL.Query().Get("purgeRequested") == "true" {
		w.Header().Set("X-Lethe-Job", "purge-1")
		w.Header().Set("X-Lethe-Job-State", string(client.Succeeded))
	}
	w.WriteHeader(204)
}

func (f *fake) listJobs(r *http.Request) (any, error) {
	var list []client.Job
	for _, name := range []string{"purge-6", "purge-2", "purge-1"} {
		if state := r.URL.Query().Get("state"); state == "" || state == string(f.jobs[name].State) {
			list = append(list, f.jobs[name])
		}
	}
	return map[string]any{"jobs": list}, nil
}

// getJob lets jobs come further by being looked at: purge-3 succeeds, purge-4 sees its
// cancellation, purge-7 succeeds in spite of one.
func (f *fake) getJob(r *http.Request) (any, error) {
	name := r.PathValue("job")
	job, ok := f.jobs[name]
	if !ok {
		return nil, fmt.Errorf("job %s does not exist", name)
	}
	f.looks[name]++
	switch {
	case name == "purge-3" && f.looks[name] == 2:
		job.State, job.Phase, job.Progress = client.Succeeded, "ROOT", json.RawMessage(`{"files":9,"bytes":1000,"leftovers":1}`)
	case name == "purge-4" && job.CancelRequested:
		job.State = client.Cancelled
	case name == "purge-7" && job.CancelRequested:
		job.State = client.Succeeded
	}
	f.jobs[name] = job
	return job, nil
}

func (f *fake) control(w http.ResponseWriter, r *http.Request) {
	name, action := r.PathValue("job"), r.PathValue("action")
	job, ok := f.jobs[name]
	switch {
	case !ok:
		refuse(w, 404, "NoSuchJob", "job "+name+" does not exist")
		return
	case action == "cancel" && job.State == client.Running:
		job.CancelRequested = true
	case action == "cancel" && job.State == client.Pending:
		job.State = client.Cancelled
	case action == "retry" && job.State == client.Failed:
		job.State = client.Pending
	case action == "ack" && job.State == client.Failed:
		job.Acked = true
	case (action == "pause" || action == "resume") && !job.State.Ended():
		job.Paused = action == "pause"
	default:
		refuse(w, 409, "JobState", "job "+name+" is "+string(job.State)+": no "+strings.ToLower(action))
		return
	}
	f.jobs[name] = job
	_ = json.NewEncoder(w).Encode(job)
}

func (f *fake) cleanups(*http.Request) (any, error) {
	return map[string]any{"cleanups": []client.Cleanup{{
		ID: 2, Job: "purge-2", Metalake: "default", Catalog: "default", Namespace: client.Namespace{"v1.0"}, Table: "t",
		ObjectType: "TABLE", State: client.Failed, Attempts: 5, Phase: "DATA", CreatedBy: "admin", CreatedAt: day, UpdatedAt: day,
	}}}, nil
}
