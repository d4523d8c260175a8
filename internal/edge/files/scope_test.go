package files_test

import (
	"strings"
	"testing"
	"time"
)

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
