package catalog

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

const (
	lockWarehouse  sqldb.Statement = "SELECT id FROM warehouses WHERE id = ? {for update}"
	shareNamespace sqldb.Statement = "SELECT id, parent_id, location, properties FROM namespaces WHERE warehouse_id = ? AND name = ? {for share}"
	lockNamespace  sqldb.Statement = "SELECT id, parent_id, location, properties FROM namespaces WHERE warehouse_id = ? AND name = ? {for update}"
	readNamespace  sqldb.Statement = "SELECT id, parent_id, location, properties FROM namespaces WHERE warehouse_id = ? AND name = ?"
	insertUUID     sqldb.Statement = "{insert ignore} table_uuids (warehouse_id, uuid_key) VALUES (?, ?) {ignore}"
	lockUUID       sqldb.Statement = "SELECT 1 FROM table_uuids WHERE warehouse_id = ? AND uuid_key = ? {for update}"
	entryNameByID  sqldb.Statement = "SELECT n.name, t.name FROM tabulars t JOIN namespaces n ON n.id = t.namespace_id WHERE t.id = ?"
)

// namespaceRow is one row of namespaces.
type namespaceRow struct {
	id         int64
	parent     int64
	location   string // default parent of tables, a URI
	properties map[string]string
}

// exclusive takes the warehouse row. It may have been dropped since the request began.
func exclusive(ctx context.Context, tx *sqldb.Tx, w tenant.WarehouseID) error {
	var id int64
	err := tx.QueryRow(ctx, lockWarehouse, w).Scan(&id)
	if gone(err) {
		return fault.Wrap("catalog.exclusive", fault.NotFound, tenant.CodeNoSuchWarehouse, err, "the warehouse does not exist any more")
	}
	return err
}

// namespace reads a namespace with one of the three statements above.
func namespace(ctx context.Context, r sqldb.Reader, s sqldb.Statement, op string, w tenant.WarehouseID, n Namespace) (*namespaceRow, error) {
	var row namespaceRow
	var properties string
	err := r.QueryRow(ctx, s, w, n.Key()).Scan(&row.id, &row.parent, &row.location, &properties)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noSuchNamespace(op, n)
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(properties), &row.properties); err != nil {
		return nil, err
	}
	return &row, nil
}

// lockKey takes the row of a table's uuid, inserted when it is absent. It looks first: on
// MariaDB a duplicate leaves a shared lock, and two that want more of it are a deadlock.
func lockKey(ctx context.Context, tx *sqldb.Tx, w tenant.WarehouseID, key string) error {
	for range 10 { // a row that comes or goes between the two statements
		var one int
		err := tx.QueryRow(ctx, lockUUID, w, key).Scan(&one)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if n, err := tx.Exec(ctx, insertUUID, w, key); err != nil || n == 1 {
			return err
		}
	}
	return fault.New("catalog.lockKey", fault.Busy, "", "the table's uuid is being pruned, try again")
}

// lockedKeys are the rows of table_uuids that stand for one entry: without a uuid, the
// metadata file is what two registers of it have in common.
func lockedKeys(uuid, key, metadataHash string) []string {
	if uuid == "" {
		return sorted(key, metadataHash)
	}
	return []string{key}
}

// sorted returns the keys in the order in which they are locked, each once.
func sorted(keys ...string) []string {
	slices.Sort(keys)
	return slices.Compact(keys)
}

func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// uuidKey is the key of table_uuids: the uuid, or the metadata location's hash where
// v1 metadata has none.
func uuidKey(uuid, metadataLocation string) string {
	if uuid != "" {
		return uuid
	}
	return hashOf(metadataLocation)
}

func entryName(ctx context.Context, r sqldb.Reader, id int64) (Identifier, error) {
	var key string
	var out Identifier
	if err := r.QueryRow(ctx, entryNameByID, id).Scan(&key, &out.Name); err != nil {
		return out, err
	}
	var err error
	out.Namespace, err = ParseNamespaceKey(key)
	return out, err
}
