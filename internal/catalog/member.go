package catalog

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/tenant"
)

// member is one entry's part of a change that is ready to be applied: its metadata file
// is written, and nothing names it yet.
type member struct {
	id      Identifier
	kind    Kind
	doc     document
	file    string          // the metadata file
	written bool            // by this change, and removed when it surely was not applied
	places  []blob.Location // that the entry does not hold yet

	// A change of an entry that exists: what was read of it. nil for a new entry.
	entry     *entry
	unchanged bool     // a transaction's member that only has requirements
	dropped   []string // metadata files to remove after the commit

	// A new entry.
	parent string // the default parent that its default location was built from; "" is an explicit one
	shares bool   // it may share a live table's uuid, file and places (register)
	// overwrite drops an entry of that name and kind first (register); replaced is its
	// key of table_uuids then.
	overwrite bool
	replaced  string

	row int64 // the entry's key once it is applied
}

// document is the metadata that an entry points to.
type document interface {
	UUID() string
	Location() string
	Locations() []string
	Size() int64
	Encode() ([]byte, error)
	MetadataDir() string
	FileName(version int, id uuid.UUID) string
}

// explicit reports whether the member takes the warehouse row and all looks.
func (m *member) explicit() bool {
	if m.entry != nil {
		return len(m.places) > 0 || m.rekeyed()
	}
	return m.parent == ""
}

func (m *member) hash() string { return hashOf(m.file) }

// rekeyed reports whether a table of format v1 gets its uuid by this change.
func (m *member) rekeyed() bool {
	return m.entry != nil && m.entry.uuid == "" && m.doc.UUID() != ""
}

// key is the entry's key of table_uuids after the change.
func (m *member) key() string {
	if m.entry != nil && !m.rekeyed() {
		return m.entry.key
	}
	return uuidKey(m.doc.UUID(), m.file)
}

// The hash is compared behind a function: where the statistics say that there are hardly any
// rows, PostgreSQL would look through the index that has it in second place.
const swapPointer sqldb.Statement = `UPDATE tabulars SET metadata_location = ?, metadata_hash = ?, uuid = ?, uuid_key = ?, location = ?, updated_at = {now}
	WHERE id = ? AND NULLIF(metadata_hash, '') = ? AND metadata_location = ?`

// errLostSwap says that another commit moved the pointer first, errParentMoved that the
// namespace's default parent changed since it was read. Both are worth another look.
var (
	errLostSwap    = errors.New("catalog: the pointer moved")
	errParentMoved = errors.New("catalog: the namespace's location changed")
)

// apply makes all members visible, or none, in one transaction. What it wrote is
// removed again when the change surely was not applied.
func (c *Catalog) apply(ctx context.Context, op string, call Call, result string, members ...*member) error {
	err := c.change(ctx, call, func(tx *sqldb.Tx) (string, error) {
		return result, c.applyIn(ctx, tx, op, call, members)
	})
	if err != nil && !errors.Is(err, sqldb.ErrCommitUnknown) {
		for _, m := range members {
			if m.written {
				c.discard(ctx, call.Warehouse, m.file)
			}
		}
	}
	return err
}

// applyIn takes the locks in their order (package comment) for all members at once.
func (c *Catalog) applyIn(ctx context.Context, tx *sqldb.Tx, op string, call Call, members []*member) error {
	w := call.Warehouse.ID
	if slices.ContainsFunc(members, (*member).explicit) {
		if err := exclusive(ctx, tx, w); err != nil {
			return err
		}
	}
	homes, err := c.shareHomes(ctx, tx, op, call, members)
	if err != nil {
		return err
	}
	ordered := slices.Clone(members)
	slices.SortStableFunc(ordered, func(a, b *member) int { return cmp.Compare(a.lockOrder(), b.lockOrder()) })
	for _, m := range ordered {
		if m.entry != nil {
			err = swap(ctx, tx, m)
		} else {
			err = insertNew(ctx, tx, op, call, m, homes[m.id.Namespace.Key()])
		}
		if err != nil {
			return err
		}
	}
	if err := lockKeys(ctx, tx, w, members); err != nil {
		return err
	}
	for _, m := range members {
		if err := c.look(ctx, tx, op, call, m); err != nil {
			return err
		}
	}
	return nil
}

// lockKeys takes the uuid rows of explicit members, and of what they replace, by key.
func lockKeys(ctx context.Context, tx *sqldb.Tx, w tenant.WarehouseID, members []*member) error {
	var keys []string
	for _, m := range members {
		if m.explicit() {
			keys = append(keys, lockedKeys(m.doc.UUID(), m.key(), m.hash())...)
		}
		if m.rekeyed() {
			keys = append(keys, m.entry.key)
		}
		if m.replaced != "" {
			keys = append(keys, m.replaced)
		}
	}
	for _, key := range sorted(keys...) {
		if err := lockKey(ctx, tx, w, key); err != nil {
			return err
		}
	}
	return nil
}

// lockOrder sorts entries by id; new ones have none yet and come last.
func (m *member) lockOrder() int64 {
	if m.entry == nil {
		return 1<<63 - 1
	}
	return m.entry.id
}

// shareHomes takes the namespaces of new entries, by id.
func (c *Catalog) shareHomes(ctx context.Context, tx *sqldb.Tx, op string, call Call, members []*member) (map[string]*namespaceRow, error) {
	homes := map[string]*namespaceRow{}
	var names []Namespace
	for _, m := range members {
		if m.entry == nil && homes[m.id.Namespace.Key()] == nil {
			homes[m.id.Namespace.Key()] = &namespaceRow{}
			names = append(names, m.id.Namespace)
		}
	}
	if len(names) > 1 {
		ids := map[string]int64{}
		for _, n := range names {
			row, err := namespace(ctx, tx, readNamespace, op, call.Warehouse.ID, n)
			if err != nil {
				return nil, err
			}
			ids[n.Key()] = row.id
		}
		slices.SortFunc(names, func(a, b Namespace) int { return cmp.Compare(ids[a.Key()], ids[b.Key()]) })
	}
	for _, n := range names {
		row, err := namespace(ctx, tx, shareNamespace, op, call.Warehouse.ID, n)
		if err != nil {
			return nil, err
		}
		homes[n.Key()] = row
	}
	return homes, nil
}

// swap moves the pointer from what was read to the new file.
func swap(ctx context.Context, tx *sqldb.Tx, m *member) error {
	e := m.entry
	m.row = e.id
	if m.unchanged {
		var now entry
		if err := tx.QueryRow(ctx, lockEntryByID, e.id).Scan(now.fields()...); gone(err) || (err == nil && now.metadataLocation != e.metadataLocation) {
			return errLostSwap
		} else if err != nil {
			return err
		}
		return nil
	}
	n, err := tx.Exec(ctx, swapPointer, m.file, m.hash(), m.doc.UUID(), m.key(), m.doc.Location(), e.id, e.metadataHash, e.metadataLocation)
	if err == nil && n != 1 {
		err = errLostSwap
	}
	return err
}

func insertNew(ctx context.Context, tx *sqldb.Tx, op string, call Call, m *member, home *namespaceRow) error {
	if !m.explicit() && home.location != m.parent {
		return errParentMoved
	}
	m.replaced = ""
	if m.overwrite {
		old, err := findEntry(ctx, tx, lockEntry, op, call.Warehouse.ID, m.kind, m.id)
		switch {
		case err == nil:
			m.replaced = old.key
			if err := removeEntry(ctx, tx, old); err != nil {
				return err
			}
		case fault.KindOf(err) != fault.NotFound:
			return err
		}
	}
	var err error
	m.row, err = tx.InsertID(ctx, insertEntry, call.Warehouse.ID, home.id, m.kind, m.id.Name, m.doc.UUID(), m.key(), m.doc.Location(), m.file, m.hash())
	if tx.Dialect().Classify(err) == sqldb.ClassUnique {
		return alreadyExists(op, m.kind, m.kind, m.id)
	}
	return err
}

// look asks what must be asked after the entry was written, under the locks: tombstone,
// uuid and file of others, places.
func (c *Catalog) look(ctx context.Context, tx *sqldb.Tx, op string, call Call, m *member) error {
	w := call.Warehouse.ID
	mine := owner{ownerEntry, m.row}
	if m.kind == KindView && !m.unchanged {
		if _, err := tx.Exec(ctx, insertViewFile, m.row, m.hash(), m.file); err != nil {
			return err
		}
	}
	if m.entry == nil {
		if err := c.refuseTombstone(ctx, tx, op, call, m.id); err != nil {
			return err
		}
	}
	if !m.explicit() {
		return addLocations(ctx, tx, w, mine, m.places)
	}
	key, hash := m.key(), m.hash()
	live, err := findTwins(ctx, tx, w, key, hash, m.row)
	if err != nil {
		return err
	}
	if m.entry == nil || m.rekeyed() {
		holder, held, err := c.jobs.Holder(ctx, tx, int64(w), key, hash, 0)
		if err != nil {
			return err
		}
		if held {
			return fault.New(op, fault.Conflict, CodePurging, "uuid %s or its metadata file belongs to %s, an unsettled purge", m.doc.UUID(), c.jobs.Name(holder))
		}
		if len(live) > 0 && !m.shares {
			return fault.New(op, fault.Conflict, CodeAlreadyExists, "%s has the same uuid %s", live[0].name, m.doc.UUID())
		}
	}
	shared := make([]owner, len(live))
	for i, t := range live {
		shared[i] = owner{ownerEntry, t.id}
	}
	return claimLocations(ctx, tx, op, w, mine, m.places, c.jobs, shared...)
}

// write writes the member's metadata file.
func (c *Catalog) write(ctx context.Context, op string, call Call, m *member, version int) error {
	file, err := c.writeMetadata(ctx, op, call.Warehouse, m.doc, version)
	m.file, m.written = file, err == nil
	return err
}
