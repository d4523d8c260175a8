package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// WarehouseInfo is a warehouse as the server shows it: of its credentials, only the type
// and the end of the access key's id.
type WarehouseInfo struct {
	Name           string            `json:"name"`
	Storage        WarehouseStorage  `json:"storage"`
	Credentials    ShownCredentials  `json:"credentials"`
	TableDefaults  map[string]string `json:"tableDefaults"`
	TableOverrides map[string]string `json:"tableOverrides"`
	CreatedAt      time.Time         `json:"createdAt"`
	UpdatedAt      time.Time         `json:"updatedAt"`
	Version        int64             `json:"version"` // counts the changes
	Closing        bool              `json:"closing"` // it is being dropped with everything in it
}

// WarehouseStorage says where tables live.
type WarehouseStorage struct {
	Type             string   `json:"type,omitempty"` // s3 or file; the URL tells
	URL              string   `json:"url"`            // s3://bucket/prefix or file:///directory
	Endpoint         string   `json:"endpoint,omitempty"`
	Region           string   `json:"region,omitempty"`
	PathStyle        *bool    `json:"pathStyle,omitempty"` // nil means with an endpoint only
	AllowedLocations []string `json:"allowedLocations,omitempty"`
}

// ShownCredentials is what is shown of credentials.
type ShownCredentials struct {
	Type        string `json:"type"`
	AccessKeyID string `json:"accessKeyId,omitempty"` // its last characters
}

// StorageCredentials are those with which the server uses a warehouse's storage. They are
// only ever sent, never answered.
type StorageCredentials struct {
	Type            string `json:"type"` // default, static or assume-role
	AccessKeyID     string `json:"accessKeyId,omitempty"`
	SecretAccessKey string `json:"secretAccessKey,omitempty"`
	SessionToken    string `json:"sessionToken,omitempty"`
	RoleARN         string `json:"roleArn,omitempty"`
	ExternalID      string `json:"externalId,omitempty"`
	SessionName     string `json:"sessionName,omitempty"`
	STSEndpoint     string `json:"stsEndpoint,omitempty"`
}

// The types of StorageCredentials.
const (
	CredentialsDefault    = "default"     // what the server's surroundings give it
	CredentialsStatic     = "static"      // a key
	CredentialsAssumeRole = "assume-role" // a role
)

// String shows the type only.
func (c StorageCredentials) String() string { return "credentials of type " + c.Type }

// GoString is String: no verb of fmt shows a secret.
func (c StorageCredentials) GoString() string { return c.String() }

// NewWarehouse describes a warehouse to be made.
type NewWarehouse struct {
	Name           string              `json:"name"`
	Storage        WarehouseStorage    `json:"storage"`
	Credentials    *StorageCredentials `json:"credentials,omitempty"` // nil is the type default
	TableDefaults  map[string]string   `json:"tableDefaults,omitempty"`
	TableOverrides map[string]string   `json:"tableOverrides,omitempty"`
}

// WarehouseChange changes a warehouse; nil fields stay. The maps are replaced as a whole.
type WarehouseChange struct {
	Storage        *StorageChange      `json:"storage,omitempty"`
	Credentials    *StorageCredentials `json:"credentials,omitempty"`
	TableDefaults  *map[string]string  `json:"tableDefaults,omitempty"`
	TableOverrides *map[string]string  `json:"tableOverrides,omitempty"`
}

// StorageChange changes how storage is reached; nil fields stay. The URL never changes.
type StorageChange struct {
	Endpoint         *string   `json:"endpoint,omitempty"`
	Region           *string   `json:"region,omitempty"`
	PathStyle        *bool     `json:"pathStyle,omitempty"`
	AllowedLocations *[]string `json:"allowedLocations,omitempty"`
}

// Warehouses reads and changes the warehouses of the token's tenant.
type Warehouses struct{ c *Client }

// Warehouses returns the warehouses of the server.
func (c *Client) Warehouses() Warehouses { return Warehouses{c} }

const warehousesPath = "/v1/warehouses"

// List walks the warehouses by name.
func (w Warehouses) List(ctx context.Context) iter.Seq2[WarehouseInfo, error] {
	return paged(url.Values{}, func(query url.Values) ([]WarehouseInfo, string, error) {
		var page struct {
			Warehouses []WarehouseInfo `json:"warehouses"`
			Next       string          `json:"nextPageToken"`
		}
		_, err := w.c.do(ctx, request{method: http.MethodGet, path: warehousesPath, query: query, into: &page})
		return page.Warehouses, page.Next, err
	})
}

// Get returns one warehouse.
func (w Warehouses) Get(ctx context.Context, name string) (info WarehouseInfo, err error) {
	_, err = w.c.do(ctx, request{method: http.MethodGet, path: warehousesPath + "/" + segment(name), into: &info})
	return info, err
}

// Create makes a warehouse. The server opens its storage first.
func (w Warehouses) Create(ctx context.Context, n NewWarehouse) (info WarehouseInfo, err error) {
	_, err = w.c.do(ctx, request{method: http.MethodPost, path: warehousesPath, body: n, into: &info})
	return info, err
}

// Update changes a warehouse.
func (w Warehouses) Update(ctx context.Context, name string, change WarehouseChange) (info WarehouseInfo, err error) {
	_, err = w.c.do(ctx, request{method: http.MethodPatch, path: warehousesPath + "/" + segment(name), body: change, into: &info})
	return info, err
}

// Drop removes a warehouse in which there are no tables, views and unsettled jobs.
func (w Warehouses) Drop(ctx context.Context, name string) error {
	_, err := w.c.do(ctx, request{method: http.MethodDelete, path: warehousesPath + "/" + segment(name)})
	return err
}

// Purge drops a warehouse with everything in it: nothing new is made there from now on,
// and the job that is returned drops its tables and views with their files, and itself last.
func (w Warehouses) Purge(ctx context.Context, name string) (job string, err error) {
	header, err := w.c.do(ctx, request{method: http.MethodDelete, path: warehousesPath + "/" + segment(name), query: url.Values{"purge": {"true"}}})
	return jobOf(header.Get("Location")), err
}
