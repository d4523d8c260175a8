package tenant

import (
	"context"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const deleteWarehouse sqldb.Statement = "DELETE FROM warehouses WHERE id = ?"

// dropLockWait bounds how long the drop of a warehouse waits for changes under way.
const dropLockWait = 2 * time.Second

func unguarded(op string) error {
	return fault.New(op, fault.Unsupported, "", "this server cannot tell what lives in the warehouse")
}

// Drop removes a warehouse without tables, views and unsettled jobs; the default one
// stays. Files stay too: there is none of a table.
func (d *Directory) Drop(ctx context.Context, t ID, name string) error {
	const op = "tenant.Drop"
	rec, err := d.read(ctx, d.db, byName, t, name)
	if err != nil {
		return noSuch(op, err, name)
	}
	return d.drop(ctx, op, rec)
}

// drop removes the warehouse of a row; not one that has its name by now.
func (d *Directory) drop(ctx context.Context, op string, rec *record) error {
	if rec.storage == nil {
		return fault.New(op, fault.Conflict, CodeDefault, "the default warehouse cannot be dropped")
	}
	if d.guard == nil {
		return unguarded(op)
	}
	err := d.db.Tx(ctx, func(tx *sqldb.Tx) error {
		var id WarehouseID
		if err := tx.QueryRow(ctx, lockByID, rec.id).Scan(&id); err != nil {
			return noSuch(op, err, rec.name)
		}
		if err := d.guard.Dropping(ctx, tx, Ref{id, rec.tenantName, rec.name}); err != nil {
			return err
		}
		for _, s := range []sqldb.Statement{freeClaims, deleteMarkers, deleteCredentials, deleteWarehouse} {
			if _, err := tx.Exec(ctx, s, id); err != nil {
				return err
			}
		}
		return nil
	}, sqldb.LockWait(dropLockWait), sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		var id WarehouseID
		err := tx.QueryRow(ctx, lockByID, rec.id).Scan(&id)
		return gone(err), ignoreGone(err)
	}))
	if err != nil {
		return err
	}
	last, _ := d.entry(rec.id).state(0)
	d.forget(rec.id, last)
	return nil
}

func ignoreGone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}
