package purgetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/twmb/avro/ocf"

	"github.com/lethe-project/lethe/internal/blob"
)

// Synthetic is a table of one snapshot that may name very many files, for benchmarks.
type Synthetic struct {
	Files        int
	PerManifest  int    // entries of one manifest; 0: all in one
	PerPartition int    // consecutive files of one partition; 0: each of 100 partitions in turn
	Exist        bool   // the files are made too
	UUID         string // a fixed one when empty
	// Expired is the number of older snapshots that stand in the metadata besides, to
	// make it long. Nobody made their manifest lists: to a purge that is damage.
	Expired int
}

// DataFile is the URI of the i-th data file of a table at a location.
func (s Synthetic) DataFile(location string, i int) string {
	return fmt.Sprintf("%s/data/day=%02d/%08d-00000-4c1f8f2e-7a55-4b1e-9d3e-0a9f6b1c2d3e-00001.parquet", location, s.day(i), i)
}

func (s Synthetic) day(i int) int32 {
	if s.PerPartition > 0 {
		return int32(i / s.PerPartition)
	}
	return int32(i % 100)
}

// Write makes the table at a location and returns it without its lists of files. What
// it needs of memory does not depend on the number of files.
func (s Synthetic) Write(ctx context.Context, space *blob.Space, location string) (Table, error) {
	if s.PerManifest <= 0 {
		s.PerManifest = max(s.Files, 1)
	}
	var rows []listEntry
	for first := 0; first < s.Files; first += s.PerManifest {
		n := min(s.PerManifest, s.Files-first)
		path := fmt.Sprintf("%s/metadata/%08d-m0.avro", location, first)
		length, err := s.manifest(ctx, space, path, location, first, n)
		if err != nil {
			return Table{}, err
		}
		count, zero, snap := int32(n), int32(0), int64(1)
		rows = append(rows, listEntry{
			Path: path, Length: length, Snapshot: &snap, Added: &count, Existing: &zero, Deleted: &zero,
		})
	}
	list := location + "/metadata/snap-1.avro"
	b := &Builder{opts: Options{Codec: "deflate"}}
	body := encode(b, listSchema(2), rows)
	if b.err != nil {
		return Table{}, b.err
	}
	if err := Write(ctx, space, list, body); err != nil {
		return Table{}, err
	}
	t := Table{UUID: s.UUID, Location: location, Metadata: location + "/metadata/00000-0.metadata.json"}
	if t.UUID == "" {
		t.UUID = "00000000-0000-4000-8000-000000000001"
	}
	doc, err := json.Marshal(s.metadata(t, list))
	if err != nil {
		return Table{}, err
	}
	return t, Write(ctx, space, t.Metadata, doc)
}

// metadata is a whole metadata file of format version 2, as a catalog must accept it.
func (s Synthetic) metadata(t Table, list string) map[string]any {
	const began = 1_700_000_000_000
	snapshot := func(id int, list string) map[string]any {
		return map[string]any{
			"snapshot-id": id, "sequence-number": id, "timestamp-ms": began + id, "manifest-list": list, "schema-id": 0,
			"summary": map[string]any{"operation": "append", "total-records": strconv.Itoa(s.Files), "total-data-files": strconv.Itoa(s.Files)},
		}
	}
	current := s.Expired + 1
	snapshots := make([]any, 0, current)
	for id := 1; id < current; id++ {
		snapshots = append(snapshots, snapshot(id, fmt.Sprintf("%s/metadata/snap-%d-expired.avro", t.Location, id)))
	}
	return map[string]any{
		"format-version": 2, "table-uuid": t.UUID, "location": t.Location, "last-updated-ms": began + current,
		"last-sequence-number": current, "last-column-id": 2, "current-schema-id": 0,
		"schemas": []any{map[string]any{"type": "struct", "schema-id": 0, "fields": []any{
			map[string]any{"id": 1, "name": "id", "required": true, "type": "long"},
			map[string]any{"id": 2, "name": "day", "required": false, "type": "date"},
		}}},
		"default-spec-id": 0, "last-partition-id": 1000,
		"partition-specs": []any{map[string]any{"spec-id": 0, "fields": []any{
			map[string]any{"source-id": 2, "field-id": 1000, "name": "order date-day", "transform": "identity"},
		}}},
		"default-sort-order-id": 0, "sort-orders": []any{map[string]any{"order-id": 0, "fields": []any{}}},
		"properties": map[string]any{}, "current-snapshot-id": current,
		"refs":      map[string]any{"main": map[string]any{"snapshot-id": current, "type": "branch"}},
		"snapshots": append(snapshots, snapshot(current, list)),
	}
}

// manifest streams one manifest into the store.
func (s Synthetic) manifest(ctx context.Context, space *blob.Space, path, location string, first, n int) (length int64, err error) {
	obj, err := space.Resolve(path)
	if err != nil {
		return 0, err
	}
	r, w := io.Pipe()
	go func() {
		_ = w.CloseWithError(s.entries(ctx, space, w, location, first, n)) // always nil
	}()
	counted := &counter{r: r}
	err = obj.Bucket.Put(ctx, obj.Key, counted)
	return counted.n, errors.Join(err, r.Close()) // ends the writer too
}

func (s Synthetic) entries(ctx context.Context, space *blob.Space, w io.Writer, location string, first, n int) error {
	out, err := ocf.NewWriter(w, manifestSchema(2), ocf.WithCodec(ocf.DeflateCodec(1)))
	if err != nil {
		return err
	}
	snap, sizes := int64(1), []kv{{1, 2}, {2, 3}, {3, 4}}
	for i := first; i < first+n; i++ {
		day, path := s.day(i), s.DataFile(location, i)
		if s.Exist {
			obj, err := space.Resolve(path)
			if err != nil {
				return err
			}
			if err := obj.Bucket.Put(ctx, obj.Key, strings.NewReader("PAR1")); err != nil {
				return err
			}
		}
		e := entry{Status: added, Snapshot: &snap, File: file{
			Path: path, Format: "PARQUET", Partition: partition{Day: &day}, Records: 1, Size: 4, Sizes: &sizes,
		}}
		if err := out.Encode(&e); err != nil {
			return err
		}
	}
	return out.Close()
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
