package blob

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// Location is a cleaned, canonical URI of a directory or object: the scheme's aliases
// are folded (s3a and s3n are s3), "." and ".." are resolved, a plain absolute path
// is a file URI, and there is no trailing slash. It serves comparison only; reading
// and deleting use the original bytes through Space.Resolve.
type Location string

// ErrOutside is returned for a location that lies under none of a Space's roots.
var ErrOutside = errors.New("location is outside the storage roots")

var schemeAliases = map[string]string{
	"file": "file", "s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs",
	"abfs": "abfs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs", "mem": "mem",
}

// splitURI splits a URI into canonical scheme, authority and raw path without its
// leading slash. Nothing is percent-decoded and nothing is cut at '?' or '#'.
func splitURI(uri string) (scheme, authority, rest string, err error) {
	if strings.ContainsRune(uri, 0) {
		return "", "", "", errors.New("location has a NUL byte")
	}
	if strings.HasPrefix(uri, "/") {
		return "file", "", strings.TrimLeft(uri, "/"), nil
	}
	raw, after, ok := strings.Cut(uri, ":")
	if !ok {
		return "", "", "", fmt.Errorf("location %q has no scheme", uri)
	}
	scheme, ok = schemeAliases[strings.ToLower(raw)]
	if !ok {
		return "", "", "", fmt.Errorf("location %q has an unknown scheme", uri)
	}
	if scheme == "file" {
		// file:/a, file:///a and file://localhost/a name one file.
		if host, hasHost := strings.CutPrefix(after, "//"); hasHost {
			name, p, _ := strings.Cut(host, "/")
			if name != "" && name != "localhost" {
				return "", "", "", fmt.Errorf("location %q names a host", uri)
			}
			after = p
		} else if !strings.HasPrefix(after, "/") {
			return "", "", "", fmt.Errorf("location %q is relative", uri)
		}
		return scheme, "", strings.TrimLeft(after, "/"), nil
	}
	after, ok = strings.CutPrefix(after, "//")
	if !ok {
		return "", "", "", fmt.Errorf("location %q has no bucket", uri)
	}
	authority, rest, _ = strings.Cut(after, "/")
	if authority == "" {
		return "", "", "", fmt.Errorf("location %q has no bucket", uri)
	}
	return scheme, authority, rest, nil
}

// ParseLocation cleans uri. Errors are about the text of the URI alone.
func ParseLocation(uri string) (Location, error) {
	scheme, authority, rest, err := splitURI(uri)
	if err != nil {
		return "", err
	}
	p := path.Clean("/" + rest)
	if p == "/" {
		p = ""
	}
	return Location(scheme + "://" + authority + p), nil
}

// Contains reports whether other is l or lies below it, by path segments.
func (l Location) Contains(other Location) bool {
	return l == other || strings.HasPrefix(string(other), string(l)+"/")
}

// Overlaps reports whether one of the two contains the other.
func (l Location) Overlaps(other Location) bool { return l.Contains(other) || other.Contains(l) }

// Prefix is the form in which locations are stored and compared in SQL: with one
// trailing slash, so that /t does not contain /t2.
func (l Location) Prefix() string { return string(l) + "/" }

// Ancestors returns the prefixes (see Prefix) of l and of everything above it, l first.
func (l Location) Ancestors() []string {
	s := string(l)
	start := strings.Index(s, "://") + len("://")
	out := []string{s + "/"}
	for i := len(s) - 1; i >= start; i-- {
		if s[i] == '/' {
			out = append(out, s[:i+1])
		}
	}
	return out
}

// Mount is one storage root and the bucket that is rooted there.
type Mount struct {
	Root   Location
	Bucket Bucket
}

// Space is what one warehouse may touch: its root first, then its allowed locations.
// It is immutable.
type Space struct{ mounts []Mount }

// NewSpace returns a Space. There is at least one root, and roots must be disjoint.
func NewSpace(mounts ...Mount) (*Space, error) {
	if len(mounts) == 0 {
		return nil, errors.New("a space needs a storage root")
	}
	for i, a := range mounts {
		for _, b := range mounts[i+1:] {
			if a.Root.Overlaps(b.Root) {
				return nil, fmt.Errorf("storage roots %s and %s overlap", a.Root, b.Root)
			}
		}
	}
	return &Space{mounts: mounts}, nil
}

// Root returns the first root.
func (s *Space) Root() Location { return s.mounts[0].Root }

// Mounts returns all roots.
func (s *Space) Mounts() []Mount { return s.mounts }

// Object is where a location's bytes live.
type Object struct {
	Bucket   Bucket
	Key      Key
	Location Location // cleaned, for ownership questions
}

// Resolve maps a URI to its bucket and key. On object stores the key keeps the URI's
// bytes, and both these bytes and their cleaned form must lie strictly below the root.
// A URI outside every root, or one that cannot be read, is an error that wraps ErrOutside.
func (s *Space) Resolve(uri string) (Object, error) {
	for _, m := range s.mounts {
		if key, ok := below(m.Root, uri); ok {
			return Object{Bucket: m.Bucket, Key: key, Location: Location(uri)}, nil
		}
	}
	scheme, authority, rest, err := splitURI(uri)
	if err != nil {
		return Object{}, fmt.Errorf("%w: %w", ErrOutside, err)
	}
	cleaned, err := ParseLocation(uri)
	if err != nil {
		return Object{}, fmt.Errorf("%w: %w", ErrOutside, err)
	}
	for _, m := range s.mounts {
		if !m.Root.Contains(cleaned) || m.Root == cleaned {
			continue
		}
		if scheme == "file" {
			return Object{Bucket: m.Bucket, Key: Key(cleaned[len(m.Root)+1:]), Location: cleaned}, nil
		}
		raw := scheme + "://" + authority + "/" + rest
		if key, ok := strings.CutPrefix(raw, string(m.Root)+"/"); ok && key != "" {
			return Object{Bucket: m.Bucket, Key: Key(key), Location: cleaned}, nil
		}
	}
	return Object{}, fmt.Errorf("%w: %q", ErrOutside, uri)
}

// below returns the key of a URI that is clean as it stands and lies strictly below root,
// as nearly all do, without taking it apart.
func below(root Location, uri string) (Key, bool) {
	key, ok := strings.CutPrefix(uri, string(root))
	if !ok || len(key) < 2 || key[0] != '/' {
		return "", false
	}
	// "//", "/./", "/../" and a slash at the end are what cleaning changes. Hidden files are not
	// worth the difference.
	if strings.Contains(key, "//") || strings.Contains(key, "/.") || key[len(key)-1] == '/' || strings.IndexByte(uri, 0) >= 0 {
		return "", false
	}
	return Key(key[1:]), true
}
