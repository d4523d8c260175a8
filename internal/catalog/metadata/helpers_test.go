package metadata

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/fault"
)

const (
	testLocation = "s3://bucket/ns/t"
	testUUID     = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
	testSchema   = `{"type":"struct","schema-id":7,"identifier-field-ids":[5],"fields":[
		{"id":5,"name":"id","required":true,"type":"long"},
		{"id":9,"name":"ts","required":false,"type":"timestamp"}]}`
	// widerSchema adds a column to what testSchema becomes.
	widerSchema = `{"type":"struct","schema-id":42,"fields":[
		{"id":1,"name":"id","required":true,"type":"long"},
		{"id":2,"name":"ts","required":false,"type":"timestamp"},
		{"id":3,"name":"note","required":false,"type":"string"}]}`
	// sameSchema is what testSchema becomes, under another id.
	sameSchema = `{"type":"struct","schema-id":42,"identifier-field-ids":[1],"fields":[
		{"id":1,"name":"id","required":true,"type":"long"},
		{"id":2,"name":"ts","required":false,"type":"timestamp"}]}`
)

// formats names every format version for table tests.
var formats = []int{1, 2, 3}

// emptyTable makes a table without snapshots. More properties are given as JSON members.
func emptyTable(tb testing.TB, version int, properties ...string) *Table {
	tb.Helper()
	body := fmt.Sprintf(`{"name":"t","schema":%s,"properties":{%s}}`, testSchema,
		strings.Join(append(properties, fmt.Sprintf(`"format-version":"%d"`, version)), ","))
	req, err := DecodeCreate([]byte(body), Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	made, err := req.Build(testLocation, uuid.MustParse(testUUID))
	if err != nil {
		tb.Fatal(err)
	}
	return made
}

// snapshotJSON makes a snapshot that fits the version; parent 0 means none.
func snapshotJSON(version int, id, parent, seq int64) string {
	fields := fmt.Sprintf(`"snapshot-id":%d,"timestamp-ms":%d,"manifest-list":"%s/metadata/snap-%d.avro",
		"summary":{"operation":"append"},"schema-id":0`, id, time.Now().UnixMilli(), testLocation, id)
	if parent != 0 {
		fields += fmt.Sprintf(`,"parent-snapshot-id":%d`, parent)
	}
	if version > 1 {
		fields += fmt.Sprintf(`,"sequence-number":%d`, seq)
	}
	if version > 2 {
		fields += fmt.Sprintf(`,"first-row-id":%d,"added-rows":10`, (seq-1)*10)
	}
	return "{" + fields + "}"
}

func addSnapshotJSON(version int, id, parent, seq int64) string {
	return `{"action":"add-snapshot","snapshot":` + snapshotJSON(version, id, parent, seq) + `}`
}

func setRefJSON(name, kind string, id int64) string {
	return fmt.Sprintf(`{"action":"set-snapshot-ref","ref-name":%q,"type":%q,"snapshot-id":%d}`, name, kind, id)
}

// tableWithHistory has snapshots 11, 12, 13 on main (13 is current), a tag on 11 and
// statistics of 12.
func tableWithHistory(tb testing.TB, version int, properties ...string) *Table {
	tb.Helper()
	t := emptyTable(tb, version, properties...)
	parent := int64(0)
	for i := range int64(3) {
		id := 11 + i
		t = mustApply(tb, t, addSnapshotJSON(version, id, parent, i+1), setRefJSON("main", "branch", id))
		parent = id
	}
	return mustApply(tb, t, setRefJSON("first", "tag", 11),
		`{"action":"set-statistics","statistics":`+statisticsJSON(12)+`}`,
		`{"action":"set-partition-statistics","partition-statistics":{"snapshot-id":12,"statistics-path":"s3://bucket/ns/t/p12","file-size-in-bytes":5}}`)
}

func statisticsJSON(snapshot int64) string {
	return fmt.Sprintf(`{"snapshot-id":%d,"statistics-path":"s3://bucket/ns/t/s%d.puffin","file-size-in-bytes":9,
		"file-footer-size-in-bytes":4,"blob-metadata":[{"type":"x-unknown","snapshot-id":%d,"sequence-number":1,"fields":[1]}]}`,
		snapshot, snapshot, snapshot)
}

func body(requirements string, updates ...string) []byte {
	return []byte(`{"requirements":[` + requirements + `],"updates":[` + strings.Join(updates, ",") + `]}`)
}

func decodeCommit(tb testing.TB, body []byte) *Commit {
	tb.Helper()
	c, err := DecodeCommit(body, Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func tryApply(base *Table, updates ...string) (*Result, error) {
	c, err := DecodeCommit(body("", updates...), Limits{})
	if err != nil {
		return nil, err
	}
	return c.Apply(base, "s3://bucket/ns/t/metadata/00000-base.metadata.json")
}

func mustApply(tb testing.TB, base *Table, updates ...string) *Table {
	tb.Helper()
	res, err := tryApply(base, updates...)
	if err != nil {
		tb.Fatal(err)
	}
	return res.Table
}

// at returns the compact JSON of a value in a document: object keys and array indices
// joined by slashes, "absent" when it is not there, "#" at the end for a length.
func at(tb testing.TB, doc []byte, path string) string {
	tb.Helper()
	var value any
	dec := json.NewDecoder(strings.NewReader(string(doc)))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		tb.Fatalf("not JSON: %v\n%s", err, doc)
	}
	for step := range strings.SplitSeq(path, "/") {
		switch v := value.(type) {
		case map[string]any:
			if step == "#" {
				return strconv.Itoa(len(v))
			}
			next, ok := v[step]
			if !ok {
				return "absent"
			}
			value = next
		case []any:
			if step == "#" {
				return strconv.Itoa(len(v))
			}
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(v) {
				return "absent"
			}
			value = v[i]
		default:
			return "absent"
		}
	}
	out, err := json.Marshal(value)
	if err != nil {
		tb.Fatal(err)
	}
	return string(out)
}

// wants compares paths of a document (of a Table or a View) with their compact JSON.
func wants(tb testing.TB, of interface{ JSON() []byte }, want map[string]string) {
	tb.Helper()
	for path, value := range want {
		if got := at(tb, of.JSON(), path); got != value {
			tb.Errorf("%s = %s, want %s", path, got, value)
		}
	}
}

// wantInvalid is wantFault for tables of bad requests: decoding refuses some of them, and
// what is well formed is Refused.
func wantInvalid(tb testing.TB, err error, text string) {
	tb.Helper()
	code := fault.CodeOf(err)
	if code != "" && code != Refused {
		tb.Errorf("error has the code %q", code)
	}
	wantFault(tb, err, fault.Invalid, code, text)
}

func wantFault(tb testing.TB, err error, kind fault.Kind, code fault.Code, text string) {
	tb.Helper()
	if err == nil {
		tb.Fatal("no error")
	}
	if fault.KindOf(err) != kind || fault.CodeOf(err) != code {
		tb.Errorf("error is %s %q, want %s %q: %v", fault.KindOf(err), fault.CodeOf(err), kind, code, err)
	}
	if !strings.Contains(fault.Public(err), text) {
		tb.Errorf("message %q lacks %q", fault.Public(err), text)
	}
	if strings.Contains(fault.Public(err), "goroutine") || strings.Contains(fault.Public(err), "runtime error") || strings.Contains(fault.Public(err), "Go struct") {
		tb.Errorf("message leaks internals: %q", fault.Public(err))
	}
}
