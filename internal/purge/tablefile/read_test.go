package tablefile_test

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
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
	"github.com/lethe-project/lethe/internal/purge/tablefile"
)

func TestReadMetadata(t *testing.T) {
	t.Parallel()
	full := &tablefile.Metadata{
		FormatVersion: 3, UUID: "u", Location: "s3://b/t",
		Properties: map[string]string{"gc.enabled": "false", "n": "7"},
		Snapshots: []tablefile.Snapshot{
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
		want *tablefile.Metadata // nil: unreadable
	}{
		"everything":       {doc, full},
		"gzip":             {zip(doc), full},
		"gzip cut":         {zip(doc)[:len(zip(doc))-6], nil},
		"nulls":            {`{"format-version":2,"snapshots":null,"metadata-log":null,"statistics":null}`, &tablefile.Metadata{FormatVersion: 2}},
		"only a location":  {`{"location":"s3://b/t"}`, &tablefile.Metadata{Location: "s3://b/t"}},
		"newer than known": {`{"format-version":99,"location":"x","snapshots":[]}`, &tablefile.Metadata{FormatVersion: 99, Location: "x"}},
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
			got, err := tablefile.ReadMetadata(strings.NewReader(tt.in))
			if tt.want == nil {
				if !tablefile.IsUnreadable(err) {
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
		m := tablefile.Metadata{Properties: map[string]string{"gc.enabled": value}}
		if m.GCEnabled() != want {
			t.Errorf("gc.enabled=%q: %v", value, !want)
		}
	}
	if !(&tablefile.Metadata{}).GCEnabled() {
		t.Error("the default is true")
	}
}

// container writes rows of a schema as an Avro file.
func container(tb testing.TB, schema string, rows ...any) []byte {
	tb.Helper()
	s, err := avro.Parse(schema, avro.WithLaxNames(nil))
	if err != nil {
		tb.Fatal(err)
	}
	var out bytes.Buffer
	w, err := ocf.NewWriter(&out, s)
	if err != nil {
		tb.Fatal(err)
	}
	for _, r := range rows {
		if err := w.Encode(r); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

type object = map[string]any

func TestReadManifest(t *testing.T) {
	t.Parallel()
	const minimal = `{"type":"record","name":"e","fields":[{"name":"data_file","type":{"type":"record","name":"d","fields":[{"name":"file_path","type":"string"}]}}]}`
	tests := map[string]struct {
		body []byte
		want []tablefile.Entry // nil: unreadable
	}{
		"only paths": {container(t, minimal, object{"data_file": object{"file_path": "a"}}), []tablefile.Entry{{Path: "a"}}},
		"no entries": {container(t, minimal), []tablefile.Entry{}},
		"other names, known ids": {container(t, `{"type":"record","name":"e","fields":[
			{"name":"f","field-id":2,"type":{"type":"record","name":"d","fields":[
				{"name":"p","field-id":100,"type":"string"},{"name":"s","field-id":104,"type":"int"}]}}]}`,
			object{"f": object{"p": "a", "s": 7}}), []tablefile.Entry{{Path: "a", Size: 7}}},
		"nullable": {container(t, `{"type":"record","name":"e","fields":[{"name":"status","type":["null","int"]},
			{"name":"data_file","type":{"type":"record","name":"d","fields":[
				{"name":"file_path","type":["null","string"]},{"name":"file_size_in_bytes","type":["null","long"]}]}}]}`,
			object{"status": nil, "data_file": object{"file_path": "a", "file_size_in_bytes": nil}}), []tablefile.Entry{{Path: "a"}}},
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
			got := []tablefile.Entry{}
			err := tablefile.ReadManifest(bytes.NewReader(tt.body), tablefile.ManifestFile{Files: -1}, func(e tablefile.Entry) error {
				got = append(got, e)
				return nil
			})
			if tt.want == nil {
				if !tablefile.IsUnreadable(err) {
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
		known tablefile.ManifestFile
		bad   bool
	}{
		"exact":              {tablefile.ManifestFile{Length: n, Files: 1}, false},
		"shorter, complete":  {tablefile.ManifestFile{Length: n + 1, Files: 1}, false},
		"whole, fewer":       {tablefile.ManifestFile{Length: n, Files: 2}, false},
		"shorter and fewer":  {tablefile.ManifestFile{Length: n + 1, Files: 2}, true},
		"shorter, uncounted": {tablefile.ManifestFile{Length: n + 1, Files: -1}, true},
	} {
		err := tablefile.ReadManifest(bytes.NewReader(body), tt.known, func(tablefile.Entry) error { return nil })
		if tablefile.IsUnreadable(err) != tt.bad || (err != nil) != tt.bad {
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
		err := tablefile.ReadManifest(r, tablefile.ManifestFile{}, func(tablefile.Entry) error { return nil })
		if tablefile.IsUnreadable(err) || blob.ClassOf(err) != blob.Unavailable {
			t.Fatalf("manifest broken at %d: %v", at, err)
		}
	}
	for at := 0; at < len(fixture.list); at += 41 {
		r := io.MultiReader(bytes.NewReader(fixture.list[:at]), iotest.ErrReader(broken))
		if err := tablefile.ReadList(r, func(tablefile.ManifestFile) error { return nil }); tablefile.IsUnreadable(err) || blob.ClassOf(err) != blob.Unavailable {
			t.Fatalf("list broken at %d: %v", at, err)
		}
	}
	for at := 0; at < len(fixture.metadata); at += 41 {
		r := io.MultiReader(bytes.NewReader(fixture.metadata[:at]), iotest.ErrReader(broken))
		if _, err := tablefile.ReadMetadata(r); tablefile.IsUnreadable(err) || blob.ClassOf(err) != blob.Unavailable {
			t.Fatalf("metadata broken at %d: %v", at, err)
		}
	}
	if err := tablefile.ReadManifest(bytes.NewReader(fixture.manifest), tablefile.ManifestFile{}, func(tablefile.Entry) error { return mine }); err != mine { //nolint:errorlint // as it is
		t.Errorf("manifest: %v", err)
	}
	if err := tablefile.ReadList(bytes.NewReader(fixture.list), func(tablefile.ManifestFile) error { return mine }); err != mine { //nolint:errorlint // as it is
		t.Errorf("list: %v", err)
	}
}

type bodies struct{ manifest, list, metadata []byte }

func fixtures(tb testing.TB) bodies {
	tb.Helper()
	return build(tb, purgetest.Options{}, func(b *purgetest.Builder) { b.Append(20).Statistics().Append(3) })
}

// build makes a table in memory and returns the files that are read of it.
func build(tb testing.TB, opts purgetest.Options, commits func(b *purgetest.Builder)) bodies {
	tb.Helper()
	space, err := blob.NewSpace(blob.Mount{Root: "mem://wh/root", Bucket: mem.New()})
	if err != nil {
		tb.Fatal(err)
	}
	b := purgetest.New(context.Background(), space, "mem://wh/root/t", opts)
	commits(b)
	table, err := b.Table()
	if err != nil {
		tb.Fatal(err)
	}
	read := func(uri string) []byte {
		body, err := purgetest.Read(context.Background(), space, uri)
		if err != nil {
			tb.Fatal(err)
		}
		return body
	}
	return bodies{read(table.Manifests[0]), read(table.Lists[len(table.Lists)-1]), read(table.Metadata)}
}

// seeds returns bodies of all versions and codecs, whole, cut and flipped.
func seeds(f *testing.F, which func(b bodies) []byte) (out [][]byte) {
	f.Helper()
	for _, codec := range []string{"null", "deflate", "snappy", "zstandard"} {
		for version := 1; version <= 3; version++ {
			body := which(build(f, purgetest.Options{Version: version, Codec: codec, Gzip: version == 2}, func(b *purgetest.Builder) {
				b.Append(5).Statistics().PositionDeletes(2).DeletionVectors(4).Remove().Rewrite().Append(3).Expire(1, true)
			}))
			flipped := bytes.Clone(body)
			flipped[len(body)/2] ^= 0x55
			out = append(out, body, body[:len(body)/3], body[:len(body)-9], flipped)
		}
	}
	return append(out, nil, []byte("{}"), []byte("Obj\x01"))
}

func FuzzManifest(f *testing.F) {
	for _, s := range seeds(f, func(b bodies) []byte { return b.manifest }) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		err := tablefile.ReadManifest(bytes.NewReader(body), tablefile.ManifestFile{}, func(e tablefile.Entry) error {
			if e.Path == "" || e.Size < 0 {
				t.Errorf("entry %+v", e)
			}
			return nil
		})
		if err != nil && !tablefile.IsUnreadable(err) {
			t.Errorf("neither read nor unreadable: %v", err)
		}
	})
}

func FuzzList(f *testing.F) {
	for _, s := range seeds(f, func(b bodies) []byte { return b.list }) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		err := tablefile.ReadList(bytes.NewReader(body), func(m tablefile.ManifestFile) error {
			if m.Path == "" {
				t.Errorf("manifest %+v", m)
			}
			return nil
		})
		if err != nil && !tablefile.IsUnreadable(err) {
			t.Errorf("neither read nor unreadable: %v", err)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	for _, s := range seeds(f, func(b bodies) []byte { return b.metadata }) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := tablefile.ReadMetadata(bytes.NewReader(body))
		if err != nil {
			if !tablefile.IsUnreadable(err) {
				t.Errorf("neither read nor unreadable: %v", err)
			}
			return
		}
		m.Locations()
		m.GCEnabled()
	})
}
