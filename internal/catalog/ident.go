package catalog

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/lethe-project/lethe/internal/fault"
)

// Limits of names, in bytes.
const (
	maxNamespaceName = 1024 // of the JSON array
	maxTableName     = 255
	maxLocation      = 1100
	maxMetadataPath  = 2048
)

// Namespace is a namespace's levels, from the top. Levels may hold any character but NUL.
type Namespace []string

// Identifier names a table or view.
type Identifier struct {
	Namespace Namespace
	Name      string
}

// String joins the levels with dots, for people.
func (n Namespace) String() string { return strings.Join(n, ".") }

// String joins levels and name with dots, for people.
func (i Identifier) String() string { return i.Namespace.String() + "." + i.Name }

// Key is the form in which a namespace is stored: a JSON array, so that ["a.b"] is not
// ["a","b"]. It is the same for the same levels.
func (n Namespace) Key() string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode([]string(n)); err != nil { // strings always encode
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// ParseNamespaceKey reads what Key wrote.
func ParseNamespaceKey(key string) (Namespace, error) {
	var n Namespace
	err := json.Unmarshal([]byte(key), &n)
	return n, err
}

func (n Namespace) parent() Namespace { return n[:len(n)-1] }

func (n Namespace) check(op string) error {
	if len(n) == 0 {
		return fault.New(op, fault.Invalid, CodeBadRequest, "a namespace needs at least one level")
	}
	for _, level := range n {
		if err := checkName(op, "namespace level", level, maxTableName*2); err != nil {
			return err
		}
	}
	if len(n.Key()) > maxNamespaceName {
		return fault.New(op, fault.Invalid, CodeBadRequest, "namespace is longer than %d bytes", maxNamespaceName)
	}
	return nil
}

func (i Identifier) check(op string) error {
	if err := i.Namespace.check(op); err != nil {
		return err
	}
	return checkName(op, "table name", i.Name, maxTableName)
}

func checkName(op, what, name string, limit int) error {
	switch {
	case name == "":
		return fault.New(op, fault.Invalid, CodeBadRequest, "%s is empty", what)
	case len(name) > limit:
		return fault.New(op, fault.Invalid, CodeBadRequest, "%s is longer than %d bytes", what, limit)
	case !utf8.ValidString(name):
		return fault.New(op, fault.Invalid, CodeBadRequest, "%s is not valid UTF-8", what)
	case strings.ContainsAny(name, "\x00\x1f"):
		return fault.New(op, fault.Invalid, CodeBadRequest, "%s has a NUL or unit separator", what)
	}
	return nil
}

func noSuchNamespace(op string, n Namespace) error {
	return fault.New(op, fault.NotFound, CodeNoSuchNamespace, "Namespace does not exist: %s", n)
}

// Kind is what an entry is. Tables and views share one name space.
type Kind int

// The kinds, as they are stored.
const (
	KindTable Kind = 1
	KindView  Kind = 2
)

// String returns the kind's name for messages.
func (k Kind) String() string {
	if k == KindView {
		return "View"
	}
	return "Table"
}

func noSuch(op string, kind Kind, id Identifier) error {
	code := CodeNoSuchTable
	if kind == KindView {
		code = CodeNoSuchView
	}
	return fault.New(op, fault.NotFound, code, "%s does not exist: %s", kind, id)
}

// alreadyExists says that a name is taken, in the words of Iceberg's own catalogs: kind
// is what was to be made, taken what stands there.
func alreadyExists(op string, kind, taken Kind, id Identifier) error {
	if kind != taken {
		return fault.New(op, fault.Conflict, CodeAlreadyExists, "%s with same name already exists: %s", taken, id)
	}
	return fault.New(op, fault.Conflict, CodeAlreadyExists, "%s already exists: %s", kind, id)
}
