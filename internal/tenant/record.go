package tenant

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/secret"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// record is a row of warehouses with its credentials, still sealed.
type record struct {
	id         WarehouseID
	tenant     ID
	tenantName string
	name       string
	root       string
	storage    *StorageSpec // nil: the settings say
	defaults   map[string]string
	overrides  map[string]string
	createdAt  int64
	updatedAt  int64
	version    int64
	closing    bool

	credentials sql.NullInt64
	key         sql.NullString
	ciphertext  []byte
}

// warehouseColumns are those of record, in scan's order.
const (
	warehouseColumns = `w.id, w.tenant_id, t.name, w.name, w.root, w.storage, w.table_defaults, w.table_overrides, w.created_at, w.updated_at, w.version, COALESCE(w.closing_at, 0) <> 0,
		c.id, c.key_id, c.ciphertext FROM warehouses w JOIN tenants t ON t.id = w.tenant_id LEFT JOIN warehouse_credentials c ON c.id = w.credentials_id`

	byID    sqldb.Statement = "SELECT " + warehouseColumns + " WHERE w.id = ?"
	byName  sqldb.Statement = "SELECT " + warehouseColumns + " WHERE w.tenant_id = ? AND w.name = ?"
	listing sqldb.Statement = "SELECT " + warehouseColumns + " WHERE w.tenant_id = ? AND w.name > ? ORDER BY w.name LIMIT ?"
)

type scanner interface{ Scan(dest ...any) error }

func scan(from scanner) (*record, error) {
	var r record
	var storage, defaults, overrides sql.NullString
	err := from.Scan(&r.id, &r.tenant, &r.tenantName, &r.name, &r.root, &storage, &defaults, &overrides, &r.createdAt, &r.updatedAt, &r.version, &r.closing,
		&r.credentials, &r.key, &r.ciphertext)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		from sql.NullString
		into any
	}{{storage, &r.storage}, {defaults, &r.defaults}, {overrides, &r.overrides}} {
		if f.from.Valid {
			if err := json.Unmarshal([]byte(f.from.String), f.into); err != nil {
				return nil, fmt.Errorf("tenant: row of warehouse %q: %w", r.name, err)
			}
		}
	}
	return &r, nil
}

// read reads one row; sql.ErrNoRows when there is none.
func (d *Directory) read(ctx context.Context, from sqldb.Reader, s sqldb.Statement, args ...any) (*record, error) {
	return scan(from.QueryRow(ctx, s, args...))
}

// credentialsOf opens a row's credentials.
func (d *Directory) credentialsOf(r *record) (Credentials, error) {
	switch {
	case !r.credentials.Valid:
		return Credentials{Type: CredentialsDefault}, nil
	case d.cfg.Keys == nil:
		return Credentials{}, fmt.Errorf("%w: %s", secret.ErrNoKey, r.key.String)
	}
	return unseal(d.cfg.Keys, secret.KeyID(r.key.String), r.ciphertext, binding(r.tenant, r.id))
}

func (d *Directory) info(r *record) (Info, error) {
	c, err := d.credentialsOf(r)
	if err != nil {
		return Info{}, fmt.Errorf("tenant: credentials of warehouse %q: %w", r.name, err)
	}
	i := Info{
		Name: r.name, Credentials: c.shown(), TableDefaults: r.defaults, TableOverrides: r.overrides,
		CreatedAt: r.createdAt, UpdatedAt: max(r.createdAt, r.updatedAt), Version: r.version, Closing: r.closing,
	}
	if r.storage != nil {
		i.Storage = *r.storage
	} else {
		i.Storage = d.cfg.Default.Spec
	}
	return i, nil
}

func gone(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// noSuch names the warehouse that a row is missing of; other errors stay.
func noSuch(op string, err error, name string) error {
	if err == nil || (!gone(err) && !fault.Is(err, CodeNoSuchWarehouse)) {
		return err
	}
	return fault.Wrap(op, fault.NotFound, CodeNoSuchWarehouse, err, "warehouse %q does not exist", name)
}
