package tenant

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	insertWarehouse sqldb.Statement = `INSERT INTO warehouses (tenant_id, name, root, storage, table_defaults, table_overrides, created_at, updated_at, version)
		VALUES (?, ?, ?, ?, ?, ?, {now}, {now}, 1)`
	nameCredentials sqldb.Statement = "UPDATE warehouses SET credentials_id = ? WHERE id = ?"
	lockByName      sqldb.Statement = "SELECT id FROM warehouses WHERE tenant_id = ? AND name = ? {for update}"
	lockByID        sqldb.Statement = "SELECT id FROM warehouses WHERE id = ? {for update}"
)

// maxList is the most warehouses of one page.
const maxList = 1000

// Warehouses returns a tenant's warehouses in the byte order of their names, after the
// given one, at most limit (1 to 1,000); next is empty at the end.
func (d *Directory) Warehouses(ctx context.Context, t ID, after string, limit int) (out []Info, next string, err error) {
	limit = min(max(limit, 1), maxList)
	rows, err := d.db.Query(ctx, listing, t, after, limit+1)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		rec, err := scan(rows)
		if err != nil {
			return nil, "", err
		}
		if len(out) == limit {
			return out, out[limit-1].Name, nil
		}
		i, err := d.info(rec)
		if err != nil {
			return nil, "", err
		}
		out = append(out, i)
	}
	return out, "", rows.Err()
}

// Info returns what may be shown of a warehouse.
func (d *Directory) Info(ctx context.Context, t ID, name string) (Info, error) {
	rec, err := d.read(ctx, d.db, byName, t, name)
	if err != nil {
		return Info{}, noSuch("tenant.Info", err, name)
	}
	return d.info(rec)
}

// Create makes a warehouse. Its storage is tried first, so that a bucket that is not there
// and a key that is none are a refusal now and not a surprise in the first purge.
func (d *Directory) Create(ctx context.Context, t ID, spec Spec) (Info, error) {
	const op = "tenant.Create"
	if err := checkName(spec.Name); err != nil {
		return Info{}, err
	}
	if err := checkTables(spec.TableDefaults, spec.TableOverrides); err != nil {
		return Info{}, err
	}
	_, err := d.read(ctx, d.db, byName, t, spec.Name)
	if err == nil {
		return Info{}, exists(op, spec.Name)
	}
	if !gone(err) {
		return Info{}, err
	}
	places, err := d.check(spec.Storage, spec.Credentials)
	if err != nil {
		return Info{}, err
	}
	for _, l := range places { // before a directory is made in another warehouse's
		if err := unclaimed(ctx, d.db, op, noWarehouse, l); err != nil {
			return Info{}, err
		}
	}
	if err := d.try(ctx, spec.Storage, places, spec.Credentials); err != nil {
		return Info{}, err
	}
	columns, err := encode(spec.Storage, spec.TableDefaults, spec.TableOverrides)
	if err != nil {
		return Info{}, err
	}
	var id WarehouseID
	err = d.db.Tx(ctx, func(tx *sqldb.Tx) error {
		var lock ID
		if err := tx.QueryRow(ctx, lockClaims).Scan(&lock); err != nil {
			return err
		}
		var closing sql.NullInt64
		if err := tx.QueryRow(ctx, openTenant, t).Scan(&closing); err != nil {
			return noTenant(op, err)
		}
		if closing.Valid {
			return fault.New(op, fault.Conflict, CodeTenantClosing, "the tenant is being dropped")
		}
		made, err := tx.InsertID(ctx, insertWarehouse, t, spec.Name, string(places[0]), columns.storage, columns.defaults, columns.overrides)
		if tx.Dialect().Classify(err) == sqldb.ClassUnique {
			return exists(op, spec.Name)
		}
		if err != nil {
			return err
		}
		id = WarehouseID(made)
		if err := claim(ctx, tx, op, id, places); err != nil {
			return err
		}
		credentials, err := d.storeCredentials(ctx, tx, t, id, 0, spec.Credentials)
		if err != nil || credentials == 0 {
			return err
		}
		_, err = tx.Exec(ctx, nameCredentials, credentials, id)
		return err
	}, sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		var lock ID // the change holds it too: a row that is not committed yet keeps nobody waiting
		if err := tx.QueryRow(ctx, lockClaims).Scan(&lock); err != nil {
			return false, err
		}
		var there WarehouseID
		err := tx.QueryRow(ctx, lockByName, t, spec.Name).Scan(&there)
		if gone(err) {
			return false, nil
		}
		return there == id, err
	}))
	if err != nil {
		return Info{}, err
	}
	return d.Info(ctx, t, spec.Name)
}

func exists(op, name string) error {
	return fault.New(op, fault.Conflict, CodeWarehouseExists, "warehouse %q exists already", name)
}

// check refuses storage and credentials that cannot work, and returns the places.
func (d *Directory) check(spec StorageSpec, c Credentials) ([]blob.Location, error) {
	places, err := spec.roots()
	if err != nil {
		return nil, err
	}
	if err := c.check(spec.Type()); err != nil {
		return nil, err
	}
	if d.cfg.Stores == nil || d.cfg.Keys == nil {
		return nil, fault.New("tenant.check", fault.Unsupported, "", "this server keeps no warehouses besides the default one")
	}
	return places, d.cfg.Stores.Check(spec, places)
}

func checkTables(defaults, overrides map[string]string) error {
	if err := checkProperties("tableDefaults", defaults); err != nil {
		return err
	}
	return checkProperties("tableOverrides", overrides)
}

// columns are the JSON columns of a row; nil is NULL.
type columns struct{ storage, defaults, overrides any }

func encode(storage StorageSpec, defaults, overrides map[string]string) (c columns, err error) {
	text := func(v any) any {
		raw, e := json.Marshal(v)
		err = errors.Join(err, e)
		return string(raw)
	}
	c.storage = text(storage)
	if len(defaults) > 0 {
		c.defaults = text(defaults)
	}
	if len(overrides) > 0 {
		c.overrides = text(overrides)
	}
	return c, err
}
