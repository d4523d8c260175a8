package purge_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// eachStore runs fn on a store over every database.
func eachStore(t *testing.T, fn func(t *testing.T, db *sqldb.DB, s *purge.Store)) {
	t.Helper()
	sqldbtest.Each(t, []sqldb.Migrations{purge.Migrations}, func(t *testing.T, db *sqldb.DB) {
		fn(t, db, purge.NewStore(db, jobtest.Config(), job.Hooks{}, job.Observer{}))
	})
}

func request(tenant, name string) purge.Request {
	return purge.Request{
		Tenant: tenant, WarehouseID: 7, Warehouse: "wh", Namespace: `["a.b"]`, Name: name, Type: purge.Table,
		UUID: "u-" + name, UUIDKey: "k-" + name, TableLocation: "mem://wh/root/" + name, Locations: []string{"mem://wh/root/" + name},
		MetadataLocation: "mem://wh/root/" + name + "/m?x#y", MetadataHash: "h-" + name,
		FileIOImpl: "lethe", FileIOProps: json.RawMessage(`{"credential":1}`), RequestID: "r-" + tenant + name, Principal: "admin",
	}
}

func insert(t *testing.T, db *sqldb.DB, s *purge.Store, r purge.Request) (id job.ID) {
	t.Helper()
	err := db.Tx(t.Context(), func(tx *sqldb.Tx) (err error) {
		id, err = s.Insert(t.Context(), tx, r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// inTx asks a question inside a transaction.
func inTx[T any](t *testing.T, db *sqldb.DB, ask func(tx *sqldb.Tx) (T, error)) (answer T) {
	t.Helper()
	err := db.Tx(t.Context(), func(tx *sqldb.Tx) (err error) {
		answer, err = ask(tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestStoreGet(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, db *sqldb.DB, s *purge.Store) {
		r := request("one", "t")
		r.Async = true
		id := insert(t, db, s, r)
		got, err := s.Get(t.Context(), db, id)
		if err != nil {
			t.Fatal(err)
		}
		want := purge.Job{
			ID: id, Tenant: r.Tenant, WarehouseID: 7, Warehouse: "wh", Namespace: r.Namespace, Name: "t", Type: purge.Table,
			UUID: r.UUID, UUIDKey: r.UUIDKey, TableLocation: r.TableLocation, Locations: r.Locations, MetadataLocation: r.MetadataLocation,
			MetadataHash: r.MetadataHash, FileIOImpl: "lethe", FileIOProps: r.FileIOProps, CreatedBy: "admin", RequestID: r.RequestID, Progress: json.RawMessage("{}"), Async: true,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if _, err := s.Get(t.Context(), db, id+1); fault.KindOf(err) != fault.NotFound {
			t.Errorf("another id: %v", err)
		}
		if waited, err := s.Find(t.Context(), insert(t, db, s, request("one", "waited"))); err != nil || waited.Async {
			t.Errorf("a drop that waits is async %v, %v", waited.Async, err)
		}
		if name := s.Name(id); name != fmt.Sprintf("purge-%d", id) {
			t.Errorf("name %s", name)
		}
	})
}

func TestStoreRollsBackWithTheDrop(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, db *sqldb.DB, s *purge.Store) {
		no := errors.New("no")
		err := db.Tx(t.Context(), func(tx *sqldb.Tx) error {
			if _, err := s.Insert(t.Context(), tx, request("one", "t")); err != nil {
				return err
			}
			return no
		})
		if !errors.Is(err, no) {
			t.Fatal(err)
		}
		if list, _, err := s.List(t.Context(), purge.Filter{}, job.Page{}); err != nil || len(list) != 0 {
			t.Errorf("%v, %v", list, err)
		}
	})
}

func TestStoreListPagesAndFilters(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, db *sqldb.DB, s *purge.Store) {
		for i := range 5 {
			insert(t, db, s, request("one", fmt.Sprintf("t%d", i)))
			insert(t, db, s, request("two", fmt.Sprintf("t%d", i)))
		}
		for name, tt := range map[string]struct {
			filter purge.Filter
			want   int
		}{
			"all":           {purge.Filter{}, 10},
			"a tenant":      {purge.Filter{Tenant: "one"}, 5},
			"a table":       {purge.Filter{Tenant: "one", Warehouse: "wh", Namespace: `["a.b"]`, Name: "t3"}, 1},
			"a namespace":   {purge.Filter{Tenant: "one", Namespace: `["a","b"]`}, 0},
			"a state":       {purge.Filter{Tenant: "two", State: job.Pending}, 5},
			"another state": {purge.Filter{State: job.Failed}, 0},
		} {
			var got int
			var last job.ID
			for page := (job.Page{Limit: 2}); ; {
				list, next, err := s.List(t.Context(), tt.filter, page)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				for _, l := range list {
					if l.Job.ID != l.Row.ID || (last != 0 && l.Row.ID >= last) {
						t.Errorf("%s: job %d row %d after %d", name, l.Job.ID, l.Row.ID, last)
					}
					if tt.filter.Tenant != "" && l.Job.Tenant != tt.filter.Tenant {
						t.Errorf("%s: tenant %s", name, l.Job.Tenant)
					}
					last = l.Row.ID
				}
				got += len(list)
				if page = next; page.Before == 0 {
					break
				}
			}
			if got != tt.want {
				t.Errorf("%s: %d jobs, want %d", name, got, tt.want)
			}
		}
	})
}

func TestStoreHolders(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, db *sqldb.DB, s *purge.Store) {
		id := insert(t, db, s, request("one", "t"))
		type answer struct {
			id    job.ID
			found bool
		}
		tombstone := func(tenant, namespace, name string) answer {
			return inTx(t, db, func(tx *sqldb.Tx) (a answer, err error) {
				a.id, a.found, err = s.Tombstone(t.Context(), tx, tenant, "wh", namespace, name)
				return a, err
			})
		}
		holder := func(warehouse int64, key, hash string, except job.ID) answer {
			return inTx(t, db, func(tx *sqldb.Tx) (a answer, err error) {
				a.id, a.found, err = s.Holder(t.Context(), tx, warehouse, key, hash, except)
				return a, err
			})
		}
		here, none := answer{id, true}, answer{}
		check := func(what string, got, want answer) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		check("pending", tombstone("one", `["a.b"]`, "t"), here)
		check("another tenant", tombstone("two", `["a.b"]`, "t"), none)
		check("another namespace", tombstone("one", `["a","b"]`, "t"), none)
		check("uuid", holder(7, "k-t", "", 0), here)
		check("metadata", holder(7, "", "h-t", 0), here)
		check("itself", holder(7, "k-t", "h-t", id), none)
		check("another warehouse", holder(8, "k-t", "h-t", 0), none)

		jobtest.Set(t, db, job.Table{Name: "iceberg_cleanup_job"}, id, "state", "FAILED")
		check("failed frees the name", tombstone("one", `["a.b"]`, "t"), none)
		check("failed keeps the uuid", holder(7, "k-t", "", 0), here)
		if _, err := s.Jobs().Ack(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		check("acknowledged", holder(7, "k-t", "h-t", 0), none)
		only := inTx(t, db, func(tx *sqldb.Tx) (map[int64][]string, error) { return s.KeysOnlyOf(t.Context(), tx, []job.ID{id}) })
		if !slices.Equal(only[7], []string{"k-t"}) {
			t.Errorf("keys that only this row has: %v", only)
		}
	})
}

// Every statement of the room is valid SQL on every engine.
func TestStatementsPrepare(t *testing.T) {
	t.Parallel()
	sqldbtest.PrepareAll(t, ".", []sqldb.Migrations{purge.Migrations}, nil)
}
