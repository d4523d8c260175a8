package catalog

import (
	"context"
	"strings"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

const (
	lockNamespaces sqldb.Statement = "SELECT id FROM namespaces WHERE warehouse_id = ? ORDER BY id {for update}"
	anyTabular     sqldb.Statement = `SELECT t.kind, n.name, t.name FROM tabulars t JOIN namespaces n ON n.id = t.namespace_id
		WHERE t.warehouse_id = ? LIMIT 1`
	freeNamespaces   sqldb.Statement = "DELETE FROM tabular_locations WHERE warehouse_id = ?"
	deleteNamespaces sqldb.Statement = "DELETE FROM namespaces WHERE warehouse_id = ?"
	deleteUUIDs      sqldb.Statement = "DELETE FROM table_uuids WHERE warehouse_id = ?"
)

var _ tenant.Guard = (*Ownership)(nil)

// Dropping refuses to drop a warehouse with tables, views or unsettled jobs, and removes
// its namespaces. All of these are locked first, so that no create is under way; entries
// are looked for before jobs: a drop moves from the one to the other.
func (o *Ownership) Dropping(ctx context.Context, tx *sqldb.Tx, ref tenant.Ref) error {
	const op = "catalog.Dropping"
	w := ref.ID
	if err := lockAll(ctx, tx, w); err != nil {
		return err
	}
	var kind Kind
	var key, name string
	err := tx.QueryRow(ctx, anyTabular, w).Scan(&kind, &key, &name)
	if err == nil {
		n, err := ParseNamespaceKey(key)
		if err != nil {
			return err
		}
		return fault.New(op, fault.Conflict, tenant.CodeInUse, "the warehouse is not empty: it holds %s %s", strings.ToLower(kind.String()), Identifier{n, name})
	}
	if !gone(err) {
		return err
	}
	unsettled, found, err := o.jobs.Unsettled(ctx, tx, ref.Tenant, ref.Name, int64(w))
	if err != nil {
		return err
	}
	if found {
		return fault.New(op, fault.Conflict, tenant.CodeInUse,
			"%s is deleting a table of the warehouse: wait for it, or re-drive or acknowledge it when it failed", o.jobs.Name(unsettled))
	}
	for _, s := range []sqldb.Statement{freeNamespaces, deleteNamespaces, deleteUUIDs} {
		if _, err := tx.Exec(ctx, s, w); err != nil {
			return err
		}
	}
	return nil
}

func lockAll(ctx context.Context, tx *sqldb.Tx, w tenant.WarehouseID) error {
	rows, err := tx.Query(ctx, lockNamespaces, w)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Leaving refuses to take a location away in which a table, view or unsettled job has a
// place, or a namespace its default one.
func (o *Ownership) Leaving(ctx context.Context, tx *sqldb.Tx, w tenant.WarehouseID, l blob.Location) error {
	const op = "catalog.Leaving"
	rows, err := readRows(ctx, tx, insideLocations, w, l.Prefix(), string(l)+"0")
	if err != nil || len(rows) == 0 {
		return err
	}
	err = taken(ctx, tx, op, l, rows[0], o.jobs)
	return fault.Wrap(op, fault.Conflict, tenant.CodeInUse, err, "%s", fault.Public(err))
}
