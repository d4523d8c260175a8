package files_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDryRunAnswers counts for those who may delete, under the same conditions, and changes
// nothing.
func TestDryRunAnswers(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	b.put("/mine/d/f", "12345")
	b.put("/mine/g", "123")
	b.put("/theirs/x", "1")
	b.do("POST", "/v1/fs/mine/d/f?op=link", `{"to":"/theirs/h"}`).want(201)
	b.do("POST", "/v1/fs/mine/soft?op=symlink", `{"target":"/theirs"}`).want(201)
	etag := b.do("HEAD", "/v1/fs/mine/g", "").want(200).header.Get("ETag")
	const dry = "?recursive=true&dry-run=true"
	for _, c := range []struct {
		caller, target string
		header         []string
		status         int
	}{
		{"reader", "/mine", nil, 403},
		{"scoped", "/theirs", nil, 403},
		{"scoped", "/mine/soft/x", nil, 403},
		{"ann", "/none", nil, 404},
		{"ann", "/mine/g/below", nil, 404},
		{"ann", "/", nil, 400},
		{"ann", "/mine/g", []string{"If-Match", `"1-1"`}, 412},
		{"ann", "/mine", []string{"If-Match", etag}, 412},
		{"ann", "/mine/g", []string{"If-Match", etag}, 200},
		{"scoped", "/mine", []string{"If-Match", "*", "Prefer", "wait=0"}, 200},
	} {
		if a := b.by(c.caller).do("DELETE", "/v1/fs"+c.target+dry, "", c.header...); a.status != c.status {
			t.Errorf("%s, %s with %q: %d, want %d: %s", c.caller, c.target, c.header, a.status, c.status, a.body)
		}
	}
	type counts struct {
		Job                              *string
		Nodes, Files, Directories, Bytes int64
	}
	for target, want := range map[string]counts{
		"/mine":      {nil, 5, 3, 2, 3}, // a file has a name elsewhere
		"/mine/soft": {nil, 1, 1, 0, 0}, // not what it leads to
		"/theirs":    {nil, 3, 2, 1, 1},
		"/mine/g":    {nil, 1, 1, 0, 3},
	} {
		var got counts
		b.do("DELETE", "/v1/fs"+target+dry, "").want(200).decode(&got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", target, diff)
		}
	}
	var got counts
	b.do("DELETE", "/v1/fs/mine?recursive=true", "").want(200).decode(&got)
	if diff := cmp.Diff(counts{nil, 5, 3, 2, 3}, got); diff != "" {
		t.Errorf("the delete (-counted +done):\n%s", diff)
	}
	b.do("GET", "/v1/fs/theirs/h", "").want(200).text("12345")
}
