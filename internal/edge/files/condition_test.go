package files_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestConditions: a condition is held to, or refused; none is left out of account.
func TestConditions(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	b.put("/d/f", "text")
	b.put("/d/g", "text")
	etag := b.do("HEAD", "/v1/fs/d/f", "").want(200).header.Get("ETag")
	past, future := "Thu, 01 Jan 1970 00:00:00 GMT", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		method, target, body string
		status               int
		header               []string
	}{
		{"GET", "/d/f", "", 200, []string{"If-Match", `"0-0", ` + etag}},
		{"GET", "/d/f", "", 412, []string{"If-Match", "W/" + etag}},
		{"GET", "/d/f", "", 304, []string{"If-None-Match", "W/" + etag}},
		{"GET", "/d/f", "", 412, []string{"If-Unmodified-Since", past}},
		{"GET", "/d/f", "", 200, []string{"If-Unmodified-Since", future}},
		{"GET", "/d/f", "", 200, []string{"If-Unmodified-Since", past, "If-Match", etag}}, // which goes first
		{"HEAD", "/d/f", "", 412, []string{"If-Unmodified-Since", past}},
		{"PUT", "/d/f", "new", 400, []string{"If-Unmodified-Since", past}},
		{"PUT", "/d/f", "new", 412, []string{"If-Match", "W/" + etag}},
		{"PUT", "/d/f", "new", 412, []string{"If-None-Match", "*"}},
		{"PUT", "/d/f", "new", 400, []string{"If-None-Match", ""}},
		{"PUT", "/d/f", "new", 400, []string{"If-Match", ", "}}, // of a variable that was not set
		{"PUT", "/d/f", "new", 400, []string{"If-None-Match", etag}},
		{"DELETE", "/d/f", "", 400, []string{"If-Unmodified-Since", past}},
		{"DELETE", "/d/f", "", 400, []string{"If-None-Match", "*"}},
		{"DELETE", "/d/f?recursive=true", "", 400, []string{"If-None-Match", etag}},
		{"DELETE", "/d/f", "", 412, []string{"If-Match", "W/" + etag}},
		{"DELETE", "/d?recursive=true", "", 412, []string{"If-Match", etag}},
		{"POST", "/d/f?op=append", "x", 400, []string{"If-None-Match", "*"}},
		{"POST", "/d/f?op=append", "x", 412, []string{"If-Match", `"0-0"`}},
		{"POST", "/d/f?op=chmod", `{"mode":"600"}`, 400, []string{"If-None-Match", "*"}},
		{"POST", "/d/f?op=tag", `{"set":{"a":"b"}}`, 400, []string{"If-None-Match", "*"}},
		{"POST", "/new?op=mkdir", "", 400, []string{"If-Match", "*"}},
		{"POST", "/d?op=mkdir", "", 412, []string{"If-None-Match", "*"}},
		{"POST", "/d?op=mkdir", `{"parents":true}`, 412, []string{"If-None-Match", "*"}},
		{"POST", "/new?op=symlink", `{"target":"d"}`, 400, []string{"If-Match", "*"}},
		{"POST", "/d/f?op=symlink", `{"target":"d"}`, 412, []string{"If-None-Match", "*"}},
		{"POST", "/d/f?op=link", `{"to":"/d/g"}`, 412, []string{"If-None-Match", "*"}},
		{"POST", "/d/f?op=copy", `{"to":"/d/g"}`, 412, []string{"If-None-Match", "*"}},
		{"POST", "/d/f?op=rename", `{"to":"/d/g"}`, 412, []string{"If-None-Match", "*"}},
	} {
		if a := b.do(c.method, "/v1/fs"+c.target, c.body, c.header...); a.status != c.status {
			t.Errorf("%s with %q: %d, want %d: %s", a.what, c.header, a.status, c.status, a.body)
		}
	}
	var up struct{ ID string }
	b.do("POST", "/v1/uploads", `{"path":"/d/u"}`, "If-None-Match", "*").want(400)
	b.do("POST", "/v1/uploads", `{"path":"/d/u"}`).want(201).decode(&up)
	for _, c := range [][2]string{
		{"PUT", "/v1/uploads/" + up.ID + "/parts/1"},
		{"DELETE", "/v1/uploads/" + up.ID},
		{"POST", "/v1/trash/delete-1/restore"},
		{"DELETE", "/v1/trash/delete-1"},
		{"DELETE", "/v1/trash"},
		{"POST", "/v1/reconcile"},
		{"POST", "/v1/check"},
	} {
		for _, name := range []string{"If-Match", "If-None-Match", "If-Unmodified-Since"} {
			b.do(c[0], c[1], "", name, "*").want(400)
		}
	}
	b.do("GET", "/v1/fs/d/f", "").want(200).text("text")
	if got := strings.Join(b.names("/"), " ") + ": " + strings.Join(b.names("/d"), " "); got != "d: f g" {
		t.Errorf("the tree is %s", got)
	}
	if got := b.do("PATCH", "/v1/fs/d", "").want(405).header.Get("Allow"); got != "GET, HEAD, PUT, POST, DELETE" {
		t.Errorf("allowed: %s", got)
	}
	b.do("GET", "/v1/trash?cursor=delete-x", "").want(400, "InvalidCursor")
}

// TestParameters: a change that is asked for with a parameter which it does not take is none.
func TestParameters(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	b.put("/d/f", "text")
	for _, c := range []struct{ method, target, body string }{
		{"PUT", "/v1/fs/d/f?op=append", "more"}, // what curl -T sends
		{"PUT", "/v1/fs/d/f?mod=600", "new"},
		{"PUT", "/v1/fs/d/f?mode=600&mode=644", "new"},
		{"POST", "/v1/fs/d/f?op=copy&to=/d/g", `{"to":"/d/h"}`},
		{"POST", "/v1/fs/d/f?op=append&op=chmod", "more"},
		{"DELETE", "/v1/fs/d?recursive=true&dryrun=true", ""},
		{"DELETE", "/v1/fs/d?recursive=true&dry-run=true&dry-run=false", ""},
		{"DELETE", "/v1/fs/d/f?dry_run", ""},
		{"POST", "/v1/reconcile?dryrun=true", ""},
		{"POST", "/v1/scrub?dry-run=true", ""},
		{"DELETE", "/v1/trash?path=/d", ""},
		{"POST", "/v1/uploads?path=/d/u", `{"path":"/d/v"}`},
	} {
		b.do(c.method, c.target, c.body).want(400, "Invalid")
	}
	b.do("GET", "/v1/fs/d/f?nothing=of-ours", "").want(200).text("text")
	if got := strings.Join(b.names("/d"), " "); got != "f" {
		t.Errorf("/d holds %s", got)
	}
}

// TestAppendChecksum: what is appended is compared with what the client says of it.
func TestAppendChecksum(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	b.put("/f", "begin")
	whole := "begin"
	for _, text := range []string{"", "short", strings.Repeat("x", 64<<10), strings.Repeat("long", 50_000)} {
		sum := sha256.Sum256([]byte(text))
		b.do("POST", "/v1/fs/f?op=append", text+"!", "X-Lethe-Sha256", hex.EncodeToString(sum[:])).want(422, "ChecksumMismatch")
		b.do("GET", "/v1/fs/f", "").want(200).text(whole)
		b.do("POST", "/v1/fs/f?op=append", text, "X-Lethe-Sha256", hex.EncodeToString(sum[:])).want(200)
		whole += text
		b.do("GET", "/v1/fs/f", "").want(200).text(whole)
	}
	b.do("POST", "/v1/fs/f?op=append", "x", "X-Lethe-Sha256", "short").want(400)
}

// TestPanicBehindTheStatus: an answer that has begun is broken off, not continued as another.
func TestPanicBehindTheStatus(t *testing.T) {
	t.Parallel()
	b := open(t, options{recheck: time.Millisecond, still: func(*http.Request) error { panic("of the test") }})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.server.URL+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Test-Caller", "ann")
	resp, err := b.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 || err == nil || strings.Contains(string(text), "error") {
		t.Errorf("%s, %v: %q", resp.Status, err, text)
	}
}
