package tablefile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lethe-project/lethe/internal/blob"
)

// maxMetadata bounds the decompressed size of one metadata file, in bytes.
const maxMetadata = 256 << 20

// Metadata is what a purge needs of a table's metadata file, of any format version.
// Everything else in the file is skipped: what a strict parser refuses must still be
// purgeable.
type Metadata struct {
	FormatVersion int64
	UUID          string
	Location      string
	Properties    map[string]string
	Snapshots     []Snapshot
	Log           []string // older metadata files, oldest first
	Statistics    []string // Puffin and partition statistics files
}

// Snapshot is one snapshot's way to its manifests.
type Snapshot struct {
	ManifestList string
	Manifests    []string // format v1, in place of a list
	KeyID        string   // not empty: the manifest list is encrypted
}

// GCEnabled reports whether data files may be deleted. Like Java's parser, anything
// but "true" means no.
func (m *Metadata) GCEnabled() bool {
	v, ok := m.Properties["gc.enabled"]
	return !ok || strings.EqualFold(v, "true")
}

// locationProperties may each move a part of a table out of its location.
var locationProperties = [...]string{
	"write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path",
}

// Locations returns the locations that the metadata claims, cleaned; those that can
// not be read are left out.
func (m *Metadata) Locations() []blob.Location {
	var out []blob.Location
	add := func(uri string) {
		if uri == "" {
			return
		}
		if l, err := blob.ParseLocation(uri); err == nil {
			out = append(out, l)
		}
	}
	add(m.Location)
	for _, p := range locationProperties {
		add(m.Properties[p])
	}
	return out
}

// ReadMetadata reads a metadata file, plain or gzip (told by its first bytes). An
// UnreadableError means that the content is no table metadata.
func ReadMetadata(r io.Reader) (*Metadata, error) {
	src := &source{r: r}
	m := &Metadata{}
	err := guarded("metadata", src, func() error {
		buf := bufio.NewReaderSize(src, 64<<10)
		var body io.Reader = buf
		if head, _ := buf.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
			zr, err := gzip.NewReader(buf)
			if err != nil {
				return err
			}
			body = zr
		}
		limited := &io.LimitedReader{R: body, N: maxMetadata + 1}
		err := m.decode(json.NewDecoder(limited))
		if limited.N <= 0 {
			return fmt.Errorf("larger than %d bytes", maxMetadata)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// decode walks the top level; encoding/json itself bounds the nesting (10,000).
func (m *Metadata) decode(d *json.Decoder) error {
	if err := delim(d, '{'); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if err := m.field(d, key.(string)); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if err := delim(d, '}'); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) { // reads on to the checksum of gzip
		if err == nil {
			return errors.New("text after the end")
		}
		return err
	}
	if m.FormatVersion <= 0 && m.Location == "" {
		return errors.New("neither a format-version nor a location")
	}
	return nil
}

func (m *Metadata) field(d *json.Decoder, key string) error {
	switch key {
	case "format-version":
		return d.Decode(&m.FormatVersion)
	case "table-uuid":
		return text(d, &m.UUID)
	case "location":
		return text(d, &m.Location)
	case "properties":
		return m.properties(d)
	case "snapshots":
		return each(d, func(s struct {
			ManifestList string   `json:"manifest-list"`
			Manifests    []string `json:"manifests"`
			KeyID        any      `json:"key-id"`
		},
		) error {
			snap := Snapshot{ManifestList: s.ManifestList, Manifests: s.Manifests}
			if s.KeyID != nil {
				snap.KeyID = fmt.Sprint(s.KeyID)
			}
			m.Snapshots = append(m.Snapshots, snap)
			return nil
		})
	case "metadata-log":
		return each(d, func(e struct {
			File string `json:"metadata-file"`
		},
		) error {
			if e.File != "" {
				m.Log = append(m.Log, e.File)
			}
			return nil
		})
	case "statistics", "partition-statistics":
		return each(d, func(e struct {
			Path string `json:"statistics-path"`
		},
		) error {
			if e.Path != "" {
				m.Statistics = append(m.Statistics, e.Path)
			}
			return nil
		})
	default:
		var skipped json.RawMessage
		return d.Decode(&skipped)
	}
}

func (m *Metadata) properties(d *json.Decoder) error {
	var raw map[string]any
	if err := d.Decode(&raw); err != nil {
		return err
	}
	m.Properties = make(map[string]string, len(raw))
	for k, v := range raw {
		switch v := v.(type) {
		case string:
			m.Properties[k] = v
		case nil:
		default:
			m.Properties[k] = fmt.Sprint(v)
		}
	}
	return nil
}

// text decodes a string, and leaves out what is none.
func text(d *json.Decoder, into *string) error {
	var v any
	if err := d.Decode(&v); err != nil {
		return err
	}
	if s, ok := v.(string); ok {
		*into = s
	}
	return nil
}

// each decodes an array (null is an empty one) item by item.
func each[T any](d *json.Decoder, fn func(T) error) error {
	tok, err := d.Token()
	if err != nil {
		return err
	}
	if tok == nil {
		return nil
	}
	if tok != json.Delim('[') {
		return fmt.Errorf("%v where an array was expected", tok)
	}
	for d.More() {
		var v T
		if err := d.Decode(&v); err != nil {
			return err
		}
		if err := fn(v); err != nil {
			return err
		}
	}
	return delim(d, ']')
}

func delim(d *json.Decoder, want json.Delim) error {
	tok, err := d.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	if tok != want {
		return fmt.Errorf("%v where %v was expected", tok, want)
	}
	return nil
}
