package catalog

import (
	"context"
	"slices"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

// Ownership is the catalog's side of a purge: where its warehouse's files are, which
// locations are its own, which keys are somebody else's, and what is freed when it has
// settled. It is purge.Host, and the hooks of the job table.
type Ownership struct {
	db      *sqldb.DB
	tenants *tenant.Directory
	jobs    *purge.Store
}

// NewOwnership returns the answers over the catalog's tables. Bind comes before use.
func NewOwnership(db *sqldb.DB, tenants *tenant.Directory) *Ownership {
	return &Ownership{db: db, tenants: tenants}
}

// Bind names the jobs whose hooks these are; they need each other.
func (o *Ownership) Bind(jobs *purge.Store) { o.jobs = jobs }

// Storage returns what the job's warehouse may touch.
func (o *Ownership) Storage(ctx context.Context, j purge.Job) (*blob.Space, error) {
	w, err := o.tenants.WarehouseByID(ctx, tenant.WarehouseID(j.WarehouseID))
	if err != nil {
		return nil, err
	}
	// A disk that is away must not look like files that are gone.
	return w.Space, w.CheckStorage(ctx)
}

const (
	// insideLocations are the rows at and below one prefix that others own.
	insideLocations sqldb.Statement = `SELECT location, owner_kind, owner_id FROM tabular_locations
		WHERE warehouse_id = ? AND location >= ? AND location < ? ORDER BY location`
)

// Locations returns the job's own locations, and those of other entries and jobs that
// lie inside them or are equal.
func (o *Ownership) Locations(ctx context.Context, j purge.Job) (own, others []blob.Location, err error) {
	own, err = ownLocations(ctx, o.db, owner{ownerJob, int64(j.ID)})
	if err != nil {
		return nil, nil, err
	}
	for _, l := range own {
		rows, err := readRows(ctx, o.db, insideLocations, j.WarehouseID, l.Prefix(), string(l)+"0")
		if err != nil {
			return nil, nil, err
		}
		for _, r := range rows {
			if o.foreign(r, j.ID) {
				others = append(others, r.cleaned())
			}
		}
	}
	return own, others, nil
}

func (o *Ownership) foreign(r locationRow, j job.ID) bool {
	return r.owner.kind != ownerNamespace && r.owner != owner{ownerJob, int64(j)}
}

// Whose tells for each location who claims it or something above it.
func (o *Ownership) Whose(ctx context.Context, j purge.Job, at []blob.Location) ([]purge.Owner, error) {
	var ask []string
	seen := map[string]bool{}
	for _, l := range at {
		for _, a := range l.Ancestors() {
			if !seen[a] {
				seen[a] = true
				ask = append(ask, a)
			}
		}
	}
	owners := map[string]purge.Owner{}
	for part := range slices.Chunk(ask, o.db.Dialect().MaxList) {
		rows, err := readRows(ctx, o.db, holdersAbove, j.WarehouseID, sqldb.Strings(part))
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			switch {
			case o.foreign(r, j.ID):
				owners[r.location] = purge.Other
			case r.owner.kind == ownerJob && owners[r.location] != purge.Other:
				owners[r.location] = purge.Own
			}
		}
	}
	out := make([]purge.Owner, len(at))
	for i, l := range at {
		for _, a := range l.Ancestors() {
			out[i] = max(out[i], owners[a]) // Other wins over Own, Own over Nobody
		}
	}
	return out, nil
}

// Adopt makes those of the locations the job's own that nobody owns and that overlap
// nothing of others, and returns those of them that are its own now. It is fenced: a
// worker whose lease is gone adopts nothing.
func (o *Ownership) Adopt(ctx context.Context, j purge.Job, at []blob.Location) (owned []blob.Location, err error) {
	mine := owner{ownerJob, int64(j.ID)}
	w := tenant.WarehouseID(j.WarehouseID)
	err = o.db.Tx(ctx, func(tx *sqldb.Tx) error {
		owned = nil
		if err := exclusive(ctx, tx, w); err != nil {
			return err
		}
		if err := lockKey(ctx, tx, w, j.UUIDKey); err != nil {
			return err
		}
		if live, err := findTwins(ctx, tx, w, j.UUIDKey, j.MetadataHash, 0); err != nil || len(live) > 0 {
			return err // somebody lives on the same metadata: nothing more is taken
		}
		for _, l := range at {
			rows, err := overlaps(ctx, tx, w, l)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(rows, func(r locationRow) bool { return r.owner != mine }) {
				continue
			}
			if _, err := tx.Exec(ctx, insertLocation, w, l.Prefix(), mine.kind, mine.id); err != nil {
				return err
			}
			owned = append(owned, l)
		}
		return o.jobs.Jobs().Fence(ctx, tx, job.Lease{ID: j.ID, Epoch: j.Epoch})
	}, sqldb.Confirm(func(context.Context, *sqldb.Tx) (bool, error) { return false, nil })) // taking twice is taking once
	return owned, err
}

// Hooks keep locations and uuid rows in step with the jobs, inside their transactions.
func (o *Ownership) Hooks() job.Hooks {
	return job.Hooks{Settled: o.settled, Retrying: o.retrying, Pruning: o.pruning}
}

// settled frees the locations of a job that succeeded, was cancelled or acknowledged. A
// FAILED one keeps them: its files are still there.
func (o *Ownership) settled(ctx context.Context, tx *sqldb.Tx, row job.Row, acked bool) error {
	if row.State == job.Failed && !acked {
		return nil
	}
	_, err := tx.Exec(ctx, freeLocations, ownerJob, int64(row.ID))
	return err
}

// retrying does the checks of a new delete: no live table and no other unsettled job
// has its uuid or metadata file, its identifier has no other purge under way, and its
// locations, freed by a cancel or an acknowledgement, overlap nobody.
func (o *Ownership) retrying(ctx context.Context, tx *sqldb.Tx, row job.Row, _ job.RetryOptions) error {
	const op = "catalog.Retry"
	j, err := o.jobs.Get(ctx, tx, row.ID)
	if err != nil {
		return err
	}
	w := tenant.WarehouseID(j.WarehouseID)
	name := o.jobs.Name(row.ID)
	if err := exclusive(ctx, tx, w); err != nil {
		return err
	}
	if err := lockKey(ctx, tx, w, j.UUIDKey); err != nil {
		return err
	}
	live, err := findTwins(ctx, tx, w, j.UUIDKey, j.MetadataHash, 0)
	if err != nil {
		return err
	}
	if len(live) > 0 {
		twin, err := entryName(ctx, tx, live[0].id)
		if err != nil {
			return err
		}
		return fault.New(op, fault.Conflict, CodeShared, "%s cannot run again: table %s is live and has its metadata", name, twin)
	}
	held, found, err := o.jobs.Holder(ctx, tx, j.WarehouseID, j.UUIDKey, j.MetadataHash, row.ID)
	if err != nil {
		return err
	}
	if found {
		return fault.New(op, fault.Conflict, CodePurging, "%s cannot run again: %s has its table", name, o.jobs.Name(held))
	}
	locs := make([]blob.Location, len(j.Locations))
	for i, l := range j.Locations {
		locs[i] = blob.Location(l)
	}
	return claimLocations(ctx, tx, op, w, owner{ownerJob, int64(row.ID)}, locs, o.jobs)
}

const (
	freeMany  sqldb.Statement = "DELETE FROM tabular_locations WHERE owner_kind = ? AND owner_id {in}"
	dropUUIDs sqldb.Statement = `DELETE FROM table_uuids WHERE warehouse_id = ? AND uuid_key {in}
		AND NOT EXISTS (SELECT 1 FROM tabulars t WHERE t.warehouse_id = table_uuids.warehouse_id AND t.uuid_key = table_uuids.uuid_key)`
)

// pruning frees what the rows still hold, and removes the uuid rows that no entry and no
// other job needs any more. Nobody relies on a uuid row to stay: who wants it inserts it.
func (o *Ownership) pruning(ctx context.Context, tx *sqldb.Tx, ids []job.ID) error {
	owners := make(sqldb.IDs, len(ids))
	for i, id := range ids {
		owners[i] = int64(id)
	}
	for part := range slices.Chunk(owners, tx.Dialect().MaxList) {
		if _, err := tx.Exec(ctx, freeMany, ownerJob, part); err != nil {
			return err
		}
	}
	unheld, err := o.jobs.KeysOnlyOf(ctx, tx, ids)
	if err != nil {
		return err
	}
	for w, keys := range unheld {
		for part := range slices.Chunk(sorted(keys...), tx.Dialect().MaxList) {
			if _, err := tx.Exec(ctx, dropUUIDs, w, sqldb.Strings(part)); err != nil {
				return err
			}
		}
	}
	return nil
}
