package metadata

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

const (
	codecProperty       = "write.metadata.compression-codec"
	metadataPathKey     = "write.metadata.path"
	deleteAfterCommit   = "write.metadata.delete-after-commit.enabled"
	plainSuffix         = ".metadata.json"
	gzipSuffix          = ".gz.metadata.json"
	maxVersionOfName    = 1<<31 - 2
	versionDigitsOfName = 5

	// What Java writes where the property is not set differs by kind.
	defaultCodec     = "none"
	defaultViewCodec = "gzip"
)

// MetadataDir returns the directory that the table's metadata files go to.
func (t *Table) MetadataDir() string { return metadataDir(t.location, t.props) }

// FileName returns the name of the table's metadata file of a version. Readers choose
// the codec by this name.
func (t *Table) FileName(version int, id uuid.UUID) string {
	return fileName(version, id, t.props, defaultCodec)
}

// NextVersion returns the version to use after the metadata file of that location: one
// more than its NNNNN- prefix, 0 where it has none (as for files of Hadoop tables).
func NextVersion(previous string) int {
	name := previous[strings.LastIndexByte(previous, '/')+1:]
	digits, _, ok := strings.Cut(name, "-")
	n, err := strconv.ParseUint(digits, 10, 31)
	if !ok || err != nil || n > maxVersionOfName {
		return 0
	}
	return int(n) + 1
}

// Encode returns the bytes of the table's metadata file, compressed when its property
// write.metadata.compression-codec asks for it.
func (t *Table) Encode() ([]byte, error) {
	return encode("metadata.Encode", "table properties", t.doc, t.props, defaultCodec)
}

func metadataDir(location string, props map[string]string) string {
	if dir := stripSlashes(props[metadataPathKey]); dir != "" {
		return dir
	}
	return strings.TrimSuffix(location, "/") + "/metadata"
}

func fileName(version int, id uuid.UUID, props map[string]string, fallback string) string {
	suffix := plainSuffix
	if zip, err := compressed(props, fallback); err == nil && zip {
		suffix = gzipSuffix
	}
	return fmt.Sprintf("%0*d-%s%s", versionDigitsOfName, version, id, suffix)
}

func encode(op, what string, doc []byte, props map[string]string, fallback string) ([]byte, error) {
	zip, err := compressed(props, fallback)
	if err != nil {
		return nil, invalid(op, what, err)
	}
	if !zip {
		return doc, nil
	}
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	if _, err := zw.Write(doc); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if err := zw.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return out.Bytes(), nil
}

// compressed tells whether the codec that the properties name, or else the fallback, is
// gzip.
func compressed(props map[string]string, fallback string) (bool, error) {
	codec, ok := props[codecProperty]
	if !ok {
		codec = fallback
	}
	switch strings.ToLower(codec) {
	case "none", "":
		return false, nil
	case "gzip":
		return true, nil
	default:
		return false, fmt.Errorf("%s %q is not supported: use none or gzip", codecProperty, codec)
	}
}

// finish writes what a builder made and reads it back, so that nothing is ever stored
// that could not be loaded again.
func finish(op, what string, b *table.MetadataBuilder) (*Table, error) {
	meta, err := b.Build()
	if err != nil {
		return nil, refused(op, what, err)
	}
	return settle(op, what, meta)
}

func settle(op, what string, meta table.Metadata) (*Table, error) {
	doc, err := marshal(meta)
	if err != nil {
		return nil, refused(op, what, err)
	}
	t, err := decode(doc)
	if err != nil {
		return nil, refused(op, what, err)
	}
	if _, err := compressed(t.props, defaultCodec); err != nil {
		return nil, refused(op, what, err)
	}
	return t, nil
}

// marshal encodes metadata as the Java writer does: empty lists and maps are written
// out, because some readers demand them, and nothing optional is null.
func marshal(meta table.Metadata) ([]byte, error) {
	doc, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	// Neither pattern can occur inside a string, where its quotes are escaped, nor in
	// a free-form map, whose values are strings.
	for null, empty := range map[string]string{
		`"properties":null`: `"properties":{}`, `"fields":null`: `"fields":[]`, `"blob-metadata":null`: `"blob-metadata":[]`,
	} {
		doc = bytes.ReplaceAll(doc, []byte(null), []byte(empty))
	}
	if meta.TableUUID() == uuid.Nil {
		// Version 1 may have no uuid; a nil one would look like every other's.
		doc = bytes.Replace(doc, []byte(`"table-uuid":"`+uuid.Nil.String()+`",`), nil, 1)
	}
	version, current := meta.Version(), meta.CurrentSnapshot()
	for _, missing := range []struct {
		field string
		when  bool
	}{
		{`"properties":{}`, len(meta.Properties()) == 0},
		{`"refs":{}`, empty2(meta.Refs())},
		{`"current-snapshot-id":-1`, current == nil && version < 3},
		{`"partition-spec":[]`, version == 1 && isUnpartitioned(meta)},
		{`"snapshots":[]`, len(meta.Snapshots()) == 0},
		{`"snapshot-log":[]`, empty(meta.SnapshotLogs())},
		{`"metadata-log":[]`, empty(meta.PreviousFiles())},
		{`"statistics":[]`, empty(meta.Statistics())},
		{`"partition-statistics":[]`, empty(meta.PartitionStatistics())},
	} {
		if missing.when {
			doc = append(append(append(doc[:len(doc)-1], ','), missing.field...), '}')
		}
	}
	return doc, nil
}

func empty[T any](seq iter.Seq[T]) bool {
	for range seq {
		return false
	}
	return true
}

func empty2[K, V any](seq iter.Seq2[K, V]) bool {
	for range seq {
		return false
	}
	return true
}

func isUnpartitioned(meta table.Metadata) bool {
	spec := meta.PartitionSpec()
	return spec.NumFields() == 0
}
