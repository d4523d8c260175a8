package files_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/edge/files"
)

// TestTwoTenants walks the table of routes: the same paths are other files, and a token of
// a prefix sees only what lies below it.
func TestTwoTenants(t *testing.T) {
	t.Parallel()
	b := open(t, options{trash: time.Hour})
	b.put("/mine/f", "ann's")
	b.put("/theirs/f", "secret")
	b.put("/theirs/gone", "secret")
	b.by("bob").put("/mine/f", "bob's")
	b.do("GET", "/v1/fs/mine/f", "").text("ann's")
	b.by("bob").do("GET", "/v1/fs/mine/f", "").text("bob's")
	b.by("bob").do("GET", "/v1/fs/theirs/f", "").want(404)
	var up struct{ ID string }
	b.do("POST", "/v1/uploads", `{"path":"/theirs/up"}`).want(201).decode(&up)
	var gone struct{ Job string }
	b.do("DELETE", "/v1/fs/theirs/gone", "").want(200).decode(&gone)
	requests := []struct {
		method, target, body string
		status               int
	}{
		{"GET", "/v1/fs/theirs/f?stat", "", 403},
		{"GET", "/v1/fs/theirs?list", "", 403},
		{"GET", "/v1/fs/?list", "", 403},
		{"GET", "/v1/fs/theirs/f?tags", "", 403},
		{"GET", "/v1/fs/theirs/f", "", 403},
		{"HEAD", "/v1/fs/theirs/f", "", 403},
		{"PUT", "/v1/fs/theirs/f", "x", 403},
		{"PUT", "/v1/fs/mine2", "x", 403},
		{"POST", "/v1/fs/theirs/f?op=append", "x", 403},
		{"POST", "/v1/fs/theirs/f?op=chmod", `{"mode":"0600"}`, 403},
		{"POST", "/v1/fs/theirs/f?op=tag", `{"set":{"a":"b"}}`, 403},
		{"POST", "/v1/fs/theirs/d?op=mkdir", "", 403},
		{"POST", "/v1/fs/theirs/s?op=symlink", `{"target":"x"}`, 403},
		{"POST", "/v1/fs/theirs/f?op=copy", `{"to":"/mine/g"}`, 403},
		{"POST", "/v1/fs/mine/f?op=copy", `{"to":"/theirs/g"}`, 403},
		{"POST", "/v1/fs/theirs/f?op=rename", `{"to":"/mine/g"}`, 403},
		{"POST", "/v1/fs/mine/f?op=rename", `{"to":"/theirs/g"}`, 403},
		{"POST", "/v1/fs/theirs/f?op=link", `{"to":"/mine/g"}`, 403},
		{"POST", "/v1/fs/mine/f?op=link", `{"to":"/theirs/g"}`, 403},
		{"DELETE", "/v1/fs/theirs/f", "", 403},
		{"DELETE", "/v1/fs/theirs?recursive=true", "", 403},
		{"POST", "/v1/uploads", `{"path":"/theirs/x"}`, 403},
		{"POST", "/v1/check", "", 403},
		{"POST", "/v1/reconcile", "", 403},
		{"POST", "/v1/scrub", "", 403},
		{"GET", "/v1/usage", "", 403},
		{"GET", "/v1/events?path=/theirs", "", 403},
		// What is elsewhere is not there.
		{"GET", "/v1/uploads", "", 200},
		{"GET", "/v1/uploads/" + up.ID, "", 404},
		{"DELETE", "/v1/uploads/" + up.ID, "", 404},
		{"PUT", "/v1/uploads/" + up.ID + "/parts/1", "x", 404},
		{"POST", "/v1/uploads/" + up.ID + "/complete", "", 404},
		{"GET", "/v1/trash", "", 200},
		{"DELETE", "/v1/trash", "", 202},
		{"DELETE", "/v1/trash/" + gone.Job, "", 404},
		{"POST", "/v1/trash/" + gone.Job + "/restore", "", 404},
	}
	for _, c := range requests {
		callers := []string{"scoped", "catalog"}
		if c.status == 404 || c.method == "GET" && c.status == 200 {
			callers = append(callers, "bob")
		}
		for _, caller := range callers {
			a := b.by(caller).do(c.method, c.target, c.body)
			if a.status != c.status {
				t.Errorf("%s: %s %s: %d, want %d: %s", caller, c.method, c.target, a.status, c.status, a.body)
			}
			for _, hidden := range []string{"secret", "/theirs/up", "/theirs/gone"} {
				if strings.Contains(string(a.body), hidden) {
					t.Errorf("%s: %s %s shows %s", caller, c.method, c.target, hidden)
				}
			}
		}
	}
	b.do("GET", "/v1/uploads/"+up.ID, "").want(200)
	b.do("POST", "/v1/trash/"+gone.Job+"/restore", "").want(200)
	// No route and no operation is left out.
	asked := func(what string) bool {
		pattern := strings.NewReplacer("{path}", ".*", "{id}", "[^/]+", "{number}", "[^/]+").Replace(what)
		matches := regexp.MustCompile("^" + pattern + "$").MatchString
		for _, c := range requests {
			path, query, _ := strings.Cut(c.target, "?")
			if matches(c.method+" "+path) || matches(query) {
				return true
			}
		}
		return false
	}
	all := files.Operations()
	_, names, _ := strings.Cut(string(b.do("POST", "/v1/fs/x?op=none", "").want(400).body), "is none of ")
	for name := range strings.SplitSeq(names[:strings.IndexByte(names, '"')], "|") {
		all = append(all, "op="+name)
	}
	for _, what := range all {
		if !asked(what) {
			t.Errorf("nobody asks %s", what)
		}
	}
	// A symbolic link leads nowhere that the token does not.
	b.do("POST", "/v1/fs/mine/out?op=symlink", `{"target":"/theirs/f"}`).want(201)
	b.do("POST", "/v1/fs/mine/dir?op=symlink", `{"target":"../theirs"}`).want(201)
	for _, target := range []string{"/v1/fs/mine/out", "/v1/fs/mine/dir/f", "/v1/fs/mine/out?stat", "/v1/fs/mine/dir?list"} {
		if a := b.by("scoped").do("GET", target, ""); a.status != 403 {
			t.Errorf("through the link %s: %d: %s", target, a.status, a.body)
		}
	}
	b.by("scoped").do("PUT", "/v1/fs/mine/dir/new", "x").want(403)
	b.do("GET", "/v1/fs/theirs/f", "").want(200).text("secret")
	if diff := cmp.Diff([]string{"f", "gone"}, b.names("/theirs")); diff != "" {
		t.Error(diff)
	}
}

// TestScopeOfTwoPaths: what a token may read through a link it may not therefore write, and
// what it may not read it cannot move to where it may.
func TestScopeOfTwoPaths(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	b.put("/pub/file", "public")
	b.put("/inbox/letter", "sealed")
	b.put("/mine/src", "mine")
	s := b.by("borrower")
	s.do("POST", "/v1/fs/mine/file?op=symlink", `{"target":"/pub/file"}`).want(201)
	s.do("POST", "/v1/fs/mine/dir?op=symlink", `{"target":"/pub"}`).want(201)
	s.do("POST", "/v1/fs/mine/in?op=symlink", `{"target":"/inbox"}`).want(201)
	for _, c := range []struct {
		name, path, to string
		status         int
	}{
		{"copy to a link into what is read-only", "/mine/src?op=copy", "/mine/file", 403},
		{"copy below a link into what is read-only", "/mine/src?op=copy", "/mine/dir/new", 403},
		{"link below a link into what is read-only", "/mine/src?op=link", "/mine/dir/new", 403},
		{"rename below a link into what is read-only", "/mine/src?op=rename", "/mine/dir/new", 403},
		{"rename of what may not be read", "/inbox/letter?op=rename", "/mine/letter", 403},
		{"rename of the same through a link", "/mine/in/letter?op=rename", "/mine/letter", 403},
		{"copy of what may be read through a link", "/mine/dir/file?op=copy", "/mine/copy", 201},
		{"copy to what may only be written", "/mine/src?op=copy", "/mine/in/copy", 201},
		{"rename of what may not be read, in place", "/inbox/letter?op=rename", "/inbox/letter2", 200},
	} {
		s.do("POST", "/v1/fs"+c.path, `{"to":"`+c.to+`"}`).want(c.status)
		if t.Failed() {
			t.Fatal(c.name)
		}
	}
	b.do("GET", "/v1/fs/pub/file", "").text("public")
	if got := strings.Join(b.names("/pub"), " "); got != "file" {
		t.Errorf("/pub holds %s", got)
	}
	s.do("GET", "/v1/fs/mine/letter", "").want(404)
}

// TestScopeOfWhatMoved: what was begun or deleted in a directory does not follow it to where
// the token reaches nothing.
func TestScopeOfWhatMoved(t *testing.T) {
	t.Parallel()
	b := open(t, options{trash: time.Hour})
	b.put("/mine/d/x", "x")
	b.put("/private/x", "x")
	s := b.by("scoped")
	var u struct{ ID string }
	s.do("POST", "/v1/uploads", `{"path":"/mine/d/new","size":4}`).want(201).decode(&u)
	s.do("PUT", "/v1/uploads/"+u.ID+"/parts/1", "data").want(200)
	s.do("DELETE", "/v1/fs/mine/d/x", "").want(200)
	b.do("POST", "/v1/fs/mine/d?op=rename", `{"to":"/private/d"}`).want(200)

	s.do("POST", "/v1/uploads/"+u.ID+"/complete", "").want(403)
	s.do("POST", "/v1/trash/delete-1/restore", "").want(403)
	if names := b.names("/private/d"); len(names) != 0 {
		t.Errorf("/private/d holds %v", names)
	}
	b.do("POST", "/v1/fs/private/d?op=rename", `{"to":"/mine/e"}`).want(200)
	s.do("POST", "/v1/uploads/"+u.ID+"/complete", "").want(201)
	s.do("POST", "/v1/trash/delete-1/restore", "").want(200)
	if got := strings.Join(s.names("/mine/e"), " "); got != "new x" {
		t.Errorf("/mine/e holds %s", got)
	}
}

// TestRestoreThroughLinks: a restore follows links on its way as all else does, and only to
// where the token reaches.
func TestRestoreThroughLinks(t *testing.T) {
	t.Parallel()
	b := open(t, options{trash: time.Hour})
	b.put("/mine/x", "x")
	b.put("/mine/d/y", "y")
	b.put("/private/z", "z")
	b.do("POST", "/v1/fs/mine/in?op=symlink", `{"target":"d"}`).want(201)
	b.do("POST", "/v1/fs/mine/out?op=symlink", `{"target":"/private"}`).want(201)
	s := b.by("scoped")
	s.do("DELETE", "/v1/fs/mine/x", "").want(200)
	s.do("POST", "/v1/trash/delete-1/restore", `{"to":"/mine/out/x"}`).want(403)
	s.do("POST", "/v1/trash/delete-1/restore", `{"to":"/mine/none/x"}`).want(404)
	s.do("POST", "/v1/trash/delete-1/restore", `{"to":"/mine/d/y/x"}`).want(404)
	s.do("POST", "/v1/trash/delete-1/restore", `{"to":"/mine/in/y"}`).want(409)
	var back struct{ Path string }
	s.do("POST", "/v1/trash/delete-1/restore", `{"to":"/mine/in/x"}`).want(200).decode(&back)
	if got := strings.Join(b.names("/mine/d"), " "); got != "x y" || back.Path != "/mine/d/x" {
		t.Errorf("/mine/d holds %s, told %s", got, back.Path)
	}
	if got := strings.Join(b.names("/private"), " "); got != "z" {
		t.Errorf("/private holds %s", got)
	}
}

// TestClaims: a word of a client's is no number that the server counts with, and no text
// that it stores another one for.
func TestClaims(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	for range 3 {
		b.do("POST", "/v1/uploads", `{"path":"/big","size":9223372036854775807}`).want(400)
	}
	b.put("/f", "x")
	b.do("POST", "/v1/fs/f?op=rename", "{\"to\":\"/g\xff\"}").want(400)
	b.do("POST", "/v1/fs/f?op=tag", `{"set":{"a\u0000":"x"}}`).want(400)
	b.do("POST", "/v1/fs/f?op=tag", `{"set":{"a":"x\u0000"}}`).want(400)
	b.do("POST", "/v1/fs/f?op=tag", `{"remove":["\u0000"]}`).want(400)
	b.do("GET", "/v1/uploads?cursor=%00", "").want(400)
	b.do("GET", "/v1/uploads/%ff", "").want(400)
	b.do("GET", "/v1/fs/?list&cursor=il7asoJjAA", "").want(400) // the seal of /, and a NUL
	if err := b.quota(1, 10, 0); err != nil {
		t.Fatal(err)
	}
	// Parts beyond what was declared, and so reserved, are asked about too.
	var u struct{ ID string }
	b.do("POST", "/v1/uploads", `{"path":"/h","size":6}`).want(201).decode(&u)
	b.do("PUT", "/v1/uploads/"+u.ID+"/parts/1", "123456").want(200)
	b.do("PUT", "/v1/uploads/"+u.ID+"/parts/1", "654321").want(200)
	b.do("PUT", "/v1/uploads/"+u.ID+"/parts/2", "123456").want(507)
	b.do("POST", "/v1/uploads/"+u.ID+"/complete", "").want(201)
	b.do("POST", "/v1/uploads", `{"path":"/i"}`).want(400, "SizeRequired")
}

// TestManyTags: the tags of an entry are bounded in all.
func TestManyTags(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	b.put("/f", "x")
	set := func(i int) string {
		var text strings.Builder
		for j := range 125 {
			text.WriteString(`,"` + string(rune('a'+i)) + strings.Repeat("x", j) + `":""`)
		}
		return `{"set":{` + text.String()[1:] + `}}`
	}
	for i := range 8 {
		b.do("POST", "/v1/fs/f?op=tag", set(i)).want(200)
	}
	b.do("POST", "/v1/fs/f?op=tag", set(8)).want(409, "TooManyTags")
	b.do("POST", "/v1/fs/f?op=tag", `{"remove":["a"],"set":{"new":""}}`).want(200)
}
