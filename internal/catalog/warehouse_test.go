package catalog_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/secret"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

// memStores open storage in memory.
type memStores struct{}

func (memStores) Check(tenant.StorageSpec, []blob.Location) error { return nil }

func (memStores) Open(_ context.Context, _ tenant.StorageSpec, places []blob.Location, _ func(context.Context) (tenant.Credentials, error)) (tenant.Opened, error) {
	var mounts []blob.Mount
	for _, l := range places {
		mounts = append(mounts, blob.Mount{Root: l, Bucket: mem.New()})
	}
	space, err := blob.NewSpace(mounts...)
	return tenant.Opened{Space: space}, err
}

const secondRoot = "s3://second/wh"

// second makes a warehouse that can be dropped, and puts the bench into it.
func (b *bench) second() *tenant.Directory {
	b.t.Helper()
	ctx := b.t.Context()
	keys, err := secret.Parse(secret.NewKey())
	b.must(err)
	d, err := tenant.Open(ctx, b.db, tenant.Config{
		Default: tenant.Storage{RootURI: rootURI, Space: b.w.Space}, Keys: keys, Stores: memStores{},
	})
	b.must(err)
	d.Bind(b.owns)
	_, err = d.Create(ctx, d.Tenant(), tenant.Spec{Name: "second", Storage: tenant.StorageSpec{URL: secondRoot, AllowedLocations: []string{"s3://shared/x"}}})
	b.must(err)
	b.w, err = d.Warehouse(ctx, d.Tenant(), "second")
	b.must(err)
	return d
}

func (b *bench) dropSecond(d *tenant.Directory) func(context.Context) error {
	return func(ctx context.Context) error { return d.Drop(ctx, d.Tenant(), "second") }
}

func TestDropWarehouse(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		b.create(ident(b.namespace("n"), "t"))
		inDefault := b.call()
		d := b.second()
		drop := b.dropSecond(d)
		refused := func(word string) {
			b.t.Helper()
			err := drop(ctx)
			b.wantCode(err, fault.Conflict, tenant.CodeInUse)
			if !strings.Contains(err.Error(), word) {
				b.t.Errorf("the message does not name %s: %v", word, err)
			}
		}
		id := ident(b.namespace("n"), "t")
		b.namespace("n", "below")
		b.create(id)
		refused("table n.t")
		made, err := b.drop(id, true)
		b.must(err)
		name := b.jobs.Name(made)
		refused(name)
		for range 5 {
			b.settle(made, errors.New("the store says no"))
			b.must(func() error {
				_, err := b.db.Exec(ctx, "UPDATE iceberg_cleanup_job SET available_at = 0 WHERE id = ?", int64(made))
				return err
			}())
		}
		refused(name) // FAILED
		_, err = b.jobs.Jobs().Ack(ctx, made)
		b.must(err)
		b.must(drop(ctx))

		for _, table := range []string{"namespaces", "tabular_locations", "table_uuids"} {
			if n := b.count(sqldb.Statement("SELECT COUNT(*) FROM "+table+" WHERE warehouse_id = ?"), b.w.ID); n != 0 {
				b.t.Errorf("%d rows of %s are left", n, table)
			}
		}
		_, err = b.cat.LoadTable(ctx, inDefault, id)
		b.must(err) // the default warehouse's namesake
		b.wantCode(b.cat.CreateNamespace(ctx, b.call(), catalog.Namespace{"m"}, nil), fault.NotFound, tenant.CodeNoSuchWarehouse)
		_, err = b.cat.CreateTable(ctx, b.call(), id.Namespace, b.request("t"))
		b.wantCode(err, fault.NotFound, catalog.CodeNoSuchNamespace)
		_, err = b.jobs.Jobs().Retry(ctx, made, job.RetryOptions{})
		b.wantCode(err, fault.NotFound, tenant.CodeNoSuchWarehouse)
	})
}

// A location is left only when nothing lives there.
func TestLeaveLocation(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		d := b.second()
		leave := func() error {
			_, err := d.Update(ctx, d.Tenant(), "second", tenant.Change{AllowedLocations: &[]string{}})
			return err
		}
		n := b.namespace("n")
		b.create(ident(n, "t"), `"location":"s3a://shared/x/t"`)
		b.wantCode(leave(), fault.Conflict, tenant.CodeInUse)
		_, err := b.drop(ident(n, "t"), false)
		b.must(err)
		b.must(b.cat.CreateNamespace(ctx, b.call(), catalog.Namespace{"m"}, map[string]string{"location": "s3://shared/x/m"}))
		b.wantCode(leave(), fault.Conflict, tenant.CodeInUse)
		b.must(b.cat.DropNamespace(ctx, b.call(), catalog.Namespace{"m"}))
		b.must(leave())
		// A server that has not looked since refuses too: it asks under the lock.
		_, err = b.cat.CreateTable(ctx, b.call(), n, b.request("t", `"location":"s3://shared/x/t"`))
		b.wantCode(err, fault.Invalid, catalog.CodeBadLocation)
		b.w, err = d.Warehouse(ctx, d.Tenant(), "second")
		b.must(err)
		_, err = b.cat.CreateTable(ctx, b.call(), n, b.request("t", `"location":"s3://shared/x/t"`))
		b.wantCode(err, fault.Invalid, catalog.CodeBadLocation)
	})
}

// Nothing is made in a warehouse that is being dropped, and none is dropped under what is
// being made.
func TestDropWarehouseRaces(t *testing.T) {
	t.Parallel()
	create := func(extra ...string) func(*bench) func(context.Context) error {
		return func(b *bench) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := b.cat.CreateTable(ctx, b.call(), catalog.Namespace{"n"}, b.request("t", extra...))
				return err
			}
		}
	}
	for _, tt := range []struct {
		name        string
		do          func(*bench) func(context.Context) error
		table       bool       // there is one already
		first, then fault.Kind // of the other's error when the drop is first, of the drop's when it is second
		both        bool       // the drop succeeds, too, when it is second
		only        bool       // second; first the drop is refused
	}{
		{name: "create", do: create(), first: fault.NotFound, then: fault.Conflict},
		{name: "create with a location", do: create(`"location":"` + secondRoot + `/x/t"`), first: fault.NotFound, then: fault.Conflict},
		{
			name: "create a namespace", first: fault.NotFound, both: true,
			do: func(b *bench) func(context.Context) error {
				return func(ctx context.Context) error {
					return b.cat.CreateNamespace(ctx, b.call(), catalog.Namespace{"m"}, nil)
				}
			},
		},
		{
			name: "purge", table: true, only: true, then: fault.Conflict,
			do: func(b *bench) func(context.Context) error {
				return func(ctx context.Context) error {
					_, err := b.cat.Drop(ctx, b.call(), catalog.KindTable, ident(catalog.Namespace{"n"}, "t"), catalog.DropOptions{Purge: true})
					return err
				}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			setup := func(b *bench) *tenant.Directory {
				d := b.second()
				n := b.namespace("n")
				if tt.table {
					b.create(ident(n, "t"))
				}
				return d
			}
			if !tt.only {
				t.Run("the drop first", func(t *testing.T) {
					each(t, func(b *bench) {
						err1, err2 := b.race(b.dropSecond(setup(b)), tt.do(b))
						if err1 != nil || err2 == nil || fault.KindOf(err2) != tt.first {
							b.t.Errorf("drop %v, then %v, want %s", err1, err2, tt.first)
						}
					})
				})
			}
			t.Run("the drop second", func(t *testing.T) {
				each(t, func(b *bench) {
					d := setup(b)
					err1, err2 := b.race(tt.do(b), b.dropSecond(d))
					switch {
					case err1 != nil:
						b.t.Errorf("the first: %v", err1)
					case tt.both && err2 != nil, !tt.both && (err2 == nil || fault.KindOf(err2) != tt.then):
						b.t.Errorf("the drop: %v, want %s", err2, tt.then)
					}
				})
			})
		})
	}
}
