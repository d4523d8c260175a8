package tenant

import (
	"context"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// CodeWarehouseClosing is the code of a create in a warehouse that is being dropped.
const CodeWarehouseClosing fault.Code = "WarehouseClosing"

const closeWarehouse sqldb.Statement = "UPDATE warehouses SET closing_at = COALESCE(closing_at, {now}), updated_at = {now}, version = version + 1 WHERE id = ?"

// ClosingWarehouse returns the key of the warehouse of that name that is being dropped, as
// the database has it now. Another one that was made under the name since is not there: the
// job that drops the first one must never touch it.
func (d *Directory) ClosingWarehouse(ctx context.Context, t ID, name string) (WarehouseID, error) {
	rec, err := d.closing(ctx, "tenant.ClosingWarehouse", t, name)
	if err != nil {
		return 0, err
	}
	return rec.id, nil
}

func (d *Directory) closing(ctx context.Context, op string, t ID, name string) (*record, error) {
	rec, err := d.read(ctx, d.db, byName, t, name)
	if err == nil && !rec.closing {
		return nil, fault.New(op, fault.NotFound, CodeNoSuchWarehouse, "warehouse %q is not being dropped", name)
	}
	return rec, noSuch(op, err, name)
}

// DropClosing is Drop of a warehouse that ClosingWarehouse knows.
func (d *Directory) DropClosing(ctx context.Context, t ID, name string) error {
	const op = "tenant.DropClosing"
	rec, err := d.closing(ctx, op, t, name)
	if err != nil {
		return err
	}
	return d.drop(ctx, op, rec)
}

// CloseWarehouse marks a warehouse as being dropped; the default one stays. with writes, in
// the same transaction, the job that empties and drops it. Other servers see the mark
// within Config.Recheck.
func (d *Directory) CloseWarehouse(ctx context.Context, t ID, name string, with func(ctx context.Context, tx *sqldb.Tx, w Ref) error) error {
	const op = "tenant.CloseWarehouse"
	rec, err := d.read(ctx, d.db, byName, t, name)
	if err != nil {
		return noSuch(op, err, name)
	}
	if rec.storage == nil {
		return fault.New(op, fault.Conflict, CodeDefault, "the default warehouse cannot be dropped")
	}
	err = d.db.Tx(ctx, func(tx *sqldb.Tx) error {
		var id WarehouseID
		if err := tx.QueryRow(ctx, lockByID, rec.id).Scan(&id); err != nil {
			return noSuch(op, err, name)
		}
		if _, err := tx.Exec(ctx, closeWarehouse, id); err != nil {
			return err
		}
		return with(ctx, tx, Ref{id, rec.tenantName, rec.name})
	}, sqldb.LockWait(dropLockWait))
	if err == nil {
		d.changed(rec.id)
	}
	return err
}
