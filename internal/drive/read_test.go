package drive_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

func TestPathsLeadThroughLinks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		r.put(t, "/a/b/file", "bytes")
		r.symlink(t, "/a/relative", "b/file")
		r.symlink(t, "/a/dir", "b")
		r.symlink(t, "/absolute", "/a/b")
		r.symlink(t, "/a/b/up", "../b/./file")
		r.symlink(t, "/chain", "a/dir/up")
		r.symlink(t, "/loop", "loop")
		r.symlink(t, "/dangling", "/nowhere/x")
		r.symlink(t, "/a/b/above", "../../../../a")
		r.symlink(t, "/thru", "absolute/../b/file") // the parent of what absolute leads to
		r.symlink(t, "/bad", "a/b/file/../file")
		for path, want := range map[string]string{
			"/a/b/file":          "/a/b/file",
			"/a/relative":        "/a/b/file",
			"/a/dir/file":        "/a/b/file",
			"/a/dir":             "/a/b",
			"/absolute/file":     "/a/b/file",
			"/a/b/up":            "/a/b/file",
			"/chain":             "/a/b/file",
			"/a/b/above/b/file":  "/a/b/file",
			"/thru":              "/a/b/file",
			"/absolute/above/b/": "/a/b",
			"/loop":              "SymlinkLoop",
			"/loop/x":            "SymlinkLoop",
			"/dangling":          "NotFound",
			"/a/b/file/x":        "NotDirectory",
			"/chain/x":           "NotDirectory",
			"/bad":               "NotDirectory",
			"/a/../a":            "InvalidPath",
			"/a//b":              "InvalidPath",
			"/":                  "/",
		} {
			e, err := r.Stat(t.Context(), one, path, true)
			got := e.Path
			if err != nil {
				got = code(err)
			}
			if got != want {
				t.Errorf("stat %s: %s, want %s", path, got, want)
			}
		}
		e, err := r.Stat(t.Context(), one, "/absolute", false)
		if err != nil || e.Kind != drive.Symlink || e.Target != "/a/b" || e.Size != 4 {
			t.Errorf("the link itself: %+v, %v", e, err)
		}
		if _, err := r.Stat(t.Context(), two, "/a", true); code(err) != "NotFound" {
			t.Errorf("another tenant sees /a: %v", err)
		}
		if _, err := r.Stat(t.Context(), 99, "/a", true); code(err) != "NoSuchDrive" {
			t.Errorf("no drive: %v", err)
		}
	})
}

func TestLinksAreBoundToAScope(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		r.put(t, "/mine/file", "mine")
		r.put(t, "/theirs/file", "theirs")
		r.symlink(t, "/mine/in", "/mine/file")
		r.symlink(t, "/mine/around", "../mine/file")
		r.symlink(t, "/mine/out", "/theirs/file")
		r.symlink(t, "/mine/probe", "/theirs/missing")
		asked := []string{}
		ctx := drive.WithScope(t.Context(), func(path string) error {
			asked = append(asked, path)
			if strings.HasPrefix(path, "/mine") {
				return nil
			}
			return fault.New("test", fault.Denied, "Denied", "not yours")
		})
		for path, want := range map[string]string{
			"/mine/file": "ok", "/mine/in": "ok", "/mine/around": "ok", "/mine/out": "Denied", "/mine/probe": "Denied",
		} {
			if _, err := r.Open(ctx, one, path); code(err) != want {
				t.Errorf("open %s: %s, want %s (asked %q)", path, code(err), want, asked)
			}
		}
		_, _, err := r.Put(ctx, one, "/mine/out", drive.PutOptions{Body: strings.NewReader("x"), Size: 1})
		if code(err) != "Denied" || r.read(t, "/theirs/file") != "theirs" {
			t.Errorf("put through a link out of the scope: %v", err)
		}
	})
}

func TestListPages(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		var want []string
		for i := range 25 {
			name := fmt.Sprintf("n%02d", i)
			want = append(want, "/d/"+name)
			r.put(t, "/d/"+name, name)
		}
		for _, limit := range []int{1, 7, 25, 100} {
			var got []string
			for after, pages := "", 0; ; pages++ {
				entries, next, err := r.List(t.Context(), one, "/d", drive.ListOptions{Limit: limit, After: after})
				if err != nil || len(entries) > limit {
					t.Fatalf("%d entries, %v", len(entries), err)
				}
				for _, e := range entries {
					got = append(got, e.Path)
				}
				if next == "" {
					break
				}
				after = next
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("limit %d (-want +got):\n%s", limit, diff)
			}
		}
		// What comes and goes behind and before the cursor changes nothing for the rest.
		entries, next, err := r.List(t.Context(), one, "/d", drive.ListOptions{Limit: 10})
		if err != nil || len(entries) != 10 {
			t.Fatal(err)
		}
		r.put(t, "/d/a-new-one-before", "")
		if _, err := r.Remove(t.Context(), one, "/d/"+next, drive.RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
		entries, _, err = r.List(t.Context(), one, "/d", drive.ListOptions{Limit: 1, After: next})
		if err != nil || len(entries) != 1 || entries[0].Name != "n10" {
			t.Errorf("after a page whose last entry went: %v, %v", entries, err)
		}
		for path, want := range map[string]string{"/d/n00": "NotDirectory", "/none": "NotFound", "/": "d"} {
			if got := r.names(t, path); got != want {
				t.Errorf("list %s: %s, want %s", path, got, want)
			}
		}
		if _, _, err := r.List(t.Context(), one, "/d", drive.ListOptions{Limit: -1}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("a negative limit: %v", err)
		}
	})
}

func TestReadRanges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		for _, text := range []string{"", "inline", strings.Repeat("0123456789", 50)} {
			r.put(t, "/file", text)
			f, err := r.Open(t.Context(), one, "/file")
			if err != nil {
				t.Fatal(err)
			}
			if f.Entry.Size != int64(len(text)) {
				t.Errorf("size %d of %d", f.Entry.Size, len(text))
			}
			for _, c := range []struct{ off, n int }{{0, -1}, {0, len(text)}, {len(text) / 2, -1}, {len(text) / 3, len(text) / 3}, {len(text), -1}} {
				body, err := f.Range(t.Context(), int64(c.off), int64(c.n))
				if err != nil {
					t.Fatalf("%+v of %d: %v", c, len(text), err)
				}
				got, err := io.ReadAll(body)
				_ = body.Close()
				want := text[c.off:]
				if c.n >= 0 {
					want = want[:c.n]
				}
				if err != nil || string(got) != want {
					t.Errorf("%+v of %d bytes: %q, %v, want %q", c, len(text), got, err, want)
				}
			}
			if _, err := f.Range(t.Context(), int64(len(text)+1), -1); code(err) != "RangeNotSatisfiable" {
				t.Errorf("beyond the end: %v", err)
			}
		}
		r.mkdir(t, "/dir")
		if got := r.read(t, "/dir"); got != "IsDirectory" {
			t.Errorf("reading a directory: %s", got)
		}
	})
}

// Head knows the checksum of a file, and does not wait for bytes that are gone for good.
func TestHead(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, owners, func(t *testing.T, db *sqldb.DB) {
		r := setup(t, db, nil)
		ctx := t.Context()
		want := r.put(t, "/file", "some bytes that are not kept in a row")
		r.symlink(t, "/soft", "file")
		for _, path := range []string{"/file", "/soft"} {
			if e, err := r.Head(ctx, one, path); err != nil || e.SHA256 != want.SHA256 || e.SHA256 == "" || e.ETag() != want.ETag() || e.Path != "/file" {
				t.Errorf("%s: %+v, %v, want %+v", path, e, err, want)
			}
		}
		if e, err := r.Head(ctx, one, "/"); err != nil || e.Kind != drive.Directory || e.SHA256 != "" {
			t.Errorf("/: %+v, %v", e, err)
		}
		if _, err := r.Head(ctx, two, "/file"); code(err) != "NotFound" {
			t.Errorf("another tenant's: %v", err)
		}
		if _, err := db.Exec(ctx, "DELETE FROM contents WHERE fs_id = ?", int64(one)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Head(ctx, one, "/file"); code(err) != "NotFound" {
			t.Errorf("without its bytes: %v", err)
		}
	})
}

// What was replaced between Open and Range is told, never sent under the old ETag.
func TestReadOfWhatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		old := r.put(t, "/file", "old")
		f, err := r.Open(t.Context(), one, "/file")
		if err != nil {
			t.Fatal(err)
		}
		r.put(t, "/file", "newer")
		if _, err := f.Range(t.Context(), 0, 3); code(err) != "FileChanged" {
			t.Fatalf("the first range: %v", err)
		}
		if f.Entry.ETag() == old.ETag() || f.Entry.Size != 5 {
			t.Errorf("the entry is still %+v", f.Entry)
		}
		body, err := f.Range(t.Context(), 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(body)
		_ = body.Close()
		if string(got) != "newer" {
			t.Errorf("read %q", got)
		}
		if _, err := r.Remove(t.Context(), one, "/file", drive.RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Range(t.Context(), 0, -1); code(err) != "NotFound" {
			t.Errorf("of a file that is gone: %v", err)
		}
	})
}
