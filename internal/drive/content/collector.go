package content

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// CollectorConfig of a Collector; zero values mean the defaults.
type CollectorConfig struct {
	Workers int           // 2: batches at a time
	Batch   int           // 1,000: keys of one claim and one request, at most blob.MaxDelete
	Poll    time.Duration // 5 s: how often it looks for due tasks
	Lease   time.Duration // 5 min: after which a claim passes to another collector
	// Delete sends a batch; nil asks the bucket itself.
	Delete func(ctx context.Context, keys []blob.Key) []blob.Result
}

func (cfg CollectorConfig) withDefaults(s *Store) CollectorConfig {
	if cfg.Workers <= 0 {
		cfg.Workers = 2
	}
	if cfg.Batch <= 0 || cfg.Batch > blob.MaxDelete {
		cfg.Batch = blob.MaxDelete
	}
	if cfg.Poll <= 0 {
		cfg.Poll = 5 * time.Second
	}
	if cfg.Lease <= 0 {
		cfg.Lease = 5 * time.Minute
	}
	if cfg.Delete == nil {
		cfg.Delete = s.deleteMany
	}
	return cfg
}

// Collector deletes the objects that are due. Several, also of several servers, may run
// at once.
type Collector struct {
	store *Store
	cfg   CollectorConfig
	wake  chan struct{}

	mu   sync.Mutex
	stop context.CancelCauseFunc // nil: not running
	done chan struct{}
}

// NewCollector returns a collector that does not run yet.
func NewCollector(s *Store, cfg CollectorConfig) *Collector {
	return &Collector{store: s, cfg: cfg.withDefaults(s), wake: make(chan struct{}, 1)}
}

var errStopping = errors.New("content: the collector stops")

// Start runs it until Stop.
func (c *Collector) Start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		return
	}
	ctx, cancel := context.WithCancelCause(sqldb.Patient(context.Background()))
	c.stop, c.done = cancel, make(chan struct{})
	go c.run(ctx, c.done)
}

// Stop ends it and waits until it has, or until ctx ends. A request that is cut off is
// sent again by whoever takes the claim over.
func (c *Collector) Stop(ctx context.Context) error {
	c.mu.Lock()
	cancel, done := c.stop, c.done
	c.stop = nil
	c.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel(errStopping)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wake makes it look at once.
func (c *Collector) Wake() {
	select {
	case c.wake <- struct{}{}:
	default: // it will look anyhow
	}
}

// maxPause bounds the pauses while the database or the store is down.
const maxPause = time.Minute

func (c *Collector) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	pause := c.cfg.Poll
	for {
		_, expireErr := c.store.Expire(ctx)
		_, collectErr := c.Collect(ctx)
		if ctx.Err() != nil {
			return
		}
		if err := errors.Join(expireErr, collectErr); err != nil {
			c.store.log.WarnContext(ctx, "collecting objects failed", "error", err, "pause", pause)
			pause = min(2*pause, max(maxPause, c.cfg.Poll))
		} else {
			pause = c.cfg.Poll
		}
		if !c.sleep(ctx, pause/2+rand.N(pause/2+1), collectErr == nil) {
			return
		}
	}
}

// sleep waits, or until Wake when it may be woken. false: the collector stops.
func (c *Collector) sleep(ctx context.Context, d time.Duration, wakeable bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	wake := c.wake
	if !wakeable { // an outage is not waited out faster by those who write
		wake = nil
	}
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// Collect deletes what is due now and returns how many tasks it settled. It ends early
// with an error while the store as a whole is in trouble.
func (c *Collector) Collect(ctx context.Context) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var settled int
	var errs []error
	var wg sync.WaitGroup
	for range c.cfg.Workers {
		wg.Go(func() {
			n, err := c.work(ctx)
			mu.Lock()
			defer mu.Unlock()
			settled += n
			if err != nil && (ctx.Err() == nil || len(errs) == 0) {
				errs = append(errs, err)
				cancel(err) // the others would meet the same
			}
		})
	}
	wg.Wait()
	if len(errs) == 0 {
		c.store.measure(ctx)
	}
	return settled, errors.Join(errs...)
}

// work takes batches until none is due.
func (c *Collector) work(ctx context.Context) (settled int, err error) {
	for {
		n, more, err := c.batch(ctx)
		settled += n
		if err != nil || !more {
			return settled, err
		}
	}
}

// deleteMany is the request to the bucket, in single ones where it knows no others.
func (s *Store) deleteMany(ctx context.Context, keys []blob.Key) []blob.Result {
	if err := s.CheckStorage(ctx); err != nil {
		// What is not there cannot be told from what was deleted.
		results := make([]blob.Result, len(keys))
		for i, key := range keys {
			results[i] = blob.Result{Key: key, Outcome: blob.Failed, Err: err}
		}
		return results
	}
	results := s.bucket.DeleteMany(ctx, keys)
	if len(keys) == 1 {
		return results
	}
	for i, r := range results {
		if r.Outcome == blob.Failed && blob.ClassOf(r.Err) == blob.NotSupported {
			results[i] = s.bucket.DeleteMany(ctx, keys[i:i+1])[0]
		}
	}
	return results
}

// outage is the error of a store that is in trouble as a whole.
func outage(err error) error {
	return fault.Wrap("content.Collect", fault.Busy, CodeStore, err, "the object store can not be reached")
}
