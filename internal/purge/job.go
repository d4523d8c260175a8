package purge

import (
	"encoding/json"

	"github.com/lethe-project/lethe/internal/job"
)

// ObjectType is what was dropped.
type ObjectType string

// The object types.
const (
	Table ObjectType = "TABLE"
	View  ObjectType = "VIEW"
)

// Job is one dropped table or view as its row describes it.
type Job struct {
	ID               job.ID
	Tenant           string // metalake_name
	WarehouseID      int64
	Warehouse        string // catalog_name
	Namespace        string // JSON array of levels
	Name             string // table_name
	Type             ObjectType
	UUID             string
	UUIDKey          string // the uuid, or the metadata file's hash where v1 has none
	TableLocation    string
	Locations        []string // what it owned when it was dropped, cleaned
	MetadataLocation string
	MetadataHash     string
	Files            []string // more files to delete, before the metadata file: a view's older metadata
	FileIOImpl       string
	FileIOProps      json.RawMessage // endpoint, region, credential id; never a secret
	AcceptMissing    bool
	Phase            string
	Cursor           string
	Progress         json.RawMessage
	Epoch            int64  // of the lease under which it runs
	CreatedBy        string // the principal that dropped it
	RequestID        string // of the drop
	Async            bool   // the drop did not wait for the purge
}
