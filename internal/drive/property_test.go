package drive_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/drivetest"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// side is one drive on one database, driven beside the model.
type side struct {
	*room
	name    string
	fs      tree.FS
	uploads []string
}

// operation is one step on the model and on a drive. Both answer with what a user sees.
type operation struct {
	text  string
	model func(m *model) string
	drive func(ctx context.Context, s *side) string
}

var (
	genName = rapid.SampledFrom([]string{"a", "b", "c"})
	genDeep = rapid.Custom(func(t *rapid.T) string {
		return "/" + strings.Join(rapid.SliceOfN(genName, 1, 4).Draw(t, "names"), "/")
	})
	genPath = rapid.OneOf(genDeep, genDeep, genDeep, genDeep, rapid.Just("/"))
	genText = rapid.Custom(func(t *rapid.T) string {
		return strings.Repeat(genName.Draw(t, "letter"), rapid.IntRange(0, 2*inline).Draw(t, "size"))
	})
	genTarget = rapid.SampledFrom([]string{"a", "b", "c/a", "../a", "../b/c", "/a/b", "/", "..", ".", "a/..", "/c/../b", "nowhere"})
)

// okOr is a success that tells nothing, or the code of the error.
func okOr[T any](_ T, err error) string { return code(err) }

func okOr3[T any](_ T, _ bool, err error) string { return code(err) }

// operations are what is drawn from. Each gets two paths and a text.
var operations = []func(p, q, text, target string, flag bool) operation{
	func(p, _, text, _ string, _ bool) operation {
		return operation{
			fmt.Sprintf("put %s %q", p, text), func(m *model) string { return m.put(p, text) },
			func(ctx context.Context, s *side) string {
				return okOr3(s.Put(ctx, s.fs, p, drive.PutOptions{Body: strings.NewReader(text), Size: int64(len(text))}))
			},
		}
	},
	func(p, _, text, _ string, _ bool) operation {
		return operation{
			fmt.Sprintf("append %s %q", p, text), func(m *model) string { return m.add(p, text) },
			func(ctx context.Context, s *side) string {
				return okOr(s.Append(ctx, s.fs, p, drive.AppendOptions{Body: strings.NewReader(text), Size: -1}))
			},
		}
	},
	func(p, _, _, _ string, parents bool) operation {
		return operation{
			fmt.Sprintf("mkdir %s %t", p, parents), func(m *model) string { return m.mkdir(p, parents) },
			func(ctx context.Context, s *side) string {
				return okOr3(s.Mkdir(ctx, s.fs, p, drive.MkdirOptions{Parents: parents}))
			},
		}
	},
	func(p, _, _, target string, _ bool) operation {
		return operation{
			fmt.Sprintf("symlink %s -> %s", p, target), func(m *model) string { return m.symlink(p, target) },
			func(ctx context.Context, s *side) string {
				return okOr(s.Symlink(ctx, s.fs, p, target, drive.Change{}))
			},
		}
	},
	func(p, q, _, _ string, _ bool) operation {
		return operation{
			fmt.Sprintf("link %s %s", p, q), func(m *model) string { return m.link(p, q) },
			func(ctx context.Context, s *side) string { return okOr(s.Link(ctx, s.fs, p, q, drive.Change{})) },
		}
	},
	func(p, q, _, _ string, _ bool) operation {
		return operation{
			fmt.Sprintf("copy %s %s", p, q), func(m *model) string { return m.copy(p, q) },
			func(ctx context.Context, s *side) string { return okOr3(s.Copy(ctx, s.fs, p, q, drive.CopyOptions{})) },
		}
	},
	func(p, q, _, _ string, _ bool) operation {
		return operation{
			fmt.Sprintf("rename %s %s", p, q), func(m *model) string { return m.rename(p, q) },
			func(ctx context.Context, s *side) string {
				return okOr(s.Rename(ctx, s.fs, p, q, drive.RenameOptions{}))
			},
		}
	},
	func(p, _, _, _ string, all bool) operation {
		return operation{
			fmt.Sprintf("remove %s %t", p, all), func(m *model) string { return m.remove(p, all) },
			func(ctx context.Context, s *side) string {
				if all {
					return okOr(s.RemoveAll(ctx, s.fs, p, drive.RemoveAllOptions{Wait: time.Minute}))
				}
				return okOr(s.Remove(ctx, s.fs, p, drive.RemoveOptions{}))
			},
		}
	},
	func(p, _, _, _ string, _ bool) operation {
		return operation{
			"list " + p, func(m *model) string { return m.list(p) },
			func(ctx context.Context, s *side) string { return s.listing(ctx, p) },
		}
	},
	func(p, _, _, _ string, _ bool) operation {
		return operation{
			"read " + p, func(m *model) string { return m.read(p) },
			func(ctx context.Context, s *side) string { return s.bytes(ctx, p) },
		}
	},
	func(p, _, text, _ string, _ bool) operation {
		return operation{
			fmt.Sprintf("begin the upload of %s %q", p, text), func(m *model) string { return m.begin(p, text) },
			func(ctx context.Context, s *side) string { return s.begin(ctx, p, text) },
		}
	},
	func(string, string, string, string, bool) operation {
		return operation{
			"complete the oldest upload",
			func(m *model) string {
				if len(m.uploads) == 0 {
					return "none"
				}
				u := m.uploads[0]
				m.uploads = m.uploads[1:]
				return m.complete(u)
			},
			func(ctx context.Context, s *side) string { return s.complete(ctx) },
		}
	},
}

// listing returns the names of a directory, page by page, or the code of the error.
func (s *side) listing(ctx context.Context, path string) string {
	var names []string
	for after := ""; ; {
		entries, next, err := s.List(ctx, s.fs, path, drive.ListOptions{Limit: 2, After: after})
		if err != nil {
			return code(err)
		}
		for _, e := range entries {
			names = append(names, e.Name)
		}
		if after = next; after == "" {
			return strings.Join(names, " ")
		}
	}
}

func (s *side) bytes(ctx context.Context, path string) string {
	text, err := s.readErr(ctx, s.fs, path)
	if err != nil {
		return code(err)
	}
	return text
}

func (s *side) begin(ctx context.Context, path, text string) string {
	u, err := s.InitiateUpload(ctx, s.fs, path, drive.UploadOptions{Size: int64(len(text))})
	if err != nil {
		return code(err)
	}
	if _, err := s.PutPart(ctx, s.fs, u.ID, 1, drive.PartOptions{Body: strings.NewReader(text), Size: int64(len(text))}); err != nil {
		return code(err)
	}
	s.uploads = append(s.uploads, u.ID)
	return "ok"
}

func (s *side) complete(ctx context.Context) string {
	if len(s.uploads) == 0 {
		return "none"
	}
	id := s.uploads[0]
	s.uploads = s.uploads[1:]
	_, _, err := s.CompleteUpload(ctx, s.fs, id, drive.CompleteOptions{})
	got := code(err)
	switch got {
	case "UploadAborted", "UploadBaseGone":
		return "gone"
	case "ok":
		return got
	}
	// An upload that cannot be completed stays open.
	if err := s.AbortUpload(ctx, s.fs, id); err != nil {
		return code(err)
	}
	return got
}

// dump writes a whole tree down, one entry a line, hard links by the first name of theirs.
func (s *side) dump(ctx context.Context, t *rapid.T) string {
	var b strings.Builder
	first := map[tree.Inode]string{}
	var walk func(path string)
	walk = func(path string) {
		entries, _, err := s.List(ctx, s.fs, path, drive.ListOptions{})
		if err != nil {
			t.Fatalf("%s: list %s: %v", s.name, path, err)
		}
		for _, e := range entries {
			switch name, seen := first[e.Inode]; {
			case seen:
				fmt.Fprintf(&b, "%s = %s\n", e.Path, name)
			case e.Kind == drive.Directory:
				fmt.Fprintf(&b, "%s/\n", e.Path)
				walk(e.Path)
			case e.Kind == drive.Symlink:
				fmt.Fprintf(&b, "%s -> %s\n", e.Path, e.Target)
			default:
				fmt.Fprintf(&b, "%s %q\n", e.Path, s.bytes(ctx, e.Path))
			}
			if e.Kind != drive.Directory {
				first[e.Inode] = e.Path
			}
		}
	}
	walk("/")
	return b.String()
}

// dump is the same of the model.
func (m *model) dump() string {
	var b strings.Builder
	first := map[*node]string{}
	var walk func(dir *node, path string)
	walk = func(dir *node, path string) {
		for _, name := range dir.names() {
			n, at := dir.kids[name], path+"/"+name
			switch earlier, seen := first[n]; {
			case seen:
				fmt.Fprintf(&b, "%s = %s\n", at, earlier)
			case n.isDir():
				fmt.Fprintf(&b, "%s/\n", at)
				walk(n, at)
			case n.isLink():
				fmt.Fprintf(&b, "%s -> %s\n", at, n.target)
			default:
				fmt.Fprintf(&b, "%s %q\n", at, n.text)
			}
			if !n.isDir() {
				first[n] = at
			}
		}
	}
	walk(m.root, "")
	return b.String()
}

// The same random operations give the same answers and the same tree on every database
// and in the model, and leave rows that agree.
func TestModel(t *testing.T) {
	t.Parallel()
	var sides []*side
	for _, s := range sqldbtest.Servers(t) {
		sides = append(sides, &side{room: setup(t, s.Open(t, sqldb.Config{}, owners...), nil), name: s.String()})
	}
	var lastFS atomic.Int64
	lastFS.Store(100)
	rapid.Check(t, func(rt *rapid.T) {
		ctx := t.Context()
		fs := tree.FS(lastFS.Add(1))
		m := newModel()
		for _, s := range sides {
			s.fs, s.uploads = fs, nil
			if err := s.CreateDrive(ctx, fs); err != nil {
				rt.Fatal(err)
			}
		}
		var done []string
		for range rapid.IntRange(1, 30).Draw(rt, "operations") {
			op := rapid.SampledFrom(operations).Draw(rt, "operation")(
				genPath.Draw(rt, "p"), genPath.Draw(rt, "q"), genText.Draw(rt, "text"), genTarget.Draw(rt, "target"), rapid.Bool().Draw(rt, "flag"),
			)
			done = append(done, op.text)
			want := op.model(m)
			for _, s := range sides {
				if got := op.drive(ctx, s); got != want {
					rt.Fatalf("%s: %q, the model says %q\nafter:\n%s", s.name, got, want, strings.Join(done, "\n"))
				}
			}
		}
		want := m.dump()
		for _, s := range sides {
			if diff := cmp.Diff(want, s.dump(ctx, rt)); diff != "" {
				rt.Fatalf("%s (-model +drive):\n%s\nafter:\n%s", s.name, diff, strings.Join(done, "\n"))
			}
			report, err := s.Check(ctx, fs)
			found := report.Problems
			if fs%10 == 0 { // the whole look at the rows is dear
				found = append(found, drivetest.Find(t, s.db, int64(fs))...)
			}
			if err != nil || len(found) > 0 {
				rt.Fatalf("%s: %v %q\nafter:\n%s", s.name, err, found, strings.Join(done, "\n"))
			}
		}
	})
}
