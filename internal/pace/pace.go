// Package pace keeps work that can wait out of the way of requests that cannot. The Go
// scheduler knows no priorities: a request whose bytes have come is not even noticed while
// every processor is busy with decoding, and later it stands in line behind the decoders.
//
// A Governor knows the requests under way and lends the processors to the background's
// sections, in turns:
//
//	nobody asks       ─▶ all processors but one, no rest
//	somebody asks, or ─▶ one section at a time, in slices; it makes room when a request
//	has just asked        comes, and all sections together rest four times as long as they worked
//
// Invariants:
//   - One processor is left to the network and to requests, unless there is only one.
//   - A section that waits gets a slice after Patience at the latest when its turn has
//     come, whatever the requests do: what is paced always ends.
//   - Turns go round first come, first served.
//   - A request counts while it is young: one that waits, for a purge perhaps, holds
//     nothing up.
//
// A section holds its turn only while it works. Who is about to block, on the network,
// a lock, a queue or a database, calls Pause first; the next Step takes a turn again. Nobody
// waits for a turn inside a transaction. Work that does not call Step in time is not
// interrupted: the bound is as good as the steps are small.
package pace

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Config of a Governor; zero values mean the defaults.
type Config struct {
	Slots    int           // sections at once while nobody asks; all processors but one
	Slice    time.Duration // 200 µs of work in a turn while somebody asks
	Recent   time.Duration // 20 ms after a request during which the next is expected
	Patience time.Duration // 5 ms that a section waits for calm
	Rest     float64       // 4, rest for each unit of work while somebody asks; negative is none
}

func (c Config) withDefaults() Config {
	if c.Slots <= 0 {
		c.Slots = max(1, runtime.GOMAXPROCS(0)-1)
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.Slice, 200*time.Microsecond)
	def(&c.Recent, 20*time.Millisecond)
	def(&c.Patience, 5*time.Millisecond)
	if c.Rest == 0 {
		c.Rest = 4
	}
	c.Rest = max(c.Rest, 0)
	return c
}

// nap is how long somebody who waits for calm sleeps: timers are no finer on a process at rest.
const nap = time.Millisecond

// Governor shares the processors between requests and sections. It is safe for concurrent
// use. Nil paces nothing.
type Governor struct {
	cfg     Config
	guests  guests
	waiting atomic.Int64  // sections that wait for a slot
	slots   chan struct{} // one for each section at work
	lane    chan struct{} // held by the one section at work while somebody asks
	next    time.Time     // when the rest after the work so far is over; guarded by lane
}

// New returns a Governor.
func New(cfg Config) *Governor {
	cfg = cfg.withDefaults()
	return &Governor{cfg: cfg, slots: make(chan struct{}, cfg.Slots), lane: make(chan struct{}, 1)}
}

// Request says that a request has come. The function it returns is called at its end.
func (g *Governor) Request() (done func()) {
	if g == nil {
		return func() {}
	}
	return g.guests.enter(time.Now())
}

// busy reports whether a request is under way, or was a moment ago.
func (g *Governor) busy(now time.Time) bool {
	return now.UnixNano()-g.guests.last.Load() < int64(g.cfg.Recent) || g.guests.present(now)
}

// Section returns the handle of one goroutine's work in the background; of a nil Governor
// it is nil, which paces nothing.
func (g *Governor) Section() *Section {
	if g == nil {
		return nil
	}
	return &Section{g: g}
}

// stride is how many rows of a decoder pass between two looks at the clock.
const stride = 16

// Section is work of one goroutine that can wait.
type Section struct {
	g      *Governor
	held   bool
	lane   bool // it is the only one at work
	forced bool // its patience had ended: it makes no room
	since  time.Time
	rows   int
}

// Step marks a place where the work can wait: it takes a turn, or ends one that is over
// and takes the next.
func (s *Section) Step() {
	if s == nil {
		return
	}
	if s.held {
		if !s.over(time.Now()) {
			return
		}
		s.Pause()
	}
	s.take()
}

// Row is Step for the rows of a decoder, most of which it lets pass without a look.
func (s *Section) Row() {
	if s == nil {
		return
	}
	if s.rows++; s.held && s.rows%stride != 0 {
		return
	}
	s.Step()
}

// Pause gives the turn back: the work blocks now, or is done.
func (s *Section) Pause() {
	if s == nil || !s.held {
		return
	}
	g := s.g
	if s.lane {
		now := time.Now()
		if g.next.Before(now) {
			g.next = now
		}
		g.next = g.next.Add(time.Duration(float64(now.Sub(s.since)) * g.cfg.Rest))
		<-g.lane
	}
	<-g.slots
	s.held, s.lane, s.forced = false, false, false
}

// over reports whether the turn is.
func (s *Section) over(now time.Time) bool {
	g, worked := s.g, now.Sub(s.since)
	switch {
	case worked >= g.cfg.Slice:
		return s.lane || g.waiting.Load() > 0 || g.busy(now)
	case s.lane:
		// A quarter of a slice is the least, or many small requests would stop it for good.
		return !s.forced && worked >= g.cfg.Slice/4 && g.guests.present(now)
	default:
		return g.busy(now)
	}
}

// take waits for a turn.
func (s *Section) take() {
	g := s.g
	g.waiting.Add(1)
	g.slots <- struct{}{}
	g.waiting.Add(-1)
	s.held, s.since = true, time.Now()
	if !g.busy(s.since) {
		return
	}
	g.lane <- struct{}{}
	s.lane = true
	begun := time.Now()
	for s.since = begun; ; s.since = time.Now() {
		rest := g.next.Sub(s.since)
		if g.guests.present(s.since) {
			rest = max(rest, nap)
		}
		if rest < nap { // a shorter one is owed
			return
		}
		left := g.cfg.Patience - s.since.Sub(begun)
		if left <= 0 {
			s.forced = true
			return
		}
		time.Sleep(min(rest, left))
	}
}

// guests are the requests under way, by the time when they came.
type guests struct {
	last     atomic.Int64 // when one came or went, Unix nanoseconds
	mu       sync.Mutex   // serialises the change of cohorts
	cur, old atomic.Pointer[cohort]
}

// youth is how long a cohort takes in requests; a request counts from one to two of it.
const youth = 25 * time.Millisecond

// cohort are the requests of a moment.
type cohort struct {
	born    time.Time
	present atomic.Int64
}

func (g *guests) enter(now time.Time) (leave func()) {
	c := g.cur.Load()
	if c == nil || now.Sub(c.born) >= youth {
		c = g.change(now)
	}
	c.present.Add(1)
	g.last.Store(now.UnixNano())
	return func() {
		c.present.Add(-1)
		g.last.Store(time.Now().UnixNano())
	}
}

func (g *guests) change(now time.Time) *cohort {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.cur.Load()
	if c != nil && now.Sub(c.born) < youth {
		return c
	}
	c2 := &cohort{born: now}
	g.old.Store(c)
	g.cur.Store(c2)
	return c2
}

// present reports whether a young request is under way.
func (g *guests) present(now time.Time) bool {
	for _, c := range [...]*cohort{g.cur.Load(), g.old.Load()} {
		if c != nil && now.Sub(c.born) < 2*youth && c.present.Load() > 0 {
			return true
		}
	}
	return false
}
