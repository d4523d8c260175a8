package metadata

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/fault"
)

// The tests of this file hold the rules in which the library differs from Java.

func schemaUpdate(schema string) string { return `{"action":"add-schema","schema":` + schema + `}` }

func TestSchemaIDs(t *testing.T) {
	t.Parallel()
	third := strings.Replace(widerSchema, "note", "other", 1)
	cases := []struct {
		name    string
		updates []string
		want    map[string]string
		same    bool // nothing changes
	}{
		{
			name:    "highest plus one whatever the client says",
			updates: []string{schemaUpdate(widerSchema)},
			want:    map[string]string{"schemas/1/schema-id": "1", "current-schema-id": "0"},
		},
		{
			name:    "several in one commit, the last becomes current",
			updates: []string{schemaUpdate(widerSchema), schemaUpdate(third), `{"action":"set-current-schema","schema-id":-1}`},
			want:    map[string]string{"schemas/1/schema-id": "1", "schemas/2/schema-id": "2", "current-schema-id": "2"},
		},
		{
			name:    "added twice in one commit",
			updates: []string{schemaUpdate(widerSchema), schemaUpdate(third), schemaUpdate(widerSchema), `{"action":"set-current-schema","schema-id":-1}`},
			want:    map[string]string{"schemas/#": "3", "current-schema-id": "1"},
		},
		{
			name:    "an identical one keeps its id",
			updates: []string{schemaUpdate(sameSchema)},
			same:    true,
		},
		{
			name:    "an identical one becomes current again",
			updates: []string{schemaUpdate(widerSchema), `{"action":"set-current-schema","schema-id":-1}`, schemaUpdate(sameSchema), `{"action":"set-current-schema","schema-id":-1}`},
			want:    map[string]string{"schemas/#": "2", "current-schema-id": "0"},
		},
		{
			name:    "a removed id is not used while a higher one exists",
			updates: []string{schemaUpdate(widerSchema), schemaUpdate(third), `{"action":"remove-schemas","schema-ids":[1]}`, schemaUpdate(widerSchema)},
			want:    map[string]string{"schemas/#": "3", "schemas/1/schema-id": "2", "schemas/2/schema-id": "3"},
		},
	}
	for _, version := range formats {
		base := emptyTable(t, version)
		for _, tc := range cases {
			t.Run(fmt.Sprintf("v%d %s", version, tc.name), func(t *testing.T) {
				t.Parallel()
				res, err := tryApply(base, tc.updates...)
				if err != nil {
					t.Fatal(err)
				}
				if res.Changed == tc.same {
					t.Errorf("changed = %t", res.Changed)
				}
				wants(t, res.Table, tc.want)
			})
		}
	}
}

func TestSameSpecKeepsItsID(t *testing.T) {
	t.Parallel()
	spec := func(id int, field string) string {
		return fmt.Sprintf(`{"action":"add-spec","spec":{"spec-id":%d,"fields":[{"source-id":2,%s"name":"day","transform":"day"}]}}`, id, field)
	}
	one := mustApply(t, emptyTable(t, 2), spec(5, ""), `{"action":"set-default-spec","spec-id":-1}`)
	res, err := tryApply(one, spec(9, `"field-id":1234,`), `{"action":"set-default-spec","spec-id":-1}`)
	if err != nil {
		t.Fatal(err)
	}
	if res.Changed || res.Table != one {
		t.Errorf("the same spec changed the table: %s", res.Table.JSON())
	}
	wants(t, one, map[string]string{"partition-specs/#": "2", "default-spec-id": "1"})
}

func TestNoChange(t *testing.T) {
	t.Parallel()
	for name, update := range map[string]string{
		"nothing":                      ``,
		"same uuid":                    `{"action":"assign-uuid","uuid":"` + testUUID + `"}`,
		"same version":                 `{"action":"upgrade-format-version","format-version":2}`,
		"same location":                `{"action":"set-location","location":"` + testLocation + `/"}`,
		"same ref":                     setRefJSON("first", "tag", 11),
		"unknown ref removed":          `{"action":"remove-snapshot-ref","ref-name":"none"}`,
		"unknown snapshots removed":    `{"action":"remove-snapshots","snapshot-ids":[99]}`,
		"unknown statistics removed":   `{"action":"remove-statistics","snapshot-id":99}`,
		"unknown partition statistics": `{"action":"remove-partition-statistics","snapshot-id":99}`,
		"unknown key removed":          `{"action":"remove-encryption-key","key-id":"k"}`,
		"unknown schema removed":       `{"action":"remove-schemas","schema-ids":[99]}`,
		"no properties":                `{"action":"set-properties","updates":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := tableWithHistory(t, 2)
			res, err := tryApply(base, update)
			if err != nil {
				t.Fatal(err)
			}
			if res.Changed || res.Table != base {
				t.Error("a commit that changes nothing made a new version")
			}
		})
	}
}

func TestRemoveCurrentSnapshot(t *testing.T) {
	t.Parallel()
	for _, version := range formats {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			t.Parallel()
			base := mustApply(t, tableWithHistory(t, version), setRefJSON("dev", "branch", 13))
			got := mustApply(t, base, `{"action":"remove-snapshots","snapshot-ids":[13]}`)
			wants(t, got, map[string]string{
				"snapshots/#": "2", "refs/main": "absent", "refs/dev": "absent", "refs/first/snapshot-id": "11",
				"snapshot-log": "[]",
			})
			if _, ok := got.CurrentSnapshotID(); ok {
				t.Error("there still is a current snapshot")
			}
			if version < 3 {
				wants(t, got, map[string]string{"current-snapshot-id": "-1"})
			} else {
				wants(t, got, map[string]string{"current-snapshot-id": "null"})
			}
			// Life goes on.
			mustApply(t, got, addSnapshotJSON(version, 14, 0, 4), setRefJSON("main", "branch", 14))
		})
	}
}

func TestStaleSnapshot(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, update string
		version      int
		kind         fault.Kind
		code         fault.Code
		text         string
	}{
		{"same sequence number", addSnapshotJSON(2, 14, 13, 3), 2, fault.Conflict, CommitFailed, "sequence number 3"},
		{"older without parent", addSnapshotJSON(2, 14, 0, 2), 2, fault.Conflict, CommitFailed, "sequence number 2"},
		{"first-row-id behind", strings.Replace(addSnapshotJSON(3, 14, 13, 4), `"first-row-id":30`, `"first-row-id":29`, 1), 3, fault.Conflict, CommitFailed, "first-row-id 29"},
		{"first-row-id missing", strings.Replace(addSnapshotJSON(3, 14, 13, 4), `"first-row-id":30,"added-rows":10`, `"x":0`, 1), 3, fault.Invalid, Refused, "first-row-id is required"},
		{"sequence number in v1", addSnapshotJSON(2, 14, 13, 4), 1, fault.Invalid, Refused, "has none"},
		{"id taken", addSnapshotJSON(2, 13, 12, 4), 2, fault.Invalid, Refused, "already exists"},
		{"no manifests", `{"action":"add-snapshot","snapshot":{"snapshot-id":14,"sequence-number":4,"timestamp-ms":1}}`, 2, fault.Invalid, "", "neither manifest-list nor manifests"},
		{"encrypted", strings.Replace(addSnapshotJSON(3, 14, 13, 4), `"schema-id":0`, `"key-id":"k"`, 1), 3, fault.Invalid, "", "key-id"},
		{"from long ago", `{"action":"add-snapshot","snapshot":{"snapshot-id":14,"sequence-number":4,"timestamp-ms":1,"manifest-list":"s3://x"}}`, 2, fault.Invalid, Refused, "timestamp"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := tryApply(tableWithHistory(t, tc.version), tc.update)
			wantFault(t, err, tc.kind, tc.code, tc.text)
		})
	}
}

func TestCommitIsReplayable(t *testing.T) {
	t.Parallel()
	base := tableWithHistory(t, 2)
	before := bytes.Clone(base.JSON())
	c := decodeCommit(t, body("", schemaUpdate(widerSchema), `{"action":"set-current-schema","schema-id":-1}`,
		`{"action":"add-sort-order","sort-order":{"order-id":9,"fields":[{"source-id":3,"transform":"identity","direction":"asc","null-order":"nulls-first"}]}}`,
		`{"action":"set-default-sort-order","sort-order-id":-1}`))
	// Another base has a schema more: the same commit gets other ids there.
	other := mustApply(t, base, schemaUpdate(`{"type":"struct","fields":[{"id":1,"name":"id","required":true,"type":"long"}]}`))
	done := make(chan error, 20)
	for i := range cap(done) {
		go func() {
			on, want := base, "1"
			if i%2 == 1 {
				on, want = other, "2"
			}
			res, err := c.Apply(on, "s3://x")
			if err == nil && at(t, res.Table.JSON(), "current-schema-id") != want {
				err = fmt.Errorf("current-schema-id %s, want %s", at(t, res.Table.JSON(), "current-schema-id"), want)
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(before, base.JSON()) {
		t.Error("the base changed")
	}
}

func TestDroppedLogs(t *testing.T) {
	t.Parallel()
	const keepTwo, remove = `"write.metadata.previous-versions-max":"2"`, `"write.metadata.delete-after-commit.enabled":"true"`
	for _, tc := range []struct {
		name       string
		properties []string
		want       []string
	}{
		{"deleted when asked", []string{keepTwo, remove}, []string{"f0"}},
		{"kept by default", []string{keepTwo}, nil},
		{"none while the log is short", []string{remove}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			now, last := emptyTable(t, 2, tc.properties...), (*Result)(nil)
			for i := range 3 {
				c := decodeCommit(t, body("", fmt.Sprintf(`{"action":"set-properties","updates":{"n":"%d"}}`, i)))
				res, err := c.Apply(now, fmt.Sprintf("f%d", i))
				if err != nil {
					t.Fatal(err)
				}
				now, last = res.Table, res
			}
			if diff := cmp.Diff(tc.want, last.DroppedLogs); diff != "" {
				t.Error(diff)
			}
			if files := now.PreviousFiles(); tc.want != nil && !cmp.Equal(files, []string{"f1", "f2"}) {
				t.Errorf("log names %v", files)
			}
		})
	}
}

func TestUpgradeAssignsWhatIsMissing(t *testing.T) {
	t.Parallel()
	old, err := Parse([]byte(v1WithoutUUID), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if old.UUID() != "" {
		t.Errorf("uuid = %q", old.UUID())
	}
	same := mustApply(t, old, `{"action":"set-properties","updates":{"a":"b"}}`)
	wants(t, same, map[string]string{"table-uuid": "absent", "properties/a": `"b"`, "partition-spec": "[]"})
	up := mustApply(t, same, `{"action":"upgrade-format-version","format-version":2}`)
	if up.UUID() == "" || up.FormatVersion() != 2 {
		t.Errorf("uuid = %q, version = %d", up.UUID(), up.FormatVersion())
	}
}

const createUpdates = `{"action":"assign-uuid","uuid":"` + testUUID + `"},
	{"action":"add-schema","schema":` + sameSchema + `},
	{"action":"set-current-schema","schema-id":-1}`

func TestBuild(t *testing.T) {
	t.Parallel()
	const (
		create   = `{"type":"assert-create"}`
		location = `{"action":"set-location","location":"` + testLocation + `/"}`
	)
	order := `{"action":"add-sort-order","sort-order":{"order-id":0,"fields":[]}},{"action":"set-default-sort-order","sort-order-id":-1}`
	spec := `{"action":"add-spec","spec":{"spec-id":0,"fields":[{"source-id":1,"name":"b","transform":"bucket[4]"}]}},{"action":"set-default-spec","spec-id":-1}`
	cases := []struct {
		name, requirements string
		updates            []string
		want               map[string]string
		fails              string
	}{
		{
			name: "staged create", requirements: create,
			updates: []string{createUpdates, spec, order, location, `{"action":"set-properties","updates":{"a":"b"}}`},
			want: map[string]string{
				"table-uuid": `"` + testUUID + `"`, "format-version": "2", "location": `"` + testLocation + `"`,
				"schemas/#": "1", "schemas/0/schema-id": "0", "current-schema-id": "0", "last-column-id": "2",
				"partition-specs/#": "1", "partition-specs/0/spec-id": "0", "last-partition-id": "1000",
				"sort-orders/#": "1", "default-sort-order-id": "0", "metadata-log": "[]", "snapshots": "[]",
				"current-snapshot-id": "-1", "properties": `{"a":"b"}`, "last-sequence-number": "0",
			},
		},
		{
			name: "version 1", requirements: create,
			updates: []string{`{"action":"upgrade-format-version","format-version":1}`, createUpdates, spec, order, location},
			want:    map[string]string{"format-version": "1", "schemas/#": "1", "last-sequence-number": "absent"},
		},
		{
			name: "version 3 with data", requirements: create,
			updates: []string{createUpdates, `{"action":"upgrade-format-version","format-version":3}`, spec, order, location, addSnapshotJSON(3, 5, 0, 1), setRefJSON("main", "branch", 5)},
			want:    map[string]string{"format-version": "3", "next-row-id": "10", "current-snapshot-id": "5"},
		},
		{
			name: "spec and order left out", requirements: create,
			updates: []string{createUpdates, location},
			want:    map[string]string{"partition-specs": `[{"fields":[],"spec-id":0}]`, "sort-orders": `[{"fields":[],"order-id":0}]`, "default-spec-id": "0"},
		},
		{
			name: "current schema named last, as DuckDB does", requirements: create,
			updates: []string{
				`{"action":"add-schema","schema":` + sameSchema + `}`,
				`{"action":"add-spec","spec":{"spec-id":0,"fields":[{"name":"id","source-id":1,"transform":"identity"}]}}`,
				`{"action":"set-default-spec","spec-id":0}`,
				`{"action":"add-sort-order","sort-order":{"order-id":0,"fields":[]}}`,
				`{"action":"set-default-sort-order","sort-order-id":0}`,
				location, `{"action":"set-current-schema","schema-id":0}`,
			},
			want: map[string]string{"current-schema-id": "0", "partition-specs/0/fields/0/source-id": "1", "partition-specs/#": "1"},
		},
		{
			name: "current schema never named", requirements: create,
			updates: []string{`{"action":"add-schema","schema":` + sameSchema + `}`, `{"action":"add-spec","spec":{"spec-id":0,"fields":[]}}`, location},
			fails:   "no update sets the current schema",
		},
		{name: "no location", requirements: create, updates: []string{createUpdates}, fails: "location is required"},
		{name: "no schema", requirements: create, updates: []string{location}, fails: "schema"},
		{name: "unknown version", requirements: create, updates: []string{`{"action":"upgrade-format-version","format-version":9}`, createUpdates}, fails: "format version"},
		{
			name: "further requirement", requirements: create + `,{"type":"assert-default-spec-id","default-spec-id":0}`,
			updates: []string{createUpdates, location}, fails: "assert-default-spec-id cannot hold for a new table",
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := decodeCommit(t, body(tc.requirements, tc.updates...))
			if !c.AssertsCreate() {
				t.Error("AssertsCreate is false")
			}
			got, err := c.Build()
			if tc.fails != "" {
				wantFault(t, err, fault.Invalid, Refused, tc.fails)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wants(t, got, tc.want)
		})
	}
	t.Run("uuid is made up", func(t *testing.T) {
		t.Parallel()
		c := decodeCommit(t, body(create, `{"action":"add-schema","schema":`+sameSchema+`},{"action":"set-current-schema","schema-id":0}`, location))
		one, err := c.Build()
		if err != nil {
			t.Fatal(err)
		}
		two, err := c.Build()
		if err != nil {
			t.Fatal(err)
		}
		if one.UUID() == "" || one.UUID() == two.UUID() {
			t.Errorf("uuids %q and %q", one.UUID(), two.UUID())
		}
	})
}

func TestChangesLocation(t *testing.T) {
	t.Parallel()
	for update, want := range map[string]bool{
		`{"action":"set-location","location":"s3://x"}`:                             true,
		`{"action":"set-properties","updates":{"write.data.path":"s3://x"}}`:        true,
		`{"action":"remove-properties","removals":["write.folder-storage.path"]}`:   true,
		`{"action":"set-properties","updates":{"write.data.pathological":"s3://"}}`: false,
		`{"action":"remove-snapshot-ref","ref-name":"x"}`:                           false,
	} {
		if got := decodeCommit(t, body("", update)).ChangesLocation(); got != want {
			t.Errorf("%s: %t", update, got)
		}
	}
}

func TestDecodeCommitBounds(t *testing.T) {
	t.Parallel()
	update := `{"action":"remove-snapshot-ref","ref-name":"x"}`
	many := strings.Repeat(update+",", maxUpdates)
	_, err := DecodeCommit(body("", many+update), Limits{})
	wantFault(t, err, fault.Invalid, "", "more than the limit of 10000")
	decodeCommit(t, body("", many[:len(many)-1]))
	_, err = DecodeCommit([]byte(`{"x":`+strings.Repeat("[", 501)), Limits{})
	wantFault(t, err, fault.Invalid, "", "nested deeper than 500")
	_, err = DecodeCommit(body("", update), Limits{MaxBytes: 10})
	wantFault(t, err, fault.Invalid, "", "more than the limit of 10")
	_, err = DecodeCommit(body("", `{"action":"`+strings.Repeat("x", 5000)+`"}`), Limits{})
	wantFault(t, err, fault.Invalid, "", "unknown action")
	if n := len(fault.Public(err)); n > maxMessage+10 {
		t.Errorf("the message has %d bytes", n)
	}
	// Nothing at all is a commit that changes nothing.
	decodeCommit(t, []byte(`{}`))
}

func TestLastUpdatedFollowsTheSnapshot(t *testing.T) {
	t.Parallel()
	base := tableWithHistory(t, 2)
	later := time.Now().Add(time.Minute).UnixMilli()
	snapshot := fmt.Sprintf(`{"action":"add-snapshot","snapshot":{"snapshot-id":14,"parent-snapshot-id":13,"sequence-number":4,"timestamp-ms":%d,"manifest-list":"s3://x"}}`, later)
	got := mustApply(t, base, snapshot, setRefJSON("main", "branch", 14))
	wants(t, got, map[string]string{"last-updated-ms": strconv.FormatInt(later, 10)})
}
