package iceberg_test

import "testing"

// If-None-Match as RFC 9110, 13.1.2 has it.
func TestIfNoneMatch(t *testing.T) {
	t.Parallel()
	b := open(t, options{})
	path := b.table(b.namespace("n"), "t")
	tag := b.do("GET", path, "").want(200).header.Get("ETag")
	for _, c := range []struct {
		name   string
		lines  []string
		status int
	}{
		{"the tag", []string{tag}, 304},
		{"weak", []string{"W/" + tag}, 304},
		{"any", []string{"*"}, 304},
		{"any, with spaces", []string{" * "}, 304},
		{"last of a list", []string{`"x", W/"y",` + tag}, 304},
		{"first of a list", []string{tag + ` , "x"`}, 304},
		{"weak in a list", []string{`"x",W/` + tag + `,"y"`}, 304},
		{"empty members", []string{` , ,` + tag + `, ,`}, 304},
		{"a tag with a comma before it", []string{`"a,b", ` + tag}, 304},
		{"an empty tag before it", []string{`"", ` + tag}, 304},
		{"in the second line", []string{`"x"`, tag}, 304},
		{"others", []string{`"x", W/"y"`}, 200},
		{"inside another tag", []string{`"` + tag}, 200},
		{"a quoted star", []string{`"*"`}, 200},
		{"a star in a list", []string{`"x", *`}, 200},
		{"unquoted", []string{tag[1 : len(tag)-1]}, 200},
		{"a small w", []string{"w/" + tag}, 200},
		{"behind what is no list", []string{"x, " + tag}, 200},
		{"without a comma", []string{`"x" ` + tag}, 200},
		{"open to the end", []string{tag[:len(tag)-1]}, 200},
		{"empty", []string{""}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := b.on(t)
			r := b.request("GET", path, "")
			for _, line := range c.lines {
				r.Header.Add("If-None-Match", line)
			}
			a := b.send(r).want(c.status)
			if got := a.header.Get("ETag"); got != tag {
				t.Errorf("ETag %q, want %q", got, tag)
			}
			if (len(a.body) == 0) != (c.status == 304) {
				t.Errorf("%d bytes with status %d", len(a.body), c.status)
			}
		})
	}
}
