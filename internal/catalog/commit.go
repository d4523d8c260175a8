package catalog

import (
	"context"
	"errors"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// commitTries bounds how often one commit is validated again after another one won.
const commitTries = 20

const swapPointer sqldb.Statement = `UPDATE tabulars SET metadata_location = ?, metadata_hash = ?, uuid = ?, location = ?, updated_at = {now}
	WHERE id = ? AND metadata_hash = ? AND metadata_location = ?`

// errLostSwap says that another commit moved the pointer first.
var errLostSwap = errors.New("catalog: the pointer moved")

// CommitTable applies a commit. A lost race is validated again and retried here; only a
// requirement that no longer holds is a conflict. An outcome that nobody can tell keeps
// the new file and is fault.Unknown.
func (c *Catalog) CommitTable(ctx context.Context, call Call, id Identifier, commit *metadata.Commit) (*Loaded, error) {
	const op = "catalog.CommitTable"
	if commit.AssertsCreate() {
		return c.createByCommit(ctx, call, id, commit)
	}
	for range commitTries {
		loaded, err := c.commitOnce(ctx, op, call, id, commit)
		if !errors.Is(err, errLostSwap) {
			return loaded, err
		}
	}
	return nil, fault.New(op, fault.Conflict, CodeCommitFailed, "table %s changed %d times while this commit was applied: try again", id, commitTries)
}

func (c *Catalog) commitOnce(ctx context.Context, op string, call Call, id Identifier, commit *metadata.Commit) (*Loaded, error) {
	w := call.Warehouse
	e, base, err := c.load(ctx, op, w, id)
	if err != nil {
		return nil, err
	}
	if err := commit.Check(base.Table); err != nil {
		return nil, err
	}
	result, err := commit.Apply(base.Table, base.MetadataLocation)
	if err != nil {
		return nil, err
	}
	if !result.Changed {
		return base, nil
	}
	added, err := newPlaces(op, call, base.Table, result.Table)
	if err != nil {
		return nil, err
	}
	file, err := c.writeMetadata(ctx, op, w, result.Table, metadata.NextVersion(base.MetadataLocation))
	if err != nil {
		return nil, err
	}
	c.step("commit.written")
	if err := c.swap(ctx, op, call, e, result.Table, file, added); err != nil {
		if !errors.Is(err, sqldb.ErrCommitUnknown) {
			c.discard(ctx, w, file)
		}
		return nil, err
	}
	c.cache.put(cacheKey{e.key, file}, result.Table)
	c.step("commit.swapped")
	c.discard(ctx, w, result.DroppedLogs...)
	return &Loaded{Table: result.Table, MetadataLocation: file}, nil
}

// newPlaces returns the cleaned locations that the table did not have before.
func newPlaces(op string, call Call, before, after *metadata.Table) ([]blob.Location, error) {
	now, err := places(op, call.Warehouse, after.Locations())
	if err != nil {
		return nil, err
	}
	had := map[blob.Location]bool{}
	for _, uri := range before.Locations() {
		if l, err := blob.ParseLocation(uri); err == nil {
			had[l] = true
		}
	}
	var added []blob.Location
	for _, l := range now {
		if !had[l] {
			added = append(added, l)
		}
	}
	return added, nil
}

// swap moves the pointer from what was read to the new file. Locations that the commit
// adds are claimed under the warehouse row; old ones stay the table's.
func (c *Catalog) swap(ctx context.Context, op string, call Call, e *entry, t *metadata.Table, file string, added []blob.Location) error {
	hash := hashOf(file)
	confirm := sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
		var now entry
		err := tx.QueryRow(ctx, lockEntryByID, e.id).Scan(now.fields()...)
		switch {
		case gone(err):
			// Dropped since, before or after our commit: nobody can tell any more.
			return false, errors.New("the table was dropped meanwhile")
		case err != nil:
			return false, err
		case now.metadataLocation == file:
			return true, nil
		case now.metadataLocation == e.metadataLocation:
			return false, nil
		default:
			return false, errors.New("the table was changed again meanwhile")
		}
	})
	return c.db.Tx(ctx, func(tx *sqldb.Tx) error {
		w := call.Warehouse.ID
		if len(added) > 0 {
			if err := exclusive(ctx, tx, w); err != nil {
				return err
			}
		}
		n, err := tx.Exec(ctx, swapPointer, file, hash, t.UUID(), t.Location(), e.id, e.metadataHash, e.metadataLocation)
		if err != nil {
			return err
		}
		if n != 1 {
			return errLostSwap
		}
		if len(added) == 0 {
			return nil
		}
		if err := lockKey(ctx, tx, w, e.key); err != nil {
			return err
		}
		live, err := findTwins(ctx, tx, w, e.key, hash, e.id)
		if err != nil {
			return err
		}
		var shared []owner
		for _, twin := range live {
			shared = append(shared, owner{ownerEntry, twin.id})
		}
		return claimLocations(ctx, tx, op, w, owner{ownerEntry, e.id}, added, c.jobs, shared...)
	}, confirm)
}
