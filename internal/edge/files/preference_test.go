package files

import (
	"net/http"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
)

// TestPreference reads what clients send: hostile numbers of seconds too.
func TestPreference(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		lines []string
		wait  time.Duration
		async bool
		bad   bool
	}{
		{"nothing", nil, -1, false, false},
		{"not at all", []string{"wait=0"}, 0, false, false},
		{"seconds", []string{"wait=7"}, 7 * time.Second, false, false},
		{"quoted, and in capitals", []string{`Wait = "7"`}, 7 * time.Second, false, false},
		{"the most", []string{"wait=60"}, time.Minute, false, false},
		{"more than the most", []string{"wait=61"}, time.Minute, false, false},
		{"more than a duration holds", []string{"wait=9223372036855"}, time.Minute, false, false},
		{"more than an int64 holds", []string{"wait=9223372036854775808"}, time.Minute, false, false},
		{"more than any number", []string{"wait=99999999999999999999999999"}, time.Minute, false, false},
		{"async", []string{"respond-async"}, -1, true, false},
		{"async after a wait", []string{"respond-async, wait=3"}, 3 * time.Second, false, false},
		{"the first counts", []string{"wait=3", "wait=5"}, 3 * time.Second, false, false},
		{"unknown ones, and parameters", []string{"handling=lenient; x=y, wait=3; foo", "return=minimal"}, 3 * time.Second, false, false},
		{"empty items", []string{",, ,wait=3,"}, 3 * time.Second, false, false},
		{"no number", []string{"wait"}, 0, false, true},
		{"an empty one", []string{"wait="}, 0, false, true},
		{"below zero", []string{"wait=-1"}, 0, false, true},
		{"far below zero", []string{"wait=-99999999999999999999999"}, 0, false, true},
		{"a part of a second", []string{"wait=1.5"}, 0, false, true},
		{"another base", []string{"wait=0x10"}, 0, false, true},
		{"a word", []string{"wait=soon"}, 0, false, true},
		{"a word behind a number", []string{"wait=3, wait=soon"}, 0, false, true},
	} {
		wait, async, err := preference(http.Header{"Prefer": c.lines})
		if c.bad {
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("%s: %s, %t, %v", c.name, wait, async, err)
			}
			continue
		}
		if err != nil || wait != c.wait || async != c.async {
			t.Errorf("%s: %s, %t, %v, want %s, %t", c.name, wait, async, err, c.wait, c.async)
		}
	}
}
