package catalog

import (
	"context"
	"slices"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const pointedTo sqldb.Statement = "SELECT metadata_hash FROM tabulars WHERE warehouse_id = ? AND metadata_hash {in}"

// trimmable returns those of the old metadata files, which fell off the log of a table
// with delete-after-commit, that may be deleted. The log is client-written: it can name
// anything. A file goes only if it lies inside this table's own locations, no live entry
// points to it, and the table has no twin: an older version of it may be registered
// beside it. What stays is found by the purge.
func (c *Catalog) trimmable(ctx context.Context, call Call, m *member) []string {
	if len(m.dropped) == 0 {
		return nil
	}
	files, err := c.ownOldFiles(ctx, call, m)
	if err != nil {
		c.log.WarnContext(ctx, "old metadata not removed", "table", m.id.String(), "requestId", call.RequestID, "error", err)
		return nil
	}
	return files
}

func (c *Catalog) ownOldFiles(ctx context.Context, call Call, m *member) ([]string, error) {
	w := call.Warehouse.ID
	twins, err := findTwins(ctx, c.db, w, m.key(), m.hash(), m.row)
	if err != nil || len(twins) > 0 {
		return nil, err
	}
	own, err := ownLocations(ctx, c.db, owner{ownerEntry, m.row})
	if err != nil {
		return nil, err
	}
	inside := slices.DeleteFunc(slices.Clone(m.dropped), func(file string) bool {
		obj, err := call.Warehouse.Space.Resolve(file)
		return err != nil || !slices.ContainsFunc(own, func(l blob.Location) bool { return l != obj.Location && l.Contains(obj.Location) })
	})
	live := map[string]bool{}
	for part := range slices.Chunk(inside, c.db.Dialect().MaxList) {
		hashes := make(sqldb.Strings, len(part))
		for i, file := range part {
			hashes[i] = hashOf(file)
		}
		found, err := c.names(ctx, pointedTo, []any{w, hashes})
		if err != nil {
			return nil, err
		}
		for _, hash := range found {
			live[hash] = true
		}
	}
	return slices.DeleteFunc(inside, func(file string) bool { return live[hashOf(file)] }), nil
}
