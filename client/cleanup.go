package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Cleanup is one row of iceberg_cleanup_job: what a dropped table or view left behind,
// and how far its deletion is.
type Cleanup struct {
	ID         int64           `json:"id"`
	Job        string          `json:"job"` // its name for Jobs, such as purge-42
	Metalake   string          `json:"metalake"`
	Catalog    string          `json:"catalog"`
	Namespace  Namespace       `json:"namespace"`
	Table      string          `json:"table"`
	ObjectType string          `json:"objectType"` // TABLE or VIEW
	State      JobState        `json:"state"`
	Attempts   int             `json:"attempts"`
	LastError  string          `json:"lastError,omitempty"`
	Phase      string          `json:"phase,omitempty"`
	Progress   json.RawMessage `json:"progress,omitempty"`
	CreatedBy  string          `json:"createdBy,omitempty"`
	CreatedAt  time.Time       `json:"createdAt"`
	UpdatedAt  time.Time       `json:"updatedAt"`
}

// CleanupFilter chooses cleanups. Metalake and Catalog are the path, and default to
// default; the zero values of the others choose all.
type CleanupFilter struct {
	Metalake  string // the tenant
	Catalog   string // the warehouse
	Namespace Namespace
	Table     string
	State     JobState
}

// Cleanups walks the cleanups that the filter chooses.
func (c *Client) Cleanups(ctx context.Context, filter CleanupFilter) iter.Seq2[Cleanup, error] {
	path := "/api/metalakes/" + segment(orDefault(filter.Metalake)) +
		"/catalogs/" + segment(orDefault(filter.Catalog)) + "/cleanups"
	query := url.Values{}
	set(query, "namespace", filter.Namespace.query())
	set(query, "table", filter.Table)
	set(query, "state", string(filter.State))
	return paged(query, func(query url.Values) ([]Cleanup, string, error) {
		var page struct {
			Cleanups []Cleanup `json:"cleanups"`
			Next     string    `json:"nextPageToken"`
		}
		_, err := c.do(ctx, request{method: http.MethodGet, path: path, query: query, into: &page})
		return page.Cleanups, page.Next, err
	})
}

func orDefault(name string) string {
	if name == "" {
		return "default"
	}
	return name
}
