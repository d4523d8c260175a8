package tree_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
)

func TestParsePath(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", tree.MaxName)
	longest := strings.Repeat("/"+strings.Repeat("n", 127), 32) // 4,096 bytes
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"the root", "/", nil},
		{"nothing", "", nil},
		{"one name", "/a", []string{"a"}},
		{"without the first slash", "a/b", []string{"a", "b"}},
		{"a slash at the end", "/a/b/", []string{"a", "b"}},
		{"wildcards and quotes", `/a_b/%/'"\`, []string{"a_b", "%", `'"\`}},
		{"a newline and a space", "/ \n/x ", []string{" \n", "x "}},
		{"a name of dots", "/.../..a/.b", []string{"...", "..a", ".b"}},
		{"what looks encoded stays", "/%2E%2E/%2F", []string{"%2E%2E", "%2F"}},
		{"no normalisation", "/e\u0301/\u00e9", []string{"e\u0301", "\u00e9"}},
		{"the longest name", "/" + long, []string{long}},
		{"the longest path", longest, strings.Split(longest[1:], "/")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := tree.ParsePath(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, p.Names()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if want := "/" + strings.Join(tt.want, "/"); p.String() != want {
				t.Errorf("String is %q", p)
			}
		})
	}
	for _, tt := range []struct{ name, in string }{
		{"two slashes", "//"},
		{"an empty name", "/a//b"},
		{"two slashes at the end", "/a//"},
		{"a dot", "/a/./b"},
		{"two dots", "/a/../b"},
		{"two dots alone", ".."},
		{"a NUL", "/a\x00b"},
		{"invalid UTF-8", "/a\xff"},
		{"half a rune", "/a\xc3"},
		{"a surrogate", "/\xed\xa0\x80"},
		{"a name too long", "/" + long + "n"},
		{"a path too long", longest + "/n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := tree.ParsePath(tt.in)
			if fault.KindOf(err) != fault.Invalid || !fault.Is(err, tree.CodeInvalidPath) {
				t.Errorf("%q is %v, %v", tt.in, p, err)
			}
		})
	}
}

func TestPathParts(t *testing.T) {
	t.Parallel()
	parse := func(s string) tree.Path {
		p, err := tree.ParsePath(s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := parse("/a/b")
	if p.Parent().String() != "/a" || p.Base() != "b" || p.IsRoot() {
		t.Errorf("%s: parent %s, base %s", p, p.Parent(), p.Base())
	}
	root := tree.Path{}
	if root.String() != "/" || root.Parent().String() != "/" || root.Base() != "" || !root.IsRoot() {
		t.Errorf("the root: %s, parent %s, base %q", root, root.Parent(), root.Base())
	}
	// Paths do not share what Join appends.
	x, errX := p.Parent().Join("x")
	y, errY := p.Parent().Join("y")
	if errX != nil || errY != nil || x.String() != "/a/x" || y.String() != "/a/y" || p.String() != "/a/b" {
		t.Errorf("joined %s %s beside %s: %v, %v", x, y, p, errX, errY)
	}
	for _, name := range []string{"", ".", "..", "a/b", "a\x00", "\xff", strings.Repeat("n", 256)} {
		if _, err := p.Join(name); !fault.Is(err, tree.CodeInvalidPath) {
			t.Errorf("Join(%q): %v", name, err)
		}
	}
	deep := parse(strings.Repeat("/"+strings.Repeat("n", 127), 31) + "/" + strings.Repeat("n", 125)) // 4,094 bytes
	if _, err := deep.Join("n"); err != nil {
		t.Errorf("a path of 4,096 bytes: %v", err)
	}
	if _, err := deep.Join("nn"); !fault.Is(err, tree.CodeInvalidPath) {
		t.Errorf("a path of 4,097 bytes: %v", err)
	}
	for _, tt := range []struct {
		a, b string
		want bool
	}{{"/", "/a", true}, {"/a", "/a", true}, {"/a", "/a/b/c", true}, {"/a", "/ab", false}, {"/a/b", "/a", false}, {"/a/b", "/a/c/b", false}} {
		if got := parse(tt.a).Contains(parse(tt.b)); got != tt.want {
			t.Errorf("%s contains %s: %t", tt.a, tt.b, got)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{
		"", "/", "//", "///", "/a", "a", "/a/", "/a//", "/a/b/c", "a//b", ".", "..", "/.", "/..", "/../..", "/a/./b", "/a/../b", "/...",
		"/%2E%2E", "/%00", "/\x00", "/a\x00/b", "/\xff", "/\xc3\x28", "/\xed\xa0\x80", "/é", "/e\u0301", "/\u200b", "/日本/語", "/ ", "/\n", "/\t/\r",
		`/\`, `/a\b`, "/'", `/"`, "/a_b/%", "/?q", "/#f", "/a:b", "/~", "/-rf", "/*", "/\u2028", "/\uFFFD",
		"/" + strings.Repeat("n", 255), "/" + strings.Repeat("n", 256), strings.Repeat("/n", 2047), strings.Repeat("/n", 2048), strings.Repeat("/n", 2049), strings.Repeat("/", 5000),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		p, err := tree.ParsePath(in)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		again, err := tree.ParsePath(p.String())
		if err != nil || again.String() != p.String() {
			t.Fatalf("%q is %q, and that %q, %v", in, p, again, err)
		}
		if strings.Trim(in, "/") != strings.Trim(p.String(), "/") {
			t.Fatalf("%q became %q", in, p)
		}
		for _, name := range p.Names() {
			if name == "" || name == "." || name == ".." || len(name) > tree.MaxName || !utf8.ValidString(name) || strings.ContainsAny(name, "/\x00") {
				t.Fatalf("%q has the name %q", in, name)
			}
		}
		if len(p.String()) > tree.MaxPath {
			t.Fatalf("a path of %d bytes", len(p.String()))
		}
	})
}
