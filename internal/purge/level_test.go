package purge

import (
	"fmt"
	"testing"

	"github.com/lethe-project/lethe/internal/job"
)

func TestFurther(t *testing.T) {
	t.Parallel()
	// Each stands further than all before it.
	points := []job.Point{
		{},
		{Phase: "DATA"},
		{Phase: "DATA", Cursor: "0:0:1"},
		{Phase: "DATA", Cursor: "0:9:0"},
		{Phase: "DATA", Cursor: "0:10:0>7:0:0"},
		{Phase: "DATA", Cursor: "2:0:0"},
		{Phase: "MANIFESTS", Cursor: ""},
		{Phase: "MANIFESTS", Cursor: "1:0:0"},
		{Phase: "LISTS"},
		{Phase: "METADATA"},
		{Phase: "METADATA", Cursor: "12:0:0"},
		{Phase: "ROOT"},
	}
	for i, a := range points {
		for j, b := range points {
			if got := Further(a, b); got != (i < j) {
				t.Errorf("Further(%v, %v) = %v", a, b, got)
			}
		}
	}
	same := job.Point{Phase: "DATA", Cursor: "0:10:0>9:0:0"}
	if Further(points[4], same) || Further(same, points[4]) {
		t.Error("where a yielded pass goes on is no progress: the lowest unsettled position is")
	}
	if Further(job.Point{Phase: "DATA"}, job.Point{Phase: "SOMETHING"}) {
		t.Error("an unknown phase stands nowhere")
	}
}

func TestParseCursor(t *testing.T) {
	t.Parallel()
	at := func(a, b, c int64) position { return position{a, b, c} }
	for in, want := range map[string]cursor{
		"":                       {},
		"1:2:3":                  {at(1, 2, 3), at(1, 2, 3)},
		"1:2:3>4:5:6":            {at(1, 2, 3), at(4, 5, 6)},
		"4:5:6>1:2:3":            {at(4, 5, 6), at(4, 5, 6)},
		"7":                      {at(7, 0, 0), at(7, 0, 0)},
		"junk":                   {},
		"-1:0:0":                 {},
		"1:2:3>x":                {at(1, 2, 3), at(1, 2, 3)},
		"99999999999999999999:0": {},
	} {
		if got := parseCursor(in); got != want {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
	for _, c := range []cursor{{}, {at(1, 2, 3), at(1, 2, 3)}, {at(1, 2, 3), at(1, 2, 4)}} {
		if got := parseCursor(c.String()); got != c {
			t.Errorf("%v came back as %v", c, got)
		}
	}
}

func TestSeen(t *testing.T) {
	t.Parallel()
	const limit = 100 * (seenOverhead + 6)
	s := newSeen(limit)
	for i := range 10_000 {
		path := fmt.Sprintf("%06d", i)
		if !s.add(path) {
			t.Fatalf("%s was never seen", path)
		}
		if s.add(path) {
			t.Fatalf("%s was just seen", path)
		}
		if i >= 40 { // asking is remembering too: 80 adds lie between the two
			if recent := fmt.Sprintf("%06d", i-40); s.add(recent) {
				t.Fatalf("%s was seen not long ago", recent)
			}
		}
		if n := len(s.young) + len(s.old); n > 200 {
			t.Fatalf("%d paths are held", n)
		}
	}
}

func TestTrackerFoldsInOrder(t *testing.T) {
	t.Parallel()
	at := func(n int64) position { return position{snapshot: n} }
	var into Tally
	tr := tracker{into: &into}
	var units []*unit
	for i := range int64(4) {
		u := tr.begin(at(i))
		u.end, u.tally.Missing = at(i+1), 1
		units = append(units, u)
	}
	finish := func(i int, bad bool) {
		units[i].open, units[i].bad = 0, bad
		tr.fold()
	}
	check := func(what string, low, next position, missing int64) {
		t.Helper()
		if tr.low() != low || tr.next() != next || into.Missing != missing {
			t.Errorf("%s: low %v next %v missing %d", what, tr.low(), tr.next(), into.Missing)
		}
	}
	finish(1, false)
	check("the second alone", at(0), at(0), 0)
	finish(0, false)
	check("the first two", at(2), at(2), 2)
	finish(3, false)
	finish(2, true)
	check("the third is bad", at(2), at(4), 2)
	if tr.behind.Missing != 2 {
		t.Errorf("behind: %+v", tr.behind)
	}
}
