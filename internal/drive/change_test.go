package drive_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/feed"
)

func TestMkdir(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		r.put(t, "/file", "x")
		r.mkdir(t, "/there")
		r.symlink(t, "/link", "there")
		for _, c := range []struct {
			path    string
			parents bool
			want    string
		}{
			{"/new", false, "created"},
			{"/new", false, "AlreadyExists"},
			{"/new", true, "found"},
			{"/a/b/c", false, "NotFound"},
			{"/a/b/c", true, "created"},
			{"/a/b", true, "found"},
			{"/link", true, "found"},
			{"/link/in", false, "created"},
			{"/file", true, "AlreadyExists"},
			{"/file/x", true, "NotDirectory"},
			{"/", true, "found"},
			{"/", false, "AlreadyExists"},
			{"/" + strings.Repeat("n", 256), true, "InvalidPath"},
			{"/" + strings.Repeat("n", 255), true, "created"},
			{"/näme \\ %41", false, "created"},
		} {
			e, created, err := r.Mkdir(t.Context(), one, c.path, drive.MkdirOptions{Parents: c.parents})
			got := "found"
			switch {
			case err != nil:
				got = code(err)
			case e.Kind != drive.Directory:
				got = string(e.Kind)
			case created:
				got = "created"
			}
			if got != c.want {
				t.Errorf("mkdir %.20q, parents %t: %s, want %s", c.path, c.parents, got, c.want)
			}
		}
		if got := r.names(t, "/there"); got != "in" {
			t.Errorf("behind the link: %s", got)
		}
	})
}

func TestLinkAndSymlink(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		ctx := t.Context()
		file := r.put(t, "/file", "bytes")
		r.mkdir(t, "/dir")
		r.symlink(t, "/soft", "file")
		for _, c := range []struct{ path, to, want string }{
			{"/file", "/dir/hard", "ok"},
			{"/file", "/dir/hard", "AlreadyExists"},
			{"/file", "/no/dir", "NotFound"},
			{"/dir", "/dir2", "IsDirectory"},
			{"/none", "/x", "NotFound"},
			{"/soft", "/soft2", "ok"},
			{"/file", "/", "AlreadyExists"},
		} {
			_, err := r.Link(ctx, one, c.path, c.to, drive.Change{})
			if code(err) != c.want {
				t.Errorf("link %s to %s: %s, want %s", c.path, c.to, code(err), c.want)
			}
		}
		if e, err := r.Stat(ctx, one, "/dir/hard", false); err != nil || e.NLink != 2 || e.Inode != file.Inode {
			t.Errorf("the second name: %+v, %v", e, err)
		}
		if _, err := r.Link(ctx, one, "/file", "/third", drive.Change{IfMatch: `"0"`}); code(err) != "PreconditionFailed" {
			t.Errorf("link of another revision: %v", err)
		}
		if e, err := r.Stat(ctx, one, "/soft2", false); err != nil || e.Kind != drive.Symlink || e.NLink != 2 {
			t.Errorf("a second name of a symbolic link: %+v, %v", e, err)
		}
		for target, want := range map[string]string{"": "InvalidTarget", strings.Repeat("x/", 2100): "InvalidTarget", "a\x00b": "InvalidTarget", "../../..": "ok"} {
			if _, err := r.Symlink(ctx, one, "/s"+want, target, drive.Change{}); code(err) != want {
				t.Errorf("symlink to %.10q: %v, want %s", target, err, want)
			}
		}
		if _, err := r.Symlink(ctx, one, "/dir", "x", drive.Change{}); code(err) != "AlreadyExists" {
			t.Errorf("symlink over a directory: %v", err)
		}
	})
}

func TestCopy(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		ctx := t.Context()
		long := strings.Repeat("long ", 20)
		src := r.put(t, "/src", long)
		r.put(t, "/other", "other")
		r.mkdir(t, "/dir")
		r.symlink(t, "/soft", "src")
		for _, c := range []struct {
			from, to string
			opts     drive.CopyOptions
			want     string
		}{
			{"/src", "/copy", drive.CopyOptions{}, "created"},
			{"/src", "/made/on/the/way", drive.CopyOptions{}, "created"},
			{"/src", "/other", drive.CopyOptions{NoReplace: true}, "AlreadyExists"},
			{"/src", "/other", drive.CopyOptions{}, "replaced"},
			{"/src", "/copy", drive.CopyOptions{}, "replaced"},
			{"/src", "/src", drive.CopyOptions{}, "replaced"},
			{"/src", "/dir", drive.CopyOptions{}, "IsDirectory"},
			{"/dir", "/dir2", drive.CopyOptions{}, "CopyDirectory"},
			{"/none", "/x", drive.CopyOptions{}, "NotFound"},
			{"/src", "/x", drive.CopyOptions{IfMatch: `"1-1"`}, "PreconditionFailed"},
			{"/src", "/x", drive.CopyOptions{IfMatch: src.ETag()}, "created"},
			{"/soft", "/soft2", drive.CopyOptions{}, "created"},
			{"/soft", "/other", drive.CopyOptions{}, "AlreadyExists"},
		} {
			_, created, err := r.Copy(ctx, one, c.from, c.to, c.opts)
			got := "replaced"
			if created {
				got = "created"
			}
			if err != nil {
				got = code(err)
			}
			if got != c.want {
				t.Errorf("copy %s to %s: %s, want %s", c.from, c.to, got, c.want)
			}
		}
		if n := r.bucket.Len(); n != 1 {
			t.Errorf("%d objects for one content", n)
		}
		for i, mode := range []uint32{0, 0o400, 0o7777} {
			to := fmt.Sprintf("/mode%d", i)
			if _, err := r.Chmod(ctx, one, "/soft2", mode, drive.Change{}); err != nil {
				t.Fatal(err)
			}
			if e, _, err := r.Copy(ctx, one, "/src", to, drive.CopyOptions{}); err != nil || e.Mode != mode {
				t.Errorf("a copy of mode %o: %+v, %v", mode, e, err)
			}
		}
		r.put(t, "/src", "changed")
		if _, err := r.Remove(ctx, one, "/copy", drive.RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{"/copy": "NotFound", "/other": long, "/made/on/the/way": long, "/src": "changed", "/soft2": "changed"} {
			if got := r.read(t, path); got != want {
				t.Errorf("%s reads %.10q, want %.10q", path, got, want)
			}
		}
	})
}

func TestRename(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		ctx := t.Context()
		file := r.put(t, "/d/file", "file")
		r.put(t, "/victim", "victim bytes")
		r.mkdir(t, "/empty/inner")
		r.mkdir(t, "/e2")
		r.put(t, "/tree/sub/leaf", "leaf")
		r.symlink(t, "/into", "tree/sub")
		if _, err := r.Link(ctx, one, "/d/file", "/hard", drive.Change{}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			from, to string
			opts     drive.RenameOptions
			want     string
		}{
			{"/d/file", "/victim", drive.RenameOptions{NoReplace: true}, "AlreadyExists"},
			{"/d/file", "/victim", drive.RenameOptions{IfMatch: `"7"`}, "PreconditionFailed"},
			{"/d/file", "/no/where", drive.RenameOptions{}, "NotFound"},
			{"/none", "/x", drive.RenameOptions{}, "NotFound"},
			{"/d/file", "/tree", drive.RenameOptions{}, "IsDirectory"},
			{"/tree", "/victim", drive.RenameOptions{}, "NotDirectory"},
			{"/tree", "/tree/sub/x", drive.RenameOptions{}, "IntoItself"},
			{"/tree", "/into/x", drive.RenameOptions{}, "IntoItself"},
			{"/tree/sub", "/tree", drive.RenameOptions{}, "DirectoryNotEmpty"},
			{"/e2", "/tree", drive.RenameOptions{}, "DirectoryNotEmpty"},
			{"/", "/x", drive.RenameOptions{}, "InvalidPath"},
			{"/tree", "/", drive.RenameOptions{}, "InvalidPath"},
			{"/d/file", "/hard", drive.RenameOptions{}, "ok"}, // two names of one file stay
			{"/d/file", "/d/file", drive.RenameOptions{}, "ok"},
			{"/d/file", "/victim", drive.RenameOptions{IfMatch: file.ETag()}, "ok"},
			{"/tree/sub", "/empty/inner", drive.RenameOptions{}, "ok"}, // over an empty directory
			{"/e2", "/e3", drive.RenameOptions{}, "ok"},
			{"/into", "/d/into", drive.RenameOptions{}, "ok"},
		} {
			_, err := r.Rename(ctx, one, c.from, c.to, c.opts)
			if code(err) != c.want {
				t.Errorf("rename %s to %s: %s, want %s", c.from, c.to, code(err), c.want)
			}
		}
		want := map[string]string{
			"/": "d e3 empty hard tree victim", "/d": "into", "/empty": "inner", "/empty/inner": "leaf", "/tree": "", "/e3": "",
		}
		got := map[string]string{}
		for dir := range want {
			got[dir] = r.names(t, dir)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the tree (-want +got):\n%s", diff)
		}
		if e, err := r.Stat(ctx, one, "/victim", false); err != nil || e.Inode != file.Inode || e.NLink != 2 {
			t.Errorf("the moved file: %+v, %v", e, err)
		}
	})
}

func TestAttributes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		ctx := t.Context()
		old := r.put(t, "/file", "x")
		r.mkdir(t, "/dir")
		e, err := r.Chmod(ctx, one, "/file", 0o600, drive.Change{})
		if err != nil || e.Mode != 0o600 || e.Revision != old.Revision+1 {
			t.Errorf("chmod: %+v, %v", e, err)
		}
		if _, err := r.Chmod(ctx, one, "/file", 0o640, drive.Change{IfMatch: old.ETag()}); code(err) != "PreconditionFailed" {
			t.Errorf("chmod of an old revision: %v", err)
		}
		if _, err := r.Chmod(ctx, one, "/file", 0o10000, drive.Change{}); code(err) != "InvalidMode" {
			t.Errorf("chmod to no mode: %v", err)
		}
		for _, path := range []string{"/dir", "/"} {
			if e, err := r.Chmod(ctx, one, path, 0o700, drive.Change{}); err != nil || e.Mode != 0o700 {
				t.Errorf("chmod %s: %+v, %v", path, e, err)
			}
		}
		tags, err := r.Tag(ctx, one, "/file", drive.TagOptions{Set: map[string]string{"b": "2", "a": "1", "é": ""}})
		if diff := cmp.Diff(map[string]string{"a": "1", "b": "2", "é": ""}, tags); err != nil || diff != "" {
			t.Errorf("tags: %v\n%s", err, diff)
		}
		if _, err := r.Tag(ctx, one, "/file", drive.TagOptions{Set: map[string]string{"a": "3"}, Remove: []string{"b", "none"}}); err != nil {
			t.Error(err)
		}
		tags, err = r.Tags(ctx, one, "/file")
		if diff := cmp.Diff(map[string]string{"a": "3", "é": ""}, tags); err != nil || diff != "" {
			t.Errorf("changed tags: %v\n%s", err, diff)
		}
		now, err := r.Stat(ctx, one, "/file", true)
		if err != nil || now.Revision <= e.Revision {
			t.Errorf("tags change the revision: %+v, %v", now, err)
		}
		for name, opts := range map[string]drive.TagOptions{
			"nothing": {}, "no name": {Set: map[string]string{"": "x"}}, "a long name": {Set: map[string]string{strings.Repeat("x", 256): ""}},
			"a long value": {Set: map[string]string{"x": strings.Repeat("x", 1025)}}, "no text": {Set: map[string]string{"x": "\xff"}},
		} {
			if _, err := r.Tag(ctx, one, "/file", opts); code(err) != "InvalidTag" {
				t.Errorf("tag %s: %v", name, err)
			}
		}
		if _, err := r.Remove(ctx, one, "/file", drive.RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Tags(ctx, one, "/file"); code(err) != "NotFound" {
			t.Errorf("tags of nothing: %v", err)
		}
	})
}

// Every change is told, with where it was and who did it.
func TestEvents(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		ctx := t.Context()
		who := drive.Change{Actor: "ann"}
		do := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		put := func(text string) {
			t.Helper()
			if _, _, err := r.Put(ctx, one, "/a/file", drive.PutOptions{Body: strings.NewReader(text), Size: -1, Actor: "ann"}); err != nil {
				t.Fatal(err)
			}
		}
		put("1")
		put("2")
		do(r.Chmod(ctx, one, "/a/file", 0o600, who))
		do(r.Link(ctx, one, "/a/file", "/hard", who))
		do(r.Symlink(ctx, one, "/soft", "x", who))
		do(r.Rename(ctx, one, "/a/file", "/file", drive.RenameOptions{Actor: "ann"}))
		do(r.Remove(ctx, one, "/file", drive.RemoveOptions{Actor: "ann"}))
		do(r.Remove(ctx, one, "/a", drive.RemoveOptions{Actor: "ann"}))
		if err := r.feed.Fold(ctx); err != nil {
			t.Fatal(err)
		}
		events, _, _, err := r.feed.Read(ctx, int64(one), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		type told struct {
			Kind             feed.Kind
			Path, From, Name string
		}
		var got []told
		for _, e := range events {
			got = append(got, told{e.Kind, e.Path, e.From, e.Name})
			if e.Actor != "ann" || e.Inode == 0 || e.Parent == 0 {
				t.Errorf("%+v", e)
			}
		}
		want := []told{
			{feed.Create, "/a", "", "a"},
			{feed.Create, "/a/file", "", "file"},
			{feed.Write, "/a/file", "", "file"},
			{feed.Attrib, "/a/file", "", "file"},
			{feed.Create, "/hard", "", "hard"},
			{feed.Create, "/soft", "", "soft"},
			{feed.Rename, "/file", "/a/file", "file"},
			{feed.Remove, "/file", "", "file"},
			{feed.Remove, "/a", "", "a"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}
