package iceberg_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/job"
)

func viewVersion(id int, sql string) string {
	return fmt.Sprintf(`{"version-id":%d,"schema-id":0,"timestamp-ms":1700000000000,"summary":{"engine":"test"},"representations":[{"type":"sql","sql":%q,"dialect":"spark"}],"default-namespace":["n"]}`, id, sql)
}

func viewBody(name string, extra ...string) string {
	return fmt.Sprintf(`{"name":%q,"schema":%s,"view-version":%s,"properties":{"owner":"ann"}%s}`, name, schema, viewVersion(1, "SELECT 1"), strings.Join(append([]string{""}, extra...), ","))
}

func replaceBody(sql string) string {
	return `{"requirements":[],"updates":[{"action":"add-view-version","view-version":` + viewVersion(2, sql) + `},{"action":"set-current-view-version","view-version-id":-1}]}`
}

func TestViewRoutes(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		ns := b.namespace("n")
		b.namespace("m")
		b.table(ns, "t")
		views := ns + "/views"
		path := views + "/v"
		made := b.do("POST", views, viewBody("v")).want(200)
		loaded := b.do("GET", path, "").want(200)
		if string(made.body) != string(loaded.body) {
			t.Errorf("created %s, loaded %s", clip(string(made.body)), clip(string(loaded.body)))
		}
		rename := func(from, to string) string {
			return fmt.Sprintf(`{"source":{"namespace":["n"],"name":%q},"destination":{"namespace":["n"],"name":%q}}`, from, to)
		}
		for _, c := range []struct {
			name, method, path, body string
			status                   int
			kind                     string
		}{
			{"exists", "HEAD", path, "", 204, ""},
			{"list", "GET", views, "", 200, ""},
			{"load missing", "GET", views + "/x", "", 404, "NoSuchViewException"},
			{"exists missing", "HEAD", views + "/x", "", 404, ""},
			{"replace missing", "POST", views + "/x", replaceBody("SELECT 2"), 404, "NoSuchViewException"},
			{"drop missing", "DELETE", views + "/x", "", 404, "NoSuchViewException"},
			{"load a table", "GET", views + "/t", "", 404, "NoSuchViewException"},
			{"drop a table", "DELETE", views + "/t", "", 404, "NoSuchViewException"},
			{"load a view as a table", "GET", ns + "/tables/v", "", 404, "NoSuchTableException"},
			{"drop a view as a table", "DELETE", ns + "/tables/v?purgeRequested=true", "", 404, "NoSuchTableException"},
			{"commit a view as a table", "POST", ns + "/tables/v", setProperty("a", "b"), 404, "NoSuchTableException"},
			{"create over a table", "POST", views, viewBody("t"), 409, "AlreadyExistsException"},
			{"create over a view", "POST", views, viewBody("v"), 409, "AlreadyExistsException"},
			{"a table over a view", "POST", ns + "/tables", createBody("v"), 409, "AlreadyExistsException"},
			{"create in a missing namespace", "POST", base + "namespaces/x/views", viewBody("v"), 404, "NoSuchNamespaceException"},
			{"list of a missing namespace", "GET", base + "namespaces/x/views", "", 404, "NoSuchNamespaceException"},
			{"create without a version", "POST", views, `{"name":"x","schema":` + schema + `}`, 400, "BadRequestException"},
			{"create without a name", "POST", views, `{"schema":` + schema + `,"view-version":` + viewVersion(1, "SELECT 1") + `}`, 400, "BadRequestException"},
			{"create without JSON", "POST", views, "x", 400, "BadRequestException"},
			{"create outside", "POST", views, viewBody("x", `"location":"s3://other/x"`), 400, "BadRequestException"},
			{"replace of another uuid", "POST", path, `{"requirements":[{"type":"assert-view-uuid","uuid":"11111111-2222-3333-4444-555555555555"}],"updates":[]}`, 409, "CommitFailedException"},
			{"replace by an unknown action", "POST", path, `{"requirements":[],"updates":[{"action":"dance"}]}`, 400, "BadRequestException"},
			{"rename missing", "POST", base + "views/rename", rename("x", "y"), 404, "NoSuchViewException"},
			{"rename a table", "POST", base + "views/rename", rename("t", "y"), 404, "NoSuchViewException"},
			{"rename onto a table", "POST", base + "views/rename", rename("v", "t"), 409, "AlreadyExistsException"},
			{"rename a view as a table", "POST", base + "tables/rename", rename("v", "y"), 404, "NoSuchTableException"},
			{"rename a table onto a view", "POST", base + "tables/rename", rename("t", "v"), 409, "AlreadyExistsException"},
			{"register what exists", "POST", ns + "/register-view", `{"name":"v","metadata-location":"` + made.text("metadata-location") + `"}`, 409, "AlreadyExistsException"},
			{"register a missing file", "POST", ns + "/register-view", `{"name":"x","metadata-location":"` + rootURI + `/none.json"}`, 404, "NotFoundException"},
			{"register a view as a table", "POST", ns + "/register", `{"name":"x","metadata-location":"` + made.text("metadata-location") + `"}`, 400, "BadRequestException"},
			{"register outside", "POST", ns + "/register-view", `{"name":"x","metadata-location":"s3://other/m.json"}`, 400, "BadRequestException"},
			{"drop the namespace", "DELETE", ns, "", 409, "NamespaceNotEmptyException"},
		} {
			t.Run(c.name, func(t *testing.T) {
				b := b.on(t)
				b.unchanged(func() {
					a := b.do(c.method, c.path, c.body)
					if a.want(c.status); c.kind != "" {
						a.want(c.status, c.kind)
					}
				})
			})
		}
		replaced := b.do("POST", path, replaceBody("SELECT 2")).want(200)
		if n := len(replaced.get("metadata", "versions").([]any)); n != 2 {
			t.Errorf("%d versions", n)
		}
		b.do("POST", base+"views/rename", strings.Replace(rename("v", "w"), `"destination":{"namespace":["n"]`, `"destination":{"namespace":["m"]`, 1)).want(204)
		moved := base + "namespaces/m/views/w"
		if got := b.do("GET", moved, "").want(200).text("metadata-location"); got != replaced.text("metadata-location") {
			t.Errorf("renamed to %s, was %s", got, replaced.text("metadata-location"))
		}
		b.do("DELETE", moved, "").want(204)
		b.do("GET", moved, "").want(404, "NoSuchViewException")
		if !slices.Contains(b.keys(), strings.TrimPrefix(replaced.text("metadata-location"), rootURI+"/")) {
			t.Error("a drop without purge took the file")
		}
		again := b.do("POST", ns+"/register-view", `{"name":"v","metadata-location":"`+replaced.text("metadata-location")+`"}`).want(200)
		if again.text("metadata", "view-uuid") != made.text("metadata", "view-uuid") {
			t.Errorf("uuid %s", again.text("metadata", "view-uuid"))
		}
		b.do("DELETE", ns+"/tables/t?purgeRequested=true", "").want(204)
		purged := b.do("DELETE", path+"?purgeRequested=true", "").want(204)
		if got := purged.header.Get("X-Lethe-Job-State"); got != string(job.Succeeded) {
			t.Errorf("X-Lethe-Job-State %q: %s", got, b.row(purged).LastError)
		}
		if slices.Contains(b.keys(), strings.TrimPrefix(replaced.text("metadata-location"), rootURI+"/")) {
			t.Error("the purge left the view's file")
		}
	})
}

func TestUnregister(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		ns := b.namespace("n")
		path := b.table(ns, "t")
		last := b.do("POST", path, setProperty("k", "v")).want(200)
		key := newKey()
		b.unchanged(func() {
			for range 2 { // the second is a replay
				a := b.do("POST", path+"/unregister", "", "Idempotency-Key", key).want(200)
				if a.text("metadata-location") != last.text("metadata-location") || a.text("metadata", "properties", "k") != "v" {
					t.Errorf("unregistered %s", clip(string(a.body)))
				}
			}
			b.do("POST", path+"/unregister", "").want(404, "NoSuchTableException")
			b.do("POST", path, setProperty("k", "w")).want(404, "NoSuchTableException")
		})
		other := b.table(ns, "t")
		body := `{"name":"t","metadata-location":"` + last.text("metadata-location") + `","overwrite":`
		b.do("POST", ns+"/register", body+"false}").want(409, "AlreadyExistsException")
		b.do("POST", ns+"/register", body+"true}").want(200)
		if got := b.do("GET", other, "").want(200).text("metadata-location"); got != last.text("metadata-location") {
			t.Errorf("the table is %s", got)
		}
	})
}
