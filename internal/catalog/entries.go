package catalog

import (
	"context"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

const someEntries sqldb.Statement = `SELECT t.kind, n.name, t.name FROM tabulars t JOIN namespaces n ON n.id = t.namespace_id
	WHERE t.warehouse_id = ? LIMIT ?`

// Entry names a table or view.
type Entry struct {
	Kind       Kind
	Identifier Identifier
}

// Entries returns some of the tables and views of a warehouse, of all namespaces, in no
// order: for those who drop them all.
func (c *Catalog) Entries(ctx context.Context, w tenant.WarehouseID, limit int) (list []Entry, err error) {
	rows, err := c.db.Query(ctx, someEntries, w, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e Entry
		var key string
		if err := rows.Scan(&e.Kind, &key, &e.Identifier.Name); err != nil {
			return nil, err
		}
		if e.Identifier.Namespace, err = ParseNamespaceKey(key); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, rows.Err()
}
