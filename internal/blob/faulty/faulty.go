// Package faulty wraps a Bucket and injects faults, for tests: an outage, the Nth call
// failing before or after it took effect, a share of the keys failing, denied keys,
// requests held at a gate.
//
// Invariants: a call that a fault hits before its effect never reaches the inner
// bucket; everything else is passed on unchanged. Setters may be called at any time,
// also while calls are under way. With the same seed and the same order of keys the
// same keys fail.
package faulty

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"sync"

	"github.com/lethe-project/lethe/internal/blob"
)

// Op names a method of blob.Bucket.
type Op string

// The methods.
const (
	Open   Op = "open"
	Put    Op = "put"
	Stat   Op = "stat"
	List   Op = "list"
	Delete Op = "delete"
)

// ErrInjected is the cause of every injected error.
var ErrInjected = errors.New("injected fault")

// Counts is what was asked of the bucket so far.
type Counts struct {
	Calls      map[Op]int // requests, the failed ones included
	DeleteKeys int        // keys in DeleteMany requests, every retry counted again
	MaxBatch   int        // most keys in one DeleteMany
	MaxDeletes int        // most DeleteMany requests at the same time
}

// Bucket injects faults into another one. It implements blob.Bucket and blob.DirPruner.
type Bucket struct {
	inner blob.Bucket

	mu       sync.Mutex
	counts   Counts
	deleting int
	planned  []planned
	outage   blob.Class // 0: none
	fraction float64
	random   *rand.Rand
	keyFault func(blob.Key) (blob.Class, bool)
	gates    map[Op]*Gate
	noBulk   bool
}

// planned is a fault of one future call.
type planned struct {
	op    Op
	call  int // counted from the start, 1 is the first
	class blob.Class
	after bool // the effect takes place, the answer is lost
	keep  int  // Delete: how many keys still succeed, -1: not a partial one
	panik bool
}

var (
	_ blob.Bucket    = (*Bucket)(nil)
	_ blob.DirPruner = (*Bucket)(nil)
)

// New returns a bucket without faults over inner.
func New(inner blob.Bucket) *Bucket {
	return &Bucket{inner: inner, gates: make(map[Op]*Gate), counts: Counts{Calls: make(map[Op]int)}}
}

// Inner returns the wrapped bucket.
func (b *Bucket) Inner() blob.Bucket { return b.inner }

// FailCall makes the nth call of op from now on (1 is the next) fail without effect.
func (b *Bucket) FailCall(op Op, nth int, class blob.Class) {
	b.plan(planned{op: op, call: nth, class: class, keep: -1})
}

// LoseAnswer makes the nth call of op from now on take effect and fail nevertheless.
func (b *Bucket) LoseAnswer(op Op, nth int, class blob.Class) {
	b.plan(planned{op: op, call: nth, class: class, after: true, keep: -1})
}

// CutDelete makes the nth DeleteMany from now on handle its first keep keys only; the
// others fail with the class.
func (b *Bucket) CutDelete(nth, keep int, class blob.Class) {
	b.plan(planned{op: Delete, call: nth, class: class, keep: keep})
}

// PanicCall makes the nth call of op from now on panic.
func (b *Bucket) PanicCall(op Op, nth int) {
	b.plan(planned{op: op, call: nth, panik: true, keep: -1})
}

func (b *Bucket) plan(p planned) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.call += b.counts.Calls[p.op]
	b.planned = append(b.planned, p)
}

// SetOutage makes every call fail with the class; blob.Other ends the outage.
func (b *Bucket) SetOutage(class blob.Class) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outage = class
}

// FailFraction makes that share (0 to 1) of all keys given to DeleteMany fail with
// class Other, chosen anew at every try.
func (b *Bucket) FailFraction(share float64, seed uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fraction, b.random = share, rand.New(rand.NewPCG(seed, seed))
}

// DenyKeys makes DeleteMany, Open, Stat and Put answer Denied for those keys. Nil ends it.
func (b *Bucket) DenyKeys(denied func(blob.Key) bool) {
	if denied == nil {
		b.FailKeys(nil)
		return
	}
	b.FailKeys(func(key blob.Key) (blob.Class, bool) { return blob.Denied, denied(key) })
}

// FailKeys makes calls for a key fail with the class that fn returns, if it returns
// true. It replaces DenyKeys. Nil ends it.
func (b *Bucket) FailKeys(fn func(blob.Key) (blob.Class, bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keyFault = fn
}

// NoBulk makes every DeleteMany of more than one key answer NotSupported.
func (b *Bucket) NoBulk(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noBulk = on
}

// Counts returns a copy of the counters.
func (b *Bucket) Counts() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.counts
	c.Calls = maps.Clone(b.counts.Calls)
	return c
}

// enter counts a call, waits at its gate and returns the fault that hits it, if any.
func (b *Bucket) enter(ctx context.Context, op Op, key blob.Key) (planned, error) {
	b.mu.Lock()
	b.counts.Calls[op]++
	call, gate := b.counts.Calls[op], b.gates[op]
	b.mu.Unlock()
	if gate != nil {
		if err := gate.pass(ctx, op, key); err != nil {
			return planned{}, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outage != blob.Other {
		return planned{}, fail(op, key, b.outage)
	}
	if op != Delete && b.keyFault != nil {
		if class, hit := b.keyFault(key); hit {
			return planned{}, fail(op, key, class)
		}
	}
	for i, p := range b.planned {
		if p.op != op || p.call != call {
			continue
		}
		b.planned = append(b.planned[:i:i], b.planned[i+1:]...)
		if p.panik {
			panic(ErrInjected)
		}
		if p.after || p.keep >= 0 {
			return p, nil
		}
		return p, fail(op, key, p.class)
	}
	return planned{keep: -1}, nil
}

// leave returns the error of a call whose answer is lost.
func (p planned) leave(key blob.Key, err error) error {
	if err == nil && p.after {
		return fail(p.op, key, p.class)
	}
	return err
}

// Open passes on to the inner bucket.
func (b *Bucket) Open(ctx context.Context, key blob.Key) (io.ReadCloser, blob.Info, error) {
	p, err := b.enter(ctx, Open, key)
	if err != nil {
		return nil, blob.Info{}, err
	}
	body, info, err := b.inner.Open(ctx, key)
	if lost := p.leave(key, err); lost != nil {
		if body != nil {
			_ = body.Close()
		}
		return nil, blob.Info{}, lost
	}
	return body, info, nil
}

// Put passes on to the inner bucket.
func (b *Bucket) Put(ctx context.Context, key blob.Key, body io.Reader) error {
	p, err := b.enter(ctx, Put, key)
	if err != nil {
		return err
	}
	return p.leave(key, b.inner.Put(ctx, key, body))
}

// Stat passes on to the inner bucket.
func (b *Bucket) Stat(ctx context.Context, key blob.Key) (blob.Info, error) {
	p, err := b.enter(ctx, Stat, key)
	if err != nil {
		return blob.Info{}, err
	}
	info, err := b.inner.Stat(ctx, key)
	return info, p.leave(key, err)
}

// List passes on to the inner bucket.
func (b *Bucket) List(ctx context.Context, prefix blob.Key, fn func(blob.Info) error) error {
	p, err := b.enter(ctx, List, prefix)
	if err != nil {
		return err
	}
	return p.leave(prefix, b.inner.List(ctx, prefix, fn))
}

// PruneDirs passes on to the inner bucket, where it is a DirPruner.
func (b *Bucket) PruneDirs(ctx context.Context, keys []blob.Key, top blob.Key) error {
	if pruner, ok := b.inner.(blob.DirPruner); ok {
		return pruner.PruneDirs(ctx, keys, top)
	}
	return nil
}

func fail(op Op, key blob.Key, class blob.Class) error {
	return &blob.Error{Op: string(op), Key: key, Class: class, Err: ErrInjected}
}
