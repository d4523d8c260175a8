package metadata

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// Properties that name places of a table, apart from its location.
var pathProperties = []string{
	"write.data.path", "write.metadata.path",
	"write.object-storage.path", "write.folder-storage.path",
}

const maxFormatVersion = 3

// parsedFactor estimates the memory of the decoded form (measured: 2, while its snapshots
// are not looked at 1) and of what RefsOnlyJSON keeps, in multiples of the document.
const parsedFactor = 3

// Table is the metadata of one table at one version. It is immutable.
type Table struct {
	doc      []byte
	meta     table.Metadata
	location string
	props    map[string]string
	refsOnly func() []byte
}

// Parse reads a metadata file, plain or gzip, and keeps data. Metadata that the library
// cannot carry without loss (snapshots encrypted with a key) is refused.
func Parse(data []byte, limits Limits) (t *Table, err error) {
	const op, what = "metadata.Parse", "table metadata"
	defer guard(op, what, &err)
	doc, err := limits.inflate(data)
	if err != nil {
		return nil, invalid(op, what, err)
	}
	if err := limits.check(doc); err != nil {
		return nil, invalid(op, what, err)
	}
	if err := refuseEncrypted(doc); err != nil {
		return nil, invalid(op, what, err)
	}
	t, err = decode(doc)
	if err != nil {
		return nil, invalid(op, what, err)
	}
	return t, nil
}

// decode makes a Table of a document within limits. Snapshots are validated here and
// decoded when a commit first needs them, because most tables in a cache are only loaded.
func decode(doc []byte) (*Table, error) {
	meta, err := table.ParseMetadataBytesDeferredSnapshots(doc)
	if errors.Is(err, table.ErrInvalidMetadataFormatVersion) {
		var again []byte
		if again, err = dropLaterCounters(doc, err); err == nil {
			meta, err = table.ParseMetadataBytesDeferredSnapshots(again)
		}
	}
	if err != nil {
		return nil, err
	}
	t := &Table{
		doc:      doc,
		meta:     meta,
		location: stripSlashes(meta.Location()),
		props:    meta.Properties(),
	}
	t.refsOnly = sync.OnceValue(t.buildRefsOnly)
	return t, nil
}

// dropLaterCounters removes top-level counters that the document's own format version
// does not have: other writers leave them behind, and Java ignores them. Only the
// library sees the document without them. If there are none it returns an error that
// explains the refusal.
func dropLaterCounters(doc []byte, refusal error) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(doc, &fields); err != nil {
		return nil, err
	}
	var version int
	if json.Unmarshal(fields["format-version"], &version) != nil || version < 1 || version > maxFormatVersion {
		return nil, fmt.Errorf("format-version %s is not supported, only 1 to %d",
			cmp.Or(string(fields["format-version"]), "(absent)"), maxFormatVersion)
	}
	before := len(fields)
	if version < 3 {
		delete(fields, "next-row-id")
	}
	if version < 2 {
		delete(fields, "last-sequence-number")
	}
	if len(fields) == before {
		return nil, refusal
	}
	return json.Marshal(fields)
}

// refuseEncrypted reports snapshots with a key-id: the library has no such field, and a
// later commit would lose the only way to read the table.
func refuseEncrypted(doc []byte) error {
	// A key spelled with an escape needs the decoder; everything else is a plain search.
	if !bytes.Contains(doc, []byte("key-id")) && !bytes.Contains(doc, []byte(`\u`)) {
		return nil
	}
	var head struct {
		Snapshots []*struct {
			ID    json.Number `json:"snapshot-id"`
			KeyID *string     `json:"key-id"`
		} `json:"snapshots"`
	}
	if err := json.Unmarshal(doc, &head); err != nil {
		return err
	}
	for _, s := range head.Snapshots {
		if s != nil && s.KeyID != nil {
			return fmt.Errorf("snapshot %s is encrypted (key-id), which is not supported", s.ID)
		}
	}
	return nil
}

// UUID returns the table's uuid, empty for version 1 metadata without one.
func (t *Table) UUID() string {
	if id := t.meta.TableUUID(); id != uuid.Nil {
		return id.String()
	}
	return ""
}

// FormatVersion returns the version of the format, 1 to 3.
func (t *Table) FormatVersion() int { return t.meta.Version() }

// Location returns the table's base location without trailing slashes.
func (t *Table) Location() string { return t.location }

// Property returns a table property, or def if it is not set.
func (t *Table) Property(key, def string) string {
	if v, ok := t.props[key]; ok {
		return v
	}
	return def
}

// Properties returns a copy of the table's properties.
func (t *Table) Properties() map[string]string { return t.meta.Properties() }

// Locations returns every place the table may write to: its location first, then those
// of its properties that are set. Each is named once.
func (t *Table) Locations() []string {
	all := []string{t.location}
	for _, key := range pathProperties {
		if at := stripSlashes(t.props[key]); at != "" && !slices.Contains(all, at) {
			all = append(all, at)
		}
	}
	return all
}

// CurrentSnapshotID returns the snapshot of the main branch, if there is one.
func (t *Table) CurrentSnapshotID() (id int64, ok bool) {
	if s := t.meta.CurrentSnapshot(); s != nil {
		return s.SnapshotID, true
	}
	return 0, false
}

// PreviousFiles returns the metadata files that the metadata log names, oldest first.
func (t *Table) PreviousFiles() []string {
	var files []string
	for entry := range t.meta.PreviousFiles() {
		files = append(files, entry.MetadataFile)
	}
	return files
}

// JSON returns the document as it is stored. The caller must not change it.
func (t *Table) JSON() []byte { return t.doc }

// Size estimates the memory that the table holds, in bytes.
func (t *Table) Size() int64 { return int64(len(t.doc)) * (1 + parsedFactor) }

// stripSlashes removes trailing slashes as Java does, except those that end a scheme.
func stripSlashes(location string) string {
	for strings.HasSuffix(location, "/") && !strings.HasSuffix(location, "://") && location != "/" {
		location = location[:len(location)-1]
	}
	return location
}
