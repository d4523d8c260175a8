package metadata

import (
	"fmt"
	"testing"

	"github.com/lethe-project/lethe/internal/fault"
)

func TestRequirements(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, requirement string
		fails             string // text of the conflict with tableWithHistory, empty if it holds
	}{
		{"assert-create", `{"type":"assert-create"}`, "Requirement failed: table already exists"},
		{"assert-table-uuid", `{"type":"assert-table-uuid","uuid":"` + testUUID + `"}`, ""},
		{"assert-table-uuid other", `{"type":"assert-table-uuid","uuid":"00000000-0000-0000-0000-0000000000ff"}`, "Requirement failed: UUID does not match: expected"},
		{"assert-ref-snapshot-id", `{"type":"assert-ref-snapshot-id","ref":"main","snapshot-id":13}`, ""},
		{"assert-ref-snapshot-id moved", `{"type":"assert-ref-snapshot-id","ref":"main","snapshot-id":12}`, "has changed"},
		{"assert-ref-snapshot-id absent", `{"type":"assert-ref-snapshot-id","ref":"none","snapshot-id":null}`, ""},
		{"assert-ref-snapshot-id missing", `{"type":"assert-ref-snapshot-id","ref":"none","snapshot-id":1}`, "is missing"},
		{"assert-ref-snapshot-id created", `{"type":"assert-ref-snapshot-id","ref":"first","snapshot-id":null}`, "created concurrently"},
		{"assert-last-assigned-field-id", `{"type":"assert-last-assigned-field-id","last-assigned-field-id":2}`, ""},
		{"assert-last-assigned-field-id other", `{"type":"assert-last-assigned-field-id","last-assigned-field-id":3}`, "Requirement failed: last assigned field id changed: expected 3, found 2"},
		{"assert-current-schema-id", `{"type":"assert-current-schema-id","current-schema-id":0}`, ""},
		{"assert-current-schema-id other", `{"type":"assert-current-schema-id","current-schema-id":1}`, "Requirement failed: current schema changed: expected 1, found 0"},
		{"assert-last-assigned-partition-id", `{"type":"assert-last-assigned-partition-id","last-assigned-partition-id":999}`, ""},
		{"assert-last-assigned-partition-id other", `{"type":"assert-last-assigned-partition-id","last-assigned-partition-id":1}`, "Requirement failed: last assigned partition id changed: expected 1, found 999"},
		{"assert-default-spec-id", `{"type":"assert-default-spec-id","default-spec-id":0}`, ""},
		{"assert-default-spec-id other", `{"type":"assert-default-spec-id","default-spec-id":1}`, "Requirement failed: default partition spec changed: expected 1, found 0"},
		{"assert-default-sort-order-id", `{"type":"assert-default-sort-order-id","default-sort-order-id":0}`, ""},
		{"assert-default-sort-order-id other", `{"type":"assert-default-sort-order-id","default-sort-order-id":1}`, "Requirement failed: default sort order changed: expected 1, found 0"},
	}
	for _, version := range formats {
		base := tableWithHistory(t, version)
		for _, tc := range cases {
			t.Run(fmt.Sprintf("v%d %s", version, tc.name), func(t *testing.T) {
				t.Parallel()
				c := decodeCommit(t, body(tc.requirement))
				if err := c.Check(base); tc.fails != "" {
					wantFault(t, err, fault.Conflict, CommitFailed, tc.fails)
				} else if err != nil {
					t.Error(err)
				}
				// Against no table all but assert-create fail.
				if err := c.Check(nil); tc.name == "assert-create" {
					if err != nil {
						t.Error(err)
					}
				} else {
					wantFault(t, err, fault.Conflict, CommitFailed, "does not exist")
				}
			})
		}
	}
}

func TestRequirementsMalformed(t *testing.T) {
	t.Parallel()
	for name, requirement := range map[string]string{
		"unknown":      `{"type":"assert-moon-phase"}`,
		"null":         `null`,
		"no type":      `{}`,
		"no uuid":      `{"type":"assert-table-uuid"}`,
		"no snapshot":  `{"type":"assert-ref-snapshot-id","ref":"main"}`,
		"wrong number": `{"type":"assert-default-spec-id","default-spec-id":"x"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := DecodeCommit(body(requirement), Limits{})
			wantFault(t, err, fault.Invalid, "", "commit request")
		})
	}
}
