package purgetest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/lethe-project/lethe/internal/blob"
)

// Complete adds to a root metadata file of a Builder what a catalog asks of one that it
// registers, and a purge does not.
func Complete(ctx context.Context, space *blob.Space, metadata string) error {
	raw, err := Read(ctx, space, metadata)
	if err != nil {
		return err
	}
	zipped := strings.HasSuffix(metadata, ".gz.metadata.json")
	if zipped {
		if raw, err = unzip(raw); err != nil {
			return err
		}
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		return fmt.Errorf("%s: %w", metadata, err)
	}
	complete(doc)
	if raw, err = json.Marshal(doc); err != nil {
		return err
	}
	if zipped {
		raw = zip(raw)
	}
	return Replace(ctx, space, metadata, raw)
}

func complete(doc map[string]any) {
	schema := map[string]any{"type": "struct", "schema-id": 0, "fields": []any{
		map[string]any{"id": 1, "name": "id", "required": false, "type": "long"},
	}}
	doc["schemas"], doc["current-schema-id"], doc["last-column-id"] = []any{schema}, 0, 1
	doc["partition-specs"], doc["default-spec-id"], doc["last-partition-id"] = []any{map[string]any{"spec-id": 0, "fields": []any{}}}, 0, 999
	doc["sort-orders"], doc["default-sort-order-id"] = []any{map[string]any{"order-id": 0, "fields": []any{}}}, 0
	if doc["format-version"] == float64(1) {
		doc["schema"], doc["partition-spec"] = schema, []any{}
	}
	if doc["properties"] == nil {
		doc["properties"] = map[string]string{}
	}
	snapshots, _ := doc["snapshots"].([]any)
	for i, s := range snapshots {
		snapshot := s.(map[string]any)
		snapshot["sequence-number"], snapshot["timestamp-ms"], snapshot["schema-id"] = i+1, i+1, 0
		snapshot["summary"] = map[string]any{"operation": "append"}
		doc["current-snapshot-id"] = snapshot["snapshot-id"]
	}
	refs, _ := doc["refs"].(map[string]any)
	if refs == nil {
		refs = map[string]any{}
	}
	if id, ok := doc["current-snapshot-id"]; ok {
		refs["main"] = map[string]any{"snapshot-id": id, "type": "branch"}
	}
	doc["refs"] = refs
	doc["last-sequence-number"], doc["last-updated-ms"] = len(snapshots), len(snapshots)+1
	for _, kind := range []string{"statistics", "partition-statistics"} {
		files, _ := doc[kind].([]any)
		for _, f := range files {
			file := f.(map[string]any)
			file["file-footer-size-in-bytes"], file["blob-metadata"] = 4, []any{}
		}
	}
}

func unzip(raw []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
