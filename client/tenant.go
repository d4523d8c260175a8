package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Tenant is one of those who share a server and see nothing of each other.
type Tenant struct {
	Name      string       `json:"name"`
	Closing   bool         `json:"closing"` // it is being dropped
	CreatedAt time.Time    `json:"createdAt"`
	Usage     *TenantUsage `json:"usage,omitempty"` // nil in lists
}

// TenantUsage is what a tenant's drive holds and may hold; quotas of 0 are none.
type TenantUsage struct {
	Bytes      int64 `json:"bytes"`
	Files      int64 `json:"files"`
	QuotaBytes int64 `json:"quotaBytes"`
	QuotaFiles int64 `json:"quotaFiles"`
}

// Quota bounds a tenant's drive; 0 is no bound.
type Quota struct {
	Bytes int64 `json:"bytes"`
	Files int64 `json:"files"`
}

// Tenants reads and changes the tenants of a server. All of it but Get is for the
// server's own administrator.
type Tenants struct{ c *Client }

// Tenants returns the tenants of the server.
func (c *Client) Tenants() Tenants { return Tenants{c} }

const tenantsPath = "/v1/tenants"

func tenantPath(name string) string { return tenantsPath + "/" + segment(name) }

// List returns all tenants, without their usage.
func (t Tenants) List(ctx context.Context) ([]Tenant, error) {
	var body struct {
		Tenants []Tenant `json:"tenants"`
	}
	_, err := t.c.do(ctx, request{method: http.MethodGet, path: tenantsPath, into: &body})
	return body.Tenants, err
}

// Get returns one tenant with its usage.
func (t Tenants) Get(ctx context.Context, name string) (info Tenant, err error) {
	_, err = t.c.do(ctx, request{method: http.MethodGet, path: tenantPath(name), into: &info})
	return info, err
}

// Create makes a tenant with a drive of its own.
func (t Tenants) Create(ctx context.Context, name string) (info Tenant, err error) {
	_, err = t.c.do(ctx, request{method: http.MethodPost, path: tenantsPath, body: map[string]string{"name": name}, into: &info})
	return info, err
}

// SetQuota bounds the tenant's drive. What is there already stays.
func (t Tenants) SetQuota(ctx context.Context, name string, quota Quota) (info Tenant, err error) {
	_, err = t.c.do(ctx, request{method: http.MethodPut, path: tenantPath(name) + "/quota", body: quota, into: &info, again: true})
	return info, err
}

// Drop removes a tenant that has nothing. With purge, everything that it has goes first,
// by the job that is returned.
func (t Tenants) Drop(ctx context.Context, name string, purge bool) (job string, err error) {
	r := request{method: http.MethodDelete, path: tenantPath(name)}
	if purge {
		r.query = url.Values{"purge": {"true"}}
	}
	header, err := t.c.do(ctx, r)
	return jobOf(header.Get("Location")), err
}

// jobOf is the job that a Location names, or nothing.
func jobOf(location string) string {
	i := strings.LastIndex(location, "/v1/jobs/")
	if i < 0 {
		return ""
	}
	return location[i+len("/v1/jobs/"):]
}
