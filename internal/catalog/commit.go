package catalog

import (
	"context"
	"errors"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
)

// commitTries bounds how often one commit is validated again after another one won.
const commitTries = 20

// TableCommit is one table's part of a commit.
type TableCommit struct {
	Identifier Identifier
	Commit     *metadata.Commit
}

// CommitTable applies a commit. A lost race is validated again and retried here; only a
// requirement that no longer holds is a conflict. An outcome that nobody can tell keeps
// the new file and is fault.Unknown.
func (c *Catalog) CommitTable(ctx context.Context, call Call, id Identifier, commit *metadata.Commit) (*Loaded, error) {
	const op = "catalog.CommitTable"
	var m *member
	queue := turnKey{int64(call.Warehouse.ID), id.Namespace.Key() + id.Name}
	err := c.retryCommit(ctx, op, &queue, func() (err error) {
		if m, err = c.prepare(ctx, op, call, id, commit); err != nil {
			return err
		}
		if m.unchanged {
			_, err := c.Remember(ctx, call, m.file, nil)
			return err
		}
		return c.commit(ctx, op, call, m.file, m)
	})
	if err != nil {
		return nil, err
	}
	return &Loaded{Table: m.doc.(*metadata.Table), MetadataLocation: m.file}, nil
}

// CommitTransaction applies the commits of several tables, all or none.
func (c *Catalog) CommitTransaction(ctx context.Context, call Call, commits []TableCommit) error {
	const op = "catalog.CommitTransaction"
	seen := map[string]bool{}
	for _, tc := range commits {
		if err := tc.Identifier.check(op); err != nil {
			return err
		}
		key := tc.Identifier.Namespace.Key() + tc.Identifier.Name
		if seen[key] {
			return fault.New(op, fault.Invalid, CodeBadRequest, "table %s stands in the transaction twice", tc.Identifier)
		}
		seen[key] = true
	}
	return c.retryCommit(ctx, op, nil, func() error {
		members := make([]*member, len(commits))
		changes := false
		for i, tc := range commits {
			m, err := c.prepare(ctx, op, call, tc.Identifier, tc.Commit)
			if err != nil {
				return err
			}
			members[i] = m
			changes = changes || !m.unchanged
		}
		if !changes {
			_, err := c.Remember(ctx, call, "", nil)
			return err
		}
		return c.commit(ctx, op, call, "", members...)
	})
}

// retryCommit runs try again as long as others move a pointer first, and then in turn
// with the other commits to the table whose queue it is; nil is none.
func (c *Catalog) retryCommit(ctx context.Context, op string, queue *turnKey, try func() error) error {
	queued, end := false, func() {}
	defer func() { end() }()
	for n := range commitTries {
		if queue != nil && !queued && (n > 0 || c.turns.contended(*queue)) {
			queued, end = true, c.turns.take(ctx, *queue)
		}
		err := try()
		if !errors.Is(err, errLostSwap) {
			return err
		}
		if ctx.Err() != nil {
			return fault.Wrap(op, fault.Busy, "", context.Cause(ctx), "the request ended while its commit was retried, nothing was applied")
		}
	}
	return fault.New(op, fault.Conflict, CodeCommitFailed, "the entry changed %d times while this commit was applied: try again", commitTries)
}

// prepare validates a commit against the table as it stands, and makes its next
// metadata. Nothing is written.
func (c *Catalog) prepare(ctx context.Context, op string, call Call, id Identifier, commit *metadata.Commit) (*member, error) {
	if commit.AssertsCreate() {
		return c.prepareCreate(ctx, op, call, id, commit)
	}
	e, base, err := c.loadTable(ctx, op, call.Warehouse, id)
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
	m := &member{id: id, kind: KindTable, doc: result.Table, entry: e, file: e.metadataLocation, unchanged: !result.Changed, dropped: result.DroppedLogs}
	if result.Changed {
		m.places, err = newPlaces(op, call, base.Table, result.Table)
	}
	return m, err
}

func (c *Catalog) prepareCreate(ctx context.Context, op string, call Call, id Identifier, commit *metadata.Commit) (*member, error) {
	if err := id.check(op); err != nil {
		return nil, err
	}
	if _, err := namespace(ctx, c.db, readNamespace, op, call.Warehouse.ID, id.Namespace); err != nil {
		return nil, err
	}
	switch taken, err := kindAt(ctx, c.db, call.Warehouse.ID, id); {
	case err != nil:
		return nil, err
	case taken == KindTable:
		return nil, fault.New(op, fault.Conflict, CodeCommitFailed, "Requirement failed: table already exists: %s", id)
	case taken != 0:
		return nil, alreadyExists(op, KindTable, taken, id)
	}
	if err := commit.Check(nil); err != nil {
		return nil, err
	}
	table, err := commit.Build()
	if err != nil {
		return nil, err
	}
	locs, err := places(op, call.Warehouse, table.Locations())
	if err != nil {
		return nil, err
	}
	// Nothing is written into a place that is not ours; the transaction asks again.
	return &member{id: id, kind: KindTable, doc: table, places: locs}, c.precheck(ctx, op, call, locs)
}

// commit writes the members' files and applies them, then removes what the commit made
// superfluous.
func (c *Catalog) commit(ctx context.Context, op string, call Call, result string, members ...*member) error {
	for i, m := range members {
		if m.unchanged {
			continue
		}
		version := 0
		if m.entry != nil {
			version = metadata.NextVersion(m.entry.metadataLocation)
		}
		if err := c.write(ctx, op, call, m, version); err != nil {
			for _, done := range members[:i] {
				if done.written {
					c.discard(ctx, call.Warehouse, done.file)
				}
			}
			return err
		}
	}
	if result != "" {
		result = members[0].file
	}
	c.step("commit.written")
	if err := c.apply(ctx, op, call, result, members...); err != nil {
		return err
	}
	c.step("commit.swapped")
	for _, m := range members {
		c.remember(m)
		c.discard(ctx, call.Warehouse, c.trimmable(ctx, call, m)...)
	}
	return nil
}

// remember puts applied metadata into the cache.
func (c *Catalog) remember(m *member) {
	c.cache.put(cacheKey{m.key(), m.file}, m.doc)
}

// newPlaces returns the cleaned locations that the entry did not have before.
func newPlaces(op string, call Call, before, after document) ([]blob.Location, error) {
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
