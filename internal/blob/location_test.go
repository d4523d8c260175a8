package blob_test

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/mem"
)

func TestParseLocation(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		uri  string
		want blob.Location // empty: refused
	}{
		{"s3://b/a/t", "s3://b/a/t"},
		{"s3a://b/a/t/", "s3://b/a/t"},
		{"S3N://b//a/./t/../t", "s3://b/a/t"},
		{"s3://b", "s3://b"},
		{"s3://b/", "s3://b"},
		{"s3://b/../../x", "s3://b/x"},
		{"s3://b/a%2F..%2Fb?x#y", "s3://b/a%2F..%2Fb?x#y"},
		{"gcs://b/t", "gs://b/t"},
		{"wasbs://c@acc/t", "abfs://c@acc/t"},
		{"/a/b", "file:///a/b"},
		{"//a/b", "file:///a/b"},
		{"file:/a/b", "file:///a/b"},
		{"file:///a//b/", "file:///a/b"},
		{"file://localhost/a/b", "file:///a/b"},
		{"file:///", "file://"},
		{"file://host/a", ""},
		{"file:a", ""},
		{"a/b", ""},
		{"", ""},
		{"s3:/b/x", ""},
		{"s3:///x", ""},
		{"http://b/x", ""},
		{"s3://b/a\x00b", ""},
	} {
		got, err := blob.ParseLocation(test.uri)
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("ParseLocation(%q) = %q, %v, want %q", test.uri, got, err, test.want)
		}
	}
}

func TestContains(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b     blob.Location
		contains bool
	}{
		{"s3://b/t", "s3://b/t", true},
		{"s3://b/t", "s3://b/t/x", true},
		{"s3://b/t", "s3://b/t2", false},
		{"s3://b/t", "s3://b", false},
		{"s3://b", "s3://b/t", true},
		{"s3://b", "s3://b2/t", false},
		{"s3://b/t", "gs://b/t/x", false},
		{"file://", "file:///a", true},
	} {
		if got := test.a.Contains(test.b); got != test.contains {
			t.Errorf("%q contains %q: %t", test.a, test.b, got)
		}
	}
}

func TestAncestors(t *testing.T) {
	t.Parallel()
	for loc, want := range map[blob.Location][]string{
		"s3://b/x/y":  {"s3://b/x/y/", "s3://b/x/", "s3://b/"},
		"s3://b":      {"s3://b/"},
		"file:///a/b": {"file:///a/b/", "file:///a/", "file:///"},
		"file://":     {"file:///"},
	} {
		if diff := cmp.Diff(want, loc.Ancestors()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", loc, diff)
		}
	}
}

// uris draws URIs that are mean rather than likely.
func uris() *rapid.Generator[string] {
	scheme := rapid.SampledFrom([]string{"s3://b", "s3a://b", "S3://b", "s3://b2", "s3:/b", "gs://b", "file://", "file:", "", "s3://", "s3://.."})
	part := rapid.SampledFrom([]string{
		"root", "root2", "roo", "t", "..", ".", "", "%2e%2e", "%2F", "a?b", "a#b", "a b", "..a", "ö", "\x00", "\\..", "a:b", "@",
	})
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(part, 0, 8).Draw(t, "parts")
		return scheme.Draw(t, "scheme") + "/" + strings.Join(parts, "/")
	})
}

func locations() *rapid.Generator[blob.Location] {
	return rapid.Custom(func(t *rapid.T) blob.Location {
		uri := uris().Filter(func(s string) bool { _, err := blob.ParseLocation(s); return err == nil }).Draw(t, "uri")
		loc, err := blob.ParseLocation(uri)
		if err != nil {
			t.Fatal(err)
		}
		return loc
	})
}

func TestParseLocationIsCanonical(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		loc := locations().Draw(t, "location")
		again, err := blob.ParseLocation(string(loc))
		if err != nil || again != loc {
			t.Fatalf("%q cleans to %q, %v", loc, again, err)
		}
		_, rest, _ := strings.Cut(string(loc), "://")
		_, p, _ := strings.Cut(rest, "/")
		if strings.HasSuffix(string(loc), "/") && loc != "file://" || slices.Contains(strings.Split(p, "/"), "..") {
			t.Fatalf("%q is not clean", loc)
		}
	})
}

// Containment is a partial order by whole segments, and the stored prefixes answer it.
func TestContainmentProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := locations().Draw(t, "a"), locations().Draw(t, "b"), locations().Draw(t, "c")
		if !a.Contains(a) {
			t.Fatalf("%q does not contain itself", a)
		}
		if a.Contains(b) && b.Contains(a) && a != b {
			t.Fatalf("%q and %q contain each other", a, b)
		}
		if a.Contains(b) && b.Contains(c) && !a.Contains(c) {
			t.Fatalf("%q, %q, %q: not transitive", a, b, c)
		}
		if a.Overlaps(b) != b.Overlaps(a) || a.Overlaps(b) != (a.Contains(b) || b.Contains(a)) {
			t.Fatalf("overlap of %q and %q", a, b)
		}
		if byPrefix := strings.HasPrefix(b.Prefix(), a.Prefix()); byPrefix != a.Contains(b) {
			t.Fatalf("%q contains %q: %t, by prefix %t", a, b, a.Contains(b), byPrefix)
		}
		if bySet := slices.Contains(b.Ancestors(), a.Prefix()); bySet != a.Contains(b) {
			t.Fatalf("%q contains %q: %t, by ancestors %t", a, b, a.Contains(b), bySet)
		}
		if sibling := a + "2"; a.Contains(sibling) && a != "file://" {
			t.Fatalf("%q contains %q", a, sibling)
		}
	})
}

func space(t rapid.TB, roots ...blob.Location) *blob.Space {
	t.Helper()
	var mounts []blob.Mount
	for _, root := range roots {
		mounts = append(mounts, blob.Mount{Root: root, Bucket: mem.New()})
	}
	s, err := blob.NewSpace(mounts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNewSpace(t *testing.T) {
	t.Parallel()
	for name, roots := range map[string][]blob.Location{
		"no root": {}, "twice": {"s3://b/r", "s3://b/r"}, "nested": {"s3://b/x", "s3://b"},
	} {
		var mounts []blob.Mount
		for _, root := range roots {
			mounts = append(mounts, blob.Mount{Root: root})
		}
		if _, err := blob.NewSpace(mounts...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	s := space(t, "s3://b/root", "file:///data/wh")
	for _, test := range []struct {
		uri string
		key blob.Key // empty: outside
	}{
		{"s3://b/root/t/f", "t/f"},
		{"s3a://b/root/t/f", "t/f"},
		{"s3://b/root/t//f/", "t//f/"},
		{"s3://b/root/t/a%2Fb?c#d e", "t/a%2Fb?c#d e"},
		{"s3://b/root/t/../u/f", "t/../u/f"},
		{"s3://b/root/.hidden/..f", ".hidden/..f"},
		{"s3://b/root/t/.", "t/."},
		{"s3://b/root/t/\x00", ""},
		{"s3://b/root", ""},
		{"s3://b/root/", ""},
		{"s3://b/root/.", ""},
		{"s3://b/root/../root/f", "../root/f"}, // the object of that very name
		{"s3://b/root/../other/f", ""},
		{"s3://b/root2/f", ""},
		{"s3://b//root/f", ""},
		{"s3://b/x/../root/f", ""},
		{"s3://c/root/f", ""},
		{"gs://b/root/f", ""},
		{"/data/wh/t//x/../f", "t/f"},
		{"file:/data/wh/f", "f"},
		{"file:///data/other/../wh/f", "f"},
		{"/data/wh/../../etc/passwd", ""},
		{"/data/wh", ""},
		{"t/f", ""},
		{"", ""},
	} {
		o, err := s.Resolve(test.uri)
		if test.key == "" {
			if !errors.Is(err, blob.ErrOutside) {
				t.Errorf("Resolve(%q) = %q, %v, want ErrOutside", test.uri, o.Key, err)
			}
			continue
		}
		if err != nil || o.Key != test.key {
			t.Errorf("Resolve(%q) = %q, %v, want %q", test.uri, o.Key, err, test.key)
		}
	}
}

// Whatever the URI: it resolves to something strictly below a root, both as the bytes
// that are sent and as what they mean, or it is outside.
func TestResolveNeverLeavesTheRoots(t *testing.T) {
	t.Parallel()
	roots := []blob.Location{"s3://b/root", "gs://b/root/t", "file:///root"}
	rapid.Check(t, func(t *rapid.T) {
		s := space(t, roots...)
		uri := uris().Draw(t, "uri")
		o, err := s.Resolve(uri)
		if err != nil {
			if !errors.Is(err, blob.ErrOutside) {
				t.Fatalf("%q: %v does not wrap ErrOutside", uri, err)
			}
			return
		}
		at := slices.IndexFunc(s.Mounts(), func(m blob.Mount) bool { return m.Bucket == o.Bucket })
		root := roots[at]
		if !root.Contains(o.Location) || root == o.Location {
			t.Fatalf("%q: %q is not below %q", uri, o.Location, root)
		}
		if o.Key == "" || strings.ContainsRune(string(o.Key), 0) {
			t.Fatalf("%q: key %q", uri, o.Key)
		}
		if meant, err := blob.ParseLocation(string(root) + "/" + string(o.Key)); err != nil || meant != o.Location {
			t.Fatalf("%q: root and key mean %q, %v, not %q", uri, meant, err, o.Location)
		}
		if strings.HasPrefix(string(root), "file:") {
			if path.Clean("/" + string(o.Key))[1:] != string(o.Key) {
				t.Fatalf("%q: local key %q is not clean", uri, o.Key)
			}
		} else if !strings.HasSuffix(uri, "/"+string(o.Key)) {
			t.Fatalf("%q: key %q has not the bytes of the URI", uri, o.Key)
		}
	})
}

// An alias of the scheme is taken apart, a canonical one need not be: they mean the same.
func TestResolveOfAliases(t *testing.T) {
	t.Parallel()
	s := space(t, "s3://b/root", "s3://b2")
	rapid.Check(t, func(t *rapid.T) {
		_, rest, _ := strings.Cut(uris().Draw(t, "uri"), ":")
		if rapid.Bool().Draw(t, "below") {
			rest = "//b/root" + strings.TrimLeft(rest, "/b2.")
		}
		want, wantErr := s.Resolve("s3a:" + rest)
		got, err := s.Resolve("s3:" + rest)
		if got != want || (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %+v, %v, and by its alias %+v, %v", rest, got, err, want, wantErr)
		}
	})
}

func FuzzResolve(f *testing.F) {
	for _, seed := range []string{"s3://b/root/f", "file:///root/../x", "/root/a", "s3a://b/root/%2e%2e/x", "s3://b/root//", "s3://b/root/a/.b", "s3://b/root/a/./b", "file:///root/a/"} {
		f.Add(seed)
	}
	s := space(f, "s3://b/root", "file:///root")
	f.Fuzz(func(t *testing.T, uri string) {
		o, err := s.Resolve(uri)
		if err != nil {
			return
		}
		if !s.Mounts()[0].Root.Contains(o.Location) && !s.Mounts()[1].Root.Contains(o.Location) {
			t.Errorf("%q resolves to %q", uri, o.Location)
		}
		// What need not be taken apart means the same as if it had been.
		if cleaned, err := blob.ParseLocation(uri); err != nil || o.Location != cleaned {
			t.Errorf("%q resolves to %q, cleaned it is %q, %v", uri, o.Location, cleaned, err)
		}
		if rest := strings.TrimPrefix(string(o.Location), "file:///root/"); strings.HasPrefix(string(o.Location), "file:") && string(o.Key) != rest {
			t.Errorf("%q has the key %q", uri, o.Key)
		}
		if strings.HasPrefix(string(o.Location), "s3:") && !strings.HasSuffix(uri, "/root/"+string(o.Key)) {
			t.Errorf("%q has the key %q", uri, o.Key)
		}
	})
}
