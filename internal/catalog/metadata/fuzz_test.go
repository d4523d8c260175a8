package metadata

import (
	"bytes"
	"errors"
	"testing"

	"github.com/lethe-project/lethe/internal/fault"
)

// onlyFaults fails unless err is nil or blames the input.
func onlyFaults(t *testing.T, err error) {
	t.Helper()
	var f *fault.Error
	if err == nil {
		return
	}
	if !errors.As(err, &f) || (f.Kind != fault.Invalid && f.Kind != fault.Conflict) {
		t.Fatalf("unclassified error: %v", err)
	}
}

// FuzzCommit sends any body against tables of every format version.
func FuzzCommit(f *testing.F) {
	bases := make([]*Table, len(formats))
	for i, version := range formats {
		bases[i] = tableWithHistory(f, version)
		for _, tc := range updateCases {
			f.Add(body("", tc.updates(version)...))
		}
	}
	f.Add(body(`{"type":"assert-create"}`, createUpdates, `{"action":"set-location","location":"s3://b/t"}`))
	f.Add(body(`{"type":"assert-ref-snapshot-id","ref":"main","snapshot-id":13},{"type":"assert-table-uuid","uuid":"` + testUUID + `"}`))
	f.Add(body(`{"type":"assert-current-schema-id","current-schema-id":0}`, `{"action":"add-schema","schema":{"type":"struct","fields":[null]}}`))
	f.Add(body("", `{"action":"add-spec","spec":{"fields":[null]}}`, `{"action":"add-sort-order","sort-order":{"order-id":1,"fields":[null]}}`))
	limits := Limits{MaxBytes: 1 << 20}
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := DecodeCommit(body, limits)
		if err != nil {
			onlyFaults(t, err)
			return
		}
		onlyFaults(t, c.Check(nil))
		made, err := c.Build()
		onlyFaults(t, err)
		if err == nil {
			readsBack(t, made)
		}
		for _, base := range bases {
			before := bytes.Clone(base.JSON())
			onlyFaults(t, c.Check(base))
			res, err := c.Apply(base, "s3://bucket/ns/t/metadata/00007-x.metadata.json")
			onlyFaults(t, err)
			if !bytes.Equal(before, base.JSON()) {
				t.Fatal("the base changed")
			}
			if err == nil && res.Changed {
				readsBack(t, res.Table)
			}
		}
	})
}

// FuzzParse reads any file and goes on with what was accepted.
func FuzzParse(f *testing.F) {
	for _, tc := range hostile {
		if len(tc.doc) < 1<<16 {
			f.Add([]byte(tc.doc))
		}
	}
	for _, version := range formats {
		f.Add(emptyTable(f, version).JSON())
		f.Add(tableWithHistory(f, version).JSON())
		f.Add(tableWithHistory(f, version).RefsOnlyJSON())
		f.Add([]byte(minimal(version, `"properties":{"a":"b"}`)))
		f.Add([]byte(minimal(version, `"next-row-id":0`)))
		f.Add([]byte(minimal(version, `"statistics":[`+statisticsJSON(5)+`]`)))
	}
	f.Add(zipped)
	next := decodeCommit(f, body("", `{"action":"set-properties","updates":{"k":"v"}}`, `{"action":"remove-snapshots","snapshot-ids":[11,12,13]}`))
	limits := Limits{MaxBytes: 1 << 20}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Parse(data, limits)
		if err != nil {
			onlyFaults(t, err)
			return
		}
		if _, err := Parse(got.RefsOnlyJSON(), limits); err != nil {
			t.Fatalf("refs only: %v", err)
		}
		_, _, _, _ = got.UUID(), got.Locations(), got.MetadataDir(), got.PreviousFiles()
		_, err = got.Encode()
		onlyFaults(t, err)
		res, err := next.Apply(got, "s3://x")
		onlyFaults(t, err)
		if err == nil {
			readsBack(t, res.Table)
		}
	})
}

// readsBack fails unless the table's own file can be parsed and is the same.
func readsBack(t *testing.T, made *Table) {
	t.Helper()
	file, err := made.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse(file, Limits{})
	if err != nil {
		t.Fatalf("cannot read back: %v\n%s", err, made.JSON())
	}
	if !bytes.Equal(back.JSON(), made.JSON()) {
		t.Fatal("the document differs")
	}
}
