package metadata

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, body string
		want       map[string]string
		fails      string
	}{
		{
			name: "field ids are assigned anew",
			body: `{"name":"t","schema":` + testSchema + `,
				"partition-spec":{"spec-id":3,"fields":[{"source-id":9,"field-id":2000,"name":"d","transform":"day"}]},
				"write-order":{"order-id":9,"fields":[{"source-id":9,"transform":"identity","direction":"asc","null-order":"nulls-first"}]}}`,
			want: map[string]string{
				"format-version": "2", "table-uuid": `"` + testUUID + `"`, "location": `"` + testLocation + `"`,
				"schemas/0/schema-id": "0", "schemas/0/fields/1/id": "2", "schemas/0/identifier-field-ids": "[1]", "last-column-id": "2",
				"partition-specs/0/spec-id": "0", "partition-specs/0/fields/0/source-id": "2", "partition-specs/0/fields/0/field-id": "1000",
				"sort-orders/0/order-id": "1", "sort-orders/0/fields/0/source-id": "2", "default-sort-order-id": "1",
				"properties": `{"write.parquet.compression-codec":"zstd"}`, "last-sequence-number": "0",
			},
		},
		{
			name: "Spark counts columns from 0",
			body: `{"name":"t","schema":{"type":"struct","fields":[{"id":0,"name":"a","required":false,"type":"int"},{"id":1,"name":"b","required":false,"type":"int"}]},
				"partition-spec":{"fields":[{"source-id":0,"name":"a","transform":"identity"}]}}`,
			want: map[string]string{"partition-specs/0/fields/0/source-id": "1", "last-column-id": "2"},
		},
		{
			name: "reserved properties are not kept",
			body: `{"name":"t","schema":` + testSchema + `,"properties":{"format-version":"3","uuid":"x","snapshot-count":"9","write.parquet.compression-codec":"snappy"}}`,
			want: map[string]string{"format-version": "3", "properties": `{"write.parquet.compression-codec":"snappy"}`, "next-row-id": "0"},
		},
		{
			name: "version 1",
			body: `{"name":"t","schema":` + testSchema + `,"properties":{"format-version":"1"},"stage-create":true,"partition-spec":null,"write-order":null}`,
			want: map[string]string{"format-version": "1", "schema/fields/#": "2", "partition-spec": "[]", "current-snapshot-id": "-1"},
		},
		{name: "no name", body: `{"schema":` + testSchema + `}`, fails: "name is required"},
		{name: "no schema", body: `{"name":"t"}`, fails: "schema is required"},
		{name: "null schema", body: `{"name":"t","schema":null}`, fails: "schema is required"},
		{name: "version 9", body: `{"name":"t","schema":` + testSchema + `,"properties":{"format-version":"9"}}`, fails: "format version"},
		{name: "version x", body: `{"name":"t","schema":` + testSchema + `,"properties":{"format-version":"x"}}`, fails: "format version"},
		{name: "unknown type", body: `{"name":"t","schema":{"type":"struct","fields":[{"id":1,"name":"a","required":false,"type":"blob"}]}}`, fails: "unrecognized field type"},
		{name: "field without a type", body: `{"name":"t","schema":{"type":"struct","fields":[{"id":1,"name":"a","required":false}]}}`, fails: "create table request"},
		{name: "null field", body: `{"name":"t","schema":{"type":"struct","fields":[null]}}`, fails: "create table request"},
		{name: "two of one name", body: `{"name":"t","schema":` + strings.Replace(testSchema, `"ts"`, `"id"`, 1) + `}`, fails: "id"},
		{name: "v3 type in v2", body: `{"name":"t","schema":{"type":"struct","fields":[{"id":1,"name":"a","required":false,"type":"variant"}]}}`, fails: "variant"},
		{name: "partition of a missing column", body: `{"name":"t","schema":` + testSchema + `,"partition-spec":{"fields":[{"source-id":77,"name":"x","transform":"identity"}]}}`, fails: "77"},
		{name: "unknown codec", body: `{"name":"t","schema":` + testSchema + `,"properties":{"write.metadata.compression-codec":"zstd"}}`, fails: "use none or gzip"},
		{name: "too deep", body: `{"name":"t","schema":` + strings.Repeat(`{"type":`, 1000) + strings.Repeat(`}`, 1000) + `}`, fails: "nested deeper"},
		{name: "not an object", body: `7`, fails: "create table request"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			req, err := DecodeCreate([]byte(tc.body), Limits{})
			var made *Table
			if err == nil {
				made, err = req.Build(testLocation+"/", uuid.MustParse(testUUID))
			}
			if tc.fails != "" {
				wantInvalid(t, err, tc.fails)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wants(t, made, tc.want)
			if strings.Contains(tc.body, "stage-create") != req.Stage {
				t.Errorf("stage = %t", req.Stage)
			}
		})
	}
}
