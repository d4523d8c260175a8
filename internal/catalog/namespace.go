package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

// propertyLocation is the namespace property that moves its tables' default parent.
const propertyLocation = "location"

const (
	insertNamespace sqldb.Statement = `INSERT INTO namespaces (warehouse_id, parent_id, name, location, properties, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, {now}, {now})`
	updateNamespace sqldb.Statement = "UPDATE namespaces SET location = ?, properties = ?, updated_at = {now} WHERE id = ?"
	deleteNamespace sqldb.Statement = "DELETE FROM namespaces WHERE id = ?"
	firstChild      sqldb.Statement = "SELECT name FROM namespaces WHERE warehouse_id = ? AND parent_id = ? LIMIT 1"
	firstTabular    sqldb.Statement = "SELECT name FROM tabulars WHERE namespace_id = ? LIMIT 1"
	namespaceIs     sqldb.Statement = "SELECT 1 FROM namespaces WHERE warehouse_id = ? AND name = ?"
	listNamespaces  sqldb.Statement = "SELECT name FROM namespaces WHERE warehouse_id = ? AND parent_id = ? AND name > ? ORDER BY name LIMIT ?"
)

// CreateNamespace makes a namespace; its parent must exist.
func (c *Catalog) CreateNamespace(ctx context.Context, call Call, n Namespace, properties map[string]string) error {
	const op = "catalog.CreateNamespace"
	if err := n.check(op); err != nil {
		return err
	}
	w := call.Warehouse
	return c.change(ctx, call, func(tx *sqldb.Tx) (string, error) {
		if err := exclusive(ctx, tx, w.ID); err != nil {
			return "", err
		}
		var parent int64
		if len(n) > 1 {
			row, err := namespace(ctx, tx, shareNamespace, op, w.ID, n.parent())
			if err != nil {
				return "", err
			}
			parent = row.id
		}
		var one int
		switch err := tx.QueryRow(ctx, namespaceIs, w.ID, n.Key()).Scan(&one); {
		case err == nil:
			return "", fault.New(op, fault.Conflict, CodeAlreadyExists, "Namespace already exists: %s", n)
		case !errors.Is(err, sql.ErrNoRows):
			return "", err
		}
		location, canonical, err := c.defaultParent(ctx, tx, op, w, n, properties[propertyLocation])
		if err != nil {
			return "", err
		}
		text, err := encodeProperties(properties)
		if err != nil {
			return "", err
		}
		id, err := tx.InsertID(ctx, insertNamespace, w.ID, parent, n.Key(), location, text)
		if err != nil {
			return "", err
		}
		return "", addLocations(ctx, tx, w.ID, owner{ownerNamespace, id}, []blob.Location{canonical})
	})
}

// defaultParent chooses where a namespace's tables live by default. The caller holds
// the warehouse row.
func (c *Catalog) defaultParent(ctx context.Context, tx *sqldb.Tx, op string, w *tenant.Warehouse, n Namespace, explicit string) (string, blob.Location, error) {
	location := strings.TrimRight(explicit, "/")
	switch {
	case explicit == "":
		location = parentLocation(w, n)
	case location == "":
		return "", "", fault.New(op, fault.Invalid, CodeBadLocation, "location %q is not below the warehouse's storage root", explicit)
	}
	if location != "" {
		canonical, err := place(op, w, location)
		if err != nil {
			return "", "", err
		}
		inside, err := c.insideTable(ctx, tx, w.ID, canonical)
		if err != nil {
			return "", "", err
		}
		if inside == nil {
			return location, canonical, nil
		}
		if explicit != "" {
			return "", "", taken(ctx, tx, op, canonical, *inside, c.jobs)
		}
	}
	location = joinURI(w.RootURI, "ns-"+uuid.NewString())
	canonical, err := place(op, w, location)
	return location, canonical, err
}

// insideTable returns the entry's or job's row that is l or contains it, if any.
func (c *Catalog) insideTable(ctx context.Context, tx *sqldb.Tx, w tenant.WarehouseID, l blob.Location) (*locationRow, error) {
	rows, err := readRows(ctx, tx, holdersAbove, w, sqldb.Strings(l.Ancestors()))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

func encodeProperties(properties map[string]string) (string, error) {
	if properties == nil {
		properties = map[string]string{}
	}
	for k := range properties {
		if k == "" || strings.ContainsRune(k, 0) || strings.ContainsRune(properties[k], 0) {
			return "", fault.New("catalog.encodeProperties", fault.Invalid, CodeBadRequest, "a property name is empty or has a NUL")
		}
	}
	text, err := json.Marshal(properties)
	return string(text), err
}

// NamespaceProperties returns a namespace's properties; location is always among them.
func (c *Catalog) NamespaceProperties(ctx context.Context, call Call, n Namespace) (map[string]string, error) {
	const op = "catalog.NamespaceProperties"
	if err := n.check(op); err != nil {
		return nil, err
	}
	row, err := namespace(ctx, c.db, readNamespace, op, call.Warehouse.ID, n)
	if err != nil {
		return nil, err
	}
	if _, ok := row.properties[propertyLocation]; !ok {
		row.properties[propertyLocation] = row.location
	}
	return row.properties, nil
}

// NamespaceExists returns NoSuchNamespace for a namespace that is not there.
func (c *Catalog) NamespaceExists(ctx context.Context, call Call, n Namespace) error {
	const op = "catalog.NamespaceExists"
	if err := n.check(op); err != nil {
		return err
	}
	var one int
	err := c.db.QueryRow(ctx, namespaceIs, call.Warehouse.ID, n.Key()).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return noSuchNamespace(op, n)
	}
	return err
}

// Changes is the outcome of UpdateProperties, each list sorted.
type Changes struct {
	Updated []string `json:"updated"`
	Removed []string `json:"removed"`
	Missing []string `json:"missing"`
}

// UpdateProperties removes and sets properties of a namespace. A key in both lists is
// an error.
func (c *Catalog) UpdateProperties(ctx context.Context, call Call, n Namespace, removals []string, updates map[string]string) (Changes, error) {
	const op = "catalog.UpdateProperties"
	if err := n.check(op); err != nil {
		return Changes{}, err
	}
	moves := false
	for _, k := range removals {
		if _, both := updates[k]; both {
			return Changes{}, fault.New(op, fault.Unprocessable, CodeUnprocessable, "Invalid namespace update, property %q is both removed and set", k)
		}
		moves = moves || k == propertyLocation
	}
	if _, ok := updates[propertyLocation]; ok {
		moves = true
	}
	var out Changes
	err := c.change(ctx, call, func(tx *sqldb.Tx) (string, error) {
		out = Changes{Updated: []string{}, Removed: []string{}, Missing: []string{}}
		w := call.Warehouse
		if moves {
			if err := exclusive(ctx, tx, w.ID); err != nil {
				return "", err
			}
			if len(n) > 1 {
				if _, err := namespace(ctx, tx, shareNamespace, op, w.ID, n.parent()); err != nil {
					return "", err
				}
			}
		}
		row, err := namespace(ctx, tx, lockNamespace, op, w.ID, n)
		if err != nil {
			return "", err
		}
		before := row.properties[propertyLocation]
		for _, k := range removals {
			if _, ok := row.properties[k]; ok {
				delete(row.properties, k)
				out.Removed = append(out.Removed, k)
			} else {
				out.Missing = append(out.Missing, k)
			}
		}
		maps.Copy(row.properties, updates)
		out.Updated = slices.AppendSeq(out.Updated, maps.Keys(updates))
		slices.Sort(out.Updated)
		slices.Sort(out.Removed)
		slices.Sort(out.Missing)
		location := row.location
		if after := row.properties[propertyLocation]; after != before {
			var canonical blob.Location
			if location, canonical, err = c.defaultParent(ctx, tx, op, w, n, after); err != nil {
				return "", err
			}
			mine := owner{ownerNamespace, row.id}
			if _, err := tx.Exec(ctx, freeLocations, mine.kind, mine.id); err != nil {
				return "", err
			}
			if err := addLocations(ctx, tx, w.ID, mine, []blob.Location{canonical}); err != nil {
				return "", err
			}
		}
		text, err := encodeProperties(row.properties)
		if err != nil {
			return "", err
		}
		if _, err = tx.Exec(ctx, updateNamespace, location, text, row.id); err != nil {
			return "", err
		}
		result, err := json.Marshal(out)
		return string(result), err
	})
	return out, err
}

// DropNamespace removes an empty namespace.
func (c *Catalog) DropNamespace(ctx context.Context, call Call, n Namespace) error {
	const op = "catalog.DropNamespace"
	if err := n.check(op); err != nil {
		return err
	}
	return c.change(ctx, call, func(tx *sqldb.Tx) (string, error) {
		row, err := namespace(ctx, tx, lockNamespace, op, call.Warehouse.ID, n)
		if err != nil {
			return "", err
		}
		for _, look := range []struct {
			s    sqldb.Statement
			args []any
			what string
		}{
			{firstChild, []any{call.Warehouse.ID, row.id}, "namespace"},
			{firstTabular, []any{row.id}, "table"},
		} {
			var name string
			err := tx.QueryRow(ctx, look.s, look.args...).Scan(&name)
			if err == nil {
				return "", fault.New(op, fault.Conflict, CodeNamespaceNotEmpty, "Namespace %s is not empty: it holds %s %s", n, look.what, name)
			}
			if !errors.Is(err, sql.ErrNoRows) {
				return "", err
			}
		}
		if _, err := tx.Exec(ctx, freeLocations, ownerNamespace, row.id); err != nil {
			return "", err
		}
		_, err = tx.Exec(ctx, deleteNamespace, row.id)
		return "", err
	}, sqldb.LockWait(dropLockWait))
}

// ListNamespaces returns the children of parent (the top when it is empty) in the byte
// order of their keys, after the given one, at most limit.
func (c *Catalog) ListNamespaces(ctx context.Context, call Call, parent Namespace, page Page) ([]Namespace, Page, error) {
	const op = "catalog.ListNamespaces"
	var id int64
	if len(parent) > 0 {
		if err := parent.check(op); err != nil {
			return nil, Page{}, err
		}
		row, err := namespace(ctx, c.db, readNamespace, op, call.Warehouse.ID, parent)
		if err != nil {
			return nil, Page{}, err
		}
		id = row.id
	}
	names, next, err := c.list(ctx, listNamespaces, page, call.Warehouse.ID, id)
	if err != nil {
		return nil, Page{}, err
	}
	out := make([]Namespace, 0, len(names))
	for _, key := range names {
		n, err := ParseNamespaceKey(key)
		if err != nil {
			return nil, Page{}, err
		}
		out = append(out, n)
	}
	return out, next, nil
}
