package server_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// hostile are values that no honest client sends, as they stand in a URL.
var hostile = []string{
	"", "%00", "a%00b", "%ff", "%ed%a0%80", "%20", "-1", "0", "+1", "1e3", "0x10", "1.5", "007",
	"9223372036854775807", "9223372036854775808", "99999999999999999999999999",
	"%EF%BC%91", "%F0%9F%92%A9", "%E2%80%AE", "%27%3B%20DROP%20TABLE%20warehouses%3B--", "%25", "%5C", "%1F", "a%1F", "%1F%1F", "%2E%2E", "%2F", "a%2Fb", "%0A", "null",
	"purge-9223372036854775807", "purge-9223372036854775808", "purge-0", "purge--1", "purge-%EF%BC%91", "PURGE-1", "close-1", "delete-1",
	strings.Repeat("x", 5000),
}

// modelled fails unless an answer is one of the face's: below 500, and in its model when it
// is a refusal.
func modelled(t *testing.T, what string, got reply) {
	t.Helper()
	if len(what) > 200 {
		what = what[:200] + "…"
	}
	if got.status >= 500 || got.status < 200 {
		t.Errorf("%s: status %d: %.300s", what, got.status, got.body)
		return
	}
	if got.status < 400 {
		return
	}
	var body struct {
		Error struct {
			Code, Type any
			Message    string
			RequestID  string `json:"requestId"`
			IcebergsID string `json:"request-id"`
		}
	}
	if err := json.Unmarshal([]byte(got.body), &body); err != nil || body.Error.Message == "" || body.Error.Code == nil || body.Error.RequestID+body.Error.IcebergsID == "" {
		t.Errorf("%s: status %d, no error of the model: %.300s", what, got.status, got.body)
	}
}

// Whatever is asked of jobs, cleanups and warehouses, it is answered in the model, by every
// database, and nothing is lost by it.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	for _, s := range sqldbtest.Servers(t) {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			args := []string{"--log-level=INFO"}
			if s.Name != sqldb.SQLite {
				args = append(args, "--database="+s.URL(t))
			}
			r := start(t, config(t, t.TempDir(), nil, args...))
			r.table()
			r.want(200, "POST", space+"/n/tables", strings.Replace(create, `"t"`, `"gone"`, 1))
			name := r.want(204, "DELETE", space+"/n/tables/gone?purgeRequested=true", "").header.Get("X-Lethe-Job")
			ask := func(method, path, body string, headers ...string) reply {
				t.Helper()
				got, err := r.try(t.Context(), method, path, body, headers...)
				if err != nil {
					t.Errorf("%s %.200s: %v", method, path, err)
					return got
				}
				modelled(t, method+" "+path, got)
				return got
			}
			const cleanups = "/api/metalakes/default/catalogs/default/cleanups"
			for _, x := range hostile {
				for _, query := range []string{"state", "kind", "warehouse", "namespace", "table", "pageToken", "pageSize", "wait"} {
					ask("GET", "/v1/jobs?"+query+"="+x, "")
					ask("GET", "/v1/jobs/"+name+"?"+query+"="+x, "")
					ask("GET", cleanups+"?"+query+"="+x, "")
					ask("GET", "/v1/warehouses?"+query+"="+x, "")
				}
				for _, action := range []string{"cancel", "retry", "ack", "pause", "resume", "explode"} {
					ask("POST", "/v1/jobs/"+x+"/"+action, "")
				}
				if strings.Trim(x, ".") != "" {
					ask("GET", "/v1/jobs/"+x, "")
					ask("GET", "/v1/warehouses/"+x, "")
					ask("PATCH", "/v1/warehouses/"+x, `{"tableDefaults":{}}`)
					ask("DELETE", "/v1/warehouses/"+x, "")
					ask("GET", "/iceberg/v1/"+x+"/namespaces", "")
					ask("GET", "/iceberg/v1/config?warehouse="+x, "")
					ask("GET", "/api/metalakes/"+x+"/catalogs/default/cleanups", "")
					ask("GET", "/api/metalakes/default/catalogs/"+x+"/cleanups", "")
				}
				ask("DELETE", "/v1/warehouses/none?purge="+x, "")
				text, err := url.QueryUnescape(x)
				if err != nil {
					t.Fatal(err)
				}
				raw, err := json.Marshal(text)
				if err != nil {
					t.Fatal(err)
				}
				for _, field := range []string{
					`"name":X`, `"name":"w","storage":{"url":X}`, `"name":"w","storage":{"url":"s3://bucket/x","endpoint":X}`,
					`"name":"w","storage":{"url":"file:///none","allowedLocations":[X]}`, `"name":"w","storage":{"url":"s3://bucket/x","region":X},"credentials":{"type":X}`,
					`"name":"w","storage":{"url":"s3://bucket/x"},"credentials":{"type":"static","accessKeyId":X,"secretAccessKey":X}`,
				} {
					if got := ask("POST", "/v1/warehouses", "{"+strings.ReplaceAll(field, "X", string(raw))+"}"); got.status == 201 {
						t.Errorf("a warehouse was made of %s and %q", field, x)
					}
				}
				ask("PATCH", "/v1/warehouses/default", `{"tableDefaults":{"k":`+string(raw)+`}}`)
				ask("PATCH", "/v1/warehouses/default", `{"tableDefaults":{`+string(raw)+`:"v"}}`)
			}
			for _, body := range []string{
				"null", "[]", "1", `"x"`, "{", "}", "{}}", "{}{}", `{"acceptMissing":null}`, `{"acceptMissing":1}`, `{"AcceptMissing":"true"}`, `{"acceptMissing":true,"x":1}`,
				strings.Repeat("[", 100_000), `{"x":` + strings.Repeat(" ", 100_000) + "1}", "\x00", "\xff\xfe", "acceptMissing=true", "<a/>",
			} {
				for _, kind := range []string{"application/json", "text/plain", "application/x-www-form-urlencoded", "nonsense"} {
					for _, action := range []string{"cancel", "retry", "ack", "pause", "resume"} {
						if got := ask("POST", "/v1/jobs/"+name+"/"+action, body, "Content-Type", kind); got.status < 400 {
							t.Errorf("%s of a job that is done, with %.50q: %d", action, body, got.status)
						}
					}
					ask("POST", "/v1/warehouses", body, "Content-Type", kind)
					ask("PATCH", "/v1/warehouses/none", body, "Content-Type", kind)
				}
			}
			for _, query := range []string{"%zz", "purge=true&%zz", "purge=true;x=1", "=", "&&&", "purge"} {
				ask("DELETE", "/v1/warehouses/none?"+query, "")
				ask("GET", "/v1/jobs?"+query, "")
				ask("GET", cleanups+"?"+query, "")
			}
			for _, method := range []string{"PUT", "PATCH", "DELETE", "OPTIONS", "POST", "BREW"} {
				ask(method, "/v1/jobs", "")
				ask(method, "/v1/jobs/"+name, "")
				ask(method, cleanups, "")
				ask(method, "/v1/nothing", "")
			}
			r.want(200, "GET", space+"/n/tables/t", "")
			if j := r.job(name); j.State != "SUCCEEDED" {
				t.Errorf("the job is %+v", j)
			}
			if log := r.log.String(); strings.Contains(log, "panic") {
				t.Errorf("something panicked: %.2000s", log[strings.Index(log, "panic"):])
			}
		})
	}
}
