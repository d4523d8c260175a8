package tenant

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/secret"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Stores opens storage; the server knows which kinds there are.
type Stores interface {
	// Check refuses storage that can be none, with a fault of kind Invalid. The places are
	// cleaned, and disjoint among themselves.
	Check(spec StorageSpec, places []blob.Location) error
	// Open opens storage. The credentials of now are asked for when they are needed, for
	// as long as the storage is used.
	Open(ctx context.Context, spec StorageSpec, places []blob.Location, current func(context.Context) (Credentials, error)) (Opened, error)
}

// Opened is open storage.
type Opened struct {
	Space        *blob.Space
	ClientConfig map[string]string // see Warehouse
	// Close lets go of connections. Calls under way end normally, and later ones work: a
	// purge may hold the Space for hours. May be nil.
	Close func() error
}

// Guard knows what lives in a warehouse; the catalog does.
type Guard interface {
	// Dropping refuses, with a fault of kind Conflict, to drop a warehouse with tables,
	// views or unsettled jobs, and removes everything else of it. The caller holds its row
	// exclusively.
	Dropping(ctx context.Context, tx *sqldb.Tx, w Ref) error
	// Leaving refuses, with a fault of kind Conflict, to take a location away where
	// something lives. The caller holds the warehouse's row exclusively.
	Leaving(ctx context.Context, tx *sqldb.Tx, w WarehouseID, l blob.Location) error
}

// Ref names a warehouse.
type Ref struct {
	ID           WarehouseID
	Tenant, Name string
}

// Storage is where the default warehouse lives, as the settings say.
type Storage struct {
	RootURI      string
	Space        *blob.Space
	ClientConfig map[string]string // see Warehouse
	Spec         StorageSpec       // for people
}

// Config of a Directory.
type Config struct {
	Default  Storage
	Reserved []blob.Location // places that no warehouse may take, such as the drive's
	Keys     *secret.Ring    // nil: no credentials can be stored
	Stores   Stores          // nil: there is only the default warehouse
	Recheck  time.Duration   // how long a warehouse is used without another look at its row, 2 s
	Logger   *slog.Logger
}

// Directory answers whose warehouse is which. It is safe for concurrent use.
type Directory struct {
	db     *sqldb.DB
	cfg    Config
	tenant ID
	home   WarehouseID // the default tenant's default warehouse
	guard  Guard
	marks  map[blob.Location]string // of the default warehouse's roots

	mu      sync.Mutex
	names   map[nameKey]WarehouseID
	entries map[WarehouseID]*entry
	retired []func() error
}

type nameKey struct {
	tenant ID
	name   string
}

// Open makes the default tenant and warehouse when they are missing. It refuses a
// storage root that differs from the one the warehouse was made with (its tables would
// be out of reach) or that overlaps another warehouse's, and keys that do not open the
// credentials that are stored.
func Open(ctx context.Context, db *sqldb.DB, cfg Config) (*Directory, error) {
	if cfg.Recheck <= 0 {
		cfg.Recheck = 2 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Directory{db: db, cfg: cfg, names: map[nameKey]WarehouseID{}, entries: map[WarehouseID]*entry{}}
	again := sqldb.Confirm(func(context.Context, *sqldb.Tx) (bool, error) { return false, nil }) // making it twice is making it once
	if err := db.Tx(ctx, func(tx *sqldb.Tx) error { return d.makeDefault(ctx, tx) }, again); err != nil {
		return nil, fmt.Errorf("tenant: open: %w", err)
	}
	if err := d.checkCredentials(ctx); err != nil {
		return nil, fmt.Errorf("tenant: open: %w", err)
	}
	marks, err := checkRoots(ctx, db, d.home, cfg.Default.Space)
	if err != nil {
		return nil, fmt.Errorf("tenant: open: %w", err)
	}
	d.marks = marks
	if _, err := d.Warehouse(ctx, d.tenant, Default); err != nil {
		return nil, fmt.Errorf("tenant: open: %w", err)
	}
	return d, nil
}

const (
	insertTenant    sqldb.Statement = "{insert ignore} tenants (name, created_at) VALUES (?, {now}) {ignore}"
	insertDefault   sqldb.Statement = "{insert ignore} warehouses (tenant_id, name, root, created_at) VALUES (?, ?, ?, {now}) {ignore}"
	selectWarehouse sqldb.Statement = "SELECT id, root FROM warehouses WHERE tenant_id = ? AND name = ?"
)

// makeDefault may run any number of times.
func (d *Directory) makeDefault(ctx context.Context, tx *sqldb.Tx) error {
	err := tx.QueryRow(ctx, lockClaims).Scan(&d.tenant)
	if gone(err) { // looked first: on MariaDB a duplicate leaves a lock that others wait for
		if _, err := tx.Exec(ctx, insertTenant, Default); err != nil {
			return err
		}
		err = tx.QueryRow(ctx, lockClaims).Scan(&d.tenant)
	}
	if err != nil {
		return err
	}
	want := d.cfg.Default.Space.Root()
	var root string
	err = tx.QueryRow(ctx, selectWarehouse, d.tenant, Default).Scan(&d.home, &root)
	if gone(err) {
		if _, err := tx.Exec(ctx, insertDefault, d.tenant, Default, string(want)); err != nil {
			return err
		}
		err = tx.QueryRow(ctx, selectWarehouse, d.tenant, Default).Scan(&d.home, &root)
	}
	if err != nil {
		return err
	}
	if root != string(want) {
		return fmt.Errorf("warehouse %q lives under %s, not under %s: start with that storage, or with another database", Default, root, want)
	}
	return d.reserve(ctx, tx, d.home)
}

// Bind names the guard; without one no warehouse can be dropped.
func (d *Directory) Bind(g Guard) { d.guard = g }

// Close lets go of all storage that the Directory opened.
func (d *Directory) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, e := range d.entries {
		if now, _ := e.state(0); now != nil && now.close != nil {
			errs = append(errs, now.close())
		}
	}
	for _, again := range d.retired {
		errs = append(errs, again())
	}
	return errors.Join(errs...)
}

// Tenant returns the default tenant's key.
func (d *Directory) Tenant() ID { return d.tenant }

// Warehouse returns a tenant's warehouse by name, with its storage open.
func (d *Directory) Warehouse(ctx context.Context, t ID, name string) (*Warehouse, error) {
	if err := checkName(name); err != nil { // some databases would not even take the question
		return nil, fault.Wrap("tenant.Warehouse", fault.NotFound, CodeNoSuchWarehouse, err, "warehouse %q does not exist", name)
	}
	d.mu.Lock()
	id, known := d.names[nameKey{t, name}]
	d.mu.Unlock()
	if !known {
		rec, err := d.read(ctx, d.db, byName, t, name)
		if err != nil {
			return nil, noSuch("tenant.Warehouse", err, name)
		}
		id = rec.id
		d.mu.Lock()
		d.names[nameKey{t, name}] = id
		d.mu.Unlock()
	}
	w, err := d.WarehouseByID(ctx, id)
	if known && fault.Is(err, CodeNoSuchWarehouse) {
		return d.Warehouse(ctx, t, name) // dropped; there may be a new one of that name
	}
	return w, noSuch("tenant.Warehouse", err, name)
}

// WarehouseByID returns a warehouse by key, for jobs.
func (d *Directory) WarehouseByID(ctx context.Context, id WarehouseID) (*Warehouse, error) {
	now, err := d.look(ctx, id)
	if err != nil {
		return nil, err
	}
	return now.warehouse, nil
}

// open opens a warehouse's storage.
func (d *Directory) open(ctx context.Context, rec *record) (*state, error) {
	const op = "tenant.open"
	w := &Warehouse{
		ID: rec.id, Tenant: rec.tenant, TenantName: rec.tenantName, Name: rec.name,
		TableDefaults: rec.defaults, TableOverrides: rec.overrides, Closing: rec.closing, credentials: rec.credentials.Int64,
	}
	if rec.id == d.home {
		s := d.cfg.Default
		w.RootURI, w.Space, w.ClientConfig, w.markers = s.RootURI, s.Space, s.ClientConfig, d.marks
		return &state{rec: rec, warehouse: w}, nil
	}
	if rec.storage == nil || d.cfg.Stores == nil {
		return nil, fault.New(op, fault.Internal, CodeStorageTrouble, "warehouse %q has no storage that this server knows", rec.name)
	}
	places, err := rec.storage.roots()
	if err != nil {
		return nil, err
	}
	if _, err := d.credentialsOf(rec); err != nil { // of another server: this one has the wrong keys
		return nil, fault.Wrap(op, fault.Internal, CodeStorageTrouble, away(err), "the credentials of warehouse %q cannot be opened", rec.name)
	}
	opened, err := d.cfg.Stores.Open(ctx, *rec.storage, places, d.current(rec.id))
	if err != nil {
		return nil, fault.Wrap(op, fault.Busy, CodeStorageTrouble, away(err), "the storage of warehouse %q cannot be opened", rec.name)
	}
	w.RootURI, w.Space, w.ClientConfig = string(places[0]), opened.Space, opened.ClientConfig
	if w.markers, err = checkRoots(ctx, d.db, rec.id, w.Space); err != nil {
		if opened.Close != nil {
			err = errors.Join(err, opened.Close())
		}
		return nil, fault.Wrap(op, fault.Busy, CodeStorageTrouble, away(err), "the storage of warehouse %q cannot be used", rec.name)
	}
	return &state{rec: rec, warehouse: w, close: opened.Close}, nil
}

// away makes an error one of the store as a whole: a purge waits for it to pass.
func away(err error) error {
	return &blob.Error{Op: "open", Class: blob.Unavailable, Err: err}
}

// current returns what tells the credentials of a warehouse as they are by now. It looks
// at the row and opens no storage.
func (d *Directory) current(id WarehouseID) func(context.Context) (Credentials, error) {
	var mu sync.Mutex
	var rec *record
	var asked time.Time
	return func(ctx context.Context) (Credentials, error) {
		mu.Lock()
		defer mu.Unlock()
		if rec == nil || time.Since(asked) >= d.cfg.Recheck {
			now := time.Now()
			fresh, err := d.read(ctx, d.db, byID, id)
			if err != nil {
				return Credentials{}, err
			}
			rec, asked = fresh, now
		}
		return d.credentialsOf(rec)
	}
}
