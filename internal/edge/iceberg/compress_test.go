package iceberg_test

import (
	"strings"
	"testing"

	"github.com/lethe-project/lethe/test/responder"
)

// Large answers are compressed for those who take it, and mean the same.
func TestLargeAnswersAreCompressed(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	ns := b.namespace("n")
	small, large := b.table(ns, "small"), b.table(ns, "large")
	b.do("POST", large, setProperty("k", strings.Repeat("value ", 4000))).want(200)
	plain := b.do("GET", large, "").want(200)
	if got := plain.header.Get("Vary"); got != "Accept-Encoding" || plain.header.Get("Content-Encoding") != "" {
		t.Errorf("Vary %q, Content-Encoding %q", got, plain.header.Get("Content-Encoding"))
	}
	for _, c := range []struct {
		name, path, accept string
		packed             bool
	}{
		{"gzip", large, "gzip", true},
		{"among others", large, "br, gzip;q=0.5, identity;q=0.1", true},
		{"anything", large, "*", true},
		{"not gzip", large, "gzip;q=0", false},
		{"another", large, "br", false},
		{"an empty list", large, ",", false},
		{"a small one", small, "gzip", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := b.on(t)
			a := b.do("GET", c.path, "", "Accept-Encoding", c.accept).want(200)
			if got := a.header.Get("Content-Encoding") == "gzip"; got != c.packed {
				t.Errorf("compressed: %v", got)
			}
			body, err := responder.PlainBody(a.header, a.body)
			b.must(err)
			if c.path == large && string(body) != string(plain.body) {
				t.Error("the compressed answer is another one")
			}
			if c.packed && len(a.body) >= len(plain.body) {
				t.Errorf("%d bytes became %d", len(plain.body), len(a.body))
			}
		})
	}
}
