package iceberg_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// specRoutes are the operations of the newest spec below /v1/{prefix}/.
var specRoutes = []string{
	"GET namespaces", "POST namespaces",
	"GET namespaces/{namespace}", "HEAD namespaces/{namespace}", "DELETE namespaces/{namespace}",
	"POST namespaces/{namespace}/properties",
	"GET namespaces/{namespace}/tables", "POST namespaces/{namespace}/tables", "POST namespaces/{namespace}/register",
	"GET namespaces/{namespace}/functions", "GET namespaces/{namespace}/functions/{function}",
	"GET namespaces/{namespace}/tables/{table}", "HEAD namespaces/{namespace}/tables/{table}",
	"POST namespaces/{namespace}/tables/{table}", "DELETE namespaces/{namespace}/tables/{table}",
	"POST namespaces/{namespace}/tables/{table}/unregister", "POST namespaces/{namespace}/tables/{table}/metrics",
	"POST namespaces/{namespace}/tables/{table}/plan", "GET namespaces/{namespace}/tables/{table}/plan/{plan-id}",
	"DELETE namespaces/{namespace}/tables/{table}/plan/{plan-id}", "POST namespaces/{namespace}/tables/{table}/tasks",
	"GET namespaces/{namespace}/tables/{table}/credentials", "POST namespaces/{namespace}/tables/{table}/sign",
	"POST tables/rename", "POST transactions/commit",
	"GET namespaces/{namespace}/views", "POST namespaces/{namespace}/views", "POST namespaces/{namespace}/register-view",
	"GET namespaces/{namespace}/views/{view}", "HEAD namespaces/{namespace}/views/{view}",
	"POST namespaces/{namespace}/views/{view}", "DELETE namespaces/{namespace}/views/{view}", "POST views/rename",
}

// neededRoutes are those without which no engine works.
var neededRoutes = []string{
	"GET namespaces", "POST namespaces", "GET namespaces/{namespace}", "HEAD namespaces/{namespace}", "DELETE namespaces/{namespace}",
	"POST namespaces/{namespace}/properties", "GET namespaces/{namespace}/tables", "POST namespaces/{namespace}/tables",
	"POST namespaces/{namespace}/register", "GET namespaces/{namespace}/tables/{table}", "HEAD namespaces/{namespace}/tables/{table}",
	"POST namespaces/{namespace}/tables/{table}", "DELETE namespaces/{namespace}/tables/{table}",
	"POST namespaces/{namespace}/tables/{table}/metrics", "POST tables/rename", "POST transactions/commit",
}

func TestConfig(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	a := b.do("GET", "/v1/config?warehouse=default", "").want(200)
	if got := a.text("overrides", "prefix"); got != "default" {
		t.Errorf("prefix %q", got)
	}
	if got := a.text("idempotency-key-lifetime"); got != "PT1800S" {
		t.Errorf("idempotency-key-lifetime %q", got)
	}
	var offered []string
	for _, e := range a.get("endpoints").([]any) {
		offered = append(offered, e.(string))
	}
	for i, e := range offered {
		if slices.Contains(offered[:i], e) {
			t.Errorf("%s stands there twice", e)
		}
		verb, path, _ := strings.Cut(e, " ")
		if !slices.Contains(specRoutes, verb+" "+strings.TrimPrefix(path, "/v1/{prefix}/")) {
			t.Errorf("%s is no operation of the spec", e)
		}
	}
	for _, e := range neededRoutes {
		if !slices.Contains(offered, strings.Replace(e, " ", " /v1/{prefix}/", 1)) {
			t.Errorf("%s is not offered", e)
		}
	}
	b.do("GET", "/v1/config", "").want(200)
	b.do("GET", "/v1/config?warehouse=other", "").want(404, "NoSuchWarehouseException")
	b.do("POST", "/v1/config", "{}").want(406, "UnsupportedOperationException")
	b.do("GET", "/v1/config", "", "Authorization", "").want(401, "NotAuthorizedException")
}

// Every operation of the spec either is advertised and answers, or is not and does not:
// clients take the list literally.
func TestEndpointsAreExact(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	ns := b.namespace("n")
	b.table(ns, "t")
	offered := b.do("GET", "/v1/config", "").want(200).get("endpoints").([]any)
	fill := strings.NewReplacer("{namespace}", "n", "{table}", "t", "{view}", "v", "{function}", "f", "{plan-id}", "p")
	slices.SortStableFunc(specRoutes, func(x, y string) int { // drops last
		return strings.Count(x, "DELETE") - strings.Count(y, "DELETE")
	})
	for _, route := range specRoutes {
		verb, path, _ := strings.Cut(route, " ")
		promised := slices.Contains(offered, any(verb+" /v1/{prefix}/"+path))
		body := "{}"
		if verb != http.MethodPost {
			body = ""
		}
		a := b.do(verb, base+fill.Replace(path), body)
		answers := a.status != http.StatusNotAcceptable && !strings.Contains(a.message(), "no such path")
		if verb == http.MethodHead { // no body tells the two apart
			answers = a.status == http.StatusNoContent || promised
		}
		if answers != promised {
			t.Errorf("%s: advertised %v, answered %d %s", route, promised, a.status, clip(string(a.body)))
		}
	}
	for _, path := range []string{"", "v1", "v1/", "v1/default", "v1/default/", "v1/default/other", "v2/default/namespaces", base + "namespaces/n/tables/t/x", "v1/default/namespaces/"} {
		b.do("GET", "/"+strings.TrimPrefix(path, "/"), "").want(map[bool]int{true: 400, false: 404}[path == "v1/default/namespaces/"])
	}
	for _, verb := range []string{"PUT", "PATCH", "OPTIONS", "TRACE"} {
		b.do(verb, base+"namespaces", "").want(406, "UnsupportedOperationException")
	}
	b.do("GET", "/v1/other/namespaces", "").want(404, "NoSuchWarehouseException")
}

func TestNamespaceRoutes(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		const list = base + "namespaces"
		a := b.do("POST", list, `{"namespace":["a"],"properties":{"owner":"ann"},"unknown":1}`).want(200)
		if a.text("properties", "owner") != "ann" || a.text("properties", "location") != rootURI+"/a" {
			t.Errorf("properties %v", a.get("properties"))
		}
		b.do("POST", list, `{"namespace":["a","b"]}`).want(200)
		for _, c := range []struct {
			name, method, path, body string
			status                   int
			kind                     string
		}{
			{"load", "GET", list + "/a", "", 200, ""},
			{"load nested", "GET", list + "/a%1Fb", "", 200, ""},
			{"exists", "HEAD", list + "/a", "", 204, ""},
			{"list top", "GET", list, "", 200, ""},
			{"list below", "GET", list + "?parent=a", "", 200, ""},
			{"list empty parent", "GET", list + "?parent=", "", 200, ""},
			{"exists already", "POST", list, `{"namespace":["a"]}`, 409, "AlreadyExistsException"},
			{"no parent", "POST", list, `{"namespace":["x","y"]}`, 404, "NoSuchNamespaceException"},
			{"no levels", "POST", list, `{"namespace":[]}`, 400, "BadRequestException"},
			{"null levels", "POST", list, `{"namespace":null}`, 400, "BadRequestException"},
			{"missing levels", "POST", list, `{}`, 400, "BadRequestException"},
			{"empty level", "POST", list, `{"namespace":["a",""]}`, 400, "BadRequestException"},
			{"NUL in a level", "POST", list, `{"namespace":["a\u0000"]}`, 400, "BadRequestException"},
			{"separator in a level", "POST", list, `{"namespace":["a\u001fb"]}`, 400, "BadRequestException"},
			{"too long a level", "POST", list, `{"namespace":["` + strings.Repeat("x", 600) + `"]}`, 400, "BadRequestException"},
			{"too long in all", "POST", list, `{"namespace":["a",` + strings.Repeat(`"`+strings.Repeat("x", 400)+`",`, 3) + `"z"]}`, 400, "BadRequestException"},
			{"levels of another type", "POST", list, `{"namespace":"a"}`, 400, "BadRequestException"},
			{"property of another type", "POST", list, `{"namespace":["z"],"properties":{"n":1}}`, 400, "BadRequestException"},
			{"NUL in a property", "POST", list, `{"namespace":["z"],"properties":{"n":"\u0000"}}`, 400, "BadRequestException"},
			{"location outside", "POST", list, `{"namespace":["z"],"properties":{"location":"s3://other/z"}}`, 400, "BadRequestException"},
			{"location with NUL", "POST", list, `{"namespace":["z"],"properties":{"location":"s3://lake/wh/\u0000"}}`, 400, "BadRequestException"},
			{"no body", "POST", list, "", 400, "BadRequestException"},
			{"no JSON", "POST", list, "namespace=a", 400, "BadRequestException"},
			{"cut JSON", "POST", list, `{"namespace":["a"`, 400, "BadRequestException"},
			{"load missing", "GET", list + "/x", "", 404, "NoSuchNamespaceException"},
			{"exists missing", "HEAD", list + "/x", "", 404, ""},
			{"drop missing", "DELETE", list + "/x", "", 404, "NoSuchNamespaceException"},
			{"drop with a child", "DELETE", list + "/a", "", 409, "NamespaceNotEmptyException"},
			{"list below missing", "GET", list + "?parent=x", "", 404, "NoSuchNamespaceException"},
			{"properties of missing", "POST", list + "/x/properties", `{"updates":{"k":"v"}}`, 404, "NoSuchNamespaceException"},
			{"property set and removed", "POST", list + "/a/properties", `{"removals":["k"],"updates":{"k":"v"}}`, 422, "UnprocessableEntityException"},
			{"property removed of another type", "POST", list + "/a/properties", `{"removals":{"k":1}}`, 400, "BadRequestException"},
			{"property without a name", "POST", list + "/a/properties", `{"updates":{"":"v"}}`, 400, "BadRequestException"},
		} {
			t.Run(c.name, func(t *testing.T) {
				b := b.on(t)
				a := b.do(c.method, c.path, c.body)
				if a.want(c.status); c.kind != "" {
					a.want(c.status, c.kind)
				}
			})
		}
		a = b.do("POST", list+"/a/properties", `{"removals":["owner","none"],"updates":{"z":"1","y":"2"}}`).want(200)
		want := map[string]any{"updated": []any{"y", "z"}, "removed": []any{"owner"}, "missing": []any{"none"}}
		if diff := cmp.Diff(want, a.get()); diff != "" {
			t.Error(diff)
		}
		b.do("DELETE", list+"/a%1Fb", "").want(204)
		b.do("DELETE", list+"/a", "").want(204)
		b.do("DELETE", list+"/a", "").want(404, "NoSuchNamespaceException")
	})
}

func TestTableRoutes(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		ns := b.namespace("n")
		b.namespace("m")
		path := b.table(ns, "t")
		at := b.do("GET", path, "").want(200)
		file := at.text("metadata-location")
		if !slices.Contains(b.keys(), strings.TrimPrefix(file, rootURI+"/")) {
			t.Errorf("%s is not in the store: %q", file, b.keys())
		}
		b.table(ns, "other")
		tables := ns + "/tables"
		rename := func(from, to string) string {
			return `{"source":` + from + `,"destination":` + to + `}`
		}
		const tableT, tableX = `{"namespace":["n"],"name":"t"}`, `{"namespace":["n"],"name":"x"}`
		for _, c := range []struct {
			name, method, path, body string
			status                   int
			kind                     string
		}{
			{"exists", "HEAD", path, "", 204, ""},
			{"list", "GET", tables, "", 200, ""},
			{"metrics", "POST", path + "/metrics", `{"report-type":"scan-report","anything":[1]}`, 204, ""},
			{"staged", "POST", tables, createBody("staged", `"stage-create":true`), 200, ""},
			{"commit of nothing", "POST", path, `{"requirements":[],"updates":[]}`, 200, ""},
			{"load missing", "GET", tables + "/x", "", 404, "NoSuchTableException"},
			{"exists missing", "HEAD", tables + "/x", "", 404, ""},
			{"load in a missing namespace", "GET", base + "namespaces/x/tables/t", "", 404, "NoSuchTableException"},
			{"drop missing", "DELETE", tables + "/x", "", 404, "NoSuchTableException"},
			{"purge missing", "DELETE", tables + "/x?purgeRequested=true", "", 404, "NoSuchTableException"},
			{"commit missing", "POST", tables + "/x", setProperty("a", "b"), 404, "NoSuchTableException"},
			{"metrics of missing", "POST", tables + "/x/metrics", `{"report-type":"scan-report"}`, 404, "NoSuchTableException"},
			{"list of a missing namespace", "GET", base + "namespaces/x/tables", "", 404, "NoSuchNamespaceException"},
			{"create in a missing namespace", "POST", base + "namespaces/x/tables", createBody("t"), 404, "NoSuchNamespaceException"},
			{"create what exists", "POST", tables, createBody("t"), 409, "AlreadyExistsException"},
			{"stage what exists", "POST", tables, createBody("t", `"stage-create":true`), 409, "AlreadyExistsException"},
			{"create without a name", "POST", tables, `{"schema":` + schema + `}`, 400, "BadRequestException"},
			{"create with an empty name", "POST", tables, createBody(""), 400, "BadRequestException"},
			{"create with a NUL name", "POST", tables, createBody("a\x00"), 400, "BadRequestException"},
			{"create with a long name", "POST", tables, createBody(strings.Repeat("x", 256)), 400, "BadRequestException"},
			{"create without a schema", "POST", tables, `{"name":"x"}`, 400, "BadRequestException"},
			{"create outside", "POST", tables, createBody("x", `"location":"s3://other/x"`), 400, "BadRequestException"},
			{"create at the root", "POST", tables, createBody("x", `"location":"s3://lake/wh"`), 400, "BadRequestException"},
			{"create above the root", "POST", tables, createBody("x", `"location":"s3://lake/wh/../x"`), 400, "BadRequestException"},
			{"create at a NUL", "POST", tables, createBody("x", `"location":"s3://lake/wh/a\u0000"`), 400, "BadRequestException"},
			{"create inside a table", "POST", tables, createBody("x", `"location":"`+at.text("metadata", "location")+`/in"`), 409, "AlreadyExistsException"},
			{"create at a namespace", "POST", tables, createBody("x", `"location":"`+rootURI+`/n"`), 409, "AlreadyExistsException"},
			{"create with data outside", "POST", tables, createBody("x", `"properties":{"write.data.path":"s3://other/x"}`), 400, "BadRequestException"},
			{"create with a null property", "POST", tables, createBody("x", `"properties":{"a":null}`), 400, "BadRequestException"},
			{"create of an unknown version", "POST", tables, createBody("x", `"properties":{"format-version":"9"}`), 400, "IllegalArgumentException"},
			{"create with one column twice", "POST", tables, `{"name":"x","schema":{"type":"struct","fields":[{"id":1,"name":"a","required":true,"type":"long"},{"id":2,"name":"a","required":true,"type":"long"}]}}`, 400, "BadRequestException"},
			{"commit without JSON", "POST", path, "{", 400, "BadRequestException"},
			{"commit of an unknown action", "POST", path, `{"requirements":[],"updates":[{"action":"dance"}]}`, 400, "BadRequestException"},
			{"commit of a failing requirement", "POST", path, `{"requirements":[{"type":"assert-table-uuid","uuid":"11111111-2222-3333-4444-555555555555"}],"updates":[]}`, 409, "CommitFailedException"},
			{"commit of another uuid", "POST", path, `{"requirements":[],"updates":[{"action":"assign-uuid","uuid":"11111111-2222-3333-4444-555555555555"}]}`, 400, "IllegalArgumentException"},
			{"commit that creates what exists", "POST", path, `{"requirements":[{"type":"assert-create"}],"updates":[]}`, 409, "CommitFailedException"},
			{"commit to a place outside", "POST", path, `{"requirements":[],"updates":[{"action":"set-location","location":"s3://other/x"}]}`, 400, "BadRequestException"},
			{"load with an unknown mode", "GET", path + "?snapshots=some", "", 400, "BadRequestException"},
			{"drop with a typo", "DELETE", path + "?purgeRequested=yes", "", 400, "BadRequestException"},
			{"metrics without a type", "POST", path + "/metrics", `{}`, 400, "BadRequestException"},
			{"metrics without JSON", "POST", path + "/metrics", `x`, 400, "BadRequestException"},
			{"register without a file", "POST", ns + "/register", `{"name":"x"}`, 400, "BadRequestException"},
			{"register without a name", "POST", ns + "/register", `{"metadata-location":"` + file + `"}`, 400, "BadRequestException"},
			{"register outside", "POST", ns + "/register", `{"name":"x","metadata-location":"s3://other/m.json"}`, 400, "BadRequestException"},
			{"register NUL", "POST", ns + "/register", `{"name":"x","metadata-location":"s3://lake/wh/\u0000"}`, 400, "BadRequestException"},
			{"register a long place", "POST", ns + "/register", `{"name":"x","metadata-location":"` + rootURI + "/" + strings.Repeat("x", 2100) + `"}`, 400, "BadRequestException"},
			{"register a missing file", "POST", ns + "/register", `{"name":"x","metadata-location":"` + rootURI + `/none.json"}`, 404, "NotFoundException"},
			{"register in a missing namespace", "POST", base + "namespaces/x/register", `{"name":"x","metadata-location":"` + file + `"}`, 404, "NoSuchNamespaceException"},
			{"register what exists", "POST", ns + "/register", `{"name":"t","metadata-location":"` + file + `"}`, 409, "AlreadyExistsException"},
			{"rename missing", "POST", base + "tables/rename", rename(tableX, `{"namespace":["n"],"name":"y"}`), 404, "NoSuchTableException"},
			{"rename into a missing namespace", "POST", base + "tables/rename", rename(tableT, `{"namespace":["x"],"name":"t"}`), 404, "NoSuchNamespaceException"},
			{"rename onto a table", "POST", base + "tables/rename", rename(tableT, `{"namespace":["n"],"name":"other"}`), 409, "AlreadyExistsException"},
			{"rename onto itself", "POST", base + "tables/rename", rename(tableT, tableT), 409, "AlreadyExistsException"},
			{"rename without a source", "POST", base + "tables/rename", `{"destination":` + tableX + `}`, 400, "BadRequestException"},
			{"rename to an empty name", "POST", base + "tables/rename", rename(tableT, `{"namespace":["n"],"name":""}`), 400, "BadRequestException"},
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
		b.do("POST", base+"tables/rename", rename(tableT, `{"namespace":["m"],"name":"é t"}`)).want(204)
		b.do("GET", path, "").want(404, "NoSuchTableException")
		if got := b.do("GET", base+"namespaces/m/tables/%C3%A9+t", "").want(200).text("metadata-location"); got != file {
			t.Errorf("renamed to %s, was %s", got, file)
		}
	})
}

func TestStagedCreate(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	ns := b.namespace("n")
	var staged *answer
	b.unchanged(func() {
		staged = b.do("POST", ns+"/tables", createBody("t", `"stage-create":true`)).want(200)
	})
	if staged.get("metadata-location") != nil || staged.header.Get("ETag") != "" {
		t.Errorf("a staged table has metadata-location %v, ETag %q", staged.get("metadata-location"), staged.header.Get("ETag"))
	}
	b.do("GET", ns+"/tables/t", "").want(404, "NoSuchTableException")
	create := `{"requirements":[{"type":"assert-create"}],"updates":[{"action":"assign-uuid","uuid":"` + staged.text("metadata", "table-uuid") + `"},
		{"action":"upgrade-format-version","format-version":2},{"action":"add-schema","schema":` + schema + `},{"action":"set-current-schema","schema-id":-1},
		{"action":"add-spec","spec":{"spec-id":0,"fields":[]}},{"action":"set-default-spec","spec-id":-1},
		{"action":"add-sort-order","sort-order":{"order-id":0,"fields":[]}},{"action":"set-default-sort-order","sort-order-id":-1},
		{"action":"set-location","location":"` + staged.text("metadata", "location") + `"}]}`
	made := b.do("POST", ns+"/tables/t", create).want(200)
	if made.text("metadata", "table-uuid") != staged.text("metadata", "table-uuid") {
		t.Errorf("uuid %v became %v", staged.get("metadata", "table-uuid"), made.get("metadata", "table-uuid"))
	}
	b.do("POST", ns+"/tables/t", create).want(409, "CommitFailedException")
}

func TestRegister(t *testing.T) {
	t.Parallel()
	each(t, options{}, func(t *testing.T, b *bench) {
		ns := b.namespace("n")
		path := b.table(ns, "t")
		made := b.do("GET", path, "").want(200)
		file := made.text("metadata-location")
		body := `{"name":"again","metadata-location":"` + file + `"}`

		b.do("DELETE", path, "").want(204)
		a := b.do("POST", ns+"/register", body).want(200)
		if a.text("metadata-location") != file || a.text("metadata", "table-uuid") != made.text("metadata", "table-uuid") {
			t.Errorf("registered %s", clip(string(a.body)))
		}
		if a.header.Get("ETag") == "" {
			t.Error("no ETag")
		}
		// Twice is allowed; then a purge would destroy both.
		b.do("POST", ns+"/register", strings.Replace(body, "again", "twin", 1)).want(200)
		refused := b.do("DELETE", ns+"/tables/twin?purgeRequested=true", "").want(409, "ConflictException")
		if !strings.Contains(refused.message(), "n.again") || refused.header.Get("X-Lethe-Job") != "" {
			t.Errorf("%q, job %q", refused.message(), refused.header.Get("X-Lethe-Job"))
		}
		b.do("DELETE", ns+"/tables/twin", "").want(204)

		for name, text := range map[string]string{
			"nothing": "", "no JSON": "x", "another document": `{"a":1}`, "not closed": `{"format-version":2`, "an unknown version": `{"format-version":77}`,
			"broken gzip": "\x1f\x8b\x08xxxx",
		} {
			at := b.put("bad/"+strings.ReplaceAll(name, " ", "-")+".json", text)
			b.unchanged(func() {
				b.do("POST", ns+"/register", `{"name":"bad","metadata-location":"`+at+`"}`).want(400, "BadRequestException")
			})
		}
		b.do("GET", ns+"/tables/bad", "").want(404, "NoSuchTableException")
	})
}

func TestRefsETagsAndConditionalLoads(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	path := b.table(b.namespace("n"), "t")
	committed := b.do("POST", path, addSnapshots(time.Now())).want(200)
	all := b.do("GET", path, "").want(200)
	if diff := cmp.Diff(all.body, committed.body); diff != "" {
		t.Errorf("the commit answered something else than the load: %s", diff)
	}
	named := b.do("GET", path+"?snapshots=all", "").want(200)
	refs := b.do("GET", path+"?snapshots=refs", "").want(200)
	if n := len(all.get("metadata", "snapshots").([]any)); n != 2 {
		t.Errorf("%d snapshots, want 2", n)
	}
	if list, _ := refs.get("metadata", "snapshots").([]any); len(list) != 1 || refs.get("metadata", "snapshots", 0, "snapshot-id") != all.get("metadata", "current-snapshot-id") {
		t.Errorf("snapshots=refs gave %v", list)
	}
	tag, tagRefs := all.header.Get("ETag"), refs.header.Get("ETag")
	if tag == "" || tag == tagRefs || tag != named.header.Get("ETag") || tag != committed.header.Get("ETag") {
		t.Errorf("ETag %q of the load, %q of all, %q of refs, %q of the commit", tag, named.header.Get("ETag"), tagRefs, committed.header.Get("ETag"))
	}
	for _, c := range []struct {
		name, query, match string
		status             int
	}{
		{"the same", "", tag, 304},
		{"the same, refs", "?snapshots=refs", tagRefs, 304},
		{"refs is not all", "", tagRefs, 200},
		{"all is not refs", "?snapshots=refs", tag, 200},
		{"unquoted", "", strings.Trim(tag, `"`), 200},
		{"garbage", "", `"x"`, 200},
		{"none", "", "", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := b.on(t)
			a := b.do("GET", path+c.query, "", "If-None-Match", c.match)
			a.want(c.status)
			if c.status == 304 && a.header.Get("ETag") != c.match {
				t.Errorf("ETag %q of a 304 for %q", a.header.Get("ETag"), c.match)
			}
		})
	}
	b.do("POST", path, setProperty("k", "v")).want(200)
	if got := b.do("GET", path, "", "If-None-Match", tag).want(200).header.Get("ETag"); got == tag {
		t.Error("a commit left the ETag as it was")
	}
}

// Answers to HEAD and 304 must be empty on the wire too.
func TestEmptyAnswersOverTheWire(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	path := b.table(b.namespace("n"), "t")
	tag := b.do("GET", path, "").want(200).header.Get("ETag")
	srv := newServer(t, b.bare)
	for _, c := range []struct {
		method, path, match string
		status              int
	}{
		{"HEAD", path, "", 204},
		{"HEAD", path + "x", "", 404},
		{"HEAD", base + "namespaces/n", "", 204},
		{"HEAD", base + "namespaces/%00", "", 400},
		{"GET", path, tag, 304},
		{"DELETE", path, "", 204},
	} {
		r := b.request(c.method, srv.URL+c.path, "", "If-None-Match", c.match)
		r.RequestURI = ""
		res, err := srv.Client().Do(r)
		b.must(err)
		n, err := res.Body.Read(make([]byte, 1))
		_ = res.Body.Close()
		if res.StatusCode != c.status || n != 0 || err == nil {
			t.Errorf("%s %s: status %d with %d bytes (%v), want %d and none", c.method, c.path, res.StatusCode, n, err, c.status)
		}
	}
}
