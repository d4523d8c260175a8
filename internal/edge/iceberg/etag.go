package iceberg

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/lethe-project/lethe/internal/catalog"
)

// etag is the strong entity tag of a load. Metadata files never change, so their place
// is enough, with what the answer tells besides: how the files are reached.
func etag(l *catalog.Loaded, refs bool, config map[string]string) string {
	mode := "all"
	if refs {
		mode = "refs"
	}
	reach, _ := json.Marshal(config) // sorted by key; strings always can be encoded
	sum := sha256.Sum256([]byte(mode + "\n" + string(reach) + "\n" + l.MetadataLocation))
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// noneMatch reports whether If-None-Match, in the lines as they came, names the current
// tag, so that there is nothing new (RFC 9110, 13.1.2): "*" names whatever there is, tags
// are compared weakly, and a list ends where it stops being one.
func noneMatch(lines []string, current string) bool {
	for _, line := range lines {
		if strings.TrimSpace(line) == "*" {
			return true
		}
		for rest := line; ; {
			rest = strings.TrimLeft(rest, " \t,")
			tag, after, ok := nextTag(strings.TrimPrefix(rest, "W/"))
			if !ok {
				break
			}
			if tag == current {
				return true
			}
			rest = strings.TrimLeft(after, " \t")
			if rest != "" && rest[0] != ',' {
				break
			}
		}
	}
	return false
}

// nextTag cuts an opaque tag, quotes included, off s. It may hold commas, and no
// backslash escapes a quote in it (RFC 9110, 8.8.3).
func nextTag(s string) (tag, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", false
	}
	end := strings.IndexByte(s[1:], '"')
	if end < 0 {
		return "", "", false
	}
	return s[:end+2], s[end+2:], true
}
