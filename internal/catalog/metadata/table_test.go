package metadata

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/fault"
)

const v1WithoutUUID = `{"format-version":1,"location":"s3://bucket/old/","last-updated-ms":1602638573590,"last-column-id":1,
	"schema":{"type":"struct","fields":[{"id":1,"name":"x","required":true,"type":"long"}]},
	"partition-spec":[],"properties":{},"current-snapshot-id":-1,"snapshots":[]}`

// minimal makes a valid document of a version with further members.
func minimal(version int, more string) string {
	switch version {
	case 1:
		return strings.Replace(v1WithoutUUID, `"properties":{}`, more, 1)
	case 2:
		more = `"last-sequence-number":0,` + more
	default:
		more = `"last-sequence-number":0,"next-row-id":0,` + more
	}
	return fmt.Sprintf(`{"format-version":%d,"table-uuid":"%s","location":"s3://bucket/t","last-updated-ms":1602638573590,"last-column-id":1,
		"current-schema-id":0,"schemas":[{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"x","required":true,"type":"long"}]}],
		"default-spec-id":0,"partition-specs":[{"spec-id":0,"fields":[]}],"last-partition-id":999,
		"default-sort-order-id":0,"sort-orders":[{"order-id":0,"fields":[]}],%s}`, version, testUUID, more)
}

func zip(data []byte) []byte {
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	_, _ = zw.Write(data) // a buffer takes everything
	_ = zw.Close()
	return out.Bytes()
}

// hostile documents must be refused without a panic.
var hostile = map[string]struct{ doc, text string }{
	"empty":                         {``, "table metadata"},
	"not JSON":                      {`}`, "table metadata"},
	"null":                          {`null`, "table metadata"},
	"list":                          {`[]`, "table metadata"},
	"no version":                    {`{}`, "table metadata"},
	"version absent":                {strings.Replace(minimal(2, `"properties":{}`), "format-version", "x", 1), "format-version (absent) is not supported"},
	"version 4":                     {minimal(4, `"properties":{}`), `format-version 4 is not supported`},
	"panic: null partition field":   {strings.Replace(minimal(2, `"properties":{}`), `{"spec-id":0,"fields":[]}`, `{"spec-id":0,"fields":[null]}`, 1), "malformed"},
	"panic: null partition field 1": {strings.Replace(minimal(1, `"properties":{}`), `"partition-spec":[]`, `"partition-spec":[null]`, 1), "malformed"},
	"panic: null schema in v1":      {minimal(1, `"schemas":[null]`), "malformed"},
	"dangling current snapshot":     {minimal(2, `"current-snapshot-id":5`), "5"},
	"main without current":          {minimal(2, `"current-snapshot-id":-1,"refs":{"main":{"snapshot-id":5,"type":"branch"}}`), "main"},
	"encrypted snapshot":            {minimal(3, `"snapshots":[{"snapshot-id":5,"timestamp-ms":1,"key-id":"k","manifest-list":"s3://x"}]`), "snapshot 5 is encrypted"},
	"encrypted, key escaped":        {minimal(3, `"snapshots":[{"snapshot-id":5,"timestamp-ms":1,"key\u002did":"k","manifest-list":"s3://x"}]`), "snapshot 5 is encrypted"},
	"encryption keys before v3":     {minimal(2, `"encryption-keys":[{"key-id":"k","encrypted-key-metadata":"AA=="}]`), "encryption-keys"},
	"not UTF-8":                     {minimal(2, `"properties":{"a":"`+"\x95"+`"}`), "not valid UTF-8"},
	"too deep":                      {minimal(2, `"x":`+strings.Repeat("[", 600)+strings.Repeat("]", 600)), "nested deeper than 500"},
	"too deep and unfinished":       {strings.Repeat(`{"a":`, 100_000), "nested deeper than 500"},
	"damaged gzip":                  {"\x1f\x8b\x08\x00\x00", "gzip stream is damaged"},
	"truncated gzip":                {string(zipped[:len(zipped)-9]), "gzip stream is damaged"},
	"gzip bomb":                     {string(bomb), "more than the limit"},
	"long text":                     {minimal(2, `"properties":`+`"`+strings.Repeat("x", 5000)+`"`), "table metadata"},
}

var (
	zipped = zip([]byte(minimal(2, `"properties":{}`)))
	bomb   = zip(bytes.Repeat([]byte(" "), testMaxBytes+1))
)

const testMaxBytes = 8 << 20

func TestParseHostile(t *testing.T) {
	t.Parallel()
	for name, tc := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(tc.doc), Limits{MaxBytes: testMaxBytes})
			wantFault(t, err, fault.Invalid, "", tc.text)
			if n := len(fault.Public(err)); n > maxMessage+10 {
				t.Errorf("the message has %d bytes", n)
			}
		})
	}
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		limits := Limits{MaxBytes: 100}
		_, err := Parse([]byte(minimal(2, `"properties":{}`)), limits)
		wantFault(t, err, fault.Invalid, "", "more than the limit of 100")
		wantFault(t, limits.Check(make([]byte, limits.Bytes()+1)), fault.Invalid, "", "request body")
		if err := limits.Check(make([]byte, limits.Bytes())); err != nil {
			t.Error(err)
		}
	})
	t.Run("braces inside strings are no depth", func(t *testing.T) {
		t.Parallel()
		doc := minimal(2, `"properties":{"a":"`+strings.Repeat(`[{\"`, 1000)+`"}`)
		if _, err := Parse([]byte(doc), Limits{}); err != nil {
			t.Error(err)
		}
	})
}

func TestParseTolerates(t *testing.T) {
	t.Parallel()
	for name, doc := range map[string]string{
		"unknown fields":                  minimal(2, `"some-later-field":{"a":[1]},"properties":{"k":"v"}`),
		"next-row-id in v2":               minimal(2, `"next-row-id":0,"properties":{"k":"v"}`),
		"next-row-id in v1":               minimal(1, `"next-row-id":7,"last-sequence-number":0,"properties":{"k":"v"}`),
		"no current snapshot is minus 1":  minimal(2, `"current-snapshot-id":-1,"properties":{"k":"v"}`),
		"no current snapshot is null":     minimal(3, `"current-snapshot-id":null,"properties":{"k":"v"}`),
		"unencrypted with table-wide key": minimal(3, `"encryption-keys":[{"key-id":"k","encrypted-key-metadata":"AA=="}],"properties":{"k":"v"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse([]byte(doc), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if string(got.JSON()) != doc {
				t.Error("JSON differs from the stored document")
			}
			if _, ok := got.CurrentSnapshotID(); ok {
				t.Error("there is a current snapshot")
			}
			if got.Property("k", "") != "v" {
				t.Errorf("properties %v", got.Properties())
			}
			got.Properties()["k"] = "changed"
			if got.Property("k", "") != "v" {
				t.Error("Properties is no copy")
			}
			next := mustApply(t, got, `{"action":"set-properties","updates":{"a":"b"}}`)
			if _, err := Parse(next.JSON(), Limits{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestParseGzip(t *testing.T) {
	t.Parallel()
	got, err := Parse(zipped, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if string(got.JSON()) != minimal(2, `"properties":{}`) {
		t.Errorf("got %s", got.JSON())
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, version := range formats {
		for name, made := range map[string]*Table{
			"empty": emptyTable(t, version), "history": tableWithHistory(t, version),
			"gzip": tableWithHistory(t, version, `"write.metadata.compression-codec":"GZIP"`),
		} {
			t.Run(fmt.Sprintf("v%d %s", version, name), func(t *testing.T) {
				t.Parallel()
				file, err := made.Encode()
				if err != nil {
					t.Fatal(err)
				}
				if packed := bytes.HasPrefix(file, []byte{0x1f, 0x8b}); packed != (name == "gzip") {
					t.Errorf("compressed = %t", packed)
				}
				back, err := Parse(file, Limits{})
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(back.JSON(), made.JSON()) {
					t.Error("the document differs")
				}
				if !back.meta.Equals(made.meta) {
					t.Error("the metadata differs")
				}
				if back.Size() < int64(len(made.JSON())) {
					t.Errorf("size %d", back.Size())
				}
			})
		}
	}
}

// TestNothingIsNull guards readers that refuse null where a list or map may be absent.
func TestNothingIsNull(t *testing.T) {
	t.Parallel()
	for _, version := range formats {
		doc := tableWithHistory(t, version).JSON()
		if bytes.Contains(doc, []byte("null")) && !bytes.Contains(doc, []byte("nulls-")) {
			t.Errorf("v%d: %s", version, doc)
		}
		for _, field := range []string{"properties", "refs", "snapshots", "snapshot-log", "metadata-log", "statistics", "partition-statistics", "current-snapshot-id"} {
			if at(t, emptyTable(t, version).JSON(), field) == "absent" {
				t.Errorf("v%d lacks %s", version, field)
			}
		}
		if got := at(t, doc, "statistics/0/blob-metadata/0/properties"); got != "{}" {
			t.Errorf("blob properties are %s", got)
		}
	}
}

func TestRefsOnly(t *testing.T) {
	t.Parallel()
	for _, version := range formats {
		full := tableWithHistory(t, version)
		some := full.RefsOnlyJSON()
		got, err := Parse(some, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		wants(t, got, map[string]string{
			"snapshots/#": "2", "snapshots/0/snapshot-id": "11", "snapshots/1/snapshot-id": "13",
			"snapshot-log/#": "3", "metadata-log/#": "4", "statistics/#": "1", "current-snapshot-id": "13",
		})
		wants(t, full, map[string]string{"snapshots/#": "3"})
	}
	t.Run("all named", func(t *testing.T) {
		t.Parallel()
		full := mustApply(t, tableWithHistory(t, 2), setRefJSON("second", "branch", 12))
		if !bytes.Equal(full.RefsOnlyJSON(), full.JSON()) {
			t.Error("the document differs although every snapshot is named")
		}
	})
	t.Run("current without refs", func(t *testing.T) {
		t.Parallel()
		doc := minimal(1, `"current-snapshot-id":6,"snapshots":[{"snapshot-id":5,"timestamp-ms":1602638573590,"manifest-list":"s3://a"},
			{"snapshot-id":6,"timestamp-ms":1602638573590,"manifest-list":"s3://b","later":[1]}]`)
		doc = strings.Replace(doc, `,"current-snapshot-id":-1,"snapshots":[]`, "", 1)
		old, err := Parse([]byte(doc), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := at(t, old.RefsOnlyJSON(), "snapshots"); got != `[{"later":[1],"manifest-list":"s3://b","snapshot-id":6,"timestamp-ms":1602638573590}]` {
			t.Errorf("snapshots = %s", got)
		}
	})
}

func TestLocations(t *testing.T) {
	t.Parallel()
	got := emptyTable(t, 2, `"write.data.path":"s3://bucket/data/"`, `"write.metadata.path":"s3://bucket/data"`,
		`"write.object-storage.path":""`, `"write.folder-storage.path":"s3://bucket/folders"`)
	want := []string{testLocation, "s3://bucket/data", "s3://bucket/folders"}
	if diff := cmp.Diff(want, got.Locations()); diff != "" {
		t.Error(diff)
	}
	if got.Location() != testLocation {
		t.Errorf("location %s", got.Location())
	}
	if got.MetadataDir() != "s3://bucket/data" {
		t.Errorf("metadata in %s", got.MetadataDir())
	}
	if dir := emptyTable(t, 2).MetadataDir(); dir != testLocation+"/metadata" {
		t.Errorf("metadata in %s", dir)
	}
}

func TestFileName(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse(testUUID)
	if got := emptyTable(t, 2).FileName(7, id); got != "00007-"+testUUID+".metadata.json" {
		t.Error(got)
	}
	if got := emptyTable(t, 2, `"write.metadata.compression-codec":"gzip"`).FileName(123456, id); got != "123456-"+testUUID+".gz.metadata.json" {
		t.Error(got)
	}
}

func TestNextVersion(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]int{
		"s3://b/t/metadata/00000-x.metadata.json":          1,
		"s3://b/t/metadata/00041-a-b-c.gz.metadata.json":   42,
		"00009-x.metadata.json":                            10,
		"s3://b/t/metadata/v3.metadata.json":               0,
		"s3://b/t/metadata/v3-x.metadata.json":             0,
		"s3://b/t/12-12/metadata.json":                     0,
		"s3://b/t/metadata/-5-x.metadata.json":             0,
		"s3://b/t/metadata/99999999999999-x.metadata.json": 0,
		"s3://b/t/metadata/2147483647-x.metadata.json":     0,
		"": 0,
	} {
		if got := NextVersion(location); got != want {
			t.Errorf("%s: %d, want %d", location, got, want)
		}
	}
}

func TestEncodeUnknownCodec(t *testing.T) {
	t.Parallel()
	registered, err := Parse([]byte(minimal(2, `"properties":{"write.metadata.compression-codec":"zstd"}`)), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = registered.Encode()
	wantFault(t, err, fault.Invalid, "", "use none or gzip")
	mustApply(t, registered, `{"action":"remove-properties","removals":["write.metadata.compression-codec"]}`)
}
