package tree

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lethe-project/lethe/internal/fault"
)

// Bounds of what a request may name. Deeper chains exist, by renaming directories into
// each other; PathOf returns those whole.
const (
	MaxPath = 4096 // bytes, with its slashes
	MaxName = 255  // bytes
)

// CodeInvalidPath is the code of a path or name that no drive can have.
const CodeInvalidPath fault.Code = "InvalidPath"

// Path is the names from the root down; the zero value is the root. It is not changed
// once it is made.
type Path struct{ names []string }

// ParsePath reads "/a/b", decoded already. Names are kept byte for byte. A slash at the
// end is no name and is left out; an empty path is the root. Errors are fault.Invalid
// with CodeInvalidPath.
func ParsePath(text string) (Path, error) {
	text = strings.TrimPrefix(text, "/")
	if text == "" {
		return Path{}, nil
	}
	text = strings.TrimSuffix(text, "/")
	if len(text)+1 > MaxPath {
		return Path{}, invalid("a path of %d bytes, at most %d", len(text)+1, MaxPath)
	}
	names := strings.Split(text, "/")
	for _, name := range names {
		if err := CheckName(name); err != nil {
			return Path{}, err
		}
	}
	return Path{names: names}, nil
}

// CheckName tells whether a directory can have an entry of that name.
func CheckName(name string) error {
	switch {
	case name == "":
		return invalid("a name of the path is empty")
	case name == "." || name == "..":
		return invalid("%q is no name", name)
	case len(name) > MaxName:
		return invalid("a name of %d bytes, at most %d", len(name), MaxName)
	case strings.ContainsAny(name, "/\x00"):
		return invalid("a name holds a slash or a NUL")
	case !utf8.ValidString(name):
		return invalid("a name is not valid UTF-8")
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fault.New("tree.ParsePath", fault.Invalid, CodeInvalidPath, format, args...)
}

// Names returns the names from the root down. They are not to be changed.
func (p Path) Names() []string { return p.names }

// String returns "/a/b", and "/" for the root.
func (p Path) String() string { return "/" + strings.Join(p.names, "/") }

// IsRoot tells whether p is the root of its drive.
func (p Path) IsRoot() bool { return len(p.names) == 0 }

// Parent returns the path without its last name; the root's is the root.
func (p Path) Parent() Path {
	if p.IsRoot() {
		return p
	}
	return Path{names: p.names[:len(p.names)-1]}
}

// Base returns the last name, empty for the root.
func (p Path) Base() string {
	if p.IsRoot() {
		return ""
	}
	return p.names[len(p.names)-1]
}

// Join returns the path of an entry of the directory p.
func (p Path) Join(name string) (Path, error) {
	if err := CheckName(name); err != nil {
		return Path{}, err
	}
	joined := Path{names: append(slices.Clip(p.names), name)}
	if len(joined.String()) > MaxPath {
		return Path{}, invalid("a path of more than %d bytes", MaxPath)
	}
	return joined, nil
}

// Contains tells whether other is p or lies below it.
func (p Path) Contains(other Path) bool {
	if len(p.names) > len(other.names) {
		return false
	}
	for i, name := range p.names {
		if other.names[i] != name {
			return false
		}
	}
	return true
}
