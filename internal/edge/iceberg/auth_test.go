package iceberg_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/blob/faulty"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
)

func TestAuthentication(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	b.namespace("n")
	for _, c := range []struct {
		name, header string
		status       int
	}{
		{"none", "", 401},
		{"another scheme", "Basic " + annKey, 401},
		{"no scheme", annKey, 401},
		{"an empty token", "Bearer ", 401},
		{"an unknown token", "Bearer nobody", 401},
		{"a prefix of a token", "Bearer " + annKey[:8], 401},
		{"a token and more", "Bearer " + annKey + "x", 401},
		{"a known one, not allowed", "Bearer denied-token", 403},
		{"capitals of the scheme", "BEARER " + annKey, 204},
		{"spaces around", "Bearer   " + annKey + " ", 204},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := b.on(t)
			for _, target := range []string{"/v1/config", base + "namespaces", "/api/metalakes/default/catalogs/default/cleanups"} {
				a := b.do("GET", target, "", "Authorization", c.header)
				if a.want(map[int]int{204: 200, 401: 401, 403: 403}[c.status]); c.status > 300 {
					a.want(c.status, "NotAuthorizedException")
				}
			}
			a := b.do("HEAD", base+"namespaces/n", "", "Authorization", c.header)
			a.want(c.status)
			if c.status > 300 {
				b.unchanged(func() {
					b.do("POST", base+"namespaces", `{"namespace":["x"]}`, "Authorization", c.header).want(c.status)
				})
			}
		})
	}
	b.do("GET", base+"namespaces/x", "").want(404)
}

func TestOAuthTokens(t *testing.T) {
	t.Parallel()
	b := open(t, options{maxBody: 4096})
	const exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	for _, c := range []struct {
		name   string
		form   url.Values
		basic  string
		status int
		code   string
	}{
		{"the secret is the token", url.Values{"grant_type": {"client_credentials"}, "client_id": {"ann"}, "client_secret": {annKey}, "scope": {"catalog"}}, "", 200, ""},
		{"by basic authentication", url.Values{"grant_type": {"client_credentials"}}, annKey, 200, ""},
		{"a refresh", url.Values{"grant_type": {exchange}, "subject_token": {annKey}}, "", 200, ""},
		{"an unknown secret", url.Values{"grant_type": {"client_credentials"}, "client_secret": {"nobody"}}, "", 401, "invalid_client"},
		{"no secret", url.Values{"grant_type": {"client_credentials"}}, "", 401, "invalid_client"},
		{"an unknown subject", url.Values{"grant_type": {exchange}, "subject_token": {"nobody"}}, "", 401, "invalid_client"},
		{"another grant", url.Values{"grant_type": {"password"}, "client_secret": {annKey}}, "", 400, "unsupported_grant_type"},
		{"no grant", url.Values{}, "", 400, "unsupported_grant_type"},
		{"a long form", url.Values{"grant_type": {strings.Repeat("x", 5000)}}, "", 400, "invalid_request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := b.on(t)
			r := b.request("POST", "/v1/oauth/tokens", c.form.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Authorization", "")
			if c.basic != "" {
				r.SetBasicAuth("ann", c.basic)
			}
			a := b.send(r)
			a.want(c.status)
			if c.status == 200 {
				if a.text("access_token") != annKey || a.header.Get("Cache-Control") != "no-store" {
					t.Errorf("token %q, Cache-Control %q", a.text("access_token"), a.header.Get("Cache-Control"))
				}
				b.do("GET", "/v1/config", "", "Authorization", "Bearer "+a.text("access_token")).want(200)
			} else if a.text("error") != c.code {
				t.Errorf("error %q, want %q", a.text("error"), c.code)
			}
		})
	}
	b.send(b.request("POST", "/v1/oauth/tokens?client_secret="+annKey+"&grant_type=client_credentials", "", "Content-Type", "application/x-www-form-urlencoded")).want(400)
	b.do("POST", "/v1/oauth/tokens", "%zz=1", "Content-Type", "application/x-www-form-urlencoded").want(400)
	if strings.Contains(b.log.String(), annKey) {
		t.Error("the token stands in the log")
	}
}

func TestBodyLimits(t *testing.T) {
	t.Parallel()
	b := open(t, options{maxBody: 4096, limits: metadata.Limits{MaxDepth: 30}})
	ns := b.namespace("n")
	path := b.table(ns, "t")
	padding := strings.Repeat(" ", 5000)
	deep := `{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`
	for _, c := range []struct{ name, path, body string }{
		{"create namespace", base + "namespaces", `{"namespace":["x"]}`},
		{"properties", ns + "/properties", `{"updates":{"a":"b"}}`},
		{"create", ns + "/tables", createBody("x")},
		{"register", ns + "/register", `{"name":"x","metadata-location":"s3://lake/wh/x.json"}`},
		{"commit", path, setProperty("a", "b")},
		{"metrics", path + "/metrics", `{"report-type":"x"}`},
		{"rename", base + "tables/rename", `{"source":{"namespace":["n"],"name":"t"},"destination":{"namespace":["n"],"name":"u"}}`},
		{"transaction", base + "transactions/commit", transaction(change("t", "a", "b"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := b.on(t)
			b.unchanged(func() {
				for _, headers := range [][]string{nil, {"Idempotency-Key", newKey()}} {
					a := b.do("POST", c.path, c.body+padding, headers...).want(400, "BadRequestException")
					if !strings.Contains(a.message(), "4096") {
						t.Errorf("%q does not name the limit", a.message())
					}
				}
				for _, bad := range []string{deep, strings.Repeat("[", 4000), strings.Replace(c.body, "{", `{"x":`+deep+`,`, 1)} {
					b.do("POST", c.path, bad).want(400, "BadRequestException")
				}
			})
		})
	}
	b.do("GET", path, "").want(200)
}

// A panic is a plain 500: it neither ends the server nor tells what went wrong.
func TestPanicsStayInside(t *testing.T) {
	t.Parallel()
	b := open(t, options{cleanups: panicking{}})
	ns := b.namespace("n")
	path := b.table(ns, "t")
	for _, c := range []struct{ name, path, body string }{
		{"create", ns + "/tables", createBody("x")},
		{"commit", path, setProperty("a", "b")},
		{"transaction", base + "transactions/commit", transaction(change("t", "a", "b"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := b.on(t)
			b.bucket.PanicCall(faulty.Put, 1)
			a := b.do("POST", c.path, c.body).want(500)
			if strings.Contains(string(a.body), faulty.ErrInjected.Error()) || strings.Contains(string(a.body), "goroutine") {
				t.Errorf("the panic leaks: %s", a.body)
			}
			if !strings.Contains(b.log.String(), a.header.Get("X-Request-Id")) || !strings.Contains(b.log.String(), faulty.ErrInjected.Error()) {
				t.Error("the log does not tell of the panic and its request")
			}
			b.do("POST", c.path, c.body).want(map[string]int{"create": 200, "commit": 200, "transaction": 204}[c.name])
		})
	}
	a := b.do("GET", "/api/metalakes/default/catalogs/default/cleanups", "").want(500, "InternalServerError")
	if strings.Contains(string(a.body), "oh no") {
		t.Errorf("the panic leaks: %s", a.body)
	}
}

type panicking struct{}

func (panicking) Name(job.ID) string { return "" }
func (panicking) List(context.Context, purge.Filter, job.Page) ([]purge.Listed, job.Page, error) {
	panic("oh no")
}

// http.ErrAbortHandler is the way to end a connection and passes through.
func TestAbortIsNoPanic(t *testing.T) {
	t.Parallel()
	b := open(t, options{steps: func(step string) {
		if step == "create.written" {
			panic(http.ErrAbortHandler)
		}
	}})
	ns := b.namespace("n")
	defer func() {
		if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // the value itself is the signal
			t.Errorf("recovered %v", p)
		}
	}()
	b.bare.ServeHTTP(httptest.NewRecorder(), b.request("POST", ns+"/tables", createBody("t")))
	t.Error("the abort was swallowed")
}

// Neither tokens nor causes stand in the log or in answers, whatever fails.
func TestTokensStayOutOfTheLog(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	ns := b.namespace("n")
	path := b.table(ns, "t")
	b.do("DELETE", path+"?purgeRequested=true", "").want(204)
	b.do("GET", path, "", "Authorization", "Bearer nearly-"+annKey).want(401)
	b.bucket.PanicCall(faulty.Put, 1)
	b.do("POST", ns+"/tables", createBody("t")).want(500)
	log := b.log.String()
	if strings.Contains(log, annKey) {
		t.Error("the token stands in the log")
	}
	for _, line := range []string{`msg=audit action=namespace.create`, `msg=audit action=table.create`} {
		at := strings.Index(log, line)
		if at < 0 {
			t.Errorf("no line %q", line)
			continue
		}
		text, _, _ := strings.Cut(log[at:], "\n")
		if !strings.Contains(text, "principal=ann") || !strings.Contains(text, "requestId=") {
			t.Errorf("%q has no principal or request", text)
		}
	}
}
