package deletepool

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
)

// Endpointer is a Bucket that shares its store with others: what the pool learns of
// one holds for all with the same endpoint.
type Endpointer interface{ Endpoint() string }

// Rates of an endpoint that asked to slow down, in keys a second. S3 grants 3,500
// writes a second and prefix, and counts every key of a bulk delete.
const (
	minRate   = 100
	raise     = 100 // for every second without a complaint
	cutPause  = time.Second
	forgetAge = 10 * time.Minute
	sweepSize = 256 // entries from which on old ones are looked for
)

// endpoint is what the pool knows of one store.
type endpoint struct {
	name   string
	single atomic.Bool
	down   atomic.Bool

	mu       sync.Mutex
	pacer    pacer
	peak     float64   // rate at the first complaint; twice that lifts the limit
	cut      time.Time // of the last lowering
	raised   time.Time
	since    time.Time // begin of the measurement
	answered int       // keys since then
	used     time.Time // guarded by the mutex of endpoints
}

func (e *endpoint) singly() bool           { return e.single.Load() }
func (e *endpoint) setSingly() bool        { return !e.single.Swap(true) }
func (e *endpoint) isDown() bool           { return e.down.Load() }
func (e *endpoint) setDown(down bool) bool { return e.down.Swap(down) != down }

// wait returns how long the next request has to wait for the rate.
func (e *endpoint) wait(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pacer.wait(now)
}

// take books n keys.
func (e *endpoint) take(now time.Time, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pacer.take(now, n)
}

// burst returns the most keys for one request.
func (e *endpoint) burst() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pacer.burst()
}

// slowDown halves the rate, at most once a second: answers to requests that were sent
// before the last cut say nothing about it.
func (e *endpoint) slowDown(now time.Time) (rate float64, lowered bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.cut.IsZero() && now.Sub(e.cut) < cutPause {
		return e.pacer.rate, false
	}
	e.cut, e.raised = now, now
	if e.pacer.rate == 0 {
		e.peak = max(2*minRate, float64(e.answered)/max(now.Sub(e.since).Seconds(), 1))
		e.pacer = pacer{rate: e.peak / 2, next: now}
	} else {
		e.pacer.rate = max(minRate, e.pacer.rate/2)
	}
	return e.pacer.rate, true
}

// speedUp counts answers without a complaint, raises a lowered rate with time and lifts
// it in the end.
func (e *endpoint) speedUp(now time.Time, n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Sub(e.since) > 2*time.Second {
		e.since, e.answered = now.Add(-time.Second), e.answered/2
	}
	e.answered += n
	if e.pacer.rate == 0 {
		return
	}
	e.pacer.rate += raise * min(now.Sub(e.raised).Seconds(), 10)
	e.raised = now
	if e.pacer.rate >= 2*e.peak {
		e.pacer, e.cut = pacer{}, time.Time{}
	}
}

// endpoints holds what is known of every store and limit in use.
type endpoints struct {
	mu     sync.Mutex
	stores map[any]*endpoint
	limits map[string]*limiter
}

func newEndpoints() *endpoints {
	return &endpoints{stores: make(map[any]*endpoint), limits: make(map[string]*limiter)}
}

// of returns the state of the bucket's endpoint. Buckets that cannot be told apart share
// the state of their type.
func (s *endpoints) of(b blob.Bucket) *endpoint {
	name, key := fmt.Sprintf("%T", b), any(b)
	if e, ok := b.(Endpointer); ok {
		name = e.Endpoint()
		key = name
	} else if !reflect.TypeOf(b).Comparable() {
		key = reflect.TypeOf(b)
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.stores[key]
	if e == nil {
		if len(s.stores) >= sweepSize {
			for k, old := range s.stores {
				if now.Sub(old.used) > forgetAge {
					delete(s.stores, k)
				}
			}
		}
		e = &endpoint{name: name, since: now}
		s.stores[key] = e
	}
	e.used = now
	return e
}
