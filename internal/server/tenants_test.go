package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/edge/admin"
	"github.com/lethe-project/lethe/internal/edge/files"
	"github.com/lethe-project/lethe/test/responder"
)

// by is the same server asked with another token.
func (r *running) by(token string) *running {
	other := *r
	other.token = token
	return &other
}

// tenantToken makes a tenant, unless it is there, and a token with grants.
func (r *running) tenantToken(tenant, grants string) *running {
	r.t.Helper()
	if r.do("GET", "/v1/tenants/"+tenant, "").status == 404 {
		r.want(201, "POST", "/v1/tenants", fmt.Sprintf(`{"name":%q}`, tenant))
	}
	var made struct{ Token string }
	decode(r.t, r.want(201, "POST", "/v1/tenants/"+tenant+"/tokens", `{"name":"etl","grants":`+grants+`}`), &made)
	return r.by(made.Token)
}

const allOfIt = `[{"admin":true}]`

// TestDescribedRoutes: every route of both faces is in api/openapi.yaml, and nothing else.
func TestDescribedRoutes(t *testing.T) {
	t.Parallel()
	routes := slices.Concat(files.Operations(), admin.Operations())
	slices.Sort(routes)
	described := responder.NewAPI(t).Operations()
	for _, op := range routes {
		if !slices.Contains(described, op) {
			t.Errorf("%s is not described", op)
		}
	}
	for _, op := range described {
		if !slices.Contains(routes, op) {
			t.Errorf("%s is described, and no route", op)
		}
	}
}

func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	r := start(t, config(t, t.TempDir(), nil))
	acme, umbra := r.tenantToken("acme", allOfIt), r.tenantToken("umbra", allOfIt)
	acme.want(201, "PUT", "/v1/fs/a", "acme's")
	umbra.want(404, "GET", "/v1/fs/a", "")
	umbra.want(201, "PUT", "/v1/fs/a", "umbra's")
	r.want(404, "GET", "/v1/fs/a", "")
	if got := acme.want(200, "GET", "/v1/fs/a", "").body; got != "acme's" {
		t.Errorf("acme reads %q", got)
	}
	// Their own administrators are no operators, and see no other tenant.
	acme.want(403, "POST", "/v1/tenants", `{"name":"x"}`)
	acme.want(403, "GET", "/v1/tenants", "")
	acme.want(200, "GET", "/v1/tenants/acme", "")
	acme.want(404, "GET", "/v1/tenants/umbra", "")
	acme.want(404, "GET", "/v1/tenants/umbra/tokens", "")
	acme.want(404, "POST", "/v1/tenants/umbra/tokens", `{"name":"x","grants":[{"admin":true}]}`)
	acme.want(403, "PUT", "/v1/tenants/acme/quota", `{"bytes":0,"files":0}`)
	acme.want(403, "DELETE", "/v1/tenants/umbra", "")
	// A tree that acme deletes is nobody else's job.
	for i := range 30 {
		acme.want(201, "PUT", fmt.Sprintf("/v1/fs/tree/%d", i), "x")
	}
	var gone struct{ Job *string }
	decode(t, acme.want(200, "DELETE", "/v1/fs/tree?recursive=true", "", "Prefer", "wait=30"), &gone)
	if gone.Job != nil { // the fast path took it
		t.Errorf("%+v", gone)
	}
}

func TestScopedTokens(t *testing.T) {
	t.Parallel()
	r := start(t, config(t, t.TempDir(), nil, "--drive-delete-batch-size=10"))
	r.table()
	for i := range 25 {
		r.want(201, "PUT", fmt.Sprintf("/v1/fs/theirs/%d", i), "x")
	}
	var gone struct{ Job string }
	decode(t, r.want(200, "DELETE", "/v1/fs/theirs?recursive=true", "", "Prefer", "wait=30"), &gone)
	drive := r.tenantToken("default", `[{"drive":"/mine","actions":["read","write","delete"]}]`)
	lake := r.tenantToken("default", `[{"warehouse":"default","namespace":["n"],"actions":["read"]}]`)
	drive.want(201, "PUT", "/v1/fs/mine/f", "x")
	drive.want(403, "PUT", "/v1/fs/other", "x")
	drive.want(404, "GET", "/v1/jobs/"+gone.Job, "")
	drive.want(404, "POST", "/v1/jobs/"+gone.Job+"/cancel", "")
	if body := drive.want(200, "GET", "/v1/jobs", "").body; strings.Contains(body, gone.Job) {
		t.Errorf("a job elsewhere is listed: %s", body)
	}
	r.want(200, "GET", "/v1/jobs/"+gone.Job, "")
	r.want(409, "POST", "/v1/jobs/"+gone.Job+"/cancel", "")
	drive.want(403, "GET", "/iceberg/v1/default/namespaces/n/tables", "")
	lake.want(200, "GET", "/iceberg/v1/default/namespaces/n/tables", "")
	lake.want(403, "DELETE", "/iceberg/v1/default/namespaces/n/tables/t", "")
	lake.want(403, "GET", "/v1/fs/?list", "")
	// Of administration a scoped token has the list of jobs, and nothing else.
	for _, op := range admin.Operations() {
		method, pattern, _ := strings.Cut(op, " ")
		target := strings.NewReplacer("{name}", gone.Job, "{tenant}", "default", "{token}", "1", "{warehouse}", "default").Replace(pattern)
		for _, token := range []*running{drive, lake} {
			switch got := token.do(method, target, ""); {
			case op == "GET /v1/jobs" && got.status == 200 && !strings.Contains(got.body, gone.Job):
			case got.status != 403 && got.status != 404:
				t.Errorf("%s: %d: %s", op, got.status, got.body)
			}
		}
	}
	drive.want(403, "POST", "/v1/tenants/default/tokens", `{"name":"more","grants":[{"admin":true}]}`)
}

func TestTokensEnd(t *testing.T) {
	t.Parallel()
	r := start(t, config(t, t.TempDir(), nil))
	var token struct {
		ID    int64
		Token string
	}
	decode(t, r.want(201, "POST", "/v1/tenants/default/tokens", `{"name":"x","grants":[{"drive":"/","actions":["read"]}],"expiresIn":3600}`), &token)
	used := r.by(token.Token)
	used.want(200, "GET", "/v1/fs/?list", "")
	var list struct {
		Tokens []struct {
			ID        int64
			ExpiresAt *string
			Token     string
		}
	}
	decode(t, r.want(200, "GET", "/v1/tenants/default/tokens", ""), &list)
	if len(list.Tokens) != 1 || list.Tokens[0].ID != token.ID || list.Tokens[0].ExpiresAt == nil || list.Tokens[0].Token != "" {
		t.Errorf("%+v", list)
	}
	r.want(200, "DELETE", fmt.Sprintf("/v1/tenants/default/tokens/%d", token.ID), "")
	used.want(401, "GET", "/v1/fs/?list", "")
	r.want(404, "DELETE", "/v1/tenants/default/tokens/999", "")
	r.want(400, "DELETE", "/v1/tenants/default/tokens/x", "")
	for _, body := range []string{`{}`, `{"name":"x"}`, `{"name":"x","grants":[]}`, `{"name":"x","grants":[{"drive":"x","actions":["read"]}]}`, `{"name":"x","grants":[{"admin":true}],"expiresIn":-1}`, `{"nam":"x"}`, `[`} {
		r.want(400, "POST", "/v1/tenants/default/tokens", body)
	}
	if strings.Contains(r.log.String(), token.Token) {
		t.Error("a token's text is in the log")
	}
}

func TestTenantQuotaAndDrop(t *testing.T) {
	t.Parallel()
	r := start(t, config(t, t.TempDir(), nil))
	acme := r.tenantToken("acme", allOfIt)
	r.want(200, "PUT", "/v1/tenants/acme/quota", `{"bytes":10,"files":0}`)
	acme.want(507, "PUT", "/v1/fs/a", "more than ten bytes")
	acme.want(201, "PUT", "/v1/fs/a", "ten bytes.")
	var shown struct {
		Usage struct{ Bytes, QuotaBytes int64 }
	}
	decode(t, r.want(200, "GET", "/v1/tenants/acme", ""), &shown)
	if shown.Usage.Bytes != 10 || shown.Usage.QuotaBytes != 10 {
		t.Errorf("%+v", shown)
	}
	for _, body := range []string{`{}`, `{"bytes":1}`, `{"bytes":-1,"files":0}`, `{"bytes":"1","files":0}`} {
		r.want(400, "PUT", "/v1/tenants/acme/quota", body)
	}
	r.want(404, "PUT", "/v1/tenants/nobody/quota", `{"bytes":1,"files":1}`)
	r.want(409, "DELETE", "/v1/tenants/acme", "")
	r.want(409, "DELETE", "/v1/tenants/default", "")
	r.want(404, "DELETE", "/v1/tenants/nobody", "")
	r.want(400, "DELETE", "/v1/tenants/acme?purge=perhaps", "")
	r.want(409, "POST", "/v1/tenants", `{"name":"acme"}`)
	r.want(400, "POST", "/v1/tenants", `{"name":"a/b"}`)
	acme.want(200, "DELETE", "/v1/fs/a", "")
	r.want(204, "DELETE", "/v1/tenants/acme", "")
	acme.want(401, "GET", "/v1/fs/?list", "")
	r.want(404, "GET", "/v1/tenants/acme", "")
	var list struct{ Tenants []struct{ Name string } }
	decode(t, r.want(200, "GET", "/v1/tenants", ""), &list)
	if len(list.Tenants) != 1 || list.Tenants[0].Name != "default" {
		t.Errorf("%+v", list)
	}
	// The name is free again, and nothing of the old one comes back with it.
	again := r.tenantToken("acme", allOfIt)
	again.want(404, "GET", "/v1/fs/a", "")
}
