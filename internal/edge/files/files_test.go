package files_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/edge/files"
	"github.com/lethe-project/lethe/test/responder"
)

// TestDescribed: each route is in api/openapi.yaml, and everything that it says of this
// face is a route.
func TestDescribed(t *testing.T) {
	t.Parallel()
	all := responder.NewAPI(t).Operations()
	routes := files.Operations()
	for _, op := range routes {
		if !slices.Contains(all, op) {
			t.Errorf("%s is not described", op)
		}
	}
	for _, op := range all {
		_, pattern, _ := strings.Cut(op, " ")
		if files.Serves(strings.ReplaceAll(pattern, "{path}", "x")) && !slices.Contains(routes, op) {
			t.Errorf("%s is described, and no route", op)
		}
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 11, 100_000} { // in SQL and in the store
		b := open(t, options{})
		body := strings.Repeat("0123456789\n", size/11)
		sum := sha256.Sum256([]byte(body))
		a := b.do("PUT", "/v1/fs/a/b/c.txt", body, "X-Lethe-Sha256", hex.EncodeToString(sum[:])).want(201)
		etag := a.header.Get("ETag")
		a = b.do("GET", "/v1/fs/a/b/c.txt", "").want(200)
		a.text(body)
		for name, want := range map[string]string{
			"ETag": etag, "Accept-Ranges": "bytes", "Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff",
			"Content-Security-Policy": "sandbox", "X-Lethe-Type": "file", "Content-Length": fmt.Sprint(len(body)),
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		b.do("HEAD", "/v1/fs/a/b/c.txt", "").want(200)
		b.do("GET", "/v1/fs/a/b/c.txt", "", "If-None-Match", `"1", W/`+etag).want(304)
		b.do("GET", "/v1/fs/a/b/c.txt", "", "If-Match", `"1"`).want(412)
		if a := b.do("PUT", "/v1/fs/a/b/c.txt", "new", "If-Match", etag).want(200); a.header.Get("ETag") == etag {
			t.Error("a new content has the old ETag")
		}
		b.do("PUT", "/v1/fs/a/b/c.txt", "newer", "If-Match", etag).want(412, "PreconditionFailed")
		b.do("PUT", "/v1/fs/a/b/c.txt", "newer", "If-None-Match", "*").want(412)
		b.do("GET", "/v1/fs/a/b/c.txt", "").want(200).text("new")
		b.do("DELETE", "/v1/fs/a/b/c.txt", "", "If-Match", etag).want(412)
		b.do("DELETE", "/v1/fs/a/b/c.txt", "").want(200)
		b.do("GET", "/v1/fs/a/b/c.txt", "").want(404, "NotFound")
		b.do("DELETE", "/v1/fs/a/b/c.txt", "").want(404)
	}
}

func TestChecksum(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	sum := sha256.Sum256([]byte("abc"))
	b.do("PUT", "/v1/fs/ok", "abc", "Content-Digest", "md5=:x:, sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":").want(201)
	for _, c := range []struct {
		name, header, value string
		status              int
	}{
		{"of other bytes", "X-Lethe-Sha256", strings.Repeat("0", 64), 422},
		{"of other bytes", "Content-Digest", "sha-256=:" + base64.StdEncoding.EncodeToString(make([]byte, 32)) + ":", 422},
		{"too short", "X-Lethe-Sha256", "abcd", 400},
		{"no base64", "Content-Digest", "sha-256=:?:", 400},
	} {
		b.do("PUT", "/v1/fs/bad", "abc", c.header, c.value).want(c.status)
		b.do("GET", "/v1/fs/bad", "").want(404)
	}
}

// TestHead: HEAD says what GET says.
func TestHead(t *testing.T) {
	t.Parallel()
	b := open(t, options{inline: 4})
	for _, text := range []string{"", "tiny", "larger than that"} {
		path := "/v1/fs/f" + strconv.Itoa(len(text)) + ".txt"
		b.do("PUT", path, text).want(201)
		for _, h := range [][]string{nil, {"If-None-Match", "*"}, {"If-Match", `"0-0"`}} {
			get, head := b.do("GET", path, "", h...), b.do("HEAD", path, "", h...)
			get.header.Del("Date")
			head.header.Del("Date")
			if diff := cmp.Diff(get.header, head.header); diff != "" || get.status != head.status {
				t.Errorf("%s: %d and %d (-GET +HEAD):\n%s", path, get.status, head.status, diff)
			}
			if head.status == 200 && head.header.Get("X-Lethe-Sha256") == "" {
				t.Errorf("%s has no checksum", path)
			}
		}
	}
	b.do("POST", "/v1/fs/dir?op=mkdir", "").want(201)
	b.do("HEAD", "/v1/fs/dir", "").want(200)
	b.do("HEAD", "/v1/fs/none", "").want(404)
}

func TestRanges(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 20_000} {
		b := open(t, options{})
		body := strings.Repeat("0123456789", size/10)
		b.put("/f", body)
		last := fmt.Sprint(size - 1)
		for _, c := range []struct {
			spec   string
			status int
			want   string
			header string
		}{
			{"bytes=0-0", 206, "0", "bytes 0-0/" + fmt.Sprint(size)},
			{"bytes=2-4", 206, "234", "bytes 2-4/" + fmt.Sprint(size)},
			{"bytes=-3", 206, "789", fmt.Sprintf("bytes %d-%s/%d", size-3, last, size)},
			{"bytes=-999999", 206, body, fmt.Sprintf("bytes 0-%s/%d", last, size)},
			{"bytes=3-", 206, body[3:], fmt.Sprintf("bytes 3-%s/%d", last, size)},
			{"bytes=3-999999", 206, body[3:], fmt.Sprintf("bytes 3-%s/%d", last, size)},
			{"bytes=999999-", 416, "", fmt.Sprintf("bytes */%d", size)},
			{"bytes=-0", 416, "", fmt.Sprintf("bytes */%d", size)},
			{"bytes=4-2", 200, body, ""},
			{"bytes=1-2,4-5", 200, body, ""},
			{"bytes=x-", 200, body, ""},
			{"lines=1-2", 200, body, ""},
			{"bytes=18446744073709551615-", 200, body, ""},
			{"bytes=0-18446744073709551615", 200, body, ""},
		} {
			a := b.do("GET", "/v1/fs/f", "", "Range", c.spec).want(c.status)
			if got := a.header.Get("Content-Range"); got != c.header {
				t.Errorf("%s: Content-Range %q, want %q", c.spec, got, c.header)
			}
			if c.status != 416 {
				a.text(c.want)
			}
		}
		b.do("GET", "/v1/fs/f", "", "Range", "bytes=0-1", "If-Range", `"0-0"`).want(200).text(body)
	}
	b := open(t, options{})
	b.put("/empty", "")
	for _, spec := range []string{"bytes=0-", "bytes=0-99", "bytes=-5", ""} {
		b.do("GET", "/v1/fs/empty", "", "Range", spec).want(200).text("")
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	for _, c := range []struct {
		name, raw string
		status    int
		stored    string
	}{
		{"a space and a plus", "/a%20b+c", 201, "a b+c"},
		{"percent decoded once", "/100%2525", 201, "100%25"},
		{"question mark and hash", "/a%3Fb%23c", 201, "a?b#c"},
		{"unicode", "/%C3%A9", 201, "é"},
		{"a newline and quotes", "/a%0A%22%27", 201, "a\n\"'"},
		{"a backslash and wildcards", "/%25_%5C", 201, `%_\`},
		{"three dots", "/...", 201, "..."},
		{"255 bytes", "/" + strings.Repeat("x", 255), 201, strings.Repeat("x", 255)},
		{"256 bytes", "/" + strings.Repeat("x", 256), 400, ""},
		{"a path of 3,856 bytes", strings.Repeat("/"+strings.Repeat("y", 240), 16), 201, ""},
		{"one of 4,097 bytes", strings.Repeat("/"+strings.Repeat("y", 240), 17), 400, ""},
		{"dots", "/a/../b", 400, ""},
		{"encoded dots", "/a/%2E%2E/b", 400, ""},
		{"one encoded dot", "/%2e", 400, ""},
		{"double slash", "/a//b", 400, ""},
		{"trailing slash", "/a/", 400, ""},
		{"NUL", "/a%00b", 400, ""},
		{"no UTF-8", "/%ff", 400, ""},
		{"the root", "/", 409, ""},
	} {
		a := b.do("PUT", "/v1/fs"+c.raw, c.name)
		if a.want(c.status); c.status != 201 {
			continue
		}
		b.do("GET", "/v1/fs"+c.raw, "").want(200).text(c.name)
		if c.stored == "" {
			continue
		}
		found := false
		for _, name := range b.names("/") {
			found = found || name == c.stored
		}
		if !found {
			t.Errorf("%s: no entry %q in %q", c.name, c.stored, b.names("/"))
		}
	}
	b.do("GET", "/v1/fs/a?list=%zz", "").want(400)
}

func TestOperations(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	post := func(path, op, body string, headers ...string) answer {
		t.Helper()
		return b.do("POST", "/v1/fs"+path+"?op="+op, body, headers...)
	}
	post("/d", "mkdir", "").want(201)
	post("/d", "mkdir", "").want(409)
	post("/d/e/f", "mkdir", `{}`).want(404)
	post("/d/e/f", "mkdir", `{"parents":true,"mode":"0700"}`).want(201)
	b.put("/d/one", "1")
	post("/d/one", "append", "23").want(200)
	b.do("GET", "/v1/fs/d/one", "").text("123")
	post("/d/one", "link", `{"to":"/d/two"}`).want(201)
	post("/d/one", "copy", `{"to":"/d/three"}`).want(201)
	post("/d/one", "append", "4").want(200)
	b.do("GET", "/v1/fs/d/two", "").text("1234")
	b.do("GET", "/v1/fs/d/three", "").text("123")
	post("/d/link", "symlink", `{"target":"one"}`).want(201)
	b.do("GET", "/v1/fs/d/link", "").want(200).text("1234")
	var stat struct{ Type, Target, Mode string }
	b.do("GET", "/v1/fs/d/link?stat&follow=false", "").want(200).decode(&stat)
	if stat.Type != "symlink" || stat.Target != "one" {
		t.Errorf("%+v", stat)
	}
	post("/d/one", "chmod", `{"mode":"0600"}`).want(200).decode(&stat)
	if stat.Mode != "0600" {
		t.Errorf("mode %s", stat.Mode)
	}
	post("/d/one", "rename", `{"to":"/d/four"}`).want(200)
	post("/d", "rename", `{"to":"/d/e/d"}`).want(409)
	post("/d/two", "rename", `{"to":"/d/three"}`, "If-None-Match", "*").want(412)
	post("/d/two", "rename", `{"to":"/d/three"}`).want(200)
	post("/d/three", "rename", `{"to":"/d/e"}`).want(409)
	if diff := cmp.Diff([]string{"e", "four", "link", "three"}, b.names("/d")); diff != "" {
		t.Error(diff)
	}
	post("/d/four", "tag", `{"set":{"a":"1","b":"2"}}`).want(200)
	post("/d/four", "tag", `{"remove":["a"],"set":{"c":"3"}}`).want(200)
	var tags struct{ Tags map[string]string }
	b.do("GET", "/v1/fs/d/four?tags", "").want(200).decode(&tags)
	if diff := cmp.Diff(map[string]string{"b": "2", "c": "3"}, tags.Tags); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		what, path, op, body string
		status               int
	}{
		{"no such operation", "/d", "frobnicate", "", 400},
		{"an unknown field", "/d/x", "mkdir", `{"parent":true}`, 400},
		{"a relative destination", "/d/four", "copy", `{"to":"x"}`, 400},
		{"no destination", "/d/four", "copy", ``, 400},
		{"dots in the destination", "/d/four", "rename", `{"to":"/../x"}`, 400},
		{"no target", "/d/s", "symlink", `{}`, 400},
		{"a mode that is none", "/d/four", "chmod", `{"mode":"999"}`, 400},
		{"no mode", "/d/four", "chmod", `{}`, 400},
		{"two values", "/d/x", "mkdir", `{}{}`, 400},
		{"a brace too many", "/d/x", "mkdir", `{}}`, 400},
		{"a bracket too many", "/d/x", "mkdir", `{}]`, 400},
		{"append to a directory", "/d", "append", "x", 409},
		{"append to nothing", "/nothing", "append", "x", 404},
	} {
		if a := post(c.path, c.op, c.body); a.status != c.status {
			t.Errorf("%s: %d, want %d: %s", c.what, a.status, c.status, a.body)
		}
	}
	b.do("POST", "/v1/fs/d", "").want(400)
	b.do("PATCH", "/v1/fs/d", "").want(405, "MethodNotAllowed")
	b.do("GET", "/v1/fs/d", "").want(409)
	b.do("HEAD", "/v1/fs/d", "").want(200)
	b.do("PUT", "/v1/fs/x", "abc", "Content-Range", "bytes 0-2/3").want(400)
}

func TestListPages(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	var want []string
	for i := range 10 {
		name := fmt.Sprintf("f%02d", i)
		b.put("/d/"+name, "x")
		want = append(want, name)
	}
	if diff := cmp.Diff(want, b.names("/d")); diff != "" {
		t.Error(diff)
	}
	var page struct{ NextCursor string }
	b.do("GET", "/v1/fs/d?list&limit=3", "").want(200).decode(&page)
	b.do("GET", "/v1/fs/?list&cursor="+page.NextCursor, "").want(400, "InvalidCursor")
	b.do("GET", "/v1/fs/d?list&cursor=garbage", "").want(400)
	b.do("GET", "/v1/fs/d?list&limit=0", "").want(400)
	b.do("GET", "/v1/fs/d/f01?list", "").want(409)
	// What stays throughout is listed once, whatever comes and goes beside it.
	b.do("DELETE", "/v1/fs/d/f02", "").want(200) // the last of the page
	b.put("/d/f0", "before the cursor")
	var rest struct{ Entries []struct{ Name string } }
	b.do("GET", "/v1/fs/d?list&cursor="+page.NextCursor, "").want(200).decode(&rest)
	if len(rest.Entries) != 7 || rest.Entries[0].Name != "f03" {
		t.Errorf("%+v", rest)
	}
}

func TestRecursiveDelete(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	fill := func(n int) {
		for i := range n {
			b.put(fmt.Sprintf("/tree/d%d/f%d", i%3, i), "x")
		}
	}
	var res struct {
		Job                                     *string
		State                                   string
		Nodes, Files, Directories, Bytes, Inode int64
	}
	fill(5)
	b.do("DELETE", "/v1/fs/tree", "").want(409, "DirectoryNotEmpty")
	b.do("DELETE", "/v1/fs/tree?recursive=true&dry-run=true", "").want(200).decode(&res)
	if res.Nodes != 9 || res.Files != 5 || res.Directories != 4 {
		t.Errorf("counted %+v", res)
	}
	b.do("DELETE", "/v1/fs/tree?recursive=true", "").want(200).decode(&res)
	if res.Job != nil || res.State != "SUCCEEDED" || res.Nodes != 9 {
		t.Errorf("a small tree: %+v", res)
	}
	fill(60) // more than a batch of this bench
	b.do("DELETE", "/v1/fs/tree?recursive=true", "", "If-Match", `"1"`).want(412)
	a := b.do("DELETE", "/v1/fs/tree?recursive=true", "", "Prefer", "respond-async").want(202)
	a.decode(&res)
	if res.Job == nil || a.header.Get("Location") != "/v1/jobs/"+*res.Job {
		t.Errorf("a large tree: %s, Location %q", a.body, a.header.Get("Location"))
	}
	b.do("GET", "/v1/fs/tree/d0/f0", "").want(404)
	fill(30) // the path is free again
	b.do("DELETE", "/v1/fs/tree?recursive=true", "", "Prefer", "wait=30").want(200).decode(&res)
	if res.Job == nil || res.State != "SUCCEEDED" || res.Files != 30 {
		t.Errorf("waited for: %+v", res)
	}
	for _, c := range []struct {
		target string
		status int
	}{
		{"/v1/fs/?recursive=true", 400},
		{"/v1/fs/nothing?recursive=true", 404},
		{"/v1/fs/x?recursive=maybe", 400},
		{"/v1/fs/x?dry-run=true", 400},
		{"/v1/fs/x?recursive=true&dry-run=2", 400},
	} {
		b.do("DELETE", c.target, "").want(c.status)
	}
	b.put("/x", "x")
	b.do("DELETE", "/v1/fs/x?recursive=true", "", "Prefer", "wait=soon").want(400)
	b.do("DELETE", "/v1/fs/x?recursive=true", "").want(200).decode(&res)
	if res.Job != nil {
		t.Errorf("a file made a job: %+v", res)
	}
}

func TestUploads(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	var up struct {
		ID    string
		State string
		Parts []struct {
			Number int
			Size   int64
		}
	}
	b.do("POST", "/v1/uploads", `{"path":"/up/file.bin","size":300003}`).want(201).decode(&up)
	part := strings.Repeat("p", 100_000)
	target := "/v1/uploads/" + up.ID
	b.do("PUT", target+"/parts/3", part+"3").want(200)
	b.do("PUT", target+"/parts/1", "wrong").want(200)
	b.do("PUT", target+"/parts/1", part+"1").want(200)
	b.do("PUT", target+"/parts/2", part+"2", "X-Lethe-Sha256", strings.Repeat("0", 64)).want(422)
	b.do("PUT", target+"/parts/2", part+"2").want(200)
	b.do("GET", "/v1/fs/up/file.bin", "").want(404)
	b.do("GET", target, "").want(200).decode(&up)
	if len(up.Parts) != 3 || up.Parts[0].Number != 1 || up.Parts[0].Size != 100_001 {
		t.Errorf("%+v", up)
	}
	b.do("POST", target+"/complete", `{"sha256":"`+strings.Repeat("0", 64)+`"}`).want(422)
	b.do("POST", target+"/complete", "").want(201)
	b.do("GET", "/v1/fs/up/file.bin", "").want(200).text(part + "1" + part + "2" + part + "3")
	// Asked again, because the answer was lost: it is done, whatever the condition.
	for _, h := range [][]string{nil, {"If-None-Match", "*"}, {"If-Match", `"1-1"`}} {
		b.do("POST", target+"/complete", "", h...).want(409, "UploadCompleted")
	}
	b.do("POST", "/v1/uploads", `{"path":"/up/none"}`).want(201).decode(&up)
	b.do("PUT", "/v1/uploads/"+up.ID+"/parts/1", "x").want(200)
	b.do("POST", "/v1/uploads/"+up.ID+"/complete", `{"parts":[]}`).want(400, "InvalidPart")
	b.put("/up/none", "mine")
	b.do("POST", "/v1/uploads/"+up.ID+"/complete", "", "If-None-Match", "*").want(412)
	b.do("DELETE", "/v1/uploads/"+up.ID, "").want(204)
	for _, c := range []struct {
		method, target, body string
		status               int
	}{
		{"POST", "/v1/uploads", `{"path":"relative"}`, 400},
		{"POST", "/v1/uploads", `{"path":"/x","size":-1}`, 400},
		{"POST", "/v1/uploads", `{"path":"/../x"}`, 400},
		{"PUT", target + "/parts/0", "x", 400},
		{"PUT", target + "/parts/10001", "x", 400},
		{"PUT", target + "/parts/one", "x", 400},
		{"PUT", "/v1/uploads/nobody/parts/1", "x", 404},
		{"GET", "/v1/uploads/nobody", "", 404},
		{"POST", "/v1/uploads/nobody/complete", "", 404},
		{"DELETE", "/v1/uploads/nobody", "", 404},
	} {
		if a := b.do(c.method, c.target, c.body); a.status != c.status {
			t.Errorf("%s %s %s: %d, want %d: %s", c.method, c.target, c.body, a.status, c.status, a.body)
		}
	}
	b.do("POST", "/v1/uploads", `{"path":"/up/other"}`).want(201).decode(&up)
	b.do("DELETE", "/v1/uploads/"+up.ID, "").want(204)
	b.do("PUT", "/v1/uploads/"+up.ID+"/parts/1", "x").want(409)
}

func TestTrash(t *testing.T) {
	t.Parallel()
	b := open(t, options{trash: time.Hour})
	b.put("/d/f", "kept")
	b.put("/g", "file")
	b.do("DELETE", "/v1/fs/d?recursive=true", "").want(202)
	b.do("DELETE", "/v1/fs/g", "").want(200)
	var trash struct {
		Trash []struct {
			ID, Kind, Path string
			Restorable     bool
		}
	}
	b.do("GET", "/v1/trash", "").want(200).decode(&trash)
	if len(trash.Trash) != 2 || trash.Trash[0].Path != "/g" || trash.Trash[1].Path != "/d" || !trash.Trash[0].Restorable {
		t.Fatalf("%+v", trash)
	}
	file, dir := trash.Trash[0].ID, trash.Trash[1].ID
	b.put("/d/new", "x")
	b.do("POST", "/v1/trash/"+dir+"/restore", "").want(409)
	b.do("POST", "/v1/trash/"+dir+"/restore", `{"to":"/no/where"}`).want(404)
	b.by("reader").do("POST", "/v1/trash/"+dir+"/restore", `{"to":"/back"}`).want(403)
	b.by("scoped").do("POST", "/v1/trash/"+dir+"/restore", `{"to":"/mine/back"}`).want(404)
	b.by("bob").do("POST", "/v1/trash/"+dir+"/restore", `{"to":"/back"}`).want(404)
	b.do("POST", "/v1/trash/"+dir+"/restore", `{"to":"/back"}`).want(200)
	b.do("GET", "/v1/fs/back/f", "").want(200).text("kept")
	b.do("POST", "/v1/trash/"+dir+"/restore", `{"to":"/again"}`).want(409)
	b.do("DELETE", "/v1/trash/"+file, "").want(202)
	b.do("POST", "/v1/trash/nothing/restore", "").want(404)
	b.do("DELETE", "/v1/trash/delete-999", "").want(404)
	b.do("DELETE", "/v1/trash", "").want(202)
}

// events reads a stream until it has n events.
func (b *bench) events(query string, n int, headers ...string) (out, ids []string) {
	b.tb.Helper()
	ctx, cancel := context.WithTimeout(b.tb.Context(), 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.server.URL+"/v1/events"+query, nil)
	if err != nil {
		b.tb.Fatal(err)
	}
	req.Header.Set("X-Test-Caller", b.as)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.server.Client().Do(req)
	if err != nil {
		b.tb.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		b.tb.Fatalf("%s: %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	kind, id := "", ""
	for lines := bufio.NewScanner(resp.Body); len(out) < n && lines.Scan(); {
		switch name, value, _ := strings.Cut(lines.Text(), ": "); name {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			var body struct{ Path, From string }
			answer{b: b, body: []byte(value)}.decode(&body)
			line := kind + " " + body.Path
			if body.From != "" {
				line += " from " + body.From
			}
			out, ids = append(out, line), append(ids, id)
		}
	}
	return out, ids
}

func TestEvents(t *testing.T) {
	t.Parallel()
	b := open(t, options{heartbeat: 20 * time.Millisecond})
	b.put("/mine/f", "1")
	b.do("PUT", "/v1/fs/mine/f", "2").want(200)
	b.put("/theirs/g", "1")
	b.do("POST", "/v1/fs/theirs/g?op=rename", `{"to":"/mine/g"}`).want(200)
	b.do("POST", "/v1/fs/mine/f?op=rename", `{"to":"/theirs/f"}`).want(200)
	b.do("DELETE", "/v1/fs/theirs/f", "").want(200)
	b.do("DELETE", "/v1/fs/mine?recursive=true", "").want(200)
	want := []string{
		"create /mine", "create /mine/f", "write /mine/f", "create /theirs", "create /theirs/g",
		"rename /mine/g from /theirs/g", "rename /theirs/f from /mine/f", "remove /theirs/f", "reset /mine",
	}
	got, ids := b.events("?after=0", len(want))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	rest, _ := b.events("", len(want)-3, "Last-Event-ID", ids[2])
	if diff := cmp.Diff(want[3:], rest); diff != "" {
		t.Error(diff)
	}
	// Of renames across the border the token sees half.
	mine, _ := b.by("scoped").events("?after=0&path=/mine", 6)
	if diff := cmp.Diff([]string{"create /mine", "create /mine/f", "write /mine/f", "create /mine/g", "remove /mine/f", "reset /mine"}, mine); diff != "" {
		t.Error(diff)
	}
	if reset, _ := b.events("?after=99999", 1); len(reset) != 1 || reset[0] != "reset /" {
		t.Errorf("after what never was: %v", reset)
	}
	b.do("GET", "/v1/events?after=x", "").want(400)
	b.do("GET", "/v1/events?path=relative", "").want(400)
	if list, _ := b.by("bob").events("?after=0", 0); list != nil {
		t.Errorf("bob sees %v", list)
	}
}

// Who looks at a part of the tree learns that a directory above it was moved: all that is
// looked at has gone, or come.
func TestEventsOfMovesAbove(t *testing.T) {
	t.Parallel()
	b := open(t, options{heartbeat: 20 * time.Millisecond})
	b.put("/a/b/f", "1")
	b.put("/x/mine/g", "1")
	b.do("POST", "/v1/fs/a?op=rename", `{"to":"/c"}`).want(200)
	b.do("POST", "/v1/fs/c?op=rename", `{"to":"/a"}`).want(200)
	b.do("POST", "/v1/fs/a/b?op=rename", `{"to":"/a/c"}`).want(200)
	b.do("POST", "/v1/fs/x/mine?op=rename", `{"to":"/mine"}`).want(200)
	for _, c := range []struct {
		as, query string
		want      []string
	}{
		{"ann", "?after=0&path=/a/b/f", []string{"create /a/b/f", "reset /a/b/f", "reset /a/b/f", "reset /a/b/f"}},
		{"ann", "?after=0&path=/a/b", []string{"create /a/b", "create /a/b/f", "reset /a/b", "reset /a/b", "remove /a/b"}},
		{"ann", "?after=0&path=/c", []string{"create /c", "remove /c"}},
		{"deep", "?after=0", []string{"create /a/b/f", "reset /", "reset /", "reset /"}},
		{"scoped", "?after=0&path=/mine", []string{"create /mine"}},
	} {
		got, _ := b.by(c.as).events(c.query, len(c.want))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s of %s: %s", c.query, c.as, diff)
		}
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	if err := b.quota(1, 100, 0); err != nil {
		t.Fatal(err)
	}
	b.put("/a", strings.Repeat("x", 60))
	b.do("PUT", "/v1/fs/b", strings.Repeat("x", 60)).want(507, "QuotaExceeded")
	b.do("GET", "/v1/fs/b", "").want(404)
	b.do("POST", "/v1/uploads", `{"path":"/c","size":50}`).want(507)
	b.do("POST", "/v1/uploads", `{"path":"/c"}`).want(400, "SizeRequired")
	b.do("PUT", "/v1/fs/a", strings.Repeat("x", 90)).want(200)
	b.by("bob").put("/b", strings.Repeat("x", 600))
	var u struct{ Bytes, QuotaBytes int64 }
	b.do("GET", "/v1/usage", "").want(200).decode(&u)
	if u.Bytes != 90 || u.QuotaBytes != 100 {
		t.Errorf("%+v", u)
	}
	var check struct{ OK bool }
	b.do("POST", "/v1/check", "").want(200).decode(&check)
	b.do("POST", "/v1/scrub", "").want(200)
	b.do("POST", "/v1/scrub?repair=true", "").want(200)
	b.do("POST", "/v1/reconcile?dry-run=true", "").want(200)
	b.do("POST", "/v1/reconcile", "").want(202)
	if !check.OK {
		t.Error("the counters are wrong")
	}
}

// FuzzPath: whatever stands in a path, a header or a query, the answer is none of ours to
// be ashamed of.
func FuzzPath(f *testing.F) {
	for _, path := range []string{
		"", "/", "//", "a", "a/b", "a//b", "../a", "%2E%2E", "%2e", "a%00", "%ff", "%", "%zz", "a%2Fb", "a?list", "a?stat", "a?list&cursor=x", "a?list&limit=-1",
		"a?op=mkdir", "a?recursive=true", strings.Repeat("x", 256), strings.Repeat("a/", 2000), "\u00e9", "a+b", "a b", "?list", "a#b", "a;b", `a\b`, "a?tags", "con", "%F0%9F%92%A9",
	} {
		f.Add("GET", path, "bytes=0-1", `"1-1"`, "{}")
	}
	f.Add("DELETE", "a?recursive=true", "", "*", "")
	f.Add("POST", "a?op=rename", "", "", `{"to":"/b"}`)
	f.Add("POST", "a?op=append", "", "", "\x00\xff")
	b := open(f, options{})
	b.put("/a", "content")
	handler := b.server.Config.Handler
	f.Fuzz(func(t *testing.T, method, path, ranges, match, body string) {
		switch method {
		case "GET", "HEAD", "PUT", "POST", "DELETE":
		default:
			method = "GET"
		}
		target := "/v1/fs/" + path
		if _, err := url.ParseRequestURI(target); err != nil || strings.ContainsAny(path, " \t\r\n") {
			return // no client can send it
		}
		status := serve(t, handler, method, target, ranges, match, body)
		if status >= 500 && status != http.StatusNotImplemented {
			t.Errorf("%s %q: %d\n%s", method, target, status, b.log)
		}
	})
}

// FuzzBody: JSON bodies of every operation, upload parts and numbers.
func FuzzBody(f *testing.F) {
	targets := []string{
		"/v1/fs/a?op=mkdir", "/v1/fs/a?op=rename", "/v1/fs/a?op=copy", "/v1/fs/a?op=link", "/v1/fs/a?op=symlink", "/v1/fs/a?op=chmod", "/v1/fs/a?op=tag",
		"/v1/uploads", "/v1/uploads/x/complete", "/v1/trash/delete-1/restore",
	}
	for i := range targets {
		for _, body := range []string{`{}`, `{"to":"/x/y"}`, `{"target":"` + strings.Repeat("t", 5000) + `"}`, `{"set":{"":"x"}}`} {
			f.Add(i, body)
		}
	}
	for _, body := range []string{"", "null", "[]", `{"mode":"8"}`, `{"mode":"-1"}`, `{"path":"/x","size":9223372036854775807}`, `{"path":"/a/b"}`, `{"to":"/a"}`, `{"to":"/\u0000"}`, `{"set":{"k":"v"},"remove":["k"]}`, `{"parts":[{"number":0}]}`, "\xff"} {
		f.Add(len(body), body)
	}
	b := open(f, options{})
	b.put("/a", "content")
	handler := b.server.Config.Handler
	f.Fuzz(func(t *testing.T, which int, body string) {
		target := targets[((which%len(targets))+len(targets))%len(targets)]
		if status := serve(t, handler, http.MethodPost, target, "", "", body); status >= 500 && status != http.StatusNotImplemented && status != http.StatusInsufficientStorage {
			t.Errorf("%s %q: %d\n%s", target, body, status, b.log)
		}
	})
}

// TestReadBesideWriters: a read of a file that is written all the time gets one of its
// contents whole, under that content's ETag.
func TestReadBesideWriters(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	contents := []string{strings.Repeat("a", 10), strings.Repeat("b", 9000), strings.Repeat("c", 300)}
	b.put("/f", contents[0])
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				b.do("PUT", "/v1/fs/f", contents[i%len(contents)])
			}
		}
	}()
	bodies := map[string]string{} // by ETag
	for range 60 {
		a := b.do("GET", "/v1/fs/f", "")
		if a.status == 503 {
			continue // five new contents while one was read
		}
		a.want(200)
		if !slices.Contains(contents, string(a.body)) {
			t.Errorf("a content that nobody wrote: %.20q", a.body)
		}
		etag := a.header.Get("ETag")
		if before, ok := bodies[etag]; ok && before != string(a.body) {
			t.Errorf("two contents under %s", etag)
		}
		bodies[etag] = string(a.body)
	}
	close(stop)
	<-done
}
