package purge

// unit is a stretch of a level whose keys settle together: up to a batch of one
// manifest's entries, or one manifest, list or metadata file.
type unit struct {
	at    position
	end   position // where the pass goes on after it
	open  int      // keys without an answer, and one while the walk still adds to it
	bad   bool     // something of it stays unsettled in this pass
	tally Tally    // of what will be met again if the unit is walked again
}

// tracker keeps the lowest unsettled position of a pass. Units end in any order; they
// are folded in the order of the walk, so that the counts of the row never hold what
// a restart at the cursor will count again. Its user holds a lock.
type tracker struct {
	units  []*unit
	bad    position // the first bad unit, if stuck
	stuck  bool     // the counts of what follows bad wait in behind
	behind Tally
	reach  position // behind the last folded unit
	into   *Tally
}

func (t *tracker) begin(at position) *unit {
	u := &unit{at: at, end: at, open: 1}
	t.units = append(t.units, u)
	return u
}

// fold takes finished units from the head.
func (t *tracker) fold() {
	n := 0
	for ; n < len(t.units); n++ {
		u := t.units[n]
		if u.open > 0 {
			break
		}
		t.reach = u.end
		if u.bad && !t.stuck {
			t.stuck, t.bad = true, u.at
		}
		if t.stuck {
			t.behind.add(u.tally)
			continue
		}
		t.into.add(u.tally)
	}
	clear(t.units[:n]) // so that the backing array holds on to nothing
	t.units = t.units[n:]
}

// low returns the lowest unsettled position.
func (t *tracker) low() position {
	if t.stuck {
		return t.bad
	}
	return t.next()
}

// next returns where the pass goes on when it is left now: what lies before it is
// settled or was found bad.
func (t *tracker) next() position {
	if len(t.units) > 0 {
		return t.units[0].at
	}
	return t.reach
}
