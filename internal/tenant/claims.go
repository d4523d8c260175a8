package tenant

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	// lockClaims is the lock in front of storage_claims: the row that always exists.
	lockClaims  sqldb.Statement = "SELECT id FROM tenants WHERE name = 'default' {for update}"
	insertClaim sqldb.Statement = "INSERT INTO storage_claims (location, warehouse_id) VALUES (?, ?)"
	freeClaims  sqldb.Statement = "DELETE FROM storage_claims WHERE warehouse_id = ?"
	claimAbove  sqldb.Statement = "SELECT location FROM storage_claims WHERE location {in} AND warehouse_id = ? LIMIT 1"
	ownClaims   sqldb.Statement = "SELECT location FROM storage_claims WHERE warehouse_id = ? ORDER BY location"
	// claimsAround asks both directions at once, as the catalog does for its locations:
	// what contains the location (its ancestors are listed), and what it is or contains.
	claimsAround sqldb.Statement = `SELECT location FROM storage_claims WHERE location {in} AND warehouse_id <> ?
		UNION SELECT location FROM storage_claims WHERE location >= ? AND location < ? AND warehouse_id <> ? LIMIT 1`
)

// maxDepth is the most segments of a storage root: all its ancestors are one list.
const maxDepth = 64

// noWarehouse owns claims that are no warehouse's.
const noWarehouse WarehouseID = 0

// claim makes the locations, and nothing else, the warehouse's own, or refuses: another
// one may not overlap. The caller holds lockClaims.
func claim(ctx context.Context, tx *sqldb.Tx, op string, w WarehouseID, locations []blob.Location) error {
	for _, l := range locations {
		if err := unclaimed(ctx, tx, op, w, l); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, freeClaims, w); err != nil {
		return err
	}
	for _, l := range locations {
		if _, err := tx.Exec(ctx, insertClaim, l.Prefix(), w); err != nil {
			return err
		}
	}
	return nil
}

// unclaimed refuses a location that overlaps another's. Whose it is, is not told: it may
// be another tenant's.
func unclaimed(ctx context.Context, r sqldb.Reader, op string, w WarehouseID, l blob.Location) error {
	var other string
	// '0' is the byte after '/': the range is everything below the prefix, and itself.
	err := r.QueryRow(ctx, claimsAround, sqldb.Strings(l.Ancestors()), w, l.Prefix(), string(l)+"0", w).Scan(&other)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return fault.New(op, fault.Conflict, CodeStorageTaken,
		"storage %s overlaps storage that is in use already: each warehouse, and the drive, has places of its own", l)
}

// claimsOf returns what a warehouse has claimed.
func claimsOf(ctx context.Context, r sqldb.Reader, w WarehouseID) (out []blob.Location, err error) {
	rows, err := r.Query(ctx, ownClaims, w)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var prefix string
		if err := rows.Scan(&prefix); err != nil {
			return nil, err
		}
		out = append(out, blob.Location(strings.TrimSuffix(prefix, "/")))
	}
	return out, rows.Err()
}

// reserve claims, at start, the places of the default warehouse and those that are no
// warehouse's at all.
func (d *Directory) reserve(ctx context.Context, tx *sqldb.Tx, w WarehouseID) error {
	var roots []blob.Location
	for _, m := range d.cfg.Default.Space.Mounts() {
		roots = append(roots, m.Root)
	}
	if err := claim(ctx, tx, "tenant.Open", w, roots); err != nil {
		return fmt.Errorf("the settings storage and warehouse.allowed-locations: %w", err)
	}
	held, err := claimsOf(ctx, tx, noWarehouse)
	if err != nil || len(held) > 0 {
		return err // they stay: who has them refuses to start elsewhere, and this server may be the one that is wrong
	}
	if err := claim(ctx, tx, "tenant.Open", noWarehouse, d.cfg.Reserved); err != nil {
		return fmt.Errorf("the drive's storage: %w", err)
	}
	return nil
}

// Holds reports whether a location lies strictly below a storage root or an allowed
// location that the warehouse has now. Under the lock of its row that cannot change: a
// Warehouse may be older than the last change by another server.
func Holds(ctx context.Context, r sqldb.Reader, w WarehouseID, l blob.Location) (bool, error) {
	above := l.Ancestors()[1:]
	above = above[max(0, len(above)-maxDepth-2):] // roots are no deeper
	var root string
	err := r.QueryRow(ctx, claimAbove, sqldb.Strings(above), w).Scan(&root)
	if gone(err) {
		return false, nil
	}
	return err == nil, err
}
