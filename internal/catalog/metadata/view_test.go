package metadata

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/fault"
)

// hostileViews are documents that must be refused as the input's fault.
var hostileViews = []struct{ name, doc, fails string }{
	{"empty", "", "view metadata"},
	{"not an object", "7", "view metadata"},
	{"null", "null", "view-uuid is required"},
	{"a table", `{"format-version":2,"table-uuid":"` + testUUID + `","location":"s3://b/t"}`, "view-uuid is required"},
	{"no uuid", minimalView(`"view-uuid":null`), "view-uuid is required"},
	{"nil uuid", minimalView(`"view-uuid":"00000000-0000-0000-0000-000000000000"`), "view-uuid is required"},
	{"bad uuid", minimalView(`"view-uuid":"x"`), "UUID"},
	{"no location", minimalView(`"location":""`), "location is required"},
	{"no version of the format", minimalView(`"format-version":null`), "format-version"},
	{"version 0", minimalView(`"format-version":0`), "only version 1"},
	{"version 2", minimalView(`"format-version":2`), "only version 1"},
	{"no current version", minimalView(`"current-version-id":null`), "current-version-id is required"},
	{"current version unknown", minimalView(`"current-version-id":9`), "9 not found"},
	{"no versions", minimalView(`"versions":[]`), "at least one version"},
	{"null version", minimalView(`"versions":[null]`), "view version is null"},
	{"two versions of one id", minimalView(`"versions":[` + versionJSON(1, 0, "a: b") + `,` + versionJSON(1, 0, "a: c") + `]`), "duplicate version-id 1"},
	{"version of an unknown schema", minimalView(`"versions":[` + versionJSON(1, 3, "a: b") + `]`), "unknown schema-id 3"},
	{"version of the last schema", minimalView(`"versions":[` + versionJSON(1, -1, "a: b") + `]`), "unknown schema-id -1"},
	{"two queries for a dialect", minimalView(`"versions":[` + versionJSON(1, 0, "a: b", "A: c") + `]`), "duplicate dialect"},
	{"version id of 64 bits", minimalView(`"versions":[` + strings.Replace(versionJSON(1, 0, "a: b"), `"version-id":1`, `"version-id":2147483648`, 1) + `]`), "version-id must not be"},
	{"no default namespace", minimalView(`"versions":[` + strings.Replace(versionJSON(1, 0, "a: b"), `"default-namespace":["ns"],`, "", 1) + `]`), "requires default-namespace"},
	{"null in the default namespace", minimalView(`"versions":[` + strings.Replace(versionJSON(1, 0, "a: b"), `["ns"]`, "[null]", 1) + `]`), "level that is null"},
	{"no summary", minimalView(`"versions":[` + strings.Replace(versionJSON(1, 0, "a: b"), `"summary":`, `"x":`, 1) + `]`), "requires summary"},
	{"null in the summary", minimalView(`"versions":[` + strings.Replace(versionJSON(1, 0, "a: b"), `"test"`, "null", 1) + `]`), `"engine-name" is null`},
	{"no timestamp", minimalView(`"versions":[` + strings.Replace(versionJSON(1, 0, "a: b"), `"timestamp-ms":`, `"x":`, 1) + `]`), "requires timestamp-ms"},
	{"no representations", minimalView(`"versions":[` + strings.Replace(versionJSON(1, 0, "a: b"), `"representations":`, `"x":`, 1) + `]`), "requires representations"},
	{"null representation", minimalView(`"versions":[` + strings.Replace(versionJSON(1, 0), `"representations":[]`, `"representations":[null]`, 1) + `]`), "of type sql"},
	{"other representation", minimalView(`"versions":[` + strings.Replace(versionJSON(1, 0, "a: b"), `"type":"sql"`, `"type":"substrait"`, 1) + `]`), "of type sql"},
	{"no dialect", minimalView(`"versions":[` + strings.Replace(versionJSON(1, 0, "a: b"), `"dialect":`, `"x":`, 1) + `]`), "requires sql and dialect"},
	{"no schemas", minimalView(`"schemas":[]`), "at least one schema"},
	{"null schema", minimalView(`"schemas":[null]`), "is null"},
	{"null field", minimalView(`"schemas":[{"type":"struct","schema-id":0,"fields":[null]}]`), "view metadata"},
	{"two schemas of one id", minimalView(`"schemas":[` + viewSchema + `,` + otherSchema + `]`), "duplicate schema-id 7"},
	{"no log", minimalView(`"version-log":null`), "version-log is required"},
	{"null in the log", minimalView(`"version-log":[null]`), "version-log entry 0"},
	{"log without id", minimalView(`"version-log":[{"timestamp-ms":1}]`), "version-log entry 0"},
	{"null property", minimalView(`"properties":{"a":null}`), `"a" is null`},
	{"damaged gzip", "\x1f\x8b\x08garbage", "gzip"},
	{"too deep", minimalView(`"x":` + strings.Repeat(`[`, 1000) + strings.Repeat(`]`, 1000)), "nested deeper"},
}

func TestParseViewRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range hostileViews {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseView([]byte(tc.doc), Limits{})
			wantFault(t, err, fault.Invalid, "", tc.fails)
		})
	}
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		_, err := ParseView([]byte(minimalView()), Limits{MaxBytes: 100})
		wantFault(t, err, fault.Invalid, "", "more than the limit of 100")
	})
}

func TestParseViewTolerates(t *testing.T) {
	t.Parallel()
	for name, doc := range map[string]string{
		"minimal":            minimalView(),
		"unknown fields":     minimalView(`"later":{"a":[1]}`),
		"an unusable codec":  minimalView(`"properties":{"write.metadata.compression-codec":"zstd"}`),
		"an old empty query": minimalView(`"versions":[` + versionJSON(1, 0, "a: b") + `,` + versionJSON(2, 0) + `]`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseView([]byte(doc), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if string(got.JSON()) != doc {
				t.Error("JSON differs from the stored document")
			}
			next := mustApplyView(t, got, `{"action":"set-properties","updates":{"a":"b","write.metadata.compression-codec":"none"}}`)
			viewReadsBack(t, next)
		})
	}
}

func TestViewAccessors(t *testing.T) {
	t.Parallel()
	v := viewWithHistory(t, `"comment":"x"`, `"write.metadata.path":"s3://bucket/elsewhere/"`)
	got := []any{v.UUID(), v.FormatVersion(), v.CurrentVersionID(), v.Location(), v.Locations(), v.MetadataDir(), v.Property("comment", ""), v.Property("none", "def")}
	want := []any{testUUID, 1, int64(2), viewLocation, []string{viewLocation, "s3://bucket/elsewhere"}, "s3://bucket/elsewhere", "x", "def"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	v.Properties()["comment"] = "changed"
	if v.Property("comment", "") != "x" {
		t.Error("Properties is no copy")
	}
	if v.Size() < int64(len(v.JSON())) {
		t.Errorf("size %d", v.Size())
	}
	plain := newView(t, `"write.metadata.path":"`+viewLocation+`/"`, `"write.data.path":"s3://bucket/data"`)
	if diff := cmp.Diff([]string{viewLocation}, plain.Locations()); diff != "" {
		t.Error(diff)
	}
	if dir := newView(t).MetadataDir(); dir != viewLocation+"/metadata" {
		t.Errorf("metadata in %s", dir)
	}
	slashed, err := ParseView([]byte(minimalView()), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if slashed.Location() != viewLocation {
		t.Errorf("location %s", slashed.Location())
	}
}

// TestViewFiles holds that views, unlike tables, are compressed by default.
func TestViewFiles(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse(testUUID)
	for name, tc := range map[string]struct {
		properties []string
		file       string
		packed     bool
	}{
		"default": {nil, "00007-" + testUUID + ".gz.metadata.json", true},
		"gzip":    {[]string{`"write.metadata.compression-codec":"GZIP"`}, "00007-" + testUUID + ".gz.metadata.json", true},
		"none":    {[]string{`"write.metadata.compression-codec":"none"`}, "00007-" + testUUID + ".metadata.json", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := viewWithHistory(t, tc.properties...)
			if got := v.FileName(7, id); got != tc.file {
				t.Error(got)
			}
			file, err := v.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if packed := bytes.HasPrefix(file, []byte{0x1f, 0x8b}); packed != tc.packed {
				t.Errorf("compressed = %t", packed)
			}
			back, err := ParseView(file, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(back.JSON(), v.JSON()) {
				t.Error("the document differs")
			}
		})
	}
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		v, err := ParseView([]byte(minimalView(`"properties":{"write.metadata.compression-codec":"zstd"}`)), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Encode()
		wantFault(t, err, fault.Invalid, "", "use none or gzip")
	})
}

func TestCreateView(t *testing.T) {
	t.Parallel()
	first := versionJSON(1, 7, "spark: select 1")
	cases := []struct {
		name  string
		body  []byte
		want  map[string]string
		fails string
	}{
		{
			name: "ids are assigned, the rest stays",
			body: createViewBody(strings.Replace(versionJSON(44, 7, "spark: select a < b", "trino: select 2"), `"default-namespace":["ns"]`, `"default-catalog":"c","default-namespace":["a","b"]`, 1),
				`"properties":{"comment":"x","format-version":"9"}`, `"location":"s3://ignored/here"`),
			want: map[string]string{
				"view-uuid": `"` + testUUID + `"`, "format-version": "1", "location": `"` + viewLocation + `"`, "current-version-id": "1",
				"schemas/#": "1", "schemas/0/schema-id": "0", "schemas/0/fields/0/id": "5",
				"versions/#": "1", "versions/0/version-id": "1", "versions/0/schema-id": "0", "versions/0/timestamp-ms": "1700000000044",
				"versions/0/summary": `{"engine-name":"test"}`, "versions/0/default-catalog": `"c"`, "versions/0/default-namespace": `["a","b"]`,
				"versions/0/representations/#": "2", "versions/0/representations/1": `{"dialect":"trino","sql":"select 2","type":"sql"}`,
				"version-log": `[{"timestamp-ms":1700000000044,"version-id":1}]`,
				"properties":  `{"comment":"x","format-version":"9"}`,
			},
		},
		{
			name: "empty default namespace, no catalog, no properties",
			body: createViewBody(strings.Replace(versionJSON(0, -1, "spark: select 1"), `["ns"]`, `[]`, 1)),
			want: map[string]string{"versions/0/default-namespace": "[]", "versions/0/default-catalog": "absent", "properties": "absent", "versions/0/version-id": "1"},
		},
		{name: "no name", body: []byte(`{"schema":` + viewSchema + `,"view-version":` + first + `}`), fails: "name is required"},
		{name: "no schema", body: []byte(`{"name":"v","view-version":` + first + `}`), fails: "schema is required"},
		{name: "no version", body: []byte(`{"name":"v","schema":` + viewSchema + `}`), fails: "view-version is required"},
		{name: "null version", body: createViewBody("null"), fails: "view-version is required"},
		{name: "no query", body: createViewBody(versionJSON(1, 7)), fails: "no representations"},
		{name: "empty query", body: createViewBody(versionJSON(1, 7, "spark: ")), fails: "sql is required"},
		{name: "empty dialect", body: createViewBody(versionJSON(1, 7, ": select 1")), fails: "dialect is required"},
		{name: "two queries for a dialect", body: createViewBody(versionJSON(1, 7, "spark: select 1", "SPARK: select 2")), fails: "multiple queries for dialect"},
		{name: "two columns of one name", body: []byte(`{"name":"v","schema":` + strings.Replace(otherSchema, `"n"`, `"id"`, 1) + `,"view-version":` + first + `}`), fails: "id"},
		{name: "null property", body: createViewBody(first, `"properties":{"a":null}`), fails: `"a" is null`},
		{name: "unknown codec", body: createViewBody(first, `"properties":{"write.metadata.compression-codec":"zstd"}`), fails: "use none or gzip"},
		{name: "history of 0", body: createViewBody(first, `"properties":{"version.history.num-entries":"0"}`), fails: "must be positive"},
		{name: "history of x", body: createViewBody(first, `"properties":{"version.history.num-entries":"x"}`), fails: "must be a positive number"},
		{name: "dialects dropped and appended", body: createViewBody(first, `"properties":{"replace.drop-dialect.allowed":"true","replace.append-dialect.allowed":"true"}`), fails: "must not both be true"},
		{name: "too deep", body: createViewBody(strings.Repeat(`[`, 1000)), fails: "nested deeper"},
		{name: "not an object", body: []byte(`7`), fails: "create view request"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			req, err := DecodeCreateView(tc.body, Limits{})
			var made *View
			if err == nil {
				made, err = req.Build(viewLocation+"/", uuid.MustParse(testUUID))
			}
			if tc.fails != "" {
				wantInvalid(t, err, tc.fails)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wants(t, made, tc.want)
			if bytes.Contains(made.JSON(), []byte("null")) {
				t.Errorf("something is null: %s", made.JSON())
			}
			again, err := req.Build(viewLocation, uuid.MustParse(testUUID))
			if err != nil || !bytes.Equal(made.JSON(), again.JSON()) {
				t.Errorf("the request changed: %v", err)
			}
			viewReadsBack(t, made)
		})
	}
	t.Run("wants", func(t *testing.T) {
		t.Parallel()
		req, err := DecodeCreateView(createViewBody(first, `"location":"s3://b/wish/"`), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if req.Name != "v" || req.Location != "s3://b/wish" {
			t.Errorf("got %+v", req)
		}
		_, err = req.Build("", uuid.MustParse(testUUID))
		wantFault(t, err, fault.Invalid, Refused, "location is required")
		_, err = req.Build(viewLocation, uuid.Nil)
		wantFault(t, err, fault.Invalid, Refused, "uuid")
	})
	t.Run("SQL stays readable", func(t *testing.T) {
		t.Parallel()
		v := mustApplyView(t, newView(t), addVersionJSON(2, 0, "spark: select a < b && c"))
		if !bytes.Contains(v.JSON(), []byte("select a < b && c")) {
			t.Errorf("%s", v.JSON())
		}
	})
}
