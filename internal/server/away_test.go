package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

const awayTables = "/iceberg/v1/lake/namespaces/n/tables"

// away starts a server with a table in a warehouse whose directory was moved elsewhere while
// it was down.
func away(t *testing.T) (r *running, lake, elsewhere string) {
	t.Helper()
	dir, lake := t.TempDir(), filepath.Join(t.TempDir(), "lake")
	if err := os.Mkdir(lake, 0o755); err != nil {
		t.Fatal(err)
	}
	r = start(t, config(t, dir, nil))
	r.want(201, "POST", "/v1/warehouses", fmt.Sprintf(`{"name":"lake","storage":{"url":"file://%s"}}`, lake))
	r.want(200, "POST", "/iceberg/v1/lake/namespaces", `{"namespace":["n"]}`)
	r.want(200, "POST", awayTables, create)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	elsewhere = lake + "-elsewhere"
	if err := os.Rename(lake, elsewhere); err != nil {
		t.Fatal(err)
	}
	return start(t, config(t, dir, nil)), lake, elsewhere
}

// A warehouse whose directory is gone for good: nothing can be read there, and what is in it
// can still be listed and dropped, and then the warehouse.
func TestWarehouseWhoseStorageIsGone(t *testing.T) {
	t.Parallel()
	r, _, elsewhere := away(t)
	r.want(200, "GET", awayTables, "")
	r.want(503, "GET", awayTables+"/t", "")
	if got := r.do("POST", awayTables, `{"name":"u","schema":{"type":"struct","fields":[]}}`); got.status < 400 {
		t.Errorf("a create where nothing is: %d", got.status)
	}
	r.want(204, "DELETE", awayTables+"/t", "")
	r.want(204, "DELETE", "/v1/warehouses/lake", "")
	if len(filesBelow(t, elsewhere)) != 1 {
		t.Errorf("a drop without purge left %v", filesBelow(t, elsewhere))
	}
}

// Storage that comes back is used again.
func TestWarehouseWhoseStorageComesBack(t *testing.T) {
	t.Parallel()
	r, lake, elsewhere := away(t)
	r.want(503, "GET", awayTables+"/t", "")
	if err := os.RemoveAll(lake); err != nil { // the server may have made an empty one
		t.Fatal(err)
	}
	if err := os.Rename(elsewhere, lake); err != nil {
		t.Fatal(err)
	}
	r.eventually(func() bool { return r.do("GET", awayTables+"/t", "").status == 200 })
}
