package iceberg_test

import (
	"strings"
	"testing"
)

// scoped is the bench of a caller whose token has actions on one namespace.
func scoped(namespace string, actions ...string) []string {
	return []string{"Authorization", "Bearer grant " + namespace + " " + strings.Join(actions, " ")}
}

// TestGrants walks every route: with the token of another namespace it is 403 and changes
// nothing; with the one action that it needs it is not 403.
func TestGrants(t *testing.T) {
	t.Parallel()
	const (
		schema = `{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"id","required":false,"type":"long"}]}`
		table  = `{"name":"new","schema":` + schema + `}`
		view   = `{"name":"v2","schema":` + schema + `,"view-version":{"version-id":1,"timestamp-ms":1,"schema-id":0,"summary":{},"representations":[{"type":"sql","sql":"SELECT 1","dialect":"spark"}],"default-namespace":["mine"]}}`
	)
	for _, c := range []struct {
		method, path, body string
		needs              []string
	}{
		{"GET", "namespaces/mine", "", []string{"read"}},
		{"HEAD", "namespaces/mine", "", []string{"read"}},
		{"DELETE", "namespaces/mine", "", []string{"drop"}},
		{"POST", "namespaces/mine/properties", `{"updates":{"a":"b"}}`, []string{"write"}},
		{"GET", "namespaces/mine/tables", "", []string{"read"}},
		{"POST", "namespaces/mine/tables", table, []string{"write"}},
		{"POST", "namespaces/mine/register", `{"name":"r","metadata-location":"file:///nowhere/x.json"}`, []string{"write"}},
		{"GET", "namespaces/mine/tables/t", "", []string{"read"}},
		{"HEAD", "namespaces/mine/tables/t", "", []string{"read"}},
		{"POST", "namespaces/mine/tables/t", `{"requirements":[],"updates":[]}`, []string{"write"}},
		{"POST", "namespaces/mine/tables/t/metrics", `{"report-type":"scan-report"}`, []string{"read"}},
		{"POST", "namespaces/mine/tables/t/unregister", `{}`, []string{"drop"}},
		{"DELETE", "namespaces/mine/tables/t", "", []string{"drop"}},
		{"DELETE", "namespaces/mine/tables/t?purgeRequested=true", "", []string{"drop", "purge"}},
		{"GET", "namespaces/mine/views", "", []string{"read"}},
		{"POST", "namespaces/mine/views", view, []string{"write"}},
		{"POST", "namespaces/mine/register-view", `{"name":"r","metadata-location":"file:///nowhere/x.json"}`, []string{"write"}},
		{"GET", "namespaces/mine/views/v", "", []string{"read"}},
		{"HEAD", "namespaces/mine/views/v", "", []string{"read"}},
		{"POST", "namespaces/mine/views/v", `{"requirements":[],"updates":[]}`, []string{"write"}},
		{"DELETE", "namespaces/mine/views/v", "", []string{"drop"}},
		{"POST", "tables/rename", `{"source":{"namespace":["mine"],"name":"t"},"destination":{"namespace":["mine"],"name":"u"}}`, []string{"write", "drop"}},
		{"POST", "views/rename", `{"source":{"namespace":["mine"],"name":"v"},"destination":{"namespace":["mine"],"name":"u"}}`, []string{"write", "drop"}},
		{"POST", "transactions/commit", `{"table-changes":[{"identifier":{"namespace":["mine"],"name":"t"},"requirements":[],"updates":[]}]}`, []string{"write"}},
		{"POST", "namespaces", `{"namespace":["mine","sub"]}`, []string{"write"}},
		{"GET", "namespaces?parent=mine", "", []string{"read"}},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			t.Parallel()
			b := open(t, options{})
			b.namespace("mine")
			b.namespace("theirs")
			b.do("POST", base+"namespaces/mine/tables", strings.Replace(table, "new", "t", 1)).want(200)
			b.do("POST", base+"namespaces/mine/views", strings.Replace(view, "v2", "v", 1)).want(200)
			for _, token := range [][]string{
				scoped("theirs", "read", "write", "drop", "purge"),
				scoped("mine.sub.deeper", "write", "drop", "purge"),
			} {
				if c.needs[0] == "read" && !strings.Contains(c.path, "/tables") && !strings.Contains(c.path, "/views") && strings.Contains(token[1], "mine") {
					continue // a namespace on the way to what is granted is shown
				}
				b.unchanged(func() { b.do(c.method, base+c.path, c.body, token...).want(403) })
			}
			for i := range c.needs { // without one of the actions
				less := append(append([]string{}, c.needs[:i]...), c.needs[i+1:]...)
				if len(less) > 0 {
					b.unchanged(func() { b.do(c.method, base+c.path, c.body, scoped("mine", less...)...).want(403) })
				}
			}
			if a := b.do(c.method, base+c.path, c.body, scoped("mine", c.needs...)...); a.status == 403 {
				t.Errorf("refused although %v is granted: %s", c.needs, a.body)
			}
		})
	}
}

func TestGrantsFilterLists(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	for _, n := range []string{"mine", "theirs"} {
		b.namespace(n)
	}
	for _, c := range []struct {
		name  string
		token []string
		want  []string
		not   []string
	}{
		{"one namespace", scoped("mine", "read"), []string{"mine"}, []string{"theirs"}},
		{"a namespace below one", scoped("mine.sub", "read"), []string{"mine"}, []string{"theirs"}},
	} {
		a := b.do("GET", base+"namespaces", "", c.token...)
		a.want(200)
		for _, n := range c.want {
			if !strings.Contains(string(a.body), `"`+n+`"`) {
				t.Errorf("%s: %s is hidden: %s", c.name, n, a.body)
			}
		}
		for _, n := range c.not {
			if strings.Contains(string(a.body), `"`+n+`"`) {
				t.Errorf("%s: %s is shown: %s", c.name, n, a.body)
			}
		}
	}
	b.do("GET", "/v1/config", "", scoped("mine", "read")...).want(200)
}

// TestGrantsOfAnsweredKey: an Idempotency-Key gives no answer to another token, also one of
// the same name.
func TestGrantsOfAnsweredKey(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	b.namespace("mine")
	key := newKey()
	ask := func(token []string) *answer {
		return b.do("POST", base+"namespaces", `{"namespace":["mine","sub"],"properties":{"p":"hidden"}}`, append(token, "Idempotency-Key", key)...)
	}
	ask(scoped("mine", "write")).want(200)
	ask(scoped("theirs", "write")).want(403)
	ask(scoped("mine", "write")).want(200)
}
