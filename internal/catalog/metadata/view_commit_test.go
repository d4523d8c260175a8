package metadata

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/fault"
)

const allowDrop = `"replace.drop-dialect.allowed":"true"`

// viewUpdateCases has each action of the specification at least once. They are applied
// to viewWithHistory.
var viewUpdateCases = []struct {
	name    string
	updates []string
	want    map[string]string
	same    bool   // nothing changes
	fails   string // text of the error
}{
	{name: "nothing", same: true},
	{name: "assign-uuid same", updates: []string{`{"action":"assign-uuid","uuid":"` + testUUID + `"}`}, same: true},
	{
		name:    "assign-uuid other",
		updates: []string{`{"action":"assign-uuid","uuid":"00000000-0000-0000-0000-0000000000ff"}`},
		fails:   "uuid of an existing view cannot be changed",
	},
	{name: "upgrade-format-version same", updates: []string{`{"action":"upgrade-format-version","format-version":1}`}, same: true},
	{name: "upgrade-format-version unknown", updates: []string{`{"action":"upgrade-format-version","format-version":2}`}, fails: "unsupported format version 2"},
	{name: "upgrade-format-version down", updates: []string{`{"action":"upgrade-format-version","format-version":0}`}, fails: "downgrading"},
	{
		name:    "set-location",
		updates: []string{`{"action":"set-location","location":"s3://bucket/new/"}`},
		want:    map[string]string{"location": `"s3://bucket/new"`, "versions/#": "2", "version-log/#": "2"},
	},
	{name: "set-location same", updates: []string{`{"action":"set-location","location":"` + viewLocation + `/"}`}, same: true},
	{name: "set-location empty", updates: []string{`{"action":"set-location","location":"/"}`}, want: map[string]string{"location": `"/"`}},
	{name: "set-location nowhere", updates: []string{`{"action":"set-location","location":""}`}, fails: "location is empty"},
	{
		name:    "set-properties",
		updates: []string{setViewProperties(`"a":"1"`, `"b":"2"`), setViewProperties(`"a":"3"`)},
		want:    map[string]string{"properties": `{"a":"3","b":"2"}`, "version-log/#": "2"},
	},
	{name: "set-properties by the old name", updates: []string{`{"action":"set-properties","updated":{"a":"1"}}`}, want: map[string]string{"properties/a": `"1"`}},
	{name: "set-properties empty", updates: []string{setViewProperties()}, same: true},
	{name: "set-properties null", updates: []string{setViewProperties(`"a":null`)}, fails: `"a" is null`},
	{name: "set-properties codec", updates: []string{setViewProperties(`"write.metadata.compression-codec":"zstd"`)}, fails: "use none or gzip"},
	{name: "set-properties history", updates: []string{setViewProperties(`"version.history.num-entries":"-1"`)}, fails: "must be positive"},
	{name: "set-properties dialects", updates: []string{setViewProperties(allowDrop, `"replace.append-dialect.allowed":"true"`)}, fails: "must not both"},
	{
		name:    "remove-properties",
		updates: []string{setViewProperties(`"a":"1"`, `"b":"2"`), `{"action":"remove-properties","removals":["a","none"]}`},
		want:    map[string]string{"properties": `{"b":"2"}`},
	},
	{name: "remove-properties without any", updates: []string{`{"action":"remove-properties"}`}, fails: "removals is required"},
	{
		name:    "add-schema",
		updates: []string{schemaUpdate(testSchema)},
		want:    map[string]string{"schemas/#": "3", "schemas/2/schema-id": "2", "current-version-id": "2", "versions/#": "2"},
	},
	{name: "add-schema same", updates: []string{schemaUpdate(viewSchema)}, same: true},
	{name: "add-schema twice", updates: []string{schemaUpdate(testSchema), schemaUpdate(testSchema)}, want: map[string]string{"schemas/#": "3"}},
	{name: "add-schema with two columns of one name", updates: []string{schemaUpdate(strings.Replace(otherSchema, `"n"`, `"id"`, 1))}, fails: "id"},
	{
		name:    "add-view-version",
		updates: []string{addVersionJSON(3, 0, "spark: select 4")},
		want: map[string]string{
			"versions/#": "3", "versions/2/version-id": "3", "versions/2/schema-id": "0", "current-version-id": "2", "version-log/#": "2",
		},
	},
	{
		name:    "add-view-version of a new schema made current",
		updates: []string{schemaUpdate(testSchema), addVersionJSON(3, -1, "spark: select 4", "trino: select 4"), setCurrentJSON(-1)},
		want: map[string]string{
			"schemas/#": "3", "versions/2/schema-id": "2", "current-version-id": "3",
			"version-log/2": `{"timestamp-ms":1700000000003,"version-id":3}`,
		},
	},
	{
		name:    "add-view-version of a schema that was there",
		updates: []string{schemaUpdate(viewSchema), addVersionJSON(3, -1, "spark: select 4")},
		want:    map[string]string{"schemas/#": "2", "versions/2/schema-id": "0"},
	},
	{name: "add-view-version of an unknown schema", updates: []string{addVersionJSON(3, 9, "spark: select 4")}, fails: "unknown schema: 9"},
	{name: "add-view-version of the last schema without one", updates: []string{addVersionJSON(3, -1, "spark: select 4")}, fails: "adds no schema"},
	{name: "add-view-version with a taken id", updates: []string{addVersionJSON(1, 0, "spark: select 4")}, want: map[string]string{"versions/2/version-id": "3"}},
	{name: "add-view-version with a negative id", updates: []string{addVersionJSON(-5, 0, "spark: select 4")}, want: map[string]string{"versions/2/version-id": "3"}},
	{name: "add-view-version with a higher id", updates: []string{addVersionJSON(9, 0, "spark: select 4")}, want: map[string]string{"versions/2/version-id": "9"}},
	{
		name:    "add-view-version after the highest id",
		updates: []string{addVersionJSON(2147483647, 0, "spark: select 4"), addVersionJSON(1, 0, "spark: select 5")},
		fails:   "version-id must not be",
	},
	{name: "add-view-version same", updates: []string{addVersionJSON(9, 0, "spark: select 1")}, same: true},
	{
		name:    "add-view-version twice",
		updates: []string{addVersionJSON(3, 0, "spark: select 4"), addVersionJSON(4, 0, "spark: select 4")},
		want:    map[string]string{"versions/#": "3"},
	},
	{name: "add-view-version in other order is another", updates: []string{addVersionJSON(3, 1, "trino: select 3", "spark: select 2")}, want: map[string]string{"versions/#": "3"}},
	{
		name:    "add-view-version of another default catalog is another",
		updates: []string{strings.Replace(addVersionJSON(3, 0, "spark: select 1"), `"summary"`, `"default-catalog":"c","summary"`, 1)},
		want:    map[string]string{"versions/#": "3", "versions/2/default-catalog": `"c"`},
	},
	{
		name:    "add-view-version of another default namespace is another",
		updates: []string{strings.Replace(addVersionJSON(3, 0, "spark: select 1"), `["ns"]`, `["ns.x","y"]`, 1)},
		want:    map[string]string{"versions/#": "3", "versions/2/default-namespace": `["ns.x","y"]`},
	},
	{name: "add-view-version of an upper case type", updates: []string{strings.Replace(addVersionJSON(3, 0, "spark: select 1"), `"type":"sql"`, `"type":"SQL"`, 1)}, same: true},
	{name: "add-view-version without a query", updates: []string{addVersionJSON(3, 0)}, fails: "no representations"},
	{name: "add-view-version with two queries for a dialect", updates: []string{addVersionJSON(3, 0, "trino: a", "Trino: b")}, fails: "multiple queries for dialect"},
	{name: "add-view-version of another type", updates: []string{strings.Replace(addVersionJSON(3, 0, "a: b"), `"type":"sql"`, `"type":"x"`, 1)}, fails: "of type sql"},
	{name: "add-view-version without a version", updates: []string{`{"action":"add-view-version"}`}, fails: "requires view-version"},
	{name: "add-view-version of an empty one", updates: []string{`{"action":"add-view-version","view-version":{}}`}, fails: "requires version-id"},
	{
		name:    "set-current-view-version back",
		updates: []string{setViewProperties(allowDrop), setCurrentJSON(1)},
		want:    map[string]string{"current-version-id": "1", "versions/#": "2", "version-log/#": "3", "version-log/2/version-id": "1"},
	},
	{name: "set-current-view-version same", updates: []string{setCurrentJSON(2)}, same: true},
	{
		name:    "set-current-view-version of one that is added again",
		updates: []string{setViewProperties(allowDrop), addVersionJSON(9, 0, "spark: select 1"), setCurrentJSON(-1)},
		want:    map[string]string{"current-version-id": "1", "versions/#": "2"},
	},
	{name: "set-current-view-version of the current one added again", updates: []string{addVersionJSON(9, 1, "spark: select 2", "trino: select 3"), setCurrentJSON(-1)}, same: true},
	{name: "set-current-view-version of the last without one", updates: []string{setCurrentJSON(-1)}, fails: "adds no view version"},
	{name: "set-current-view-version unknown", updates: []string{setCurrentJSON(9)}, fails: "unknown version with id 9"},
	{name: "set-current-view-version without id", updates: []string{`{"action":"set-current-view-version","view-version-id":null}`}, fails: "requires view-version-id"},
	{name: "a dialect is dropped", updates: []string{addVersionJSON(3, 0, "spark: select 4"), setCurrentJSON(-1)}, fails: "replace.drop-dialect.allowed=false"},
	{name: "a dialect is dropped by going back", updates: []string{setCurrentJSON(1)}, fails: "replace.drop-dialect.allowed=false"},
	{
		name:    "a dialect may be dropped since this commit",
		updates: []string{addVersionJSON(3, 0, "spark: select 4"), setCurrentJSON(-1), setViewProperties(allowDrop)},
		want:    map[string]string{"current-version-id": "3"},
	},
	{
		name:    "dialects are kept in another case",
		updates: []string{addVersionJSON(3, 0, "SPARK: select 4", "Trino: select 5"), setCurrentJSON(-1)},
		want:    map[string]string{"current-version-id": "3", "versions/2/representations/0/dialect": `"SPARK"`},
	},
	{name: "an action of tables", updates: []string{`{"action":"set-current-schema","schema-id":0}`}, fails: `unknown action "set-current-schema"`},
	{name: "no action", updates: []string{`{"uuid":"x"}`}, fails: "action is required"},
	{name: "null update", updates: []string{`null`}, fails: "action is required"},
}

func TestViewUpdates(t *testing.T) {
	t.Parallel()
	base := viewWithHistory(t)
	before := bytes.Clone(base.JSON())
	t.Cleanup(func() {
		if !bytes.Equal(before, base.JSON()) {
			t.Error("the base changed")
		}
	})
	for _, tc := range viewUpdateCases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			res, err := tryApplyView(base, tc.updates...)
			if tc.fails != "" {
				wantInvalid(t, err, tc.fails)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if res.Changed == tc.same || tc.same != (res.View == base) {
				t.Errorf("changed = %t", res.Changed)
			}
			wants(t, res.View, tc.want)
			viewReadsBack(t, res.View)
		})
	}
}

// TestViewUpdatesAreAllTested keeps viewUpdateCases complete.
func TestViewUpdatesAreAllTested(t *testing.T) {
	t.Parallel()
	if len(viewActions) != 8 {
		t.Errorf("%d actions, the specification has 8", len(viewActions))
	}
	tested := make(map[string]bool)
	for _, tc := range viewUpdateCases {
		if c, err := DecodeViewCommit(body("", tc.updates...), Limits{}); err == nil && tc.fails == "" {
			for _, action := range c.replay.actions {
				tested[action] = true
			}
		}
	}
	for _, action := range slices.Sorted(maps.Keys(viewActions)) {
		if !tested[action] {
			t.Errorf("%s is not tested", action)
		}
	}
}

// TestViewHistoryIsTrimmed replaces a view many times.
func TestViewHistoryIsTrimmed(t *testing.T) {
	t.Parallel()
	grow := func(t *testing.T, v *View, from, to int) *View {
		t.Helper()
		for i := from; i <= to; i++ {
			v = mustApplyView(t, v, addVersionJSON(i, 0, "spark: select "+strconv.Itoa(i)), setCurrentJSON(-1))
		}
		return v
	}
	cases := []struct {
		name string
		make func(t *testing.T) *View
		want map[string]string
	}{
		{
			name: "ten are kept",
			make: func(t *testing.T) *View { t.Helper(); return grow(t, newView(t), 2, 13) },
			want: map[string]string{
				"versions/#": "10", "version-log/#": "10", "current-version-id": "13",
				"versions/0/version-id": "13", "versions/9/version-id": "4", "version-log/0/version-id": "4", "version-log/9/version-id": "13",
			},
		},
		{
			name: "as many as the property says",
			make: func(t *testing.T) *View {
				t.Helper()
				return grow(t, newView(t, `"version.history.num-entries":"2"`), 2, 5)
			},
			want: map[string]string{"versions/#": "2", "version-log/#": "2", "versions/1/version-id": "4", "version-log/0/version-id": "4"},
		},
		{
			name: "the current one is kept however old",
			make: func(t *testing.T) *View {
				t.Helper()
				v := mustApplyView(t, grow(t, newView(t), 2, 4), setCurrentJSON(1))
				return mustApplyView(t, v, setViewProperties(`"version.history.num-entries":"2"`))
			},
			want: map[string]string{
				"versions/#": "2", "current-version-id": "1", "versions/0/version-id": "1", "versions/1/version-id": "4",
				"version-log/#": "2", "version-log/0/version-id": "4", "version-log/1/version-id": "1",
			},
		},
		{
			name: "all of one commit are kept",
			make: func(t *testing.T) *View {
				t.Helper()
				return mustApplyView(t, newView(t, `"version.history.num-entries":"1"`), addVersionJSON(2, 0, "spark: a"), addVersionJSON(3, 0, "spark: b"),
					addVersionJSON(4, 0, "spark: c"), setCurrentJSON(3))
			},
			want: map[string]string{"versions/#": "3", "versions/0/version-id": "3", "versions/2/version-id": "2", "current-version-id": "3"},
		},
		{
			name: "what was trimmed can come again",
			make: func(t *testing.T) *View {
				t.Helper()
				v := grow(t, newView(t, `"version.history.num-entries":"1"`), 2, 2)
				return mustApplyView(t, v, addVersionJSON(1, 0, "spark: select 1"), setCurrentJSON(-1))
			},
			want: map[string]string{"versions/#": "1", "versions/0/version-id": "3", "current-version-id": "3", "version-log/#": "1"},
		},
		{
			name: "a log entry of an unknown version ends the older log",
			make: func(t *testing.T) *View {
				t.Helper()
				return mustApplyView(t, grow(t, newView(t, `"version.history.num-entries":"2"`), 2, 2), setCurrentJSON(1), setCurrentJSON(2),
					addVersionJSON(3, 0, "spark: x"), setCurrentJSON(3))
			},
			want: map[string]string{"versions/#": "2", "version-log/0/version-id": "2", "version-log/1/version-id": "3"},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := tc.make(t)
			wants(t, got, tc.want)
			viewReadsBack(t, got)
		})
	}
}

// TestViewCommitOnNewerBase is a lost compare-and-swap: the same commit again.
func TestViewCommitOnNewerBase(t *testing.T) {
	t.Parallel()
	base := newView(t, allowDrop)
	one := decodeViewCommit(t, body("", schemaUpdate(otherSchema), addVersionJSON(2, -1, "trino: select 7"), setCurrentJSON(-1)))
	two := decodeViewCommit(t, body("", addVersionJSON(2, 0, "spark: select 8"), setCurrentJSON(-1)))
	first, err := one.Apply(base)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.Apply(base); err != nil {
		t.Fatal(err)
	}
	both, err := two.Apply(first.View)
	if err != nil {
		t.Fatal(err)
	}
	wants(t, both.View, map[string]string{
		"current-version-id": "3", "versions/#": "3", "versions/1/schema-id": "1", "versions/2/version-id": "3", "versions/2/schema-id": "0",
	})
	again, err := two.Apply(both.View)
	if err != nil || again.Changed {
		t.Errorf("applied twice: %v, changed", err)
	}
	// Another client made the same schema and version meanwhile: both are reused.
	back, err := one.Apply(both.View)
	if err != nil {
		t.Fatal(err)
	}
	wants(t, back.View, map[string]string{"schemas/#": "2", "versions/#": "3", "current-version-id": "2", "version-log/#": "4"})
}

func TestViewRequirements(t *testing.T) {
	t.Parallel()
	v := newView(t)
	same := decodeViewCommit(t, body(`{"type":"assert-view-uuid","uuid":"`+testUUID+`"}`))
	if err := same.Check(v); err != nil {
		t.Error(err)
	}
	wantFault(t, same.Check(nil), fault.Conflict, CommitFailed, "does not exist")
	other := decodeViewCommit(t, body(`{"type":"assert-view-uuid","uuid":"00000000-0000-0000-0000-0000000000ff"}`))
	wantFault(t, other.Check(v), fault.Conflict, CommitFailed, "Requirement failed: view UUID does not match: expected")
	if err := decodeViewCommit(t, []byte(`{}`)).Check(nil); err != nil {
		t.Error(err)
	}
	for name, requirement := range map[string]string{
		"of tables":    `{"type":"assert-table-uuid","uuid":"` + testUUID + `"}`,
		"create":       `{"type":"assert-create"}`,
		"without uuid": `{"type":"assert-view-uuid"}`,
		"not a uuid":   `{"type":"assert-view-uuid","uuid":"x"}`,
		"null":         `null`,
		"no type":      `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := DecodeViewCommit(body(requirement), Limits{})
			wantFault(t, err, fault.Invalid, "", "commit view request")
		})
	}
}

func TestDecodeViewCommitLimits(t *testing.T) {
	t.Parallel()
	_, err := DecodeViewCommit([]byte(`{"updates":`+strings.Repeat(`[`, 1000)), Limits{})
	wantFault(t, err, fault.Invalid, "", "nested deeper")
	_, err = DecodeViewCommit(body("", setCurrentJSON(1)), Limits{MaxBytes: 10})
	wantFault(t, err, fault.Invalid, "", "more than the limit of 10")
	many := slices.Repeat([]string{setCurrentJSON(1)}, maxViewUpdates+1)
	_, err = DecodeViewCommit(body("", many...), Limits{})
	wantFault(t, err, fault.Invalid, "", "more than the limit")
}

func TestViewCommitChangesLocation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		update string
		want   bool
	}{
		"location":      {`{"action":"set-location","location":"s3://b/x"}`, true},
		"metadata path": {setViewProperties(`"write.metadata.path":"s3://b/x"`), true},
		"removed path":  {`{"action":"remove-properties","removals":["write.metadata.path"]}`, true},
		"other":         {setViewProperties(`"a":"b"`), false},
		"version":       {setCurrentJSON(1), false},
	} {
		if got := decodeViewCommit(t, body("", tc.update)).ChangesLocation(); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
