package tablefile

import (
	"fmt"
	"io"
)

// ManifestFile is one entry of a manifest list.
type ManifestFile struct {
	Path      string
	Length    int64 // bytes as recorded, 0 when not
	Files     int64 // entries as recorded: added, existing and deleted; -1 when not
	Encrypted bool
}

// Entry is one entry of a manifest: a file, whatever its status or content kind.
type Entry struct {
	Path string
	Size int64 // bytes, as recorded
}

var listColumns = []column{
	{id: 500, name: "manifest_path", required: true},
	{id: 501, name: "manifest_length"},
	{id: 504, name: "added_files_count"},
	{id: 505, name: "existing_files_count"},
	{id: 506, name: "deleted_files_count"},
	{id: 519, name: "key_metadata"},
}

type listRow struct {
	Path     string `avro:"manifest_path"`
	Length   int64  `avro:"manifest_length"`
	Added    *int64 `avro:"added_files_count"`
	Existing *int64 `avro:"existing_files_count"`
	Deleted  *int64 `avro:"deleted_files_count"`
	Key      []byte `avro:"key_metadata"`
}

// ReadList streams a manifest list into fn, whose error ends it and is returned as it
// is. An UnreadableError means that the content is no manifest list; what fn saw before
// it is still true.
func ReadList(r io.Reader, fn func(ManifestFile) error) error {
	_, err := records("manifest list", r, listColumns, func(row *listRow) error {
		if err := checkPath(row.Path); err != nil {
			return err
		}
		f := ManifestFile{Path: row.Path, Length: max(row.Length, 0), Files: -1, Encrypted: len(row.Key) > 0}
		if row.Added != nil && row.Existing != nil && row.Deleted != nil {
			f.Files = max(*row.Added, 0) + max(*row.Existing, 0) + max(*row.Deleted, 0)
		}
		if err := fn(f); err != nil {
			return &stopError{err}
		}
		return nil
	})
	return err
}

var manifestColumns = []column{
	{id: 0, name: "status"},
	{id: 2, name: "data_file", required: true, fields: []column{
		{id: 134, name: "content"},
		{id: 100, name: "file_path", required: true},
		{id: 104, name: "file_size_in_bytes"},
	}},
}

type manifestRow struct {
	Status int64 `avro:"status"`
	File   struct {
		Content int64  `avro:"content"`
		Path    string `avro:"file_path"`
		Size    int64  `avro:"file_size_in_bytes"`
	} `avro:"data_file"`
}

// ReadManifest streams a manifest into fn, whose error ends it and is returned as it
// is. An UnreadableError means that the content is no manifest; what fn saw before it
// is still true. The recorded length and count of known tell a file that was cut
// between two blocks, which decodes without an error: only if both fall short is it
// called truncated, because tools exist that rewrite manifests and keep one of them.
func ReadManifest(r io.Reader, known ManifestFile, fn func(Entry) error) error {
	counted := &source{r: r}
	n, err := records("manifest", counted, manifestColumns, func(row *manifestRow) error {
		if row.Status < 0 || row.Status > 2 || row.File.Content < 0 {
			return fmt.Errorf("status %d, content %d", row.Status, row.File.Content)
		}
		if err := checkPath(row.File.Path); err != nil {
			return err
		}
		if err := fn(Entry{Path: row.File.Path, Size: max(row.File.Size, 0)}); err != nil {
			return &stopError{err}
		}
		return nil
	})
	if err == nil && counted.n < known.Length && (known.Files < 0 || n < known.Files) {
		err = &UnreadableError{What: "manifest", Err: fmt.Errorf(
			"truncated: %d bytes of %d, %d entries of %d", counted.n, known.Length, n, known.Files)}
	}
	return err
}
