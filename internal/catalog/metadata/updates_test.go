package metadata

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// updateCases has each action of the specification at least once. They are applied to
// tableWithHistory.
var updateCases = []struct {
	name    string
	updates func(version int) []string
	want    map[string]string
	since   int    // the first format version that allows it
	fails   string // text of the error, on every version
}{
	{
		name:    "assign-uuid same",
		updates: fixed(`{"action":"assign-uuid","uuid":"` + testUUID + `"}`),
		want:    map[string]string{"table-uuid": `"` + testUUID + `"`},
	},
	{
		name:    "assign-uuid other",
		updates: fixed(`{"action":"assign-uuid","uuid":"00000000-0000-0000-0000-0000000000ff"}`),
		fails:   "uuid of an existing table cannot be changed",
	},
	{
		name:    "upgrade-format-version",
		updates: fixed(`{"action":"upgrade-format-version","format-version":3}`),
		want:    map[string]string{"format-version": "3"},
	},
	{
		name:    "upgrade-format-version unknown",
		updates: fixed(`{"action":"upgrade-format-version","format-version":4}`),
		fails:   "format version",
	},
	{
		name: "add-schema and set-current-schema last",
		updates: fixed(`{"action":"add-schema","schema":`+widerSchema+`,"last-column-id":99}`,
			`{"action":"set-current-schema","schema-id":-1}`),
		want: map[string]string{"schemas/#": "2", "schemas/1/schema-id": "1", "current-schema-id": "1", "last-column-id": "3"},
	},
	{
		name:    "set-current-schema unknown",
		updates: fixed(`{"action":"set-current-schema","schema-id":9}`),
		fails:   "schema with id 9",
	},
	{
		name:    "set-current-schema last without one",
		updates: fixed(`{"action":"set-current-schema","schema-id":-1}`),
		fails:   "adds no schema",
	},
	{
		name:    "add-schema with two columns of one name",
		updates: fixed(`{"action":"add-schema","schema":{"type":"struct","fields":[{"id":1,"name":"a","required":false,"type":"int"},{"id":2,"name":"a","required":false,"type":"int"}]}}`),
		fails:   "a",
	},
	{
		name: "add-spec and set-default-spec last",
		updates: fixed(`{"action":"add-spec","spec":{"spec-id":9,"fields":[{"source-id":2,"field-id":1000,"name":"day","transform":"day"}]}}`,
			`{"action":"set-default-spec","spec-id":-1}`),
		want: map[string]string{
			"partition-specs/#": "2", "partition-specs/1/spec-id": "1", "default-spec-id": "1",
			"partition-specs/1/fields/0/field-id": "1000", "last-partition-id": "1000",
		},
	},
	{
		name:    "set-default-spec last without one",
		updates: fixed(`{"action":"set-default-spec","spec-id":-1}`),
		fails:   "adds no partition spec",
	},
	{
		name:    "add-spec of a missing column",
		updates: fixed(`{"action":"add-spec","spec":{"spec-id":9,"fields":[{"source-id":77,"name":"x","transform":"identity"}]}}`),
		fails:   "77",
	},
	{
		name: "add-sort-order and set-default-sort-order last",
		updates: fixed(`{"action":"add-sort-order","sort-order":{"order-id":9,"fields":[{"source-id":1,"transform":"identity","direction":"asc","null-order":"nulls-first"}]}}`,
			`{"action":"set-default-sort-order","sort-order-id":-1}`),
		want: map[string]string{"sort-orders/#": "2", "sort-orders/1/order-id": "1", "default-sort-order-id": "1"},
	},
	{
		name: "add-snapshot and set-snapshot-ref",
		updates: func(v int) []string {
			return []string{addSnapshotJSON(v, 14, 13, 4), setRefJSON("main", "branch", 14)}
		},
		want: map[string]string{
			"snapshots/#": "4", "current-snapshot-id": "14", "refs/main/snapshot-id": "14", "snapshot-log/#": "4",
			"snapshots/3/parent-snapshot-id": "13", "snapshots/3/summary/operation": `"append"`,
		},
	},
	{
		name:    "set-snapshot-ref with retention",
		updates: fixed(`{"action":"set-snapshot-ref","ref-name":"dev","type":"branch","snapshot-id":12,"max-ref-age-ms":5,"max-snapshot-age-ms":6,"min-snapshots-to-keep":7}`),
		want: map[string]string{
			"refs/dev":            `{"max-ref-age-ms":5,"max-snapshot-age-ms":6,"min-snapshots-to-keep":7,"snapshot-id":12,"type":"branch"}`,
			"current-snapshot-id": "13",
		},
	},
	{
		name:    "set-snapshot-ref with retention 0",
		updates: fixed(`{"action":"set-snapshot-ref","ref-name":"dev","type":"branch","snapshot-id":12,"max-ref-age-ms":0}`),
		fails:   "must be > 0",
	},
	{
		name:    "set-snapshot-ref main as tag",
		updates: fixed(setRefJSON("main", "tag", 12)),
		fails:   "main must be a branch",
	},
	{
		name:    "set-snapshot-ref to an unknown snapshot",
		updates: fixed(setRefJSON("dev", "branch", 99)),
		fails:   "unknown snapshot 99",
	},
	{
		name:    "remove-snapshots",
		updates: fixed(`{"action":"remove-snapshots","snapshot-ids":[12]}`),
		want: map[string]string{
			"snapshots/#": "2", "current-snapshot-id": "13", "statistics/#": "0", "partition-statistics/#": "0",
			// A gap in the history removes what is before it.
			"snapshot-log/#": "1",
		},
	},
	{
		name:    "remove-snapshot-ref",
		updates: fixed(`{"action":"remove-snapshot-ref","ref-name":"first"}`),
		want:    map[string]string{"refs/first": "absent", "refs/main/snapshot-id": "13"},
	},
	{
		name:    "set-location",
		updates: fixed(`{"action":"set-location","location":"s3://bucket/elsewhere//"}`),
		want:    map[string]string{"location": `"s3://bucket/elsewhere"`},
	},
	{
		name:    "set-location empty",
		updates: fixed(`{"action":"set-location","location":""}`),
		fails:   "location is empty",
	},
	{
		name:    "set-properties and remove-properties",
		updates: fixed(`{"action":"set-properties","updates":{"a":"1","b":"2"}}`, `{"action":"remove-properties","removals":["a","none"]}`),
		want:    map[string]string{"properties/a": "absent", "properties/b": `"2"`},
	},
	{
		name:    "properties under their old names",
		updates: fixed(`{"action":"set-properties","updated":{"a":"1","b":"2"}}`, `{"action":"remove-properties","removed":["a"]}`),
		want:    map[string]string{"properties/a": "absent", "properties/b": `"2"`},
	},
	{
		name:    "set-properties null",
		updates: fixed(`{"action":"set-properties","updates":{"a":null}}`),
		fails:   `"a" is null`,
	},
	{
		name:    "set-properties reserved",
		updates: fixed(`{"action":"set-properties","updates":{"format-version":"3"}}`),
		fails:   "reserved property format-version",
	},
	{
		name:    "set-properties codec",
		updates: fixed(`{"action":"set-properties","updates":{"write.metadata.compression-codec":"zstd"}}`),
		fails:   "use none or gzip",
	},
	{
		name:    "set-statistics replaces",
		updates: fixed(`{"action":"set-statistics","snapshot-id":12,"statistics":{"snapshot-id":12,"statistics-path":"s3://bucket/new","file-size-in-bytes":1,"file-footer-size-in-bytes":1}}`),
		want:    map[string]string{"statistics/#": "1", "statistics/0/statistics-path": `"s3://bucket/new"`, "statistics/0/blob-metadata": "[]"},
	},
	{
		name:    "set-statistics of two snapshots at once",
		updates: fixed(`{"action":"set-statistics","snapshot-id":11,"statistics":` + statisticsJSON(12) + `}`),
		fails:   "differs",
	},
	{
		name:    "remove-statistics",
		updates: fixed(`{"action":"remove-statistics","snapshot-id":12}`),
		want:    map[string]string{"statistics": "[]"},
	},
	{
		name:    "set-partition-statistics",
		updates: fixed(`{"action":"set-partition-statistics","partition-statistics":{"snapshot-id":13,"statistics-path":"s3://bucket/p","file-size-in-bytes":1}}`),
		want:    map[string]string{"partition-statistics/#": "2"},
	},
	{
		name:    "remove-partition-statistics",
		updates: fixed(`{"action":"remove-partition-statistics","snapshot-id":12}`),
		want:    map[string]string{"partition-statistics": "[]"},
	},
	{
		name: "remove-partition-specs",
		updates: fixed(`{"action":"add-spec","spec":{"fields":[{"source-id":1,"name":"x","transform":"bucket[4]"}]}}`,
			`{"action":"remove-partition-specs","spec-ids":[1]}`),
		want: map[string]string{"partition-specs/#": "1"},
	},
	{
		name:    "remove-partition-specs default",
		updates: fixed(`{"action":"remove-partition-specs","spec-ids":[0]}`),
		fails:   "default partition spec",
	},
	{
		name: "remove-schemas",
		updates: fixed(`{"action":"add-schema","schema":`+widerSchema+`}`,
			`{"action":"set-current-schema","schema-id":1}`, `{"action":"remove-schemas","schema-ids":[0]}`),
		want: map[string]string{"schemas/#": "1", "schemas/0/schema-id": "1", "last-column-id": "3"},
	},
	{
		name:    "remove-schemas current",
		updates: fixed(`{"action":"remove-schemas","schema-ids":[0]}`),
		fails:   "current schema",
	},
	{
		name:    "add-encryption-key",
		updates: fixed(`{"action":"add-encryption-key","encryption-key":{"key-id":"k","encrypted-key-metadata":"AAAA","encrypted-by-id":"m"}}`),
		want:    map[string]string{"encryption-keys/0/key-id": `"k"`, "encryption-keys/0/encrypted-by-id": `"m"`},
		since:   3,
	},
	{
		name: "remove-encryption-key",
		updates: fixed(`{"action":"add-encryption-key","encryption-key":{"key-id":"k","encrypted-key-metadata":"AAAA"}}`,
			`{"action":"remove-encryption-key","key-id":"k"}`),
		want:  map[string]string{"encryption-keys": "absent"},
		since: 3,
	},
	{name: "unknown action", updates: fixed(`{"action":"enable-row-lineage"}`), fails: `unknown action "enable-row-lineage"`},
	{name: "no action", updates: fixed(`{"uuid":"x"}`), fails: "action is required"},
	{name: "null update", updates: fixed(`null`), fails: "action is required"},
	{name: "wrong type", updates: fixed(`{"action":"set-location","location":{"a":1}}`), fails: "set-location: location must not be of type object"},
	{name: "missing field", updates: fixed(`{"action":"set-location"}`), fails: "set-location requires location"},
}

func fixed(updates ...string) func(int) []string {
	return func(int) []string { return updates }
}

func TestUpdates(t *testing.T) {
	t.Parallel()
	for _, version := range formats {
		base := tableWithHistory(t, version)
		for _, tc := range updateCases {
			t.Run(fmt.Sprintf("v%d %s", version, tc.name), func(t *testing.T) {
				t.Parallel()
				res, err := tryApply(base, tc.updates(version)...)
				if tc.fails != "" {
					wantInvalid(t, err, tc.fails)
					return
				}
				if version < tc.since {
					wantInvalid(t, err, "version")
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				wants(t, res.Table, tc.want)
				if res.Changed {
					wants(t, res.Table, map[string]string{"metadata-log/5/metadata-file": "absent", "metadata-log/4/metadata-file": `"s3://bucket/ns/t/metadata/00000-base.metadata.json"`})
				}
			})
		}
	}
}

// TestUpdatesAreAllTested keeps updateCases complete.
func TestUpdatesAreAllTested(t *testing.T) {
	t.Parallel()
	if len(actions) != 23 {
		t.Errorf("%d actions, the specification has 23", len(actions))
	}
	tested := make(map[string]bool)
	for _, tc := range updateCases {
		c, err := DecodeCommit(body("", tc.updates(2)...), Limits{})
		if err != nil {
			continue
		}
		for _, action := range c.replay.actions {
			tested[action] = true
		}
	}
	for _, action := range slices.Sorted(maps.Keys(actions)) {
		if !tested[action] {
			t.Errorf("%s is not tested", action)
		}
	}
}
