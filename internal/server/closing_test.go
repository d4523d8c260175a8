package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
)

// job waits for a job's end and returns it.
func (r *running) job(name string) (j struct{ State, LastError string }) {
	r.t.Helper()
	for range 10 { // a busy machine takes long
		decode(r.t, r.want(200, "GET", "/v1/jobs/"+name+"?wait=30", ""), &j)
		if j.State != "PENDING" && j.State != "RUNNING" {
			break
		}
	}
	return j
}

// filesBelow lists what lies below a directory, marks of roots left out.
func filesBelow(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != ".lethe-root" {
			list = append(list, path)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return list
}

func TestDropWarehouseWithTables(t *testing.T) {
	t.Parallel()
	lake := t.TempDir()
	r := start(t, config(t, t.TempDir(), nil))
	r.want(201, "POST", "/v1/warehouses", fmt.Sprintf(`{"name":"lake","storage":{"url":"file://%s"}}`, lake))
	const prefix = "/iceberg/v1/lake/namespaces"
	r.want(200, "POST", prefix, `{"namespace":["n"]}`)
	r.want(200, "POST", prefix, `{"namespace":["n","m"]}`)
	for i := range 5 {
		r.want(200, "POST", prefix+"/n/tables", strings.Replace(create, `"t"`, fmt.Sprintf(`"t%d"`, i), 1))
		r.want(200, "POST", prefix+"/n%1Fm/tables", strings.Replace(create, `"t"`, fmt.Sprintf(`"t%d"`, i), 1))
	}
	r.table() // in the default warehouse, which has nothing to do with it
	if len(filesBelow(t, lake)) != 10 {
		t.Fatalf("%v", filesBelow(t, lake))
	}
	r.want(409, "DELETE", "/v1/warehouses/lake", "")
	r.want(409, "DELETE", "/v1/warehouses/default?purge=true", "")
	r.want(404, "DELETE", "/v1/warehouses/nothing?purge=true", "")
	r.want(400, "DELETE", "/v1/warehouses/lake?purge=1", "")
	var closing struct{ Job string }
	decode(t, r.want(202, "DELETE", "/v1/warehouses/lake?purge=true", ""), &closing)
	if got := r.do("POST", prefix+"/n/tables", create).status; got != 409 && got != 404 {
		t.Errorf("a create in it: %d", got)
	}
	if j := r.job(closing.Job); j.State != "SUCCEEDED" {
		t.Fatalf("%+v", j)
	}
	r.want(404, "GET", "/v1/warehouses/lake", "")
	r.want(404, "GET", prefix, "")
	if left := filesBelow(t, lake); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	r.want(200, "GET", space+"/n/tables/t", "")
	// Its place is free again.
	r.want(201, "POST", "/v1/warehouses", fmt.Sprintf(`{"name":"again","storage":{"url":"file://%s"}}`, lake))
}

// The job of a warehouse that is gone may be retried by mistake, when another one has its
// name: that one is not the job's.
func TestRetryOfACloseSparesTheNextWarehouse(t *testing.T) {
	t.Parallel()
	lake := t.TempDir()
	r := start(t, config(t, t.TempDir(), nil))
	const prefix = "/iceberg/v1/lake/namespaces"
	fresh := func() {
		r.want(201, "POST", "/v1/warehouses", fmt.Sprintf(`{"name":"lake","storage":{"url":"file://%s"}}`, lake))
		r.want(200, "POST", prefix, `{"namespace":["n"]}`)
		r.want(200, "POST", prefix+"/n/tables", create)
	}
	fresh()
	for _, path := range filesBelow(t, lake) { // a purge without its root metadata is FAILED
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	var closing struct{ Job string }
	decode(t, r.want(202, "DELETE", "/v1/warehouses/lake?purge=true", ""), &closing)
	if j := r.job(closing.Job); j.State != "FAILED" || !strings.Contains(j.LastError, "purge-1") {
		t.Fatalf("%+v, want one that names purge-1", j)
	}
	r.want(200, "POST", "/v1/jobs/purge-1/ack", "")
	r.want(204, "DELETE", "/v1/warehouses/lake", "")
	fresh()
	before := filesBelow(t, lake)

	r.want(200, "POST", "/v1/jobs/"+closing.Job+"/retry", "")
	if j := r.job(closing.Job); j.State != "SUCCEEDED" {
		t.Errorf("%+v, want one that finds nothing of its own", j)
	}
	r.want(200, "GET", prefix+"/n/tables/t", "")
	if after := filesBelow(t, lake); len(before) == 0 || !slices.Equal(before, after) {
		t.Errorf("files %v, were %v", after, before)
	}
}

// A purge that FAILED stops the drop of its tenant, whose tokens are dead: the operator deals
// with it.
func TestDropTenantPastAFailedPurge(t *testing.T) {
	t.Parallel()
	r := start(t, config(t, t.TempDir(), nil))
	acme, umbra := r.tenantToken("acme", allOfIt), r.tenantToken("umbra", allOfIt)
	store := newSignedStore(t, "lake")
	acme.want(201, "POST", "/v1/warehouses", store.warehouse("lake", "lake", "AKIAFIRST0001", firstSecret))
	const prefix = "/iceberg/v1/lake/namespaces"
	acme.want(200, "POST", prefix, `{"namespace":["n"]}`)
	acme.want(200, "POST", prefix+"/n/tables", create)
	list, err := store.backend.ListBucket("lake", nil, gofakes3.ListBucketPage{})
	if err != nil || len(list.Contents) != 1 {
		t.Fatalf("%d objects, %v", len(list.Contents), err)
	}
	if _, err := store.backend.DeleteObject("lake", list.Contents[0].Key); err != nil { // a purge without its root metadata is FAILED
		t.Fatal(err)
	}
	var closing struct{ Job string }
	decode(t, r.want(202, "DELETE", "/v1/tenants/acme?purge=true", ""), &closing)
	if j := r.job(closing.Job); j.State != "FAILED" || !strings.Contains(j.LastError, "lethe job ack purge-1") {
		t.Fatalf("%+v, want one that says what to do about purge-1", j)
	}
	umbra.want(404, "GET", "/v1/jobs/purge-1", "")
	umbra.want(404, "POST", "/v1/jobs/purge-1/ack", "")
	if j := r.job("purge-1"); j.State != "FAILED" {
		t.Errorf("%+v", j)
	}
	r.want(200, "POST", "/v1/jobs/purge-1/ack", "")
	r.want(200, "POST", "/v1/jobs/"+closing.Job+"/retry", "")
	if j := r.job(closing.Job); j.State != "SUCCEEDED" {
		t.Errorf("%+v", j)
	}
	r.want(404, "GET", "/v1/tenants/acme", "")
}

func TestDropTenantWithEverything(t *testing.T) {
	t.Parallel()
	r := start(t, config(t, t.TempDir(), nil, "--drive-delete-batch-size=10", "--trash-retention=1h", "--gc-grace=1ms"))
	acme, umbra := r.tenantToken("acme", allOfIt), r.tenantToken("umbra", allOfIt)
	for i := range 25 {
		acme.want(201, "PUT", fmt.Sprintf("/v1/fs/d/%d", i), "x")
	}
	acme.want(201, "PUT", "/v1/fs/trashed", "x")
	acme.want(200, "DELETE", "/v1/fs/trashed", "")
	acme.want(201, "POST", "/v1/uploads", `{"path":"/up","size":100}`)
	umbra.want(201, "PUT", "/v1/fs/d/1", "umbra's")
	r.want(409, "DELETE", "/v1/tenants/acme", "")
	r.want(409, "DELETE", "/v1/tenants/default?purge=true", "")
	var closing struct{ Job string }
	decode(t, r.want(202, "DELETE", "/v1/tenants/acme?purge=true", ""), &closing)
	acme.want(401, "GET", "/v1/fs/?list", "")
	umbra.want(404, "GET", "/v1/jobs/"+closing.Job, "")
	if j := r.job(closing.Job); j.State != "SUCCEEDED" {
		t.Fatalf("%+v", j)
	}
	r.want(404, "GET", "/v1/tenants/acme", "")
	if got := umbra.want(200, "GET", "/v1/fs/d/1", "").body; got != "umbra's" {
		t.Errorf("umbra reads %q", got)
	}
	if list := r.want(200, "GET", "/v1/jobs?kind=close", "").body; !strings.Contains(list, closing.Job) {
		t.Errorf("not listed: %s", list)
	}
}
