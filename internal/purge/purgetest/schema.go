package purgetest

import (
	"fmt"

	"github.com/twmb/avro"
)

// Status of a manifest entry.
const (
	existing = 0
	added    = 1
	deleted  = 2
)

// Content kind of a file.
const (
	dataFile     = 0
	positionFile = 1
	equalityFile = 2
)

type entry struct {
	Status   int32  `avro:"status"`
	Snapshot *int64 `avro:"snapshot_id"`
	Sequence *int64 `avro:"sequence_number"`
	File     file   `avro:"data_file"`
}

type file struct {
	Content   int32     `avro:"content"`
	Path      string    `avro:"file_path"`
	Format    string    `avro:"file_format"`
	Partition partition `avro:"partition"`
	Records   int64     `avro:"record_count"`
	Size      int64     `avro:"file_size_in_bytes"`
	Sizes     *[]kv     `avro:"column_sizes"`
	Key       *[]byte   `avro:"key_metadata"`
}

type partition struct {
	Day *int32 `avro:"order date-day"`
}

type kv struct {
	Key   int32 `avro:"key"`
	Value int64 `avro:"value"`
}

// manifestSchema is what a writer of the format version puts into a manifest, the
// fields that a purge has no use for thinned out. Partition names are not masked.
func manifestSchema(version int) *avro.Schema {
	content := `{"name":"content","type":"int","field-id":134},`
	sequence := `{"name":"sequence_number","type":["null","long"],"default":null,"field-id":3},`
	if version == 1 {
		content, sequence = "", ""
	}
	return mustParse(fmt.Sprintf(`{"type":"record","name":"manifest_entry","fields":[
		{"name":"status","type":"int","field-id":0},
		{"name":"snapshot_id","type":["null","long"],"default":null,"field-id":1},%s
		{"name":"data_file","field-id":2,"type":{"type":"record","name":"r2","fields":[%s
			{"name":"file_path","type":"string","field-id":100},
			{"name":"file_format","type":"string","field-id":101},
			{"name":"partition","field-id":102,"type":{"type":"record","name":"r102","fields":[
				{"name":"order date-day","type":["null",{"type":"int","logicalType":"date"}],"default":null,"field-id":1000}]}},
			{"name":"record_count","type":"long","field-id":103},
			{"name":"file_size_in_bytes","type":"long","field-id":104},
			{"name":"column_sizes","field-id":108,"default":null,"type":["null",{"type":"array","logicalType":"map","items":
				{"type":"record","name":"k117_v118","fields":[
					{"name":"key","type":"int","field-id":117},{"name":"value","type":"long","field-id":118}]}}]},
			{"name":"key_metadata","type":["null","bytes"],"default":null,"field-id":131}]}}]}`, sequence, content))
}

type listEntry struct {
	Path     string  `avro:"manifest_path"`
	Length   int64   `avro:"manifest_length"`
	Spec     int32   `avro:"partition_spec_id"`
	Content  int32   `avro:"content"`
	Snapshot *int64  `avro:"added_snapshot_id"`
	Added    *int32  `avro:"added_files_count"`
	Existing *int32  `avro:"existing_files_count"`
	Deleted  *int32  `avro:"deleted_files_count"`
	Key      *[]byte `avro:"key_metadata"`
}

func listSchema(version int) *avro.Schema {
	content := `{"name":"content","type":"int","field-id":517},`
	if version == 1 {
		content = ""
	}
	return mustParse(fmt.Sprintf(`{"type":"record","name":"manifest_file","fields":[
		{"name":"manifest_path","type":"string","field-id":500},
		{"name":"manifest_length","type":"long","field-id":501},
		{"name":"partition_spec_id","type":"int","field-id":502},%s
		{"name":"added_snapshot_id","type":["null","long"],"default":null,"field-id":503},
		{"name":"added_files_count","type":["null","int"],"default":null,"field-id":504},
		{"name":"existing_files_count","type":["null","int"],"default":null,"field-id":505},
		{"name":"deleted_files_count","type":["null","int"],"default":null,"field-id":506},
		{"name":"key_metadata","type":["null","bytes"],"default":null,"field-id":519}]}`, content))
}

func mustParse(schema string) *avro.Schema {
	return avro.MustParse(schema, avro.WithLaxNames(nil))
}
