package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// action is one kind of event of a schedule.
type action string

// What a schedule is made of. Each harm but cut-database has an end that is an event of
// its own, so that a schedule is a plain list.
const (
	drop action = "drop" // number: of the table

	kill     action = "kill"
	restart  action = "restart"
	stop     action = "stop" // SIGSTOP
	proceed  action = "continue"
	cutDB    action = "cut database" // the connections of one server
	downDB   action = "database down"
	stallDB  action = "database stalls"
	slowDB   action = "database slow"
	healDB   action = "database heals"
	hurtDisk action = "store in trouble"
	healDisk action = "store heals"

	revive action = "revive" // never drawn: a server ended by itself and is started again
)

// event is one thing that happens at a time after the start.
type event struct {
	at      time.Duration
	what    action
	node    int           // the server, where there is one
	number  int           // of the table that is dropped
	sync    bool          // the drop waits for its purge
	delay   time.Duration // of each piece, of a slow database
	trouble trouble       // of the store
}

func (e event) String() string {
	s := fmt.Sprintf("%6.2fs %s", e.at.Seconds(), e.what)
	switch e.what {
	case drop:
		s += fmt.Sprintf(" %d at %d", e.number, e.node)
		if e.sync {
			s += " and wait"
		}
	case hurtDisk:
		s += fmt.Sprintf(" %+v", e.trouble)
	case healDisk:
	case slowDB:
		s += fmt.Sprintf(" of %d by %s", e.node, e.delay)
	case kill, restart, stop, proceed, cutDB, downDB, stallDB, healDB, revive:
		s += fmt.Sprintf(" of %d", e.node)
	}
	return s
}

// plan is what a schedule is made for.
type plan struct {
	nodes, drops int
	length       time.Duration
	timeout      time.Duration // heartbeat
}

// schedule draws all that will happen, before anything does: the same seed gives the
// same schedule. Every harm is over at the end. A server is killed or stopped again only
// after it had some seconds to work: five leases lost in a row without any progress would
// end a job FAILED, rightly.
func (p plan) schedule(seed uint64) []event {
	rnd := rand.New(rand.NewPCG(seed, 0))
	var all []event
	for i := range p.drops {
		// Some time is left for the purges of the last.
		at := between(rnd, 0, p.length*17/20)
		all = append(all, event{at: at, what: drop, number: i, node: rnd.IntN(p.nodes), sync: rnd.IntN(8) == 0})
	}
	for node := range p.nodes {
		p.lane(rnd, 3*time.Second, 8*time.Second, func() (begin, end event) {
			if rnd.IntN(2) == 0 {
				return event{what: kill, node: node}, event{at: between(rnd, 100*time.Millisecond, 2*time.Second), what: restart, node: node}
			}
			// Two of three stops are long enough to lose every lease.
			asleep := between(rnd, p.timeout*11/10, p.timeout*2)
			if rnd.IntN(3) == 0 {
				asleep = between(rnd, p.timeout/3, p.timeout)
			}
			return event{what: stop, node: node}, event{at: asleep, what: proceed, node: node}
		}, &all)
		p.lane(rnd, 3*time.Second, 9*time.Second, func() (begin, end event) {
			begin, end = event{node: node}, event{at: between(rnd, 200*time.Millisecond, 3*time.Second), what: healDB, node: node}
			switch rnd.IntN(4) {
			case 0:
				begin.what, end.at = cutDB, 0
			case 1:
				begin.what = downDB
			case 2:
				begin.what = stallDB
			default:
				begin.what, begin.delay = slowDB, between(rnd, 10*time.Millisecond, 100*time.Millisecond)
			}
			return begin, end
		}, &all)
	}
	var kinds []int // each kind comes before any comes again
	p.lane(rnd, time.Second, 3*time.Second, func() (begin, end event) {
		if len(kinds) == 0 {
			kinds = rnd.Perm(5)
		}
		begin = event{what: hurtDisk}
		switch share := 0.2 + rnd.Float64()*0.8; kinds[0] {
		case 0:
			begin.trouble.fail = share
		case 1:
			begin.trouble.throttle = share
		case 2:
			begin.trouble.cut = share
		case 3:
			begin.trouble.lose = share
		default:
			begin.trouble.latency = between(rnd, 50*time.Millisecond, time.Second)
		}
		kinds = kinds[1:]
		return begin, event{at: between(rnd, 300*time.Millisecond, 2*time.Second), what: healDisk}
	}, &all)
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return all
}

// lane draws harms one after the other, with a gap between them. The end's time counts
// from the begin; an end at its begin is left out.
func (p plan) lane(rnd *rand.Rand, gapMin, gapMax time.Duration, draw func() (begin, end event), into *[]event) {
	for at := between(rnd, 0, gapMax); ; at += between(rnd, gapMin, gapMax) {
		begin, end := draw()
		length := end.at
		begin.at, end.at = at, at+length
		if end.at > p.length {
			return
		}
		*into = append(*into, begin)
		if length > 0 {
			*into = append(*into, end)
		}
		at = end.at
	}
}

func between(rnd *rand.Rand, low, high time.Duration) time.Duration {
	return (low + time.Duration(rnd.Int64N(int64(high-low)))).Round(time.Millisecond)
}

func TestScheduleComesFromItsSeed(t *testing.T) {
	t.Parallel()
	p := plan{nodes: 3, drops: 60, length: 30 * time.Second, timeout: 3 * time.Second}
	text := func(seed uint64) string {
		var lines []string
		for _, e := range p.schedule(seed) {
			lines = append(lines, e.String())
		}
		return strings.Join(lines, "\n")
	}
	if diff := gocmp.Diff(text(7), text(7)); diff != "" {
		t.Errorf("the same seed gave another schedule:\n%s", diff)
	}
	if text(7) == text(8) {
		t.Error("two seeds gave one schedule")
	}
	for seed := range uint64(200) {
		seen := map[action]int{}
		var troubles [5]bool
		ends := map[string]action{} // what is in force, by where
		for _, e := range p.schedule(seed) {
			seen[e.what]++
			if e.at < 0 || e.at > p.length {
				t.Fatalf("seed %d: %s lies outside of the run", seed, e)
			}
			for i, is := range []bool{e.trouble.fail > 0, e.trouble.throttle > 0, e.trouble.cut > 0, e.trouble.lose > 0, e.trouble.latency > 0} {
				troubles[i] = troubles[i] || is
			}
			process, db := fmt.Sprint("process ", e.node), fmt.Sprint("database ", e.node)
			opens := map[action]string{kill: process, stop: process, downDB: db, stallDB: db, slowDB: db, hurtDisk: "store"}
			closes := map[action]string{restart: process, proceed: process, healDB: db, healDisk: "store"}
			if where, ok := opens[e.what]; ok {
				if ends[where] != "" {
					t.Fatalf("seed %d: %s while it is under %q", seed, e, ends[where])
				}
				ends[where] = e.what
			}
			if where, ok := closes[e.what]; ok {
				delete(ends, where)
			}
		}
		if len(ends) > 0 {
			t.Fatalf("seed %d: not over at the end: %v", seed, ends)
		}
		if seen[drop] != p.drops || seen[kill] == 0 || seen[stop] == 0 || troubles != [5]bool{true, true, true, true, true} || seen[downDB]+seen[stallDB]+seen[slowDB]+seen[cutDB] == 0 {
			t.Fatalf("seed %d: %v, troubles of the store %v", seed, seen, troubles)
		}
	}
}
