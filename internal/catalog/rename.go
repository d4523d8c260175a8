package catalog

import (
	"context"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const moveEntry sqldb.Statement = "UPDATE tabulars SET namespace_id = ?, name = ?, updated_at = {now} WHERE id = ?"

// Rename gives a table or view another name, in any namespace of its warehouse. Its
// files and locations stay where they are.
func (c *Catalog) Rename(ctx context.Context, call Call, kind Kind, from, to Identifier) error {
	const op = "catalog.Rename"
	if err := from.check(op); err != nil {
		return err
	}
	if err := to.check(op); err != nil {
		return err
	}
	w := call.Warehouse.ID
	return c.change(ctx, call, func(tx *sqldb.Tx) (string, error) {
		row, err := namespace(ctx, tx, shareNamespace, op, w, to.Namespace)
		if err != nil {
			return "", err
		}
		e, err := findEntry(ctx, tx, lockEntry, op, w, kind, from)
		if err != nil {
			return "", err
		}
		// The unique index decides; this look is for the message.
		taken, err := kindAt(ctx, tx, w, to)
		if err != nil {
			return "", err
		}
		if taken != 0 {
			return "", cannotRename(op, from, to, taken)
		}
		_, err = tx.Exec(ctx, moveEntry, row.id, to.Name, e.id)
		if tx.Dialect().Classify(err) == sqldb.ClassUnique {
			return "", cannotRename(op, from, to, kind)
		}
		if err != nil {
			return "", err
		}
		return "", c.refuseTombstone(ctx, tx, op, call, to)
	})
}

func cannotRename(op string, from, to Identifier, taken Kind) error {
	return fault.New(op, fault.Conflict, CodeAlreadyExists, "Cannot rename %s to %s. %s already exists", from, to, taken)
}
