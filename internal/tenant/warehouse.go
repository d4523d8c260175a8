package tenant

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/lethe-project/lethe/internal/blob"
)

// Warehouse is one Iceberg catalog of a tenant, with its storage open. It is immutable:
// after a change the Directory returns another one.
type Warehouse struct {
	ID         WarehouseID
	Tenant     ID
	TenantName string // the metalake of Gravitino-style paths
	Name       string // the catalog of Gravitino-style paths, and the REST prefix
	RootURI    string // as it was given, the base of default locations
	Space      *blob.Space
	// ClientConfig are the properties that a client's FileIO needs to reach the files of
	// the root. It holds no secret.
	ClientConfig map[string]string
	// TableDefaults and TableOverrides are properties of new tables, handed to clients.
	TableDefaults, TableOverrides map[string]string
	Closing                       bool // it is being dropped: nothing new is made in it

	credentials int64                    // key of warehouse_credentials, 0 without
	markers     map[blob.Location]string // of the roots that can be away
}

// FileIO says how a client reads the warehouse's files, for rows that outlive it: the
// class of Iceberg's Java library, and its properties with the key of the credentials.
// There is no secret in it.
func (w *Warehouse) FileIO() (impl string, properties json.RawMessage) {
	if w.ClientConfig == nil {
		return "", json.RawMessage("{}")
	}
	all := maps.Clone(w.ClientConfig)
	if w.credentials != 0 {
		all["credentials-id"] = strconv.FormatInt(w.credentials, 10)
	}
	properties, _ = json.Marshal(all) // strings always can be encoded
	return "org.apache.iceberg.aws.s3.S3FileIO", properties
}

// StorageSpec says where a warehouse's tables live.
type StorageSpec struct {
	URL              string   `json:"url"`                        // s3://bucket/prefix or file:///directory
	Endpoint         string   `json:"endpoint,omitempty"`         // of S3; empty is AWS
	Region           string   `json:"region,omitempty"`           // of S3
	PathStyle        *bool    `json:"pathStyle,omitempty"`        // of S3; nil means with an endpoint only
	AllowedLocations []string `json:"allowedLocations,omitempty"` // more places, in the same kind of store, reached alike
}

// Type is the kind of store: s3 or file.
func (s StorageSpec) Type() string {
	l, err := blob.ParseLocation(s.URL)
	if err != nil {
		return ""
	}
	scheme, _, _ := strings.Cut(string(l), "://")
	return scheme
}

// Spec describes a new warehouse.
type Spec struct {
	Name           string
	Storage        StorageSpec
	Credentials    Credentials // the zero value is the default chain
	TableDefaults  map[string]string
	TableOverrides map[string]string
}

// Change of a warehouse; nil fields stay as they are.
type Change struct {
	URL              *string // must be the one it has
	Endpoint         *string
	Region           *string
	PathStyle        *bool
	AllowedLocations *[]string
	Credentials      *Credentials
	TableDefaults    *map[string]string
	TableOverrides   *map[string]string
}

// storage reports whether the change is one of storage.
func (c Change) storage() bool {
	return c.Endpoint != nil || c.Region != nil || c.PathStyle != nil || c.AllowedLocations != nil
}

// Info is a warehouse for people. It holds no secret.
type Info struct {
	Name           string
	Storage        StorageSpec
	Credentials    Shown
	TableDefaults  map[string]string
	TableOverrides map[string]string
	CreatedAt      int64 // milliseconds since the Unix epoch
	UpdatedAt      int64
	Version        int64 // counts the changes, from 1
	Closing        bool  // it is being dropped
}
