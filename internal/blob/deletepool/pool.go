// Package deletepool deletes keys in bulk for the whole server: a few threads, a short
// queue, and a budget for everything.
//
// A batch is up to 1,000 keys of one bucket and goes through these steps; only the
// request holds a thread:
//
//	Submit ─▶ queue ─▶ admit? ─▶ request ─▶ all settled, or out of tries ─▶ Done
//	            ▲                   │
//	            └── wait: backoff, rate ◀┘ (the failed keys only)
//
// Invariants:
//   - Done is called exactly once for every batch, with one result per key in the order
//     of keys. No batch is lost: not when the queue is full, not on a panic, not on Close.
//   - At most Threads + 2×Threads batches are in the pool, those that wait for a retry
//     included. Past that the caller of Submit works on its own batch, in Submit.
//   - Admit is asked immediately before every request, retries and single deletes
//     included. After it refused, nothing of that batch is sent any more.
//   - Waiting, for a retry or for a rate, never holds a thread of the pool.
//
// Failure model: a failed key is tried 8 times, 50 ms to 2 s apart with jitter. Keys that no
// retry can mend (Invalid, NotSupported) are tried once. SlowDown halves the endpoint's
// rate, which then recovers little by little. An endpoint that answered one batch with
// nothing but Unavailable for all of its tries is down: until anything else comes back
// every batch gets one try only, so that the jobs report the outage and wait at no
// cost, and the store sees one request a batch instead of eight. Throttling is no outage
// in this sense. An endpoint without bulk deletes gets single ones from then on: a Bucket
// must therefore serve a DeleteMany of one key by the plain request. A panic of a bucket
// is an answer of class Other for all keys of the request.
package deletepool

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/pace"
)

// ErrClosed ends batches that the pool did not finish before Close.
var ErrClosed = errors.New("deletepool: closed")

// Config of a Pool; zero values mean the defaults.
type Config struct {
	Threads    int           // 4; the queue is twice that
	Tries      int           // 8, for each key
	MinBackoff time.Duration // 50 ms
	MaxBackoff time.Duration // 2 s
	// Pace shares the processors between requests to the server and what a bucket computes;
	// nil leaves that to the scheduler.
	Pace       *pace.Governor
	Logger     *slog.Logger // discards
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	if c.Threads <= 0 {
		c.Threads = 4
	}
	if c.Tries <= 0 {
		c.Tries = 8
	}
	if c.MinBackoff <= 0 {
		c.MinBackoff = 50 * time.Millisecond
	}
	if c.MaxBackoff <= 0 {
		c.MaxBackoff = 2 * time.Second
	}
	c.MaxBackoff = max(c.MaxBackoff, c.MinBackoff)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Batch is a set of keys to delete together.
type Batch struct {
	Bucket blob.Bucket
	Keys   []blob.Key // more than blob.MaxDelete go in several requests
	// Admit is asked before each request; its error ends the batch. It must be quick.
	// Nil admits.
	Admit func(context.Context) error
	// Done takes the results. The error says why keys were not tried to the end: the
	// one of Admit, the cause of the context, or ErrClosed. It is nil when each key has
	// an answer, failures included. Done runs on a thread of the pool or inside Submit.
	Done func([]blob.Result, error)
	// Limit names what the rate PerSecond (keys a second) is shared by, such as a
	// warehouse. 0 is no limit.
	Limit     string
	PerSecond float64
}

// Pool deletes batches.
type Pool struct {
	cfg       Config
	slots     chan struct{} // one for each batch in the pool
	ready     chan *task    // never blocks: as long as slots
	closing   chan struct{}
	endpoints *endpoints
	metrics   *metrics

	mu     sync.Mutex // guards closed against a Submit that is starting
	closed bool
	users  sync.WaitGroup // batches that are not done
	owned  sync.WaitGroup // goroutines of the pool
}

// New starts a pool. Close ends it.
func New(cfg Config) *Pool {
	cfg = cfg.withDefaults()
	size := 3 * cfg.Threads
	p := &Pool{
		cfg:       cfg,
		slots:     make(chan struct{}, size),
		ready:     make(chan *task, size),
		closing:   make(chan struct{}),
		endpoints: newEndpoints(),
	}
	p.metrics = newMetrics(cfg.Registerer, p.Depth)
	for range cfg.Threads {
		p.owned.Go(p.work)
	}
	return p
}

// Depth returns how many batches are in the pool: queued, on the wire, or waiting for a
// retry. Those that their callers work on themselves are not counted.
func (p *Pool) Depth() int { return len(p.slots) }

// Submit hands over a batch. It returns at once unless the pool is full; then it
// returns when the batch is done.
func (p *Pool) Submit(ctx context.Context, b Batch) {
	t := newTask(ctx, b)
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		t.finish(ErrClosed)
		return
	}
	p.users.Add(1)
	p.mu.Unlock()

	select {
	case p.slots <- struct{}{}:
		p.metrics.batches.WithLabelValues("pool").Inc()
		p.ready <- t
	default:
		p.metrics.batches.WithLabelValues("inline").Inc()
		defer p.users.Done()
		p.inline(t)
	}
}

// Close ends the pool: requests on the wire are waited for, all other batches are done
// with ErrClosed. It may be called once.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	close(p.closing)
	p.mu.Unlock()
	p.users.Wait()
	close(p.ready)
	p.owned.Wait()
}

func (p *Pool) work() {
	for t := range p.ready {
		p.advance(t)
	}
}

// advance takes a batch as far as it goes without waiting.
func (p *Pool) advance(t *task) {
	delay, more := p.step(t)
	if !more {
		p.leave(t)
		return
	}
	// At most one such goroutine for each slot.
	p.owned.Go(func() {
		if err := p.sleep(t.ctx, delay); err != nil {
			t.err = err
			p.leave(t)
			return
		}
		p.ready <- t
	})
}

// leave finishes a batch of the pool. Its slot is free before Done runs, for a Done
// that submits the next batch.
func (p *Pool) leave(t *task) {
	defer p.users.Done()
	<-p.slots
	p.metrics.settled(t.results)
	t.finish(t.err)
}

// inline works on a batch in its caller's goroutine, waits included.
func (p *Pool) inline(t *task) {
	for {
		delay, more := p.step(t)
		if !more {
			break
		}
		if err := p.sleep(t.ctx, delay); err != nil {
			t.err = err
			break
		}
	}
	p.metrics.settled(t.results)
	t.finish(t.err)
}

// sleep waits for d, or less when the batch shall end.
func (p *Pool) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.closing:
		return ErrClosed
	}
}

// stopped returns why no further request of the batch may be sent, or nil.
func (p *Pool) stopped(t *task) error {
	select {
	case <-p.closing:
		return ErrClosed
	default:
	}
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	if t.batch.Admit != nil {
		return t.batch.Admit(t.ctx)
	}
	return nil
}

// backoff returns the wait before try number n+1, half of it random.
func (p *Pool) backoff(n int) time.Duration {
	d := p.cfg.MaxBackoff
	if shift := n - 1; shift < 30 {
		d = min(d, p.cfg.MinBackoff<<shift)
	}
	return d/2 + rand.N(d/2+1)
}
