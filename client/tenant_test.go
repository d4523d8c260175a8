package client_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/client"
)

// TestTenantCalls holds each call to the API of the server.
func TestTenantCalls(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const found = `{"name":"acme","closing":false,"createdAt":"2026-03-01T12:00:00Z","usage":{"bytes":1,"files":2,"quotaBytes":3,"quotaFiles":4}}`
	acme := client.Tenant{Name: "acme", CreatedAt: at, Usage: &client.TenantUsage{Bytes: 1, Files: 2, QuotaBytes: 3, QuotaFiles: 4}}
	const kept = `{"id":7,"name":"etl","grants":[{"drive":"/in","actions":["read"]}],"createdBy":"eve","createdAt":"2026-03-01T12:00:00Z","expiresAt":null,"revokedAt":null`
	token := client.Token{ID: 7, Name: "etl", Grants: []client.Grant{{Drive: "/in", Actions: []string{"read"}}}, CreatedBy: "eve", CreatedAt: at}
	tests := []struct {
		name       string
		call       func(context.Context, *client.Client) (any, error)
		answer     string
		want       any
		line, body string
	}{
		{
			"list", func(ctx context.Context, c *client.Client) (any, error) { return c.Tenants().List(ctx) },
			`{"tenants":[` + found + `]}`,
			[]client.Tenant{acme},
			"GET /v1/tenants", "",
		},
		{
			"get", func(ctx context.Context, c *client.Client) (any, error) { return c.Tenants().Get(ctx, "a/b") },
			found, acme, "GET /v1/tenants/a%2Fb", "",
		},
		{
			"create", func(ctx context.Context, c *client.Client) (any, error) { return c.Tenants().Create(ctx, "acme") },
			found, acme, "POST /v1/tenants", `{"name":"acme"}`,
		},
		{
			"quota", func(ctx context.Context, c *client.Client) (any, error) {
				return c.Tenants().SetQuota(ctx, "acme", client.Quota{Bytes: 3, Files: 4})
			},
			found, acme, "PUT /v1/tenants/acme/quota", `{"bytes":3,"files":4}`,
		},
		{
			"drop", func(ctx context.Context, c *client.Client) (any, error) { return c.Tenants().Drop(ctx, "acme", false) },
			"", "server-3", "DELETE /v1/tenants/acme", "",
		},
		{
			"purge", func(ctx context.Context, c *client.Client) (any, error) { return c.Tenants().Drop(ctx, "acme", true) },
			`{"job":"server-3"}`, "server-3", "DELETE /v1/tenants/acme?purge=true", "",
		},
		{
			"tokens", func(ctx context.Context, c *client.Client) (any, error) { return c.Tokens("").List(ctx) },
			`{"tokens":[` + kept + `}]}`,
			[]client.Token{token},
			"GET /v1/tenants/default/tokens", "",
		},
		{
			"new token", func(ctx context.Context, c *client.Client) (any, error) {
				made, text, err := c.Tokens("acme").Create(ctx, client.NewToken{Name: "etl", Grants: token.Grants, ExpiresIn: time.Hour})
				return []any{made, text}, err
			},
			kept + `,"token":"s3cret"}`,
			[]any{token, "s3cret"},
			"POST /v1/tenants/acme/tokens", `{"expiresIn":3600,"grants":[{"drive":"/in","actions":["read"]}],"name":"etl"}`,
		},
		{
			"revoke", func(ctx context.Context, c *client.Client) (any, error) { return c.Tokens("acme").Revoke(ctx, 7) },
			kept + `}`,
			token,
			"DELETE /v1/tenants/acme/tokens/7", "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var line, body string
			c := serving(t, func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				line, body = r.Method+" "+r.RequestURI, string(raw)
				w.Header().Set("Location", "/v1/jobs/server-3")
				_, _ = io.WriteString(w, tt.answer)
			})
			got, err := tt.call(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if line != tt.line || body != tt.body {
				t.Errorf("asked %s %s, want %s %s", line, body, tt.line, tt.body)
			}
		})
	}
}

// TestTokenOfAFraction: a token that is to live for less than a second is none that lives for
// ever.
func TestTokenOfAFraction(t *testing.T) {
	t.Parallel()
	c := serving(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") })
	for _, life := range []time.Duration{900 * time.Millisecond, 1500 * time.Millisecond, -time.Millisecond, -time.Hour} {
		if _, _, err := c.Tokens("").Create(t.Context(), client.NewToken{Name: "x", Grants: []client.Grant{{Admin: true}}, ExpiresIn: life}); err == nil {
			t.Errorf("a token of %v was made", life)
		}
	}
}
