package chaos

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// The machine may stop for everybody, as kill does for one: a host that gives it no
// processor, a disk that does not answer. What a server had just been about to send comes
// late then, and so does what the gateways note of it. The rules that bound times must
// not take that for the server's doing. This clock shows when it was so: it is one more
// process that wants to run often.

const (
	pulse = 20 * time.Millisecond
	skip  = 200 * time.Millisecond // a beat so late is a halt, no unlucky turn of the scheduler
)

// halt is a time during which the machine did not let this process run.
type halt struct{ begin, end time.Time }

// machine watches until its test ends.
type machine struct {
	mu    sync.Mutex
	halts []halt
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(pulse)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-tick.C:
			case <-stop:
				return
			}
			now := time.Now()
			m.beat(last, now)
			last = now
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
		for _, h := range m.seen() {
			t.Logf("the machine halted for %s at %s", h.end.Sub(h.begin).Round(time.Millisecond), h.begin.Format("15:04:05.000"))
		}
	})
	return m
}

func (m *machine) beat(last, now time.Time) {
	if now.Sub(last) < pulse+skip {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.halts = append(m.halts, halt{last, now})
}

// seen returns the halts so far.
func (m *machine) seen() halts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.halts)
}

type halts []halt

// within is how long of a time the machine did not run.
func (all halts) within(begin, end time.Time) (sum time.Duration) {
	for _, h := range all {
		from, to := h.begin, h.end
		if from.Before(begin) {
			from = begin
		}
		if to.After(end) {
			to = end
		}
		sum += max(to.Sub(from), 0)
	}
	return sum
}

// after is the moment at which the machine had run for a while, from a moment on.
func (all halts) after(from time.Time, ran time.Duration) time.Time {
	for end := from.Add(ran); ; {
		later := from.Add(ran + all.within(from, end))
		if !later.After(end) {
			return end
		}
		end = later
	}
}

func TestHalts(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	m := &machine{}
	for _, late := range []float64{0, 0.02, 0.19} {
		m.beat(at(1), at(1.02+late))
	}
	if len(m.seen()) != 0 {
		t.Fatalf("beats on time are halts: %v", m.seen())
	}
	m.beat(at(1.04), at(2.04))
	m.beat(at(2.2), at(5.2))
	for _, tt := range []struct {
		begin, end, want float64
	}{{0, 10, 4}, {0, 1, 0}, {1.04, 2.04, 1}, {1.5, 3, 1.34}, {3, 4, 1}, {5.2, 6, 0}, {4, 3, 0}} {
		if got := m.seen().within(at(tt.begin), at(tt.end)); (got - time.Duration(tt.want*float64(time.Second))).Abs() > time.Millisecond {
			t.Errorf("from %g to %g the machine halted for %s, want %g s", tt.begin, tt.end, got, tt.want)
		}
	}
	for _, tt := range []struct {
		from, ran, want float64
	}{{0, 1, 1}, {0, 1.1, 2.1}, {0, 2, 6}, {0, 2.5, 6.5}, {3, 1, 6.2}, {6, 1, 7}} {
		if got := m.seen().after(at(tt.from), time.Duration(tt.ran*float64(time.Second))); got.Sub(at(tt.want)).Abs() > time.Millisecond {
			t.Errorf("%g s of running from %g on end at %s, want at %g", tt.ran, tt.from, got.Sub(start), tt.want)
		}
	}
}
