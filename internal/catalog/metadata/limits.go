package metadata

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Limits bound a document before it is decoded. The zero value uses the defaults.
type Limits struct {
	MaxBytes int64 // of the uncompressed document, default 256 MiB
	MaxDepth int   // of nested objects and arrays, default 500
}

const (
	defaultMaxBytes = 256 << 20
	defaultMaxDepth = 500
)

func (l Limits) withDefaults() Limits {
	if l.MaxBytes <= 0 {
		l.MaxBytes = defaultMaxBytes
	}
	if l.MaxDepth <= 0 {
		l.MaxDepth = defaultMaxDepth
	}
	return l
}

// Bytes returns the size of the longest document that is read.
func (l Limits) Bytes() int64 { return l.withDefaults().MaxBytes }

// Check refuses a request body that is too large or nested too deeply, as Invalid. It
// serves bodies that this package does not decode itself.
func (l Limits) Check(body []byte) error {
	if err := l.check(body); err != nil {
		return invalid("metadata.Limits.Check", "request body", err)
	}
	return nil
}

// check refuses a document that is too large, too deep or no text. It is one flat pass and does
// not otherwise judge the syntax: braces inside strings do not count, and text that is
// no JSON at all fails later in the decoder, which cannot go deeper than this count.
func (l Limits) check(doc []byte) error {
	l = l.withDefaults()
	if int64(len(doc)) > l.MaxBytes {
		return fmt.Errorf("the document has %d bytes, more than the limit of %d", len(doc), l.MaxBytes)
	}
	if !utf8.Valid(doc) { // it is passed on as it is, and no client could read it
		return errors.New("the document is not valid UTF-8")
	}
	depth, inString := 0, false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > l.MaxDepth {
				return fmt.Errorf("the document is nested deeper than %d levels", l.MaxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// inflate returns the plain document of data, which may be compressed with gzip
// whatever its name says. The limit holds for the plain size, so a small file cannot
// fill the memory.
func (l Limits) inflate(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	limit := l.withDefaults().MaxBytes
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("the gzip stream is damaged: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(zr, limit+1))
	if err != nil {
		return nil, fmt.Errorf("the gzip stream is damaged: %w", err)
	}
	if int64(len(plain)) > limit {
		return nil, fmt.Errorf("the document has more than the limit of %d bytes", limit)
	}
	return plain, nil
}
