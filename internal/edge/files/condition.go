package files

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/fault"
)

// header is the value of a header that is a list, which may come in several lines.
func header(h http.Header, name string) string { return strings.Join(h.Values(name), ", ") }

// ifMatch is the condition of a change.
func (c *call) ifMatch() string { return header(c.r.Header, "If-Match") }

// noneMatch reports that If-None-Match is *; no other value means anything to a change.
func (c *call) noneMatch() (bool, error) {
	switch strings.TrimSpace(header(c.r.Header, "If-None-Match")) {
	case "":
		return false, nil
	case "*":
		return true, nil
	}
	return false, invalid("a change takes If-None-Match: * only")
}

// refuse answers conditions that an operation does not take: one that was left out of
// account would change what it was to protect.
func (c *call) refuse(names ...string) error {
	for _, name := range names {
		if header(c.r.Header, name) != "" {
			return invalid("this request takes no %s", name)
		}
	}
	return nil
}

// taken are the parameters of changes that have any.
var taken = map[string][]string{
	"PUT /v1/fs/{path...}":    {"mode"},
	"POST /v1/fs/{path...}":   {"op"},
	"DELETE /v1/fs/{path...}": {"recursive", "dry-run"},
	"POST /v1/reconcile":      {"dry-run"},
	"POST /v1/scrub":          {"repair"},
}

// understood refuses a change that says what its route does not know: a parameter that is
// misspelt (dryrun=true), or belongs to another method (a PUT with op=append), would make it
// another change, and so would a condition that nobody looks at.
func (c *call) understood(rt route) error {
	if rt.method == http.MethodGet || rt.method == http.MethodHead {
		return nil
	}
	for name, values := range c.query {
		if !slices.Contains(taken[rt.method+" "+rt.pattern], name) {
			return invalid("this request takes no parameter %q", name)
		}
		if len(values) > 1 {
			return invalid("the parameter %q is given %d times", name, len(values))
		}
	}
	for _, name := range []string{"If-Match", "If-None-Match"} {
		if c.r.Header.Values(name) != nil && strings.Trim(header(c.r.Header, name), ", ") == "" {
			return invalid("%s is there, and empty", name)
		}
	}
	if strings.HasPrefix(rt.pattern, "/v1/fs/") || strings.HasSuffix(rt.pattern, "/complete") {
		return c.refuse("If-Unmodified-Since")
	}
	return c.refuse("If-Unmodified-Since", "If-Match", "If-None-Match")
}

// replaced turns a taken name into the condition that If-None-Match: * stated.
func replaced(noReplace bool, err error) error {
	if noReplace && fault.Is(err, drive.CodeAlreadyExists) {
		return fault.Wrap("files.replaced", fault.Precondition, "", err, "there is something at the destination")
	}
	return err
}

// conditions evaluates those of a read (RFC 9110 section 13.2.2): the
// status to answer at once, or 0.
func conditions(h http.Header, entry drive.Entry) int {
	if v := header(h, "If-Match"); v != "" {
		if !etagIn(v, entry.ETag(), true) {
			return http.StatusPreconditionFailed
		}
	} else if since, err := http.ParseTime(h.Get("If-Unmodified-Since")); err == nil && entry.Modified.Truncate(time.Second).After(since) {
		return http.StatusPreconditionFailed
	}
	if v := header(h, "If-None-Match"); v != "" {
		if etagIn(v, entry.ETag(), false) {
			return http.StatusNotModified
		}
		return 0
	}
	if since, err := http.ParseTime(h.Get("If-Modified-Since")); err == nil && !entry.Modified.Truncate(time.Second).After(since) {
		return http.StatusNotModified
	}
	return 0
}

// etagIn reports whether a list of entity tags, or *, names etag; a strong comparison
// leaves weak ones out.
func etagIn(list, etag string, strong bool) bool {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if item == "*" {
			return true
		}
		if rest, weak := strings.CutPrefix(item, "W/"); weak {
			if strong {
				continue
			}
			item = rest
		}
		if item == etag {
			return true
		}
	}
	return false
}
