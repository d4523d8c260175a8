package deletepool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/pace"
)

var errNoAnswer = errors.New("the store gave no answer for this key")

// step sends the requests of a batch until it is done (false) or has to wait.
func (p *Pool) step(t *task) (delay time.Duration, more bool) {
	ep := p.endpoints.of(t.batch.Bucket)
	limit := p.endpoints.limit(t.batch.Limit, t.batch.PerSecond)
	for t.next < len(t.open) {
		now := time.Now()
		if wait := max(ep.wait(now), limit.wait(now)); wait > 0 {
			// Not longer: the rate may have recovered in the meantime.
			return min(wait, time.Second), true
		}
		if err := p.stopped(t); err != nil {
			t.err = err
			return 0, false
		}
		chunk := t.chunk(min(ep.burst(), limit.burst()))
		ep.take(now, len(chunk))
		limit.take(now, len(chunk))
		if err := p.send(t, ep, chunk); err != nil {
			t.err = err
			return 0, false
		}
		t.next += len(chunk)
	}
	if !t.nextRound() || p.giveUp(t, ep) {
		return 0, false
	}
	t.tries++
	p.metrics.retries.Add(float64(len(t.open)))
	return p.backoff(t.tries - 1), true
}

// giveUp reports whether the batch has had its tries: one while its endpoint is down.
// It is the end of the tries that finds out that it is.
func (p *Pool) giveUp(t *task, ep *endpoint) bool {
	last := t.tries >= p.cfg.Tries
	if last && t.outage && ep.setDown(true) {
		p.cfg.Logger.Warn("object store is down", slog.String("endpoint", ep.name))
	}
	return last || (t.outage && ep.isDown())
}

// send makes one bulk request, or as many single ones, for the keys with the given
// indexes. The first request has been admitted. An error ends the batch.
func (p *Pool) send(t *task, ep *endpoint, indexes []int) error {
	if !ep.singly() {
		results := p.request(t.ctx, ep, t.batch.Bucket, t.keys(indexes))
		unsupported := 0
		for i, at := range indexes {
			t.results[at] = results[i]
			if results[i].Outcome == blob.Failed && blob.ClassOf(results[i].Err) == blob.NotSupported {
				unsupported++
			}
		}
		p.observe(t, ep, results)
		if unsupported < len(indexes) || len(indexes) == 1 {
			return nil
		}
		if ep.setSingly() {
			p.cfg.Logger.Warn("object store has no bulk delete, deleting one by one", slog.String("endpoint", ep.name))
		}
		if err := p.stopped(t); err != nil {
			return err
		}
	}
	for i, at := range indexes {
		if i > 0 {
			if err := p.stopped(t); err != nil {
				return err
			}
		}
		results := p.request(t.ctx, ep, t.batch.Bucket, t.batch.Keys[at:at+1])
		t.results[at] = results[0]
		p.observe(t, ep, results)
		// A store in trouble is not asked a thousand times within one try.
		if class := blob.ClassOf(results[0].Err); results[0].Outcome == blob.Failed && class.Outage() {
			for _, rest := range indexes[i+1:] {
				t.results[rest].Err = unsent(t.batch.Keys[rest], class, results[0].Err)
			}
			return nil
		}
	}
	return nil
}

func unsent(key blob.Key, class blob.Class, cause error) error {
	return &blob.Error{Op: "delete", Key: key, Class: class, Err: fmt.Errorf("not sent after: %w", cause)}
}

// request asks the bucket. It turns a panic and missing answers into failed keys.
func (p *Pool) request(ctx context.Context, ep *endpoint, bucket blob.Bucket, keys []blob.Key) (results []blob.Result) {
	start := time.Now()
	defer func() {
		if r := recover(); r != nil {
			p.cfg.Logger.ErrorContext(ctx, "panic in a bucket", slog.String("endpoint", ep.name),
				slog.Any("panic", r), slog.String("stack", string(debug.Stack())))
			results = make([]blob.Result, len(keys))
			for i, key := range keys {
				results[i] = blob.Result{Key: key, Err: &blob.Error{Op: "delete", Key: key, Err: fmt.Errorf("panic: %v", r)}}
			}
		}
		p.metrics.seconds.Observe(time.Since(start).Seconds())
	}()
	section := p.cfg.Pace.Section()
	defer section.Pause() // a panic may leave it a turn
	results = bucket.DeleteMany(pace.With(ctx, section), keys)
	for i, key := range keys {
		if i >= len(results) {
			results = append(results, blob.Result{})
		}
		if r := &results[i]; r.Key != key || r.Outcome > blob.Missing || (r.Outcome == blob.Failed && r.Err == nil) {
			*r = blob.Result{Key: key, Err: &blob.Error{Op: "delete", Key: key, Err: errNoAnswer}}
		}
	}
	return results[:len(keys)]
}

// observe learns from the answers how the endpoint is.
func (p *Pool) observe(t *task, ep *endpoint, results []blob.Result) {
	throttled, outage := false, true
	for _, r := range results {
		class := blob.Other
		if r.Outcome == blob.Failed {
			class = blob.ClassOf(r.Err)
		}
		throttled = throttled || class == blob.Throttled
		outage = outage && class == blob.Unavailable
	}
	// What a cancelled context made of a request says nothing about the store.
	if t.ctx.Err() != nil {
		return
	}
	if !outage {
		t.outage = false
		if ep.setDown(false) {
			p.cfg.Logger.Info("object store is back", slog.String("endpoint", ep.name))
		}
	}
	if throttled {
		if rate, lowered := ep.slowDown(time.Now()); lowered {
			p.metrics.throttled.Inc()
			p.cfg.Logger.Warn("object store asks to slow down", slog.String("endpoint", ep.name), slog.Float64("keysPerSecond", rate))
		}
	} else if !outage {
		ep.speedUp(time.Now(), len(results))
	}
}
