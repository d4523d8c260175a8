package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// job waits for a job's end and returns it.
func (r *running) job(name string) (j struct{ State, LastError string }) {
	r.t.Helper()
	decode(r.t, r.want(200, "GET", "/v1/jobs/"+name+"?wait=30", ""), &j)
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
