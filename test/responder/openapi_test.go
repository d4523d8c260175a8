package responder

import (
	"net/http"
	"strings"
	"testing"
)

func TestAPICanFail(t *testing.T) {
	t.Parallel()
	a := NewAPI(t)
	header := http.Header{"Content-Type": {"application/json"}}
	const usage = `{"bytes":1,"files":1,"reserved":0,"quotaBytes":0,"quotaFiles":0}`
	for _, c := range []struct {
		name, method, path string
		status             int
		body               string
		want               string // a part of the fault, empty for none
	}{
		{"what is described", "GET", "/v1/usage", 200, usage, ""},
		{"a field too many", "GET", "/v1/usage", 200, strings.Replace(usage, "{", `{"x":1,`, 1), "x"},
		{"a field too few", "GET", "/v1/usage", 200, `{"bytes":1}`, "files"},
		{"another type", "GET", "/v1/usage", 200, strings.Replace(usage, "1", `"1"`, 1), "integer"},
		{"a status that is not described", "GET", "/v1/usage", 418, usage, "418"},
		{"an error without a request id", "GET", "/v1/usage", 403, `{"error":{"code":"Denied","message":"no"}}`, "requestId"},
		{"no JSON", "GET", "/v1/usage", 200, `{`, "EOF"},
		{"none of several shapes", "GET", "/v1/fs/a", 200, `{"entries":1}`, "none of the other"},
		{"one of several shapes", "GET", "/v1/fs/a/b", 200, `{"entries":[],"nextCursor":null}`, ""},
		{"a route that is not described", "GET", "/v1/nothing", 200, `{}`, "not described"},
		{"one that is answered as such", "GET", "/v1/nothing", 404, `{}`, ""},
	} {
		faults := strings.Join(a.Check(c.method, c.path, c.status, header, []byte(c.body)), "; ")
		if (faults == "") != (c.want == "") || !strings.Contains(faults, c.want) {
			t.Errorf("%s: %q, want %q", c.name, faults, c.want)
		}
	}
}
