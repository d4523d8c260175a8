package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// healGrace is how long a server that runs may show the harm that has ended: it finds its
// dead connections, and answers what was under way.
const healGrace = 2 * time.Second

// exchangeKind is what a request of a client is for.
type exchangeKind int

const (
	siblingWrite  exchangeKind = iota // of rows only
	siblingObject                     // it sends bytes to the store too
	treeDelete
)

// exchange is one request and what came of it.
type exchange struct {
	kind         exchangeKind
	node         int
	what         string
	began, ended time.Time
	status       int // 0: there was no whole answer
	body         string
	retryAfter   bool
	err          error
}

func (x exchange) String() string {
	s := fmt.Sprintf("%s at server %d: %d after %s", x.what, x.node, x.status, x.ended.Sub(x.began).Round(time.Millisecond))
	if x.err != nil {
		return s + ": " + x.err.Error()
	}
	return s + ": " + strings.TrimSpace(x.body)
}

// note is an event that took place.
type note struct {
	event
	began, ended time.Time
}

// noted is deferred by what does harm.
func (w *world) noted(e event, began time.Time) {
	w.notes = append(w.notes, note{e, began, time.Now()})
}

// answers is what clients were answered while harm was done.
type answers struct {
	exchanges []exchange
	notes     []note
	halts     halts // of the machine
}

// answered is what answers show.
type answered struct {
	violations []string
	writes     int            // by siblings
	excused    map[string]int // of all that had no good answer, by why
	unknown    []string       // of these, commits that nobody could tell the end of
}

// span is a time during which a harm excuses bad answers.
type span struct {
	what       action
	node       int // -1: every server
	begin, end time.Time
}

func (s span) covers(x exchange) bool {
	return (s.node < 0 || s.node == x.node) && !x.ended.Before(s.begin) && !x.began.After(s.end)
}

// check holds the answers to what clients are promised:
//
//   - 500 never, but for a commit that nobody can tell the end of, while the database is
//     away; any 503 says when to come back.
//   - Nothing else at or above 500, and no silence, unless this request's own server was
//     killed or stopped, or had lost its database (a slow one is no excuse). A write that
//     sends bytes may be refused while the store is in trouble. A recursive delete may be
//     refused as busy at any time.
//   - A server ends by itself only while it starts.
func (a answers) check() answered {
	v := answered{excused: map[string]int{}}
	spans := a.spans(&v)
	for _, x := range a.exchanges {
		if x.kind != treeDelete {
			v.writes++
		}
		if x.status != 0 && x.status < 500 {
			continue
		}
		why, ok := excuse(x, spans)
		if !ok {
			v.violations = append(v.violations, x.String())
			continue
		}
		v.excused[why]++
		if x.status == 500 {
			v.unknown = append(v.unknown, x.String())
		}
	}
	return v
}

func excuse(x exchange, spans []span) (why string, ok bool) {
	refused := x.status == 503 && x.retryAfter
	unknown := x.status == 500 && strings.Contains(x.body, `"CommitStateUnknown"`)
	for _, s := range spans {
		if !s.covers(x) {
			continue
		}
		switch s.what {
		case kill, stop:
			ok = x.status == 0 || refused
		case cutDB, downDB, stallDB:
			ok = refused || unknown
		default: // the store
			ok = refused && x.kind == siblingObject
		}
		if ok {
			return fmt.Sprintf("%s, %s", s.what, map[bool]string{true: "no answer", false: fmt.Sprint(x.status)}[x.status == 0]), true
		}
	}
	return "busy", refused && x.kind == treeDelete
}

// spans makes of notes the times that excuse. A killed server is away until it has given a
// good answer again.
func (a answers) spans(v *answered) (all []span) {
	good := map[int][]exchange{} // by server, by their beginning
	for _, x := range a.exchanges {
		if x.status != 0 && x.status < 500 {
			good[x.node] = append(good[x.node], x)
		}
	}
	for _, list := range good {
		slices.SortFunc(list, func(a, b exchange) int { return a.began.Compare(b.began) })
	}
	forever := time.Unix(1<<40, 0)
	up := func(n note) time.Time {
		for _, x := range good[n.node] {
			if x.began.After(n.ended) {
				return x.ended
			}
		}
		return forever
	}
	ends := map[action]action{kill: restart, stop: proceed, downDB: healDB, stallDB: healDB, hurtDisk: healDisk}
	away := map[int]time.Time{} // until when a server starts
	for i, n := range a.notes {
		s := span{what: n.what, node: n.node, begin: n.began, end: forever}
		switch n.what {
		case cutDB:
			s.end = a.halts.after(n.ended, healGrace)
		case kill, stop, downDB, stallDB, hurtDisk:
			for _, later := range a.notes[i+1:] {
				if later.what == ends[n.what] && (later.node == n.node || n.what == hurtDisk) {
					if s.end = a.halts.after(later.ended, healGrace); n.what == kill {
						s.end = up(later)
						away[n.node] = s.end
					}
					break
				}
			}
			if n.what == hurtDisk {
				s.node = -1
			}
		case revive:
			if n.began.After(away[n.node]) {
				v.violations = append(v.violations, fmt.Sprintf("server %d ended by itself", n.node))
			}
			continue
		default:
			continue
		}
		all = append(all, s)
	}
	return all
}
