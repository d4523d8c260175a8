package metadata

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go/view"
	"github.com/google/uuid"
)

// The properties that mean something to a view, apart from those of its files.
const (
	historySize   = view.VersionHistorySizeKey
	dropDialect   = view.ReplaceDropDialectAllowedKey
	appendDialect = "replace.append-dialect.allowed"
)

// View is the metadata of one view at one version. It is immutable.
type View struct {
	doc      []byte
	meta     view.Metadata
	location string
	props    map[string]string
}

// ParseView reads a metadata file, plain or gzip, and keeps data. A document that lacks
// a field the specification requires is refused, because Java clients could not load it.
func ParseView(data []byte, limits Limits) (v *View, err error) {
	const op, what = "metadata.ParseView", "view metadata"
	defer guard(op, what, &err)
	doc, err := limits.inflate(data)
	if err != nil {
		return nil, invalid(op, what, err)
	}
	if err := limits.check(doc); err != nil {
		return nil, invalid(op, what, err)
	}
	v, err = decodeView(doc)
	if err != nil {
		return nil, invalid(op, what, err)
	}
	return v, nil
}

func decodeView(doc []byte) (*View, error) {
	if err := checkView(doc); err != nil {
		return nil, err
	}
	meta, err := view.ParseMetadataBytes(doc)
	if err != nil {
		return nil, err
	}
	return &View{
		doc:      doc,
		meta:     meta,
		location: stripSlashes(meta.Location()),
		props:    meta.Properties(),
	}, nil
}

// checkView demands what the library does not: it fills missing fields with zeros, and
// counts in 64 bits where Java has 32.
func checkView(doc []byte) error {
	var wire struct {
		UUID     uuid.UUID        `json:"view-uuid"`
		Versions []*versionFields `json:"versions"`
		Schemas  []*struct {
			ID int32 `json:"schema-id"`
		} `json:"schemas"`
		Log []*struct {
			ID        *int32 `json:"version-id"`
			Timestamp *int64 `json:"timestamp-ms"`
		} `json:"version-log"`
		Properties map[string]*string `json:"properties"`
	}
	if err := json.Unmarshal(doc, &wire); err != nil {
		return err
	}
	if wire.UUID == uuid.Nil {
		return errors.New("view-uuid is required")
	}
	for i, fields := range wire.Versions {
		if _, err := fields.version(); err != nil {
			return fmt.Errorf("version %d: %w", i, err)
		}
	}
	if wire.Log == nil {
		return errors.New("version-log is required")
	}
	for i, entry := range wire.Log {
		if entry == nil || entry.ID == nil || entry.Timestamp == nil {
			return fmt.Errorf("version-log entry %d requires version-id and timestamp-ms", i)
		}
	}
	_, err := stringMap(wire.Properties)
	return err
}

// checkViewProperties refuses what a writer could not act on. Only new metadata is held
// to it: a view that has such a property can still be loaded and mended.
func checkViewProperties(props map[string]string) error {
	if _, err := compressed(props, defaultViewCodec); err != nil {
		return err
	}
	if size, ok := props[historySize]; ok {
		if n, err := strconv.ParseInt(size, 10, 32); err != nil || n < 1 {
			return fmt.Errorf("%s must be a positive number, not %q", historySize, size)
		}
	}
	if strings.EqualFold(props[dropDialect], "true") && strings.EqualFold(props[appendDialect], "true") {
		return fmt.Errorf("%s and %s must not both be true", dropDialect, appendDialect)
	}
	return nil
}

// UUID returns the view's uuid.
func (v *View) UUID() string { return v.meta.ViewUUID().String() }

// FormatVersion returns the version of the format, always 1 so far.
func (v *View) FormatVersion() int { return v.meta.FormatVersion() }

// CurrentVersionID returns the id of the version that readers use.
func (v *View) CurrentVersionID() int64 { return v.meta.CurrentVersionID() }

// Location returns the view's base location without trailing slashes.
func (v *View) Location() string { return v.location }

// Locations returns every place the view may write to: its location first, then its
// write.metadata.path if that is set and another.
func (v *View) Locations() []string {
	all := []string{v.location}
	if at := stripSlashes(v.props[metadataPathKey]); at != "" && !slices.Contains(all, at) {
		all = append(all, at)
	}
	return all
}

// Property returns a view property, or def if it is not set.
func (v *View) Property(key, def string) string {
	if value, ok := v.props[key]; ok {
		return value
	}
	return def
}

// Properties returns a copy of the view's properties.
func (v *View) Properties() map[string]string { return v.meta.Properties() }

// JSON returns the document as it is stored. The caller must not change it.
func (v *View) JSON() []byte { return v.doc }

// Size estimates the memory that the view holds, in bytes.
func (v *View) Size() int64 { return int64(len(v.doc)) * (1 + parsedFactor) }

// MetadataDir returns the directory that the view's metadata files go to.
func (v *View) MetadataDir() string { return metadataDir(v.location, v.props) }

// FileName returns the name of the view's metadata file of a version. Readers choose the
// codec by this name.
func (v *View) FileName(version int, id uuid.UUID) string {
	return fileName(version, id, v.props, defaultViewCodec)
}

// Encode returns the bytes of the view's metadata file. As Java does for views, it is
// compressed unless the property write.metadata.compression-codec is none.
func (v *View) Encode() ([]byte, error) {
	return encode("metadata.View.Encode", "view properties", v.doc, v.props, defaultViewCodec)
}
