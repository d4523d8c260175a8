package faulty

import (
	"context"
	"sync"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
)

// Gate holds the calls of one method until they are let through.
type Gate struct {
	entered chan blob.Key
	pass1   chan struct{}
	open    chan struct{}
	once    sync.Once
	latency time.Duration
}

// Hold makes every call of op from now on wait at the returned gate. It replaces an
// earlier gate of that method, whose calls stay with it.
func (b *Bucket) Hold(op Op) *Gate {
	return b.setGate(op, &Gate{entered: make(chan blob.Key, 1<<16), pass1: make(chan struct{}), open: make(chan struct{})})
}

// Delay makes every call of op from now on take d longer; 0 ends it.
func (b *Bucket) Delay(op Op, d time.Duration) {
	g := &Gate{latency: d, open: make(chan struct{})}
	if d <= 0 {
		g.Open()
	}
	b.setGate(op, g)
}

func (b *Bucket) setGate(op Op, g *Gate) *Gate {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gates[op] = g
	return g
}

// Entered receives the key of each call that has come to the gate ("" for DeleteMany).
func (g *Gate) Entered() <-chan blob.Key { return g.entered }

// Pass lets one waiting call through; it blocks until there is one.
func (g *Gate) Pass() { g.pass1 <- struct{}{} }

// Open lets all calls through, now and later.
func (g *Gate) Open() { g.once.Do(func() { close(g.open) }) }

// pass waits for the gate, or for the end of ctx as a real client would.
func (g *Gate) pass(ctx context.Context, op Op, key blob.Key) error {
	var late <-chan time.Time
	if g.latency > 0 {
		timer := time.NewTimer(g.latency)
		defer timer.Stop()
		late = timer.C
	}
	if g.entered != nil {
		select {
		case g.entered <- key:
		default: // nobody counts that far
		}
	}
	select {
	case <-g.open:
	case <-g.pass1:
	case <-late:
	case <-ctx.Done():
		return &blob.Error{Op: string(op), Key: key, Class: blob.Other, Err: context.Cause(ctx)}
	}
	return nil
}
