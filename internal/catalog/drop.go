package catalog

import (
	"context"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// DropOptions of Drop.
type DropOptions struct {
	Purge bool
	Async bool // for events only: waiting is the edge's business
}

// Drop removes an entry and, with purge, hands its files to a durable job, in one
// transaction. It reads no file: missing or corrupt metadata never blocks a drop.
// Without purge the files stay and the job is 0.
func (c *Catalog) Drop(ctx context.Context, call Call, kind Kind, id Identifier, opts DropOptions) (job.ID, error) {
	const op = "catalog.Drop"
	if err := id.check(op); err != nil {
		return 0, err
	}
	w := call.Warehouse.ID
	var made job.ID
	c.step("drop.begin")
	err := c.change(ctx, call, func(tx *sqldb.Tx) (string, error) {
		made = 0
		e, err := findEntry(ctx, tx, lockEntry, op, w, kind, id)
		if err != nil {
			return "", err
		}
		if opts.Purge {
			if err := c.refuseShared(ctx, tx, op, call, id, e); err != nil {
				return "", err
			}
		}
		if !opts.Purge {
			return "", removeEntry(ctx, tx, e)
		}
		if made, err = c.handOver(ctx, tx, call, id, e, opts.Async); err != nil {
			return "", err
		}
		return c.jobs.Name(made), nil
	})
	if err != nil {
		return 0, err
	}
	c.step("drop.committed")
	if c.events.Dropped != nil {
		ev := Dropped{Call: call, Kind: kind, Identifier: id, PurgeRequested: opts.Purge, Async: opts.Async}
		if made != 0 {
			ev.Job = c.jobs.Name(made)
		}
		c.events.Dropped(ctx, ev)
	}
	return made, nil
}

var objectTypes = map[Kind]purge.ObjectType{KindTable: purge.Table, KindView: purge.View}

// filesOf returns the files that the entry's metadata does not lead to: a view's older
// metadata.
func filesOf(ctx context.Context, tx *sqldb.Tx, e *entry) ([]string, error) {
	if e.kind != KindView {
		return nil, nil
	}
	rows, err := tx.Query(ctx, viewFiles, e.id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var file string
		if err := rows.Scan(&file); err != nil {
			return nil, err
		}
		out = append(out, file)
	}
	return out, rows.Err()
}

// handOver deletes a dropped entry, inserts its purge job and gives it the locations.
func (c *Catalog) handOver(ctx context.Context, tx *sqldb.Tx, call Call, id Identifier, e *entry, async bool) (job.ID, error) {
	mine := owner{ownerEntry, e.id}
	files, err := filesOf(ctx, tx, e)
	if err != nil {
		return 0, err
	}
	if err := deleteLocked(ctx, tx, e); err != nil {
		return 0, err
	}
	owned, err := ownLocations(ctx, tx, mine)
	if err != nil {
		return 0, err
	}
	locations := make([]string, len(owned))
	for i, l := range owned {
		locations[i] = string(l)
	}
	w := call.Warehouse
	fileIO, properties := w.FileIO()
	made, err := c.jobs.Insert(ctx, tx, purge.Request{
		Tenant: w.TenantName, WarehouseID: int64(w.ID), Warehouse: w.Name, Namespace: id.Namespace.Key(), Name: id.Name,
		Type: objectTypes[e.kind], Files: files, UUID: e.uuid, UUIDKey: e.key, TableLocation: e.location, Locations: locations,
		MetadataLocation: e.metadataLocation, MetadataHash: e.metadataHash, FileIOImpl: fileIO, FileIOProps: properties, RequestID: call.RequestID, Principal: call.Principal, Async: async,
	})
	if err != nil {
		return 0, err
	}
	n, err := tx.Exec(ctx, moveLocations, ownerJob, int64(made), mine.kind, mine.id)
	if err == nil && n != int64(len(owned)) {
		err = errChanged
	}
	return made, err
}

// refuseShared refuses a purge that would destroy another live table.
func (c *Catalog) refuseShared(ctx context.Context, tx *sqldb.Tx, op string, call Call, id Identifier, e *entry) error {
	w := call.Warehouse.ID
	for _, key := range lockedKeys(e.uuid, e.key, e.metadataHash) {
		if err := lockKey(ctx, tx, w, key); err != nil {
			return err
		}
	}
	live, err := findTwins(ctx, tx, w, e.key, e.metadataHash, e.id)
	if err != nil || len(live) == 0 {
		return err
	}
	twin, err := entryName(ctx, tx, live[0].id)
	if err != nil {
		return err
	}
	return fault.New(op, fault.Conflict, CodeShared,
		"Table %s shares its metadata with %s, a purge would destroy both: drop one of them without purge, or unregister it", id, twin)
}
