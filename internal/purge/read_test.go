package purge_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

func TestReadMetadata(t *testing.T) {
	t.Parallel()
	full := &purge.Metadata{
		FormatVersion: 3, UUID: "u", Location: "s3://b/t",
		Properties: map[string]string{"gc.enabled": "false", "n": "7"},
		Snapshots: []purge.Snapshot{
			{ManifestList: "l1"}, {Manifests: []string{"m1", "m2"}}, {ManifestList: "l2", KeyID: "k"},
		},
		Log: []string{"v0", "v1"}, Statistics: []string{"p1", "p2"},
	}
	const doc = `{"format-version":3,"table-uuid":"u","location":"s3://b/t","unknown":{"a":[1,{"b":null}]},
		"properties":{"gc.enabled":false,"n":7,"none":null},
		"snapshots":[{"snapshot-id":1e0,"manifest-list":"l1"},{"manifests":["m1","m2"],"manifest-list":null},{"manifest-list":"l2","key-id":"k"}],
		"metadata-log":[{"metadata-file":"v0","timestamp-ms":1},{"metadata-file":"v1"},{}],
		"statistics":[{"statistics-path":"p1"}],"partition-statistics":[{"statistics-path":"p2"}]}`
	tests := map[string]struct {
		in   string
		want *purge.Metadata // nil: unreadable
	}{
		"everything":       {doc, full},
		"gzip":             {zip(doc), full},
		"gzip cut":         {zip(doc)[:len(zip(doc))-6], nil},
		"nulls":            {`{"format-version":2,"snapshots":null,"metadata-log":null,"statistics":null}`, &purge.Metadata{FormatVersion: 2}},
		"only a location":  {`{"location":"s3://b/t"}`, &purge.Metadata{Location: "s3://b/t"}},
		"newer than known": {`{"format-version":99,"location":"x","snapshots":[]}`, &purge.Metadata{FormatVersion: 99, Location: "x"}},
		"empty":            {"", nil},
		"an array":         {"[]", nil},
		"no table":         {`{"a":1}`, nil},
		"cut":              {doc[:len(doc)-5], nil},
		"cut at the end":   {doc[:len(doc)-1], nil},
		"more behind":      {doc + "{}", nil},
		"snapshots wrong":  {`{"format-version":2,"snapshots":{}}`, nil},
		"log wrong":        {`{"format-version":2,"metadata-log":[7]}`, nil},
		"deep":             {`{"format-version":2,"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, nil},
		"binary":           {"\x00\x01\x02", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := purge.ReadMetadata(strings.NewReader(tt.in))
			if tt.want == nil {
				if !purge.IsUnreadable(err) {
					t.Fatalf("got %v, want unreadable", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func zip(s string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write([]byte(s))
	_ = w.Close()
	return out.String()
}

func TestGCEnabled(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"true": true, "TRUE": true, "false": false, "": false, "no": false, "1": false} {
		m := purge.Metadata{Properties: map[string]string{"gc.enabled": value}}
		if m.GCEnabled() != want {
			t.Errorf("gc.enabled=%q: %v", value, !want)
		}
	}
	if !(&purge.Metadata{}).GCEnabled() {
		t.Error("the default is true")
	}
}

// container writes rows of a schema as an Avro file.
func container(t testing.TB, schema string, rows ...any) []byte {
	t.Helper()
	s, err := avro.Parse(schema, avro.WithLaxNames(nil))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := ocf.NewWriter(&out, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := w.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type object = map[string]any

func TestReadManifest(t *testing.T) {
	t.Parallel()
	const minimal = `{"type":"record","name":"e","fields":[{"name":"data_file","type":{"type":"record","name":"d","fields":[{"name":"file_path","type":"string"}]}}]}`
	tests := map[string]struct {
		body []byte
		want []purge.Entry // nil: unreadable
	}{
		"only paths": {container(t, minimal, object{"data_file": object{"file_path": "a"}}), []purge.Entry{{Path: "a"}}},
		"no entries": {container(t, minimal), []purge.Entry{}},
		"other names, known ids": {container(t, `{"type":"record","name":"e","fields":[
			{"name":"f","field-id":2,"type":{"type":"record","name":"d","fields":[
				{"name":"p","field-id":100,"type":"string"},{"name":"s","field-id":104,"type":"int"}]}}]}`,
			object{"f": object{"p": "a", "s": 7}}), []purge.Entry{{Path: "a", Size: 7}}},
		"nullable": {container(t, `{"type":"record","name":"e","fields":[{"name":"status","type":["null","int"]},
			{"name":"data_file","type":{"type":"record","name":"d","fields":[
				{"name":"file_path","type":["null","string"]},{"name":"file_size_in_bytes","type":["null","long"]}]}}]}`,
			object{"status": nil, "data_file": object{"file_path": "a", "file_size_in_bytes": nil}}), []purge.Entry{{Path: "a"}}},
		"null path": {container(t, `{"type":"record","name":"e","fields":[
			{"name":"data_file","type":{"type":"record","name":"d","fields":[{"name":"file_path","type":["null","string"]}]}}]}`,
			object{"data_file": object{"file_path": nil}}), nil},
		"no data_file":     {container(t, `{"type":"record","name":"e","fields":[{"name":"status","type":"int"}]}`, object{"status": 1}), nil},
		"no file_path":     {container(t, `{"type":"record","name":"e","fields":[{"name":"data_file","type":{"type":"record","name":"d","fields":[{"name":"x","type":"int"}]}}]}`, object{"data_file": object{"x": 1}}), nil},
		"not a record":     {container(t, `"string"`, "a"), nil},
		"data_file a text": {container(t, `{"type":"record","name":"e","fields":[{"name":"data_file","type":"string"}]}`, object{"data_file": "a"}), nil},
		"path a number":    {container(t, `{"type":"record","name":"e","fields":[{"name":"data_file","type":{"type":"record","name":"d","fields":[{"name":"file_path","type":"long"}]}}]}`, object{"data_file": object{"file_path": 1}}), nil},
		"empty path":       {container(t, minimal, object{"data_file": object{"file_path": ""}}), nil},
		"huge path":        {container(t, minimal, object{"data_file": object{"file_path": strings.Repeat("a", 9000)}}), nil},
		"unknown status": {container(t, `{"type":"record","name":"e","fields":[{"name":"status","type":"int"},
			{"name":"data_file","type":{"type":"record","name":"d","fields":[{"name":"file_path","type":"string"}]}}]}`,
			object{"status": 9, "data_file": object{"file_path": "a"}}), nil},
		"nothing": {nil, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := []purge.Entry{}
			err := purge.ReadManifest(bytes.NewReader(tt.body), purge.ManifestFile{Files: -1}, func(e purge.Entry) error {
				got = append(got, e)
				return nil
			})
			if tt.want == nil {
				if !purge.IsUnreadable(err) {
					t.Fatalf("got %v, %v, want unreadable", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A file that falls short of its recorded length and of its recorded count was cut;
// one of the two alone is a writer's slip.
func TestTruncationNeedsBothWitnesses(t *testing.T) {
	t.Parallel()
	body := container(t, `{"type":"record","name":"e","fields":[{"name":"data_file","type":{"type":"record","name":"d","fields":[{"name":"file_path","type":"string"}]}}]}`,
		object{"data_file": object{"file_path": "a"}})
	n := int64(len(body))
	for name, tt := range map[string]struct {
		known purge.ManifestFile
		bad   bool
	}{
		"exact":              {purge.ManifestFile{Length: n, Files: 1}, false},
		"shorter, complete":  {purge.ManifestFile{Length: n + 1, Files: 1}, false},
		"whole, fewer":       {purge.ManifestFile{Length: n, Files: 2}, false},
		"shorter and fewer":  {purge.ManifestFile{Length: n + 1, Files: 2}, true},
		"shorter, uncounted": {purge.ManifestFile{Length: n + 1, Files: -1}, true},
	} {
		err := purge.ReadManifest(bytes.NewReader(body), tt.known, func(purge.Entry) error { return nil })
		if purge.IsUnreadable(err) != tt.bad || (err != nil) != tt.bad {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Trouble of the store is never mistaken for damage, nor an error of the caller.
func TestErrorsKeepTheirBlame(t *testing.T) {
	t.Parallel()
	fixture := fixtures(t)
	broken := &blob.Error{Op: "open", Class: blob.Unavailable, Err: io.ErrUnexpectedEOF}
	mine := errors.New("mine")
	for at := 0; at < len(fixture.manifest); at += 41 {
		r := io.MultiReader(bytes.NewReader(fixture.manifest[:at]), iotest.ErrReader(broken))
		err := purge.ReadManifest(r, purge.ManifestFile{}, func(purge.Entry) error { return nil })
		if purge.IsUnreadable(err) || blob.ClassOf(err) != blob.Unavailable {
			t.Fatalf("manifest broken at %d: %v", at, err)
		}
	}
	for at := 0; at < len(fixture.list); at += 41 {
		r := io.MultiReader(bytes.NewReader(fixture.list[:at]), iotest.ErrReader(broken))
		if err := purge.ReadList(r, func(purge.ManifestFile) error { return nil }); purge.IsUnreadable(err) || blob.ClassOf(err) != blob.Unavailable {
			t.Fatalf("list broken at %d: %v", at, err)
		}
	}
	for at := 0; at < len(fixture.metadata); at += 41 {
		r := io.MultiReader(bytes.NewReader(fixture.metadata[:at]), iotest.ErrReader(broken))
		if _, err := purge.ReadMetadata(r); purge.IsUnreadable(err) || blob.ClassOf(err) != blob.Unavailable {
			t.Fatalf("metadata broken at %d: %v", at, err)
		}
	}
	if err := purge.ReadManifest(bytes.NewReader(fixture.manifest), purge.ManifestFile{}, func(purge.Entry) error { return mine }); err != mine { //nolint:errorlint // as it is
		t.Errorf("manifest: %v", err)
	}
	if err := purge.ReadList(bytes.NewReader(fixture.list), func(purge.ManifestFile) error { return mine }); err != mine { //nolint:errorlint // as it is
		t.Errorf("list: %v", err)
	}
}

type bodies struct{ manifest, list, metadata []byte }

func fixtures(t tb) bodies {
	t.Helper()
	w := newWorld(t)
	table := w.table(w.builder("t", purgetest.Options{}).Append(20).Statistics().Append(3))
	return bodies{read(w, table.Manifests[0]), read(w, table.Lists[1]), read(w, table.Metadata)}
}

// seeds returns bodies of all shapes, whole, cut and flipped.
func seeds(f *testing.F, which func(w *world, table purgetest.Table) []byte) (out [][]byte) {
	f.Helper()
	for _, codec := range []string{"null", "deflate", "snappy", "zstandard"} {
		for version := 1; version <= 3; version++ {
			w := newWorld(f)
			b := purgetest.New(context.Background(), w.space, w.root()+"/t", purgetest.Options{Version: version, Codec: codec, Gzip: version == 2})
			rich(b)
			body := which(w, w.table(b))
			flipped := bytes.Clone(body)
			flipped[len(body)/2] ^= 0x55
			out = append(out, body, body[:len(body)/3], body[:len(body)-9], flipped)
		}
	}
	return append(out, nil, []byte("{}"), []byte("Obj\x01"))
}

func FuzzManifest(f *testing.F) {
	for _, s := range seeds(f, func(w *world, t purgetest.Table) []byte { return read(w, t.Manifests[0]) }) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		err := purge.ReadManifest(bytes.NewReader(body), purge.ManifestFile{}, func(e purge.Entry) error {
			if e.Path == "" || e.Size < 0 {
				t.Errorf("entry %+v", e)
			}
			return nil
		})
		if err != nil && !purge.IsUnreadable(err) {
			t.Errorf("neither read nor unreadable: %v", err)
		}
	})
}

func FuzzList(f *testing.F) {
	for _, s := range seeds(f, func(w *world, t purgetest.Table) []byte { return read(w, t.Lists[0]) }) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		err := purge.ReadList(bytes.NewReader(body), func(m purge.ManifestFile) error {
			if m.Path == "" {
				t.Errorf("manifest %+v", m)
			}
			return nil
		})
		if err != nil && !purge.IsUnreadable(err) {
			t.Errorf("neither read nor unreadable: %v", err)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	for _, s := range seeds(f, func(w *world, t purgetest.Table) []byte { return read(w, t.Metadata) }) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := purge.ReadMetadata(bytes.NewReader(body))
		if err != nil {
			if !purge.IsUnreadable(err) {
				t.Errorf("neither read nor unreadable: %v", err)
			}
			return
		}
		m.Locations()
		m.GCEnabled()
	})
}
