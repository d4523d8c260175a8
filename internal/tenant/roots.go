package tenant

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	selectMarker  sqldb.Statement = "SELECT marker FROM warehouse_roots WHERE warehouse_id = ? AND root = ?"
	insertMarker  sqldb.Statement = "INSERT INTO warehouse_roots (warehouse_id, root, marker) VALUES (?, ?, ?)"
	deleteMarkers sqldb.Statement = "DELETE FROM warehouse_roots WHERE warehouse_id = ?"
)

// checkRoots refuses a storage root that is not the one that was used before: everything
// in it would look deleted. A root that is new to the warehouse is marked. It returns
// the marks.
func checkRoots(ctx context.Context, db *sqldb.DB, w WarehouseID, space *blob.Space) (map[blob.Location]string, error) {
	marks := map[blob.Location]string{}
	for _, m := range space.Mounts() {
		bucket, ok := m.Bucket.(blob.Marked)
		if !ok {
			continue
		}
		var known string
		err := db.QueryRow(ctx, selectMarker, w, string(m.Root)).Scan(&known)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			if known, err = bucket.MakeMarker(ctx); err != nil {
				return nil, fmt.Errorf("mark storage root %s: %w", m.Root, err)
			}
			_, err = db.Exec(ctx, insertMarker, w, string(m.Root), known)
			if db.Dialect().Classify(err) == sqldb.ClassUnique { // another server was faster
				err = db.QueryRow(ctx, selectMarker, w, string(m.Root)).Scan(&known)
			}
			if err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		}
		marks[m.Root] = known
	}
	return marks, checkMarks(ctx, space, marks)
}

// CheckStorage reports a storage root that is away, as trouble of the store as a whole.
func (w *Warehouse) CheckStorage(ctx context.Context) error {
	return checkMarks(ctx, w.Space, w.markers)
}

func checkMarks(ctx context.Context, space *blob.Space, marks map[blob.Location]string) error {
	for _, m := range space.Mounts() {
		known, marked := marks[m.Root]
		if !marked {
			continue
		}
		bucket, ok := m.Bucket.(blob.Marked)
		if !ok {
			continue
		}
		mark, err := bucket.Marker(ctx)
		if err != nil && !blob.IsNotExist(err) {
			return err
		}
		if mark != known {
			return &blob.Error{Op: "marker", Class: blob.Unavailable, Err: fmt.Errorf(
				"storage root %s is not the one that was used before (its file .lethe-root is missing or another one): is its disk mounted?", m.Root)}
		}
	}
	return nil
}
