package deletepool

import (
	"sync"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
)

// pacer spaces requests so that their keys keep to a rate; 0 is no limit. Nobody books
// ahead: who has to wait asks again, so that a rate that recovers helps at once.
type pacer struct {
	rate float64   // keys a second
	next time.Time // when the keys sent so far are paid for
}

func (p *pacer) wait(now time.Time) time.Duration {
	if p.rate <= 0 {
		return 0
	}
	return max(p.next.Sub(now), 0)
}

func (p *pacer) take(now time.Time, n int) {
	if p.rate <= 0 {
		return
	}
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
}

// burst is what the rate grants in a second: a low rate means small requests, not rare
// ones.
func (p *pacer) burst() int {
	if p.rate <= 0 || p.rate >= blob.MaxDelete { // the largest rates are no int
		return blob.MaxDelete
	}
	return max(int(p.rate), 1)
}

// limiter is the configured rate of some group of batches. Nil is no limit.
type limiter struct {
	mu    sync.Mutex
	pacer pacer
	used  time.Time // guarded by the mutex of endpoints
}

func (l *limiter) wait(now time.Time) time.Duration {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pacer.wait(now)
}

func (l *limiter) take(now time.Time, n int) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pacer.take(now, n)
}

func (l *limiter) burst() int {
	if l == nil {
		return blob.MaxDelete
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pacer.burst()
}

// limit returns the limiter of that name, set to perSecond keys a second.
func (s *endpoints) limit(name string, perSecond float64) *limiter {
	if perSecond <= 0 {
		return nil
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limits[name]
	if l == nil {
		if len(s.limits) >= sweepSize {
			for k, old := range s.limits {
				if now.Sub(old.used) > forgetAge {
					delete(s.limits, k)
				}
			}
		}
		l = &limiter{}
		s.limits[name] = l
	}
	l.used = now
	l.mu.Lock()
	l.pacer.rate = perSecond
	l.mu.Unlock()
	return l
}
