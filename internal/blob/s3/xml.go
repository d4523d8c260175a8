package s3

import (
	"bytes"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/lethe-project/lethe/internal/blob"
)

// The body of a DeleteObjects, as the SDK writes it. It is not quiet: only a key that the
// answer names is proven to be gone.
const (
	bodyBegin = `<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`
	keyBegin  = "<Object><Key>"
	keyEnd    = "</Key></Object>"
	bodyEnd   = "<Quiet>false</Quiet></Delete>"
)

// deleteBody returns the body that asks for keys below root. All of them are plain.
func deleteBody(root string, keys []blob.Key) []byte {
	size := len(bodyBegin) + len(bodyEnd)
	for _, key := range keys {
		size += len(keyBegin) + len(root) + len(key) + len(keyEnd)
	}
	body := append(make([]byte, 0, size), bodyBegin...)
	escapedRoot := appendEscaped(nil, root)
	for _, key := range keys {
		body = append(body, keyBegin...)
		body = append(body, escapedRoot...)
		body = appendEscaped(body, string(key))
		body = append(body, keyEnd...)
	}
	return append(body, bodyEnd...)
}

// appendEscaped appends a plain text with the SDK's escapes.
func appendEscaped(to []byte, text string) []byte {
	last := 0
	for i := 0; i < len(text); i++ {
		esc, width := "", 1
		switch c := text[i]; {
		case verbatim[c]:
			continue
		case c == '&':
			esc = "&amp;"
		case c == '<':
			esc = "&lt;"
		case c == '>':
			esc = "&gt;"
		case c == '"':
			esc = "&#34;"
		case c == '\'':
			esc = "&#39;"
		case len(text) >= i+3 && text[i:i+3] == "\u2028":
			esc, width = "&#x2028;", 3
		default:
			continue // the rest of Unicode stands for itself
		}
		to = append(append(to, text[last:i]...), esc...)
		i += width - 1
		last = i + 1
	}
	return append(to, text[last:]...)
}

// verbatim are the printable characters of ASCII that XML never escapes.
var verbatim = func() (ok [256]bool) {
	for c := byte(' '); c <= '~'; c++ {
		ok[c] = !bytes.ContainsRune([]byte(`&<>"'`), rune(c))
	}
	return ok
}()

// readAnswer reads the answer to a DeleteObjects in the plain form that stores give it:
// flat elements of the known names without attributes, texts without references. Of
// anything else it knows nothing and returns nil; what it returns is what the SDK would
// read.
func readAnswer(raw []byte) *answer {
	s := scanner{rest: raw}
	s.skip(`<?xml version="1.0" encoding="UTF-8"?>`)
	s.space()
	if !s.root() {
		return nil
	}
	a := &answer{gone: make([][]byte, 0, blob.MaxDelete)}
	for {
		s.space()
		switch {
		case s.skip("<Deleted>"):
			key, ok := s.deleted()
			if !ok {
				return nil
			}
			a.gone = append(a.gone, key)
		case s.skip("<Error>"):
			refusal, ok := s.refused()
			if !ok {
				return nil
			}
			a.refused = append(a.refused, refusal)
		case s.skip("</DeleteResult>"):
			if s.space(); len(s.rest) > 0 {
				return nil
			}
			return a
		default:
			return nil
		}
	}
}

// scanner goes through an answer.
type scanner struct{ rest []byte }

// skip goes over text if it comes next.
func (s *scanner) skip(text string) bool {
	if len(s.rest) < len(text) || string(s.rest[:len(text)]) != text {
		return false
	}
	s.rest = s.rest[len(text):]
	return true
}

// space goes over what indents elements.
func (s *scanner) space() {
	for len(s.rest) > 0 && (s.rest[0] == ' ' || s.rest[0] == '\n' || s.rest[0] == '\r' || s.rest[0] == '\t') {
		s.rest = s.rest[1:]
	}
}

// root goes over the begin of the document's element, which may name its namespace.
func (s *scanner) root() bool {
	return s.skip("<DeleteResult>") || s.skip(`<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`)
}

// deleted returns the key of a Deleted element whose begin was read.
func (s *scanner) deleted() (key []byte, ok bool) {
	for {
		s.space()
		switch {
		case key == nil && s.skip("<Key>"):
			if key, ok = s.text("</Key>"); !ok {
				return nil, false
			}
		case s.skip("<VersionId>"):
			if _, ok := s.text("</VersionId>"); !ok {
				return nil, false
			}
		case s.skip("<DeleteMarkerVersionId>"):
			if _, ok := s.text("</DeleteMarkerVersionId>"); !ok {
				return nil, false
			}
		case s.skip("<DeleteMarker>true</DeleteMarker>"), s.skip("<DeleteMarker>false</DeleteMarker>"):
		default:
			return key, key != nil && s.skip("</Deleted>")
		}
	}
}

// refused returns an Error element whose begin was read.
func (s *scanner) refused() (e types.Error, ok bool) {
	for _, part := range [...]struct {
		begin, end string
		into       **string
	}{ // their order is AWS's
		{"<Key>", "</Key>", &e.Key},
		{"<VersionId>", "</VersionId>", &e.VersionId},
		{"<Code>", "</Code>", &e.Code},
		{"<Message>", "</Message>", &e.Message},
	} {
		if s.space(); !s.skip(part.begin) {
			continue
		}
		text, ok := s.text(part.end)
		if !ok {
			return e, false
		}
		*part.into = aws.String(string(text))
	}
	s.space()
	return e, s.skip("</Error>")
}

// text returns what stands before the end of an element, if it stands for itself.
func (s *scanner) text(end string) ([]byte, bool) {
	n := bytes.IndexByte(s.rest, '<')
	if n < 0 {
		return nil, false
	}
	text := s.rest[:n:n]
	s.rest = s.rest[n:]
	return text, itself(text) && s.skip(end)
}

// itself reports whether XML's text is what it says, without references and normalised
// line ends.
func itself(text []byte) bool {
	for _, c := range text {
		switch {
		case verbatim[c], c == '"', c == '\'':
		case c < utf8.RuneSelf:
			return false
		default:
			return plain(string(text)) && !bytes.ContainsAny(text, "&>")
		}
	}
	return true
}
