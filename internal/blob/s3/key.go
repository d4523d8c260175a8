package s3

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lethe-project/lethe/internal/blob"
)

// maxName is the longest name of an object in bytes, the prefix included.
const maxName = 1024

var errNoName = errors.New("a key has no NUL and 1 to 1,024 bytes, with its prefix")

// name returns the object's name in the S3 bucket. ok is false for what can be none.
func (b *Bucket) name(key blob.Key) (name string, ok bool) {
	return b.root + string(key), b.fits(key)
}

// fits reports whether there can be an object with that key.
func (b *Bucket) fits(key blob.Key) bool {
	return key != "" && len(b.root)+len(key) <= maxName && strings.IndexByte(b.root, 0) < 0 && strings.IndexByte(string(key), 0) < 0
}

// plain reports whether XML 1.0 carries the name unchanged through any parser. Line
// ends and tabs are legal there, and normalised by some.
func plain(name string) bool {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' {
			return plainText(name)
		}
	}
	return true
}

func plainText(name string) bool {
	return utf8.ValidString(name) && strings.IndexFunc(name, func(r rune) bool {
		return unicode.IsControl(r) || r == 0xFFFE || r == 0xFFFF
	}) < 0
}
