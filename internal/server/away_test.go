package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A warehouse whose directory is gone for good: nothing can be read there, and what is in it
// can still be listed and dropped, and then the warehouse.
func TestWarehouseWhoseStorageIsGone(t *testing.T) {
	t.Parallel()
	dir, lake := t.TempDir(), filepath.Join(t.TempDir(), "lake")
	if err := os.Mkdir(lake, 0o755); err != nil {
		t.Fatal(err)
	}
	const prefix = "/iceberg/v1/lake/namespaces"
	r := start(t, config(t, dir, nil))
	r.want(201, "POST", "/v1/warehouses", fmt.Sprintf(`{"name":"lake","storage":{"url":"file://%s"}}`, lake))
	r.want(200, "POST", prefix, `{"namespace":["n"]}`)
	r.want(200, "POST", prefix+"/n/tables", create)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	kept := lake + "-elsewhere"
	if err := os.Rename(lake, kept); err != nil {
		t.Fatal(err)
	}
	r = start(t, config(t, dir, nil))
	r.want(200, "GET", prefix+"/n/tables", "")
	r.want(503, "GET", prefix+"/n/tables/t", "")
	if got := r.do("POST", prefix+"/n/tables", `{"name":"u","schema":{"type":"struct","fields":[]}}`); got.status < 400 {
		t.Errorf("a create where nothing is: %d", got.status)
	}
	r.want(204, "DELETE", prefix+"/n/tables/t", "")
	r.want(204, "DELETE", "/v1/warehouses/lake", "")
	if len(filesBelow(t, kept)) != 1 {
		t.Errorf("a drop without purge left %v", filesBelow(t, kept))
	}
}

// Storage that comes back is used again.
func TestWarehouseWhoseStorageComesBack(t *testing.T) {
	t.Parallel()
	dir, lake := t.TempDir(), filepath.Join(t.TempDir(), "lake")
	if err := os.Mkdir(lake, 0o755); err != nil {
		t.Fatal(err)
	}
	const prefix = "/iceberg/v1/lake/namespaces"
	r := start(t, config(t, dir, nil))
	r.want(201, "POST", "/v1/warehouses", fmt.Sprintf(`{"name":"lake","storage":{"url":"file://%s"}}`, lake))
	r.want(200, "POST", prefix, `{"namespace":["n"]}`)
	r.want(200, "POST", prefix+"/n/tables", create)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(lake, lake+"-unmounted"); err != nil {
		t.Fatal(err)
	}
	r = start(t, config(t, dir, nil))
	r.want(503, "GET", prefix+"/n/tables/t", "")
	if err := os.RemoveAll(lake); err != nil { // the server may have made an empty one
		t.Fatal(err)
	}
	if err := os.Rename(lake+"-unmounted", lake); err != nil {
		t.Fatal(err)
	}
	r.eventually(func() bool { return r.do("GET", prefix+"/n/tables/t", "").status == 200 })
}
