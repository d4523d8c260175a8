package iceberg_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
)

// readRequest makes the request that a server reads from the wire, byte for byte.
func readRequest(method, target, body string) (*http.Request, error) {
	raw := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: lethe\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", method, target, annKey, len(body), body)
	return http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
}

// check is what holds for every answer to hostile input, besides its shape: it is no
// fault of the server, and a refused change left no file.
func (b *bench) hostile(method, target, body string) *answer {
	b.tb.Helper()
	tb := b.tb
	r, err := readRequest(method, target, body)
	if err != nil {
		return nil // net/http answers 400 itself
	}
	defer func() { _ = r.Body.Close() }()
	before := b.keys()
	a := b.send(r.WithContext(tb.Context()))
	if a.status >= 500 {
		tb.Fatalf("%s %q answered %d: %s", method, target, a.status, a.body)
	}
	if after := b.keys(); a.status >= 400 && !slices.Equal(before, after) {
		tb.Fatalf("%s %q was refused with %d and left %q, before it was %q", method, target, a.status, after, before)
	}
	return a
}

const snapshotText = `{"snapshot-id":3051729675574597004,"sequence-number":1,"timestamp-ms":4102444800000,"manifest-list":"s3://lake/wh/x/snap.avro","summary":{"operation":"append"},"schema-id":0}`

// fuzzLimits keep one input short.
var fuzzLimits = metadata.Limits{MaxBytes: 1 << 20, MaxDepth: 100}

func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"/v1/config", "/v1/config?warehouse=default", "/v1/config?warehouse=%00", "/v1/oauth/tokens", base + "namespaces", base + "namespaces/n",
		base + "namespaces/n%1Fm", base + "namespaces/n%1fm", base + "namespaces/%1F", base + "namespaces/n%1F", base + "namespaces/%00",
		base + "namespaces/%FF", base + "namespaces/%C0%AF", base + "namespaces/a+b", base + "namespaces/a%20b", base + "namespaces/a%2Bb",
		base + "namespaces/a%2Fb", base + "namespaces/..", base + "namespaces/%2E%2E", base + "namespaces//tables", base + "namespaces/n/tables",
		base + "namespaces/n/tables/t", base + "namespaces/n/tables/t?snapshots=refs", base + "namespaces/n/tables/t?snapshots=none",
		base + "namespaces/n/tables/t%00", base + "namespaces/n/tables/%E6%97", base + "namespaces/n/tables/t/metrics",
		base + "namespaces/n/tables/t?purgeRequested=true", base + "namespaces/n/tables/t?purgeRequested=yes", base + "namespaces?parent=n%1Fm",
		base + "namespaces?parent=%zz", base + "namespaces?pageToken=&pageSize=1", base + "namespaces?pageToken=x", base + "namespaces/\"%2F",
		base + "namespaces/é%2F", base + "namespaces/n/views/v", base + "tables/rename", base + "transactions/commit", "/v1/%64efault/namespaces",
		"/v1/a%2Fb/namespaces", "/", "//", "/v1//namespaces", "*", "/api/metalakes/default/catalogs/default/cleanups?table=%00", "/v1/default/namespaces/n;x=1",
		base + "namespaces/" + strings.Repeat("x%1F", 300),
	} {
		for _, method := range []string{"GET", "DELETE"} {
			f.Add(method, seed)
		}
	}
	b := open(f, options{})
	b.table(b.namespace("n"), "t")
	f.Fuzz(func(t *testing.T, method, target string) {
		b := b.on(t)
		if !slices.Contains([]string{"GET", "HEAD", "POST", "DELETE", "PUT"}, method) || strings.ContainsAny(target, " \r\n") {
			return
		}
		b.hostile(method, target, "")
	})
}

func FuzzPageToken(f *testing.F) {
	enc := base64.RawURLEncoding.EncodeToString
	for _, seed := range []string{
		"", "x", "%", "%20", "%00", "====", "AAAA", "null", "e30", enc([]byte("{}")), enc([]byte("[]")), enc([]byte("null")), enc([]byte(`"x"`)), enc([]byte("{")),
		enc([]byte(`{"w":"default","k":"tables","n":["n"],"a":"t"}`)), enc([]byte(`{"w":"default","k":"tables","n":["n"],"a":"\u0000"}`)),
		enc([]byte(`{"w":"default","k":"tables","n":["n"],"a":"\ud800"}`)), enc([]byte("{\"w\":\"default\",\"k\":\"tables\",\"n\":[\"n\"],\"a\":\"\xff\"}")),
		enc([]byte(`{"w":"default","k":"namespaces","a":"[\"n\"]"}`)), enc([]byte(`{"w":"default","k":"namespaces","n":[],"a":"[\"n\"]"}`)),
		enc([]byte(`{"w":"default","k":"namespaces","a":"x"}`)), enc([]byte(`{"w":"default","k":"tables","n":["n"]}`)), enc([]byte(`{"w":"other","k":"tables","n":["n"],"a":"t"}`)),
		enc([]byte(`{"w":"default","k":"views","n":["n"],"a":"t"}`)), enc([]byte(`{"w":"default","k":"tables","n":["n","m"],"a":"t"}`)),
		enc([]byte(`{"w":"default","k":"tables","n":null,"a":"t"}`)), enc([]byte(`{"w":"default","k":"tables","n":[null],"a":"t"}`)), enc([]byte(`{"w":1}`)),
		enc([]byte(`{"W":"default","K":"tables","N":["n"],"A":"t"}`)), enc([]byte(`{"w":"default","k":"tables","n":["n"],"a":"t"}{}`)),
		enc([]byte(strings.Repeat("[", 1000))), enc([]byte(`{"a":"` + strings.Repeat("x", 3000) + `"}`)), enc([]byte("default\n5")), enc([]byte("default\n-1")), "default",
	} {
		f.Add(seed)
	}
	b := open(f, options{paused: true})
	ns := b.namespace("n")
	b.table(ns, "t")
	b.table(ns, "u")
	f.Fuzz(func(t *testing.T, token string) {
		b := b.on(t)
		if strings.ContainsAny(token, " \r\n#") {
			return
		}
		for _, target := range []string{ns + "/tables", base + "namespaces", cleanups} {
			a := b.hostile("GET", target+"?pageSize=1&pageToken="+token, "")
			if a != nil && a.status != 200 && a.status != 400 {
				t.Fatalf("%s with %q answered %d", target, token, a.status)
			}
		}
	})
}

func FuzzCommitBody(f *testing.F) {
	requirements := []string{
		"", `{"type":"assert-create"}`, `{"type":"assert-table-uuid","uuid":"x"}`, `{"type":"assert-ref-snapshot-id","ref":"main","snapshot-id":null}`,
		`{"type":"assert-last-assigned-field-id","last-assigned-field-id":2}`, `{"type":"assert-current-schema-id","current-schema-id":0}`, `{"type":"other"}`, `{}`, `null`, `1`,
	}
	for _, r := range requirements {
		f.Add(`{"requirements":[` + r + `],"updates":[]}`)
	}
	for _, u := range []string{
		`{"action":"set-properties","updates":{"a":"b"}}`, `{"action":"set-properties","updates":{"format-version":"3"}}`, `{"action":"set-properties","updates":null}`,
		`{"action":"set-properties","updates":{"write.metadata.compression-codec":"gzip","write.metadata.path":"s3://other/x"}}`,
		`{"action":"remove-properties","removals":["a"]}`, `{"action":"assign-uuid","uuid":"11111111-2222-3333-4444-555555555555"}`,
		`{"action":"upgrade-format-version","format-version":9}`, `{"action":"upgrade-format-version","format-version":1}`,
		`{"action":"add-schema","schema":` + schema + `}`, `{"action":"add-schema","schema":{"type":"struct","fields":[{"id":-1,"name":"","required":true,"type":"list"}]}}`,
		`{"action":"set-current-schema","schema-id":99}`, `{"action":"add-spec","spec":{"spec-id":1,"fields":[{"source-id":9,"name":"x","transform":"bucket[0]"}]}}`,
		`{"action":"set-default-spec","spec-id":-1}`, `{"action":"add-sort-order","sort-order":{"order-id":0,"fields":[{"source-id":1,"transform":"identity","direction":"asc","null-order":"x"}]}}`,
		`{"action":"add-snapshot","snapshot":` + snapshotText + `}`, `{"action":"add-snapshot","snapshot":null}`,
		`{"action":"set-snapshot-ref","ref-name":"main","type":"branch","snapshot-id":5}`, `{"action":"remove-snapshots","snapshot-ids":[1]}`,
		`{"action":"remove-snapshot-ref","ref-name":"main"}`, `{"action":"set-location","location":"s3://lake/wh/../x"}`, `{"action":"set-location","location":"s3://lake/wh/\u0000"}`,
		`{"action":"set-location","location":"/etc"}`, `{"action":"set-statistics","snapshot-id":1,"statistics":{}}`, `{"action":"remove-partition-specs","spec-ids":[0]}`,
		`{"action":"remove-schemas","schema-ids":[0]}`, `{"action":"add-encryption-key","encryption-key":{}}`, `{"action":""}`, `null`, `[]`,
	} {
		f.Add(`{"requirements":[],"updates":[` + u + `]}`)
	}
	for _, s := range []string{addSnapshots(time.UnixMilli(4102444800000)), "", "{", "null", "[]", `{"updates":[{"action":"dance"}]}`, strings.Repeat("[", 600), `{"requirements":{},"updates":{}}`} {
		f.Add(s)
	}
	b := open(f, options{limits: fuzzLimits})
	ns := b.namespace("n")
	f.Fuzz(func(t *testing.T, body string) {
		b := b.on(t)
		made := b.do("POST", ns+"/tables", createBody("t")).want(200)
		b.hostile("POST", ns+"/tables/t", body)
		b.hostile("POST", base+"transactions/commit", `{"table-changes":[`+strings.Replace(body, "{", `{"identifier":{"namespace":["n"],"name":"t"},`, 1)+`]}`)
		// Whatever was applied, the table loads and goes.
		a := b.do("GET", ns+"/tables/t", "")
		if a.want(200); a.text("metadata", "table-uuid") != made.text("metadata", "table-uuid") {
			t.Fatalf("the uuid changed: %s", clip(string(a.body)))
		}
		b.do("DELETE", ns+"/tables/t", "").want(204)
		b.clear()
	})
}

func FuzzCreateBody(f *testing.F) {
	for _, extra := range []string{
		"", `"stage-create":true`, `"location":"s3://lake/wh/x"`, `"location":"s3a://lake/wh/x/"`, `"location":"s3://lake/wh"`, `"location":"s3://lake/wh/../y"`,
		`"location":"s3://lake/wh/a/../../y"`, `"location":"/etc"`, `"location":"s3://lake/wh/\u0000"`, `"location":1`, `"location":"` + strings.Repeat("x", 3000) + `"`,
		`"location":"s3://lake/wh//x?y#z"`, `"properties":{"format-version":"1"}`, `"properties":{"format-version":"3"}`, `"properties":{"format-version":"99"}`,
		`"properties":{"format-version":"x"}`, `"properties":{"a":null}`, `"properties":{"write.metadata.path":"s3://lake/wh/m"}`, `"properties":{"write.data.path":"s3://other"}`,
		`"properties":{"write.metadata.compression-codec":"gzip"}`, `"properties":[]`, `"partition-spec":{"spec-id":0,"fields":[{"source-id":1,"field-id":1000,"name":"p","transform":"bucket[16]"}]}`,
		`"partition-spec":{"spec-id":0,"fields":[{"source-id":77,"name":"p","transform":"day"}]}`, `"partition-spec":null`, `"partition-spec":{}`,
		`"write-order":{"order-id":1,"fields":[{"source-id":1,"transform":"identity","direction":"asc","null-order":"nulls-first"}]}`, `"write-order":{"order-id":-1}`, `"stage-create":"yes"`,
	} {
		f.Add(createBody("t", strings.Split(extra, "\x00")...))
	}
	for _, s := range []string{
		"", "{", "null", "[]", `{}`, `{"name":"t"}`, `{"name":"","schema":{}}`, `{"name":"t","schema":null}`, `{"name":"t","schema":{"type":"struct","fields":[]}}`,
		`{"name":"t","schema":{"type":"struct","fields":[{"id":1,"name":"a","required":true,"type":"decimal(99,99)"}]}}`,
		`{"name":"t","schema":{"type":"struct","fields":[{"id":1,"name":"a","required":true,"type":{"type":"map"}}]}}`,
		`{"name":"t","schema":{"type":"struct","fields":[null]}}`, `{"name":"a/b","schema":` + schema + `}`, `{"name":"..","schema":` + schema + `}`, `{"name":"\u0000","schema":` + schema + `}`,
	} {
		f.Add(s)
	}
	b := open(f, options{limits: fuzzLimits})
	ns := b.namespace("n")
	f.Fuzz(func(t *testing.T, body string) {
		b := b.on(t)
		a := b.hostile("POST", ns+"/tables", body)
		if a != nil && a.status == 200 {
			uri := a.text("metadata", "location")
			if l, err := blob.ParseLocation(uri); err != nil || !strings.HasPrefix(string(l), rootURI+"/") {
				t.Fatalf("a table at %q", uri)
			}
		}
		b.dropAll(ns)
	})
}

func FuzzRegister(f *testing.F) {
	const v2 = `{"format-version":2,"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1","location":"s3://lake/wh/r","last-sequence-number":0,"last-updated-ms":1602638573590,"last-column-id":2,` +
		`"schemas":[` + schema + `],"current-schema-id":0,"partition-specs":[{"spec-id":0,"fields":[]}],"default-spec-id":0,"last-partition-id":999,"sort-orders":[{"order-id":0,"fields":[]}],"default-sort-order-id":0}`
	f.Add([]byte(v2))
	for _, change := range [][2]string{
		{`"format-version":2`, `"format-version":1`},
		{`"format-version":2`, `"format-version":3`},
		{`"format-version":2`, `"format-version":77`},
		{`"format-version":2`, `"format-version":"2"`},
		{"9c12d441-03fe-4693-9a96-a0705ddf69c1", "x"},
		{`"table-uuid":"9c12d441-03fe-4693-9a96-a0705ddf69c1",`, ""},
		{"s3://lake/wh/r", "s3://other/r"},
		{"s3://lake/wh/r", "s3://lake/wh"},
		{"s3://lake/wh/r", ""},
		{"s3://lake/wh/r", `s3://lake/wh/\u0000`},
		{"s3://lake/wh/r", "s3://lake/wh/../../r"},
		{`"current-schema-id":0`, `"current-schema-id":5`},
		{`"schemas":[` + schema + `]`, `"schemas":[]`},
		{`"schemas":[` + schema + `]`, `"schemas":null`},
		{`"default-spec-id":0`, `"default-spec-id":9`},
		{`"last-column-id":2`, `"last-column-id":-2`},
		{`"last-column-id":2`, `"last-column-id":2,"properties":{"write.data.path":"s3://other/x"}`},
		{`"last-column-id":2`, `"last-column-id":2,"properties":null`},
		{`"last-column-id":2`, `"last-column-id":2,"snapshots":[null]`},
		{`"last-column-id":2`, `"last-column-id":2,"snapshots":[` + snapshotText + `],"current-snapshot-id":3051729675574597004`},
		{`"last-column-id":2`, `"last-column-id":2,"current-snapshot-id":5`},
		{`"last-column-id":2`, `"last-column-id":2,"current-snapshot-id":-1`},
		{`"last-column-id":2`, `"last-column-id":2,"refs":{"main":{"snapshot-id":1,"type":"branch"}}`},
		{`"last-column-id":2`, `"last-column-id":2,"metadata-log":[{"metadata-file":"s3://other/x","timestamp-ms":1}]`},
		{`"last-column-id":2`, `"last-column-id":2,"statistics":[{}]`},
		{`"last-updated-ms":1602638573590`, `"last-updated-ms":1e400`},
		{`"last-updated-ms":1602638573590`, `"last-updated-ms":-1`},
	} {
		f.Add([]byte(strings.Replace(v2, change[0], change[1], 1)))
	}
	for _, s := range []string{"", "{", "null", "[]", "\x1f\x8b", "\x1f\x8b\x08\x00\x00\x00\x00\x00", `{"format-version":2}`, strings.Repeat(`{"a":`, 300), v2[:200]} {
		f.Add([]byte(s))
	}
	b := open(f, options{limits: fuzzLimits})
	ns := b.namespace("n")
	f.Fuzz(func(t *testing.T, data []byte) {
		b := b.on(t)
		// What is registered is passed on as it lies, whatever shape it has: the answers'
		// shapes are held by the other tests.
		b.handler = b.bare
		at := b.put("fuzz.json", string(data))
		for _, route := range []string{"register", "register-view"} {
			a := b.hostile("POST", ns+"/"+route, `{"name":"`+route+`","metadata-location":"`+at+`"}`)
			if a.status != 200 {
				continue
			}
			uri := a.text("metadata", "location")
			if l, err := blob.ParseLocation(uri); err != nil || !strings.HasPrefix(string(l), rootURI+"/") {
				t.Fatalf("registered at %q", uri)
			}
			b.hostile("POST", ns+"/tables/register", setProperty("a", "b"))
		}
		b.dropAll(ns)
	})
}

// dropAll removes what a fuzz input made.
func (b *bench) dropAll(ns string) {
	b.tb.Helper()
	for _, kind := range []string{"tables", "views"} {
		for _, row := range b.do("GET", ns+"/"+kind, "").want(200).get("identifiers").([]any) {
			r, err := readRequest(http.MethodDelete, ns+"/"+kind+"/"+encodeName(nameOf(row)), "")
			b.must(err)
			b.send(r.WithContext(b.tb.Context())).want(204)
		}
	}
	b.clear()
}

func encodeName(name string) string {
	var s strings.Builder
	for i := range len(name) {
		_, _ = fmt.Fprintf(&s, "%%%02X", name[i]) // a builder takes all
	}
	return s.String()
}

// clear empties the store.
func (b *bench) clear() {
	b.store.DeleteMany(b.tb.Context(), b.store.Keys())
}
