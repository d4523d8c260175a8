package metadata

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
)

const (
	viewLocation = "s3://bucket/ns/v"
	viewSchema   = `{"type":"struct","schema-id":7,"fields":[{"id":5,"name":"id","required":false,"type":"long"}]}`
	otherSchema  = `{"type":"struct","schema-id":7,"fields":[{"id":5,"name":"id","required":false,"type":"long"},{"id":9,"name":"n","required":false,"type":"int"}]}`
)

func sqlJSON(dialect, sql string) string {
	return fmt.Sprintf(`{"type":"sql","dialect":%q,"sql":%q}`, dialect, sql)
}

// versionJSON makes a version with the queries "dialect: sql".
func versionJSON(id, schema int, queries ...string) string {
	var list []string
	for _, q := range queries {
		dialect, sql, _ := strings.Cut(q, ": ")
		list = append(list, sqlJSON(dialect, sql))
	}
	return fmt.Sprintf(`{"version-id":%d,"schema-id":%d,"timestamp-ms":%d,"summary":{"engine-name":"test"},
		"default-namespace":["ns"],"representations":[%s]}`, id, schema, 1700000000000+int64(id), strings.Join(list, ","))
}

func addVersionJSON(id, schema int, queries ...string) string {
	return `{"action":"add-view-version","view-version":` + versionJSON(id, schema, queries...) + `}`
}

func setCurrentJSON(id int) string {
	return fmt.Sprintf(`{"action":"set-current-view-version","view-version-id":%d}`, id)
}

func setViewProperties(members ...string) string {
	return `{"action":"set-properties","updates":{` + strings.Join(members, ",") + `}}`
}

func createViewBody(version string, members ...string) []byte {
	all := append([]string{`"name":"v"`, `"schema":` + viewSchema, `"view-version":` + version}, members...)
	return []byte("{" + strings.Join(all, ",") + "}")
}

// newView has one version, 1, with a query for spark. Properties are JSON members.
func newView(tb testing.TB, properties ...string) *View {
	tb.Helper()
	req, err := DecodeCreateView(createViewBody(versionJSON(1, 7, "spark: select 1"),
		`"properties":{`+strings.Join(properties, ",")+`}`), Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	v, err := req.Build(viewLocation, uuid.MustParse(testUUID))
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// viewWithHistory has the versions 1 (spark, schema 0) and 2 (spark and trino, schema
// 1), which is current.
func viewWithHistory(tb testing.TB, properties ...string) *View {
	tb.Helper()
	return mustApplyView(tb, newView(tb, properties...), `{"action":"add-schema","schema":`+otherSchema+`}`,
		addVersionJSON(2, -1, "spark: select 2", "trino: select 3"), setCurrentJSON(-1))
}

func decodeViewCommit(tb testing.TB, body []byte) *ViewCommit {
	tb.Helper()
	c, err := DecodeViewCommit(body, Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func tryApplyView(base *View, updates ...string) (*ViewResult, error) {
	c, err := DecodeViewCommit(body("", updates...), Limits{})
	if err != nil {
		return nil, err
	}
	return c.Apply(base)
}

func mustApplyView(tb testing.TB, base *View, updates ...string) *View {
	tb.Helper()
	res, err := tryApplyView(base, updates...)
	if err != nil {
		tb.Fatal(err)
	}
	return res.View
}

// minimalView is the least that can be read. Members given replace those of their name.
func minimalView(members ...string) string {
	doc := []string{
		`"view-uuid":"` + testUUID + `"`, `"format-version":1`, `"location":"` + viewLocation + `/"`, `"current-version-id":1`,
		`"versions":[` + versionJSON(1, 0, "spark: select 1") + `]`, `"version-log":[{"timestamp-ms":5,"version-id":1}]`,
		`"schemas":[{"type":"struct","schema-id":0,"fields":[]}]`,
	}
	for _, m := range members {
		name, _, _ := strings.Cut(m, ":")
		found := false
		for i := range doc {
			if strings.HasPrefix(doc[i], name+":") {
				doc[i], found = m, true
			}
		}
		if !found {
			doc = append(doc, m)
		}
	}
	return "{" + strings.Join(doc, ",") + "}"
}

// viewReadsBack fails unless the view's own document can be parsed and is the same.
func viewReadsBack(t *testing.T, made *View) {
	t.Helper()
	back, err := ParseView(made.JSON(), Limits{})
	if err != nil {
		t.Fatalf("cannot read back: %v\n%s", err, made.JSON())
	}
	if !bytes.Equal(back.JSON(), made.JSON()) {
		t.Fatal("the document differs")
	}
}
