package metadata

import (
	"maps"
	"slices"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// editor is one replay of updates on the library's builder. It keeps what the builder
// does not tell and Java's rules need.
type editor struct {
	b       *table.MetadataBuilder
	exists  bool      // false while a commit creates the table
	uuid    uuid.UUID // of the base
	version int
	lastSeq int64

	schemas    []*iceberg.Schema
	lastSchema *int // what set-current-schema -1 means
	chosen     bool // the commit has named the current schema
	specs      []iceberg.PartitionSpec
	lastSpec   *int // what set-default-spec -1 means
	orders     int

	refs           map[string]int64
	statistics     map[int64]bool
	partitionStats map[int64]bool
	keys           map[string]bool
}

func newTable(b *table.MetadataBuilder, version int) *editor {
	return &editor{
		b: b, version: version,
		refs:       map[string]int64{},
		statistics: map[int64]bool{}, partitionStats: map[int64]bool{},
		keys: map[string]bool{},
	}
}

func editTable(b *table.MetadataBuilder, base table.Metadata) *editor {
	ed := newTable(b, base.Version())
	ed.exists = true
	ed.uuid = base.TableUUID()
	ed.lastSeq = base.LastSequenceNumber()
	ed.schemas = base.Schemas()
	ed.specs = base.PartitionSpecs()
	ed.orders = len(base.SortOrders())
	for name, ref := range base.Refs() {
		ed.refs[name] = ref.SnapshotID
	}
	for s := range base.Statistics() {
		ed.statistics[s.SnapshotID] = true
	}
	for s := range base.PartitionStatistics() {
		ed.partitionStats[s.SnapshotID] = true
	}
	for k := range base.EncryptionKeys() {
		ed.keys[k.KeyID] = true
	}
	return ed
}

// addSchema adds a schema under the id that Java would give it: that of an identical
// schema, else the highest one plus 1. The client's id plays no part.
func (ed *editor) addSchema(schema *iceberg.Schema) error {
	own, known := placeSchema(ed.schemas, schema)
	if !known {
		if err := ed.b.AddSchema(own); err != nil {
			return err
		}
		ed.schemas = append(ed.schemas, own)
	}
	ed.lastSchema = &own.ID
	return nil
}

// placeSchema finds the schema that is identical, or makes a copy under the id that a
// new one gets. It is a copy because builders keep and change what they are given, while
// the commit stays as it is.
func placeSchema(all []*iceberg.Schema, schema *iceberg.Schema) (own *iceberg.Schema, known bool) {
	next := 0
	for _, s := range all {
		if s.Equals(schema) {
			return s, true
		}
		next = max(next, s.ID+1)
	}
	return iceberg.NewSchemaWithIdentifiers(next, slices.Clone(schema.IdentifierFieldIDs), schema.Fields()...), false
}

// addSpec is addSchema for partition specs. Specs are the same if their fields are,
// whatever the field ids.
func (ed *editor) addSpec(spec iceberg.PartitionSpec) error {
	next := 0
	for _, s := range ed.specs {
		if s.CompatibleWith(&spec) {
			id := s.ID()
			ed.lastSpec = &id
			return nil
		}
		next = max(next, s.ID()+1)
	}
	if err := ed.standIn(); err != nil {
		return err
	}
	if err := ed.b.AddPartitionSpec(&spec, false); err != nil {
		return err
	}
	added, err := ed.b.GetSpecByID(next)
	if err != nil {
		return err
	}
	ed.specs = append(ed.specs, *added)
	ed.lastSpec = &next
	return nil
}

func (ed *editor) addOrder(order table.SortOrder) error {
	if err := ed.standIn(); err != nil {
		return err
	}
	ed.orders++
	return ed.b.AddSortOrder(&order)
}

// standIn makes the last schema current for a spec or sort order of a new table that
// comes before set-current-schema: DuckDB sends that last.
func (ed *editor) standIn() error {
	if ed.exists || ed.chosen || ed.lastSchema == nil {
		return nil
	}
	return ed.b.SetCurrentSchemaID(*ed.lastSchema)
}

// addDefaults completes a new table whose creator named no spec or no sort order.
func (ed *editor) addDefaults() error {
	if len(ed.specs) == 0 {
		if err := ed.addSpec(iceberg.NewPartitionSpec()); err != nil {
			return err
		}
		if err := ed.b.SetDefaultSpecID(*ed.lastSpec); err != nil {
			return err
		}
	}
	if ed.orders > 0 {
		return nil
	}
	if err := ed.addOrder(table.UnsortedSortOrder); err != nil {
		return err
	}
	return ed.b.SetDefaultSortOrderID(table.UnsortedSortOrderID)
}

// addSnapshot refuses a snapshot that was built on older state with a Conflict, which
// the client may answer by building it again.
func (ed *editor) addSnapshot(s table.Snapshot) error {
	const op = "metadata.Commit.Apply"
	if ed.version == 1 && s.SequenceNumber != 0 {
		return invalidf(op, "snapshot %d has sequence number %d, but format version 1 has none", s.SnapshotID, s.SequenceNumber)
	}
	stale := s.SequenceNumber < ed.lastSeq || (s.ParentSnapshotID != nil && s.SequenceNumber == ed.lastSeq)
	if ed.version > 1 && stale {
		return conflictf(op, "snapshot %d has sequence number %d, but the table's last one is already %d",
			s.SnapshotID, s.SequenceNumber, ed.lastSeq)
	}
	if next := ed.b.NextRowID(); ed.version > 2 && s.FirstRowID != nil && *s.FirstRowID < next {
		return conflictf(op, "snapshot %d has first-row-id %d, but the table's next-row-id is already %d",
			s.SnapshotID, *s.FirstRowID, next)
	}
	if err := ed.b.AddSnapshot(&s); err != nil {
		return err
	}
	ed.lastSeq = s.SequenceNumber
	return nil
}

// removeSnapshots also drops the refs that would dangle, the main branch included, and
// ignores snapshots that are not there, as Java does.
func (ed *editor) removeSnapshots(ids []int64) error {
	gone := make(map[int64]bool)
	for _, id := range ids {
		if s, err := ed.b.SnapshotByID(id); err == nil && s != nil {
			gone[id] = true
		}
	}
	if len(gone) == 0 {
		return nil
	}
	// The library drops dangling refs by itself, but refuses to touch the main branch.
	if main, ok := ed.refs[table.MainBranch]; ok && gone[main] {
		if err := ed.b.RemoveSnapshotRef(table.MainBranch); err != nil {
			return err
		}
	}
	if err := ed.b.RemoveSnapshots(slices.Sorted(maps.Keys(gone)), false); err != nil {
		return err
	}
	maps.DeleteFunc(ed.refs, func(_ string, id int64) bool { return gone[id] })
	for id := range gone {
		delete(ed.statistics, id)
		delete(ed.partitionStats, id)
	}
	return nil
}
