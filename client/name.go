package client

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Namespace is a namespace by its levels. A level may hold any character, dots
// included; the text form of String and ParseNamespace keeps them apart.
type Namespace []string

// Identifier names a table or view.
type Identifier struct {
	Namespace Namespace `json:"namespace"`
	Name      string    `json:"name"`
}

// String writes the levels joined by dots. A dot or backslash inside a level is written
// with a backslash before it, a character that does not print as \u{hex}.
func (n Namespace) String() string {
	levels := make([]string, len(n))
	for i, level := range n {
		levels[i] = escape(level)
	}
	return strings.Join(levels, ".")
}

// String writes the namespace and the name as one more level.
func (id Identifier) String() string {
	return append(append(Namespace{}, id.Namespace...), id.Name).String()
}

// ParseNamespace reads what String writes.
func ParseNamespace(text string) (Namespace, error) {
	var levels Namespace
	var level strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			return nil, fmt.Errorf("%q is not UTF-8", text)
		case r == '.':
			levels = append(levels, level.String())
			level.Reset()
			rest = rest[1:]
		case r == '\\':
			char, after, err := unescape(rest[1:])
			if err != nil {
				return nil, fmt.Errorf("%q: %w", text, err)
			}
			level.WriteRune(char)
			rest = after
		default:
			level.WriteRune(r)
			rest = rest[size:]
		}
	}
	levels = append(levels, level.String())
	if slices.Contains(levels, "") {
		return nil, fmt.Errorf(`%q has an empty level: write a.b, and \. for a dot that belongs to a name`, text)
	}
	return levels, nil
}

// ParseIdentifier reads what Identifier.String writes: at least two levels.
func ParseIdentifier(text string) (Identifier, error) {
	levels, err := ParseNamespace(text)
	if err != nil {
		return Identifier{}, err
	}
	last := len(levels) - 1
	if last == 0 {
		return Identifier{}, fmt.Errorf("%q names no namespace: write namespace.name", text)
	}
	return Identifier{Namespace: levels[:last:last], Name: levels[last]}, nil
}

func escape(level string) string {
	var b strings.Builder
	for _, r := range level {
		switch {
		case r == '.' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unescape reads what follows a backslash.
func unescape(rest string) (char rune, after string, err error) {
	if rest != "" && (rest[0] == '.' || rest[0] == '\\') {
		return rune(rest[0]), rest[1:], nil
	}
	if hex, ok := strings.CutPrefix(rest, "u{"); ok {
		hex, after, ok := strings.Cut(hex, "}")
		code, err := strconv.ParseUint(hex, 16, 32)
		if ok && err == nil && code <= unicode.MaxRune && utf8.ValidRune(rune(code)) {
			return rune(code), after, nil
		}
	}
	return 0, "", errors.New(`a backslash stands before a dot, another backslash, or u{hex}: \. \\ \u{1f}`)
}

// path encodes the levels as the Iceberg specification does: each percent-encoded,
// joined by the unit separator.
func (n Namespace) path() string {
	levels := make([]string, len(n))
	for i, level := range n {
		levels[i] = segment(level)
	}
	return strings.Join(levels, "%1F")
}

// query joins the levels for a query parameter, which is encoded as a whole.
func (n Namespace) query() string { return strings.Join(n, "\x1f") }
