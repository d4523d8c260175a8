package tenant

import (
	"context"
	"errors"
	"slices"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const updateWarehouse sqldb.Statement = `UPDATE warehouses SET storage = ?, credentials_id = ?, table_defaults = ?, table_overrides = ?,
	updated_at = {now}, version = version + 1 WHERE id = ?`

// Update changes a warehouse. The root and the name stay: tables lie under them.
func (d *Directory) Update(ctx context.Context, t ID, name string, change Change) (Info, error) {
	const op = "tenant.Update"
	var id WarehouseID
	for range 3 { // a warehouse that is changed by somebody else meanwhile is looked at again
		rec, err := d.read(ctx, d.db, byName, t, name)
		if err != nil {
			return Info{}, noSuch(op, err, name)
		}
		id = rec.id
		next, err := d.next(ctx, op, rec, change)
		if err == nil {
			err = d.apply(ctx, op, rec, next)
		}
		if errors.Is(err, errOvertaken) {
			continue
		}
		d.changed(id)
		if err != nil {
			return Info{}, err
		}
		return d.Info(ctx, t, name)
	}
	return Info{}, fault.New(op, fault.Busy, "", "warehouse %q is being changed by others, try again", name)
}

// errOvertaken says that the row was changed since it was read.
var errOvertaken = errors.New("tenant: the warehouse was changed meanwhile")

// changed is a warehouse as it will be.
type changed struct {
	Spec
	places      []blob.Location // nil: as they are
	credentials bool            // are new
}

// next checks a change against the row it is made of.
func (d *Directory) next(ctx context.Context, op string, rec *record, change Change) (*changed, error) {
	out := &changed{Spec: Spec{TableDefaults: rec.defaults, TableOverrides: rec.overrides}}
	if change.TableDefaults != nil {
		out.TableDefaults = *change.TableDefaults
	}
	if change.TableOverrides != nil {
		out.TableOverrides = *change.TableOverrides
	}
	if err := checkTables(out.TableDefaults, out.TableOverrides); err != nil {
		return nil, err
	}
	if change.URL != nil {
		if l, err := blob.ParseLocation(*change.URL); err != nil || string(l) != rec.root {
			return nil, bad("storage.url cannot be changed: tables lie there. Make another warehouse and register the tables in it")
		}
	}
	if !change.storage() && change.Credentials == nil {
		if rec.storage != nil {
			out.Storage = *rec.storage
		}
		return out, nil
	}
	if rec.storage == nil {
		return nil, fault.New(op, fault.Conflict, CodeDefault, "the server's settings storage and warehouse.allowed-locations say where this warehouse lives")
	}
	out.Storage = *rec.storage
	replace(&out.Storage.Endpoint, change.Endpoint)
	replace(&out.Storage.Region, change.Region)
	replace(&out.Storage.AllowedLocations, change.AllowedLocations)
	if change.PathStyle != nil {
		out.Storage.PathStyle = change.PathStyle
	}
	var err error
	if change.Credentials != nil {
		out.Credentials, out.credentials = *change.Credentials, true
	} else if out.Credentials, err = d.credentialsOf(rec); err != nil {
		return nil, err
	}
	if out.places, err = d.check(out.Storage, out.Credentials); err != nil {
		return nil, err
	}
	for _, l := range out.places {
		if err := unclaimed(ctx, d.db, op, rec.id, l); err != nil {
			return nil, err
		}
	}
	return out, d.try(ctx, out.Storage, out.places, out.Credentials)
}

func replace[T any](at, by *T) {
	if by != nil {
		*at = *by
	}
}

// apply writes a change, if the row still is what it was made of.
func (d *Directory) apply(ctx context.Context, op string, rec *record, next *changed) error {
	columns, err := encode(next.Storage, next.TableDefaults, next.TableOverrides)
	if err != nil {
		return err
	}
	if rec.storage == nil {
		columns.storage = nil
	}
	return d.db.Tx(ctx, func(tx *sqldb.Tx) error {
		if next.places != nil {
			var lock ID
			if err := tx.QueryRow(ctx, lockClaims).Scan(&lock); err != nil {
				return err
			}
		}
		var id WarehouseID
		if err := tx.QueryRow(ctx, lockByID, rec.id).Scan(&id); err != nil {
			return noSuch(op, err, rec.name)
		}
		now, err := d.read(ctx, tx, byID, rec.id) // after the lock: a look of its own
		if err != nil {
			return err
		}
		if now.version != rec.version {
			return errOvertaken
		}
		if next.places != nil {
			if err := d.move(ctx, tx, op, rec.id, next.places); err != nil {
				return err
			}
		}
		credentials := rec.credentials.Int64
		if next.credentials {
			if credentials, err = d.storeCredentials(ctx, tx, rec.tenant, rec.id, credentials, next.Credentials); err != nil {
				return err
			}
		}
		var named any
		if credentials != 0 {
			named = credentials
		}
		_, err = tx.Exec(ctx, updateWarehouse, columns.storage, named, columns.defaults, columns.overrides, rec.id)
		return err
	})
}

// move changes a warehouse's claims; nothing may live where it leaves.
func (d *Directory) move(ctx context.Context, tx *sqldb.Tx, op string, w WarehouseID, places []blob.Location) error {
	before, err := claimsOf(ctx, tx, w)
	if err != nil {
		return err
	}
	for _, l := range before {
		if slices.Contains(places, l) {
			continue
		}
		if d.guard == nil {
			return unguarded(op)
		}
		if err := d.guard.Leaving(ctx, tx, w, l); err != nil {
			return err
		}
	}
	return claim(ctx, tx, op, w, places)
}
