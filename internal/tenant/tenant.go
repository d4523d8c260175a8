// Package tenant knows who asks and what is theirs: tenants, their warehouses with
// storage roots, and principals.
//
// A warehouse row is the lock that serialises explicit locations in the catalog, so
// its table belongs to the transactions of that room as well; nobody else writes it.
package tenant

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

//go:embed migrations
var files embed.FS

// Migrations is the schema of this room.
var Migrations = sqldb.Migrations{Owner: "tenant", Files: files}

// ID is the key of a tenant.
type ID int64

// WarehouseID is the key of a warehouse.
type WarehouseID int64

// Default is the name of the tenant and of the warehouse that always exist.
const Default = "default"

// Warehouse is one Iceberg catalog of a tenant.
type Warehouse struct {
	ID         WarehouseID
	Tenant     ID
	TenantName string // the metalake of Gravitino-style paths
	Name       string // the catalog of Gravitino-style paths, and the REST prefix
	RootURI    string // as it was given, the base of default locations
	Space      *blob.Space
	// ClientConfig are the properties that a client's FileIO needs to reach the files of
	// the root. It holds no secret.
	ClientConfig map[string]string

	markers map[blob.Location]string // of the roots that can be away
}

// Principal is who asks.
type Principal struct {
	Name       string
	Tenant     ID
	TenantName string
}

// CodeNoSuchWarehouse is the code of an unknown warehouse.
const CodeNoSuchWarehouse fault.Code = "NoSuchWarehouse"

const (
	insertTenant    sqldb.Statement = "{insert ignore} tenants (name, created_at) VALUES (?, {now}) {ignore}"
	selectTenant    sqldb.Statement = "SELECT id FROM tenants WHERE name = ?"
	insertWarehouse sqldb.Statement = "{insert ignore} warehouses (tenant_id, name, root, created_at) VALUES (?, ?, ?, {now}) {ignore}"
	selectWarehouse sqldb.Statement = "SELECT id, root FROM warehouses WHERE tenant_id = ? AND name = ?"
)

// Directory answers who owns which warehouse. It is read once at start: this version
// of the product has one tenant and one warehouse.
type Directory struct {
	tenant     ID
	warehouses map[string]*Warehouse
	byID       map[WarehouseID]*Warehouse
}

// Storage is where the default warehouse lives.
type Storage struct {
	RootURI      string
	Space        *blob.Space
	ClientConfig map[string]string // see Warehouse
}

// Open makes the default tenant and warehouse when they are missing. It refuses a
// storage root that differs from the one the warehouse was made with: its tables
// would be out of reach.
func Open(ctx context.Context, db *sqldb.DB, storage Storage) (*Directory, error) {
	w := &Warehouse{TenantName: Default, Name: Default, RootURI: storage.RootURI, Space: storage.Space, ClientConfig: storage.ClientConfig}
	err := db.Tx(ctx, func(tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, insertTenant, Default); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, selectTenant, Default).Scan(&w.Tenant); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, insertWarehouse, w.Tenant, Default, string(storage.Space.Root())); err != nil {
			return err
		}
		var root string
		if err := tx.QueryRow(ctx, selectWarehouse, w.Tenant, Default).Scan(&w.ID, &root); err != nil {
			return err
		}
		if root != string(storage.Space.Root()) {
			return fmt.Errorf("warehouse %q lives under %s, not under %s: start with that storage, or with another database", Default, root, storage.Space.Root())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("tenant: open: %w", err)
	}
	if err := w.checkRoots(ctx, db); err != nil {
		return nil, fmt.Errorf("tenant: open: %w", err)
	}
	return &Directory{
		tenant:     w.Tenant,
		warehouses: map[string]*Warehouse{w.Name: w},
		byID:       map[WarehouseID]*Warehouse{w.ID: w},
	}, nil
}

// Tenant returns the default tenant's key.
func (d *Directory) Tenant() ID { return d.tenant }

// Warehouse returns a tenant's warehouse by name.
func (d *Directory) Warehouse(_ context.Context, t ID, name string) (*Warehouse, error) {
	if w, ok := d.warehouses[name]; ok && w.Tenant == t {
		return w, nil
	}
	return nil, fault.New("tenant.Warehouse", fault.NotFound, CodeNoSuchWarehouse, "warehouse %q does not exist", name)
}

// WarehouseByID returns a warehouse by key, for jobs.
func (d *Directory) WarehouseByID(_ context.Context, id WarehouseID) (*Warehouse, error) {
	if w, ok := d.byID[id]; ok {
		return w, nil
	}
	return nil, errors.Join(fault.New("tenant.WarehouseByID", fault.NotFound, CodeNoSuchWarehouse, "warehouse %d does not exist", id), sql.ErrNoRows)
}
