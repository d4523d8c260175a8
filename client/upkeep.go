package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// DriveUsage is what the drive holds and may hold; quotas of 0 are none.
type DriveUsage struct {
	Bytes      int64 `json:"bytes"`
	Files      int64 `json:"files"`
	Reserved   int64 `json:"reserved"` // announced by uploads
	QuotaBytes int64 `json:"quotaBytes"`
	QuotaFiles int64 `json:"quotaFiles"`
}

// Usage returns what the drive holds, its trash included.
func (d Drive) Usage(ctx context.Context) (u DriveUsage, err error) {
	_, err = d.c.do(ctx, request{method: http.MethodGet, path: "/v1/usage", into: &u})
	return u, err
}

// DriveCheck compares the counters of a drive with what is there.
type DriveCheck struct {
	OK       bool       `json:"ok"`
	Counted  DriveUsage `json:"counted"`
	Recorded DriveUsage `json:"recorded"`
	Problems []string   `json:"problems"`
}

// Check has the server recompute the drive's counters.
func (d Drive) Check(ctx context.Context) (r DriveCheck, err error) {
	_, err = d.c.do(ctx, request{method: http.MethodPost, path: "/v1/check", into: &r, again: true})
	return r, err
}

// Reconcile has the drive looked through for what nothing reaches, and repaired in the
// background.
func (d Drive) Reconcile(ctx context.Context) error {
	_, err := d.c.do(ctx, request{method: http.MethodPost, path: "/v1/reconcile", again: true})
	return err
}

// DryReconcile counts, by class, what a reconcile would repair, and changes nothing.
func (d Drive) DryReconcile(ctx context.Context) (map[string]int64, error) {
	var body struct {
		Found map[string]int64 `json:"found"`
	}
	_, err := d.c.do(ctx, request{method: http.MethodPost, path: "/v1/reconcile", query: url.Values{"dry-run": {"true"}}, into: &body, again: true})
	return body.Found, err
}

// Scrub has the store listed against what the drive names, which takes long on a large
// one. With repair, objects that nothing names and that are old enough go to the
// collector. The numbers and samples are the server's, by their names.
func (d Drive) Scrub(ctx context.Context, repair bool) (found map[string]json.RawMessage, err error) {
	r := request{method: http.MethodPost, path: "/v1/scrub", into: &found}
	if repair {
		r.query = url.Values{"repair": {"true"}}
	}
	_, err = d.c.do(ctx, r)
	return found, err
}
