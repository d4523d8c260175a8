package tenant_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/faulty"
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/secret"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/internal/tenant"
)

const (
	key1 = "k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	key2 = "k2:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
	// plain is the secret that must never be seen.
	plain = "geheim-geheim"
)

// fakeStores open storage in memory.
type fakeStores struct {
	mu     sync.Mutex
	opened []string // URLs, in order
	closed int
	// current tells the credentials of the storage that was opened last.
	current func(context.Context) (tenant.Credentials, error)
	outage  blob.Class // of every call, when set
}

func (f *fakeStores) Check(spec tenant.StorageSpec, _ []blob.Location) error {
	if strings.Contains(spec.URL, "refused") {
		return fault.New("test", fault.Invalid, tenant.CodeBadWarehouse, "refused")
	}
	return nil
}

func (f *fakeStores) Open(_ context.Context, spec tenant.StorageSpec, places []blob.Location, current func(context.Context) (tenant.Credentials, error)) (tenant.Opened, error) {
	if strings.Contains(spec.URL, "missing") {
		return tenant.Opened{}, errors.New("no such bucket")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened, f.current = append(f.opened, spec.URL), current
	var mounts []blob.Mount
	for _, l := range places {
		bucket := faulty.New(mem.New())
		switch {
		case f.outage != blob.Other:
			bucket.SetOutage(f.outage)
		case strings.Contains(spec.URL, "denied"):
			bucket.SetOutage(blob.Denied)
		case strings.Contains(spec.URL, "away"):
			bucket.SetOutage(blob.Unavailable)
		}
		mounts = append(mounts, blob.Mount{Root: l, Bucket: bucket})
	}
	space, err := blob.NewSpace(mounts...)
	return tenant.Opened{
		Space: space, ClientConfig: map[string]string{"client.region": spec.Region},
		Close: func() error { f.mu.Lock(); defer f.mu.Unlock(); f.closed++; return nil },
	}, err
}

// fakeGuard is a catalog that refuses what it is told to.
type fakeGuard struct{ dropping, leaving error }

func (g *fakeGuard) Dropping(context.Context, *sqldb.Tx, tenant.Ref) error { return g.dropping }

func (g *fakeGuard) Leaving(context.Context, *sqldb.Tx, tenant.WarehouseID, blob.Location) error {
	return g.leaving
}

// house is one server's directory.
type house struct {
	*tenant.Directory
	stores *fakeStores
	guard  *fakeGuard
}

func tryOpen(t *testing.T, db *sqldb.DB, keys string, recheck time.Duration) (*house, error) {
	t.Helper()
	ring, err := secret.Parse(keys)
	if err != nil {
		t.Fatal(err)
	}
	space, err := blob.NewSpace(blob.Mount{Root: "s3://main/wh", Bucket: mem.New()}, blob.Mount{Root: "s3://more", Bucket: mem.New()})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{stores: &fakeStores{}, guard: &fakeGuard{}}
	h.Directory, err = tenant.Open(t.Context(), db, tenant.Config{
		Default: tenant.Storage{RootURI: "s3://main/wh", Space: space, Spec: tenant.StorageSpec{URL: "s3://main/wh"}},
		Keys:    ring, Stores: h.stores, Recheck: recheck, Reserved: []blob.Location{"s3://main/drive"},
	})
	if err != nil {
		return nil, err
	}
	h.Bind(h.guard)
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, nil
}

func open(t *testing.T, db *sqldb.DB) *house {
	t.Helper()
	h, err := tryOpen(t, db, key1, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// another makes a second tenant.
func another(t *testing.T, db *sqldb.DB) tenant.ID {
	t.Helper()
	var id tenant.ID
	if _, err := db.Exec(t.Context(), "INSERT INTO tenants (name, created_at) VALUES ('other', 1)"); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow(t.Context(), "SELECT id FROM tenants WHERE name = 'other'").Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

func static(id string) tenant.Credentials {
	return tenant.Credentials{Type: tenant.CredentialsStatic, AccessKeyID: id, SecretAccessKey: secret.NewText(plain + id)}
}

func lake() tenant.Spec {
	return tenant.Spec{
		Name:          "lake",
		Storage:       tenant.StorageSpec{URL: "s3://lake/a", Region: "eu-test-1", AllowedLocations: []string{"s3a://lake/b/"}},
		Credentials:   static("AKIAFIRST"),
		TableDefaults: map[string]string{"write.format.default": "orc"},
	}
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

var onlyTenant = []sqldb.Migrations{tenant.Migrations}

func TestWarehouseLife(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, onlyTenant, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		h := open(t, db)
		mine, theirs := h.Tenant(), another(t, db)
		info := must[tenant.Info](t)(h.Create(ctx, mine, lake()))
		want := tenant.Info{
			Name: "lake", Storage: lake().Storage, Credentials: tenant.Shown{Type: tenant.CredentialsStatic, AccessKeyID: "…IRST"},
			TableDefaults: lake().TableDefaults, Version: 1,
		}
		times := cmpopts.IgnoreFields(tenant.Info{}, "CreatedAt", "UpdatedAt")
		if diff := cmp.Diff(want, info, times); diff != "" {
			t.Errorf("made (-want +got):\n%s", diff)
		}
		if info.CreatedAt == 0 || info.UpdatedAt < info.CreatedAt {
			t.Errorf("times %d, %d", info.CreatedAt, info.UpdatedAt)
		}
		w := must[*tenant.Warehouse](t)(h.Warehouse(ctx, mine, "lake"))
		if w.TenantName != tenant.Default || w.RootURI != "s3://lake/a" || w.TableDefaults["write.format.default"] != "orc" || w.ClientConfig["client.region"] != "eu-test-1" {
			t.Errorf("opened as %+v", w)
		}
		if _, err := w.Space.Resolve("s3n://lake/b/t/x"); err != nil {
			t.Errorf("an allowed location: %v", err)
		}
		impl, props := w.FileIO()
		if impl == "" || !strings.Contains(string(props), `"credentials-id":"`) || strings.Contains(string(props), "AKIA") {
			t.Errorf("file io %s %s", impl, props)
		}
		if same := must[*tenant.Warehouse](t)(h.WarehouseByID(ctx, w.ID)); same != w {
			t.Error("opened twice")
		}

		for name, err := range map[string]error{
			"the name": func() error { _, err := h.Create(ctx, mine, lake()); return err }(),
			"show":     func() error { _, err := h.Info(ctx, theirs, "lake"); return err }(),
			"use":      func() error { _, err := h.Warehouse(ctx, theirs, "lake"); return err }(),
			"update":   func() error { _, err := h.Update(ctx, theirs, "lake", tenant.Change{}); return err }(),
			"drop":     h.Drop(ctx, theirs, "lake"),
			"nothing":  h.Drop(ctx, mine, "nothing"),
			"default":  h.Drop(ctx, mine, tenant.Default),
		} {
			want := map[string]fault.Code{"the name": tenant.CodeWarehouseExists, "default": tenant.CodeDefault}[name]
			if want == "" {
				want = tenant.CodeNoSuchWarehouse
			}
			if !fault.Is(err, want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
		spec := lake()
		spec.Storage = tenant.StorageSpec{URL: "s3://elsewhere"}
		must[tenant.Info](t)(h.Create(ctx, theirs, spec)) // names are a tenant's own
		if page, next, err := h.Warehouses(ctx, mine, "", 1); err != nil || next != tenant.Default || len(page) != 1 {
			t.Errorf("first page %v, %q, %v", page, next, err)
		}
		page, next, err := h.Warehouses(ctx, mine, tenant.Default, 1)
		if err != nil || next != "" || len(page) != 1 || page[0].Name != "lake" {
			t.Errorf("second page %v, %q, %v", page, next, err)
		}

		h.guard.dropping = fault.New("test", fault.Conflict, tenant.CodeInUse, "tables")
		if err := h.Drop(ctx, mine, "lake"); !fault.Is(err, tenant.CodeInUse) {
			t.Errorf("dropped with tables: %v", err)
		}
		h.guard.dropping = nil
		if err := h.Drop(ctx, mine, "lake"); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Warehouse(ctx, mine, "lake"); !fault.Is(err, tenant.CodeNoSuchWarehouse) {
			t.Errorf("used after the drop: %v", err)
		}
		if _, err := h.WarehouseByID(ctx, w.ID); !fault.Is(err, tenant.CodeNoSuchWarehouse) {
			t.Errorf("used by key after the drop: %v", err)
		}
		if h.stores.closed != 3 { // the trials of two creations, and what was dropped
			t.Errorf("%d storages closed, want 3", h.stores.closed)
		}
		again := must[tenant.Info](t)(h.Create(ctx, mine, lake())) // its places are free
		if w := must[*tenant.Warehouse](t)(h.Warehouse(ctx, mine, "lake")); again.Version != 1 || w == nil {
			t.Errorf("made again: %+v", again)
		}
	})
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, onlyTenant, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		h := open(t, db)
		mine := h.Tenant()
		must[tenant.Info](t)(h.Create(ctx, mine, lake()))
		before := must[*tenant.Warehouse](t)(h.Warehouse(ctx, mine, "lake"))
		current := h.stores.current

		set := map[string]string{"a": "b"}
		info := must[tenant.Info](t)(h.Update(ctx, mine, "lake", tenant.Change{TableOverrides: &set}))
		if diff := cmp.Diff(set, info.TableOverrides); diff != "" || info.Version != 2 || info.TableDefaults["write.format.default"] != "orc" {
			t.Errorf("properties: %+v", info)
		}
		after := must[*tenant.Warehouse](t)(h.Warehouse(ctx, mine, "lake"))
		if after == before || after.TableOverrides["a"] != "b" || before.TableOverrides["a"] != "" {
			t.Error("the change does not show at once, or in what was handed out before")
		}

		newer := static("AKIASECOND")
		region := "us-test-2"
		info = must[tenant.Info](t)(h.Update(ctx, mine, "lake", tenant.Change{Credentials: &newer, Region: &region}))
		if info.Credentials.AccessKeyID != "…COND" || info.Storage.Region != region {
			t.Errorf("credentials: %+v", info)
		}
		_, props := must[*tenant.Warehouse](t)(h.Warehouse(ctx, mine, "lake")).FileIO()
		_, old := before.FileIO()
		if !strings.Contains(string(old), "credentials-id") || idOf(props) != idOf(old) {
			t.Errorf("the credentials' key went from %s to %s: jobs name it", old, props)
		}
		if got, err := h.stores.current(ctx); err != nil || got != newer {
			t.Errorf("credentials of the storage: %v, %v", got.AccessKeyID, err)
		}
		_ = current // the storage from before asks at most Recheck ago; see TestTwoServers

		none := tenant.Credentials{Type: tenant.CredentialsDefault}
		if info = must[tenant.Info](t)(h.Update(ctx, mine, "lake", tenant.Change{Credentials: &none})); info.Credentials.Type != tenant.CredentialsDefault {
			t.Errorf("default credentials: %+v", info)
		}
		var left int
		if err := db.QueryRow(ctx, "SELECT COUNT(*) FROM warehouse_credentials").Scan(&left); err != nil || left != 0 {
			t.Errorf("%d rows of credentials left, %v", left, err)
		}

		h.guard.leaving = fault.New("test", fault.Conflict, tenant.CodeInUse, "tables")
		nowhere, elsewhere := []string{}, "s3://lake/c"
		if _, err := h.Update(ctx, mine, "lake", tenant.Change{AllowedLocations: &nowhere}); !fault.Is(err, tenant.CodeInUse) {
			t.Errorf("left a location with tables: %v", err)
		}
		more := []string{"s3://lake/b", elsewhere}
		if info = must[tenant.Info](t)(h.Update(ctx, mine, "lake", tenant.Change{AllowedLocations: &more})); !slices.Equal(info.Storage.AllowedLocations, more) {
			t.Errorf("more places: %+v", info)
		}
		h.guard.leaving = nil
		must[tenant.Info](t)(h.Update(ctx, mine, "lake", tenant.Change{AllowedLocations: &nowhere}))
		must[tenant.Info](t)(h.Create(ctx, mine, tenant.Spec{Name: "freed", Storage: tenant.StorageSpec{URL: elsewhere}}))

		url, other := "s3a://lake/a/", "s3://lake/z"
		must[tenant.Info](t)(h.Update(ctx, mine, "lake", tenant.Change{URL: &url}))
		if _, err := h.Update(ctx, mine, "lake", tenant.Change{URL: &other}); !fault.Is(err, tenant.CodeBadWarehouse) {
			t.Errorf("another root: %v", err)
		}
		must[tenant.Info](t)(h.Update(ctx, mine, tenant.Default, tenant.Change{TableDefaults: &set}))
		if w := must[*tenant.Warehouse](t)(h.Warehouse(ctx, mine, tenant.Default)); w.TableDefaults["a"] != "b" || w.Space.Root() != "s3://main/wh" {
			t.Errorf("the default one: %+v", w)
		}
		if _, err := h.Update(ctx, mine, tenant.Default, tenant.Change{Region: &region}); !fault.Is(err, tenant.CodeDefault) {
			t.Errorf("the default one's storage: %v", err)
		}
	})
}

func idOf(props []byte) string {
	_, rest, _ := strings.Cut(string(props), `"credentials-id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

func TestPlacesAreDisjoint(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, onlyTenant, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		h := open(t, db)
		must[tenant.Info](t)(h.Create(ctx, another(t, db), lake()))
		for i, tt := range []struct {
			url, allowed string
			free         bool
		}{
			{"s3://lake/a", "", false},
			{"s3n://lake/a/", "", false},
			{"s3://lake/x/../a/deep", "", false},
			{"s3://lake", "", false},
			{"s3://x1", "s3://lake/b/c", false},
			{"s3://main/wh/t", "", false},
			{"s3://more/x", "", false},
			{"s3://main", "", false},
			{"s3://main/drive/y", "", false},
			{"s3://lake/a2", "", true},
			{"s3://lake/ab/c", "s3://lake/B", true},
			{"s3://lak", "", true},
			{"file:///lake/a", "", true},
		} {
			spec := tenant.Spec{Name: fmt.Sprintf("w%d", i), Storage: tenant.StorageSpec{URL: tt.url}}
			if tt.allowed != "" {
				spec.Storage.AllowedLocations = []string{tt.allowed}
			}
			_, err := h.Create(ctx, h.Tenant(), spec)
			if tt.free && err != nil || !tt.free && !fault.Is(err, tenant.CodeStorageTaken) {
				t.Errorf("%s %s: %v, free %v", tt.url, tt.allowed, err, tt.free)
			}
		}
		into := []string{"s3://lake/ab"}
		if _, err := h.Update(ctx, h.Tenant(), "w9", tenant.Change{AllowedLocations: &into}); !fault.Is(err, tenant.CodeStorageTaken) {
			t.Errorf("an update into another's place: %v", err)
		}
		if _, err := db.Exec(ctx, "UPDATE storage_claims SET location = 's3://more/' WHERE location = 's3://lake/a/'"); err == nil {
			t.Error("one place has two owners")
		}
	})
}

// Of warehouses that are made at once, by two servers, in places that overlap, one is.
func TestCreateRace(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, onlyTenant, func(t *testing.T, db *sqldb.DB) {
		houses := []*house{open(t, db), open(t, db)}
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			h := houses[i%2]
			wg.Go(func() {
				url := "s3://race/a" + strings.Repeat("/b", i)
				_, errs[i] = h.Create(t.Context(), h.Tenant(), tenant.Spec{Name: fmt.Sprintf("w%d", i), Storage: tenant.StorageSpec{URL: url}})
			})
		}
		wg.Wait()
		made := 0
		for _, err := range errs {
			if err == nil {
				made++
			} else if !fault.Is(err, tenant.CodeStorageTaken) {
				t.Errorf("refused with %v", err)
			}
		}
		if made != 1 {
			t.Errorf("%d were made, want 1", made)
		}
	})
}

func TestRefused(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Servers(t)[0].Open(t, sqldb.Config{}, onlyTenant...)
	h := open(t, db)
	yes := true
	for _, tt := range []struct {
		name string
		edit func(*tenant.Spec)
		want string
	}{
		{"no name", func(s *tenant.Spec) { s.Name = "" }, "name"},
		{"a name with a slash", func(s *tenant.Spec) { s.Name = "a/b" }, "name"},
		{"a name of dots", func(s *tenant.Spec) { s.Name = ".." }, "name"},
		{"a long name", func(s *tenant.Spec) { s.Name = strings.Repeat("n", 129) }, "name"},
		{"no URL", func(s *tenant.Spec) { s.Storage.URL = "" }, "storage.url is required"},
		{"no kind of store", func(s *tenant.Spec) { s.Storage.URL = "gs://x/y" }, "s3:// or file://"},
		{"no URL at all", func(s *tenant.Spec) { s.Storage.URL = plain }, "s3:// or file://"},
		{"the store says no", func(s *tenant.Spec) { s.Storage.URL = "s3://refused" }, "refused"},
		{"the secret is wrong", func(s *tenant.Spec) { s.Storage.URL = "s3://denied" }, "denies a listing"},
		{"the store is away", func(s *tenant.Spec) { s.Storage.URL = "s3://away" }, "does not answer"},
		{"the bucket is missing", func(s *tenant.Spec) { s.Storage.URL = "s3://missing" }, "cannot be opened"},
		{"two kinds of store", func(s *tenant.Spec) { s.Storage.AllowedLocations = []string{"file:///x"} }, "same kind"},
		{"overlapping places", func(s *tenant.Spec) { s.Storage.AllowedLocations = []string{"s3://lake"} }, "overlap"},
		{"too many places", func(s *tenant.Spec) { s.Storage.AllowedLocations = make([]string, 33) }, "33 allowed"},
		{"a deep root", func(s *tenant.Spec) { s.Storage.URL = "s3://lake" + strings.Repeat("/x", 70) }, "deeper"},
		{"a region with a dot", func(s *tenant.Spec) { s.Storage.Region = "x.example.com/" }, "region"},
		{"a directory with a path style", func(s *tenant.Spec) { s.Storage = tenant.StorageSpec{URL: "file:///x", PathStyle: &yes} }, "path style"},
		{"a directory with credentials", func(s *tenant.Spec) { s.Storage = tenant.StorageSpec{URL: "file:///x"} }, "no credentials"},
		{"an unknown type", func(s *tenant.Spec) { s.Credentials.Type = plain }, "credentials.type"},
		{"no secret", func(s *tenant.Spec) { s.Credentials.SecretAccessKey = secret.Text{} }, "secretAccessKey"},
		{"no id", func(s *tenant.Spec) { s.Credentials.AccessKeyID = "" }, "accessKeyId"},
		{"a secret with a line end", func(s *tenant.Spec) { s.Credentials.SecretAccessKey = secret.NewText(plain + "\n") }, "secretAccessKey"},
		{"a key of type default", func(s *tenant.Spec) { s.Credentials.Type = "" }, "type default"},
		{"a role with a key", func(s *tenant.Spec) { s.Credentials.Type, s.Credentials.RoleARN = tenant.CredentialsRole, "arn" }, "assume-role"},
		{"a role without a name", func(s *tenant.Spec) { s.Credentials = tenant.Credentials{Type: tenant.CredentialsRole} }, "roleArn"},
		{"a token service with a password", func(s *tenant.Spec) {
			s.Credentials = tenant.Credentials{Type: tenant.CredentialsRole, RoleARN: "arn", STSEndpoint: "http://u:" + plain + "@h"}
		}, "stsEndpoint"},
		{"one place for all tables", func(s *tenant.Spec) { s.TableDefaults = map[string]string{"write.data.path": "s3://lake/a/d"} }, "write.data.path"},
		{"a property without a name", func(s *tenant.Spec) { s.TableOverrides = map[string]string{"": plain} }, "tableOverrides"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := lake()
			tt.edit(&spec)
			_, err := h.Create(t.Context(), h.Tenant(), spec)
			if err == nil || fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Public(err), tt.want) {
				t.Errorf("error %v, want an invalid one with %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), plain) {
				t.Errorf("the message shows the secret: %v", err)
			}
		})
	}
}

// Credentials that the store does not take change nothing; what needs no store changes all
// the same.
func TestUpdateIsTried(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	h := open(t, sqldbtest.Servers(t)[0].Open(t, sqldb.Config{}, onlyTenant...))
	before := must[tenant.Info](t)(h.Create(ctx, h.Tenant(), lake()))
	newer := lake().Credentials
	newer.AccessKeyID = "AKIANEWER9999"
	h.stores.outage = blob.Denied
	_, err := h.Update(ctx, h.Tenant(), "lake", tenant.Change{Credentials: &newer})
	if !fault.Is(err, tenant.CodeStorageTrouble) || fault.KindOf(err) != fault.Invalid {
		t.Errorf("error %v, want trouble of the storage", err)
	}
	if after := must[tenant.Info](t)(h.Info(ctx, h.Tenant(), "lake")); after.Version != before.Version || after.Credentials != before.Credentials {
		t.Errorf("the warehouse is %+v after a refusal, was %+v", after, before)
	}
	set := map[string]string{"owner": "me"}
	must[tenant.Info](t)(h.Update(ctx, h.Tenant(), "lake", tenant.Change{TableDefaults: &set}))
	h.stores.outage = blob.Other
	if after := must[tenant.Info](t)(h.Update(ctx, h.Tenant(), "lake", tenant.Change{Credentials: &newer})); after.Credentials == before.Credentials {
		t.Errorf("the credentials are still %+v", after.Credentials)
	}
}

// What one server changes the others see when they look again, and no later.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, onlyTenant, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		writer := open(t, db)
		slow := open(t, db)
		quick, err := tryOpen(t, db, key1, time.Nanosecond)
		if err != nil {
			t.Fatal(err)
		}
		mine := writer.Tenant()
		must[tenant.Info](t)(writer.Create(ctx, mine, lake()))
		first := must[*tenant.Warehouse](t)(quick.Warehouse(ctx, mine, "lake")) // new ones show at once
		held := quick.stores.current
		stale := must[*tenant.Warehouse](t)(slow.Warehouse(ctx, mine, "lake"))

		newer := static("AKIASECOND")
		set := map[string]string{"a": "b"}
		must[tenant.Info](t)(writer.Update(ctx, mine, "lake", tenant.Change{Credentials: &newer, TableDefaults: &set}))
		if got := must[*tenant.Warehouse](t)(quick.Warehouse(ctx, mine, "lake")); got == first || got.TableDefaults["a"] != "b" {
			t.Error("the change is not seen")
		}
		if got, err := held(ctx); err != nil || got != newer {
			t.Errorf("storage that is held has the credentials %s, %v", got.AccessKeyID, err)
		}
		if quick.stores.closed != 1 {
			t.Errorf("%d storages were let go, want 1", quick.stores.closed)
		}
		sent := db.Statements()
		if got := must[*tenant.Warehouse](t)(slow.Warehouse(ctx, mine, "lake")); got != stale {
			t.Error("looked again too early")
		}
		if n := db.Statements() - sent; n != 0 {
			t.Errorf("%d statements for a warehouse that was just read", n)
		}
		if err := writer.Drop(ctx, mine, "lake"); err != nil {
			t.Fatal(err)
		}
		if _, err := quick.Warehouse(ctx, mine, "lake"); !fault.Is(err, tenant.CodeNoSuchWarehouse) {
			t.Errorf("used after another server dropped it: %v", err)
		}
		must[tenant.Info](t)(writer.Create(ctx, mine, lake()))
		if got := must[*tenant.Warehouse](t)(quick.Warehouse(ctx, mine, "lake")); got.ID == first.ID {
			t.Error("a new warehouse of that name is taken for the old one")
		}
	})
}
