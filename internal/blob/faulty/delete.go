package faulty

import (
	"context"

	"github.com/lethe-project/lethe/internal/blob"
)

// DeleteMany deletes the keys that no fault hits; each of the others has its error.
func (b *Bucket) DeleteMany(ctx context.Context, keys []blob.Key) []blob.Result {
	b.arrive(len(keys))
	defer b.depart()
	p, err := b.enter(ctx, Delete, "")
	if err != nil {
		return failAll(keys, blob.ClassOf(err), err)
	}
	results := make([]blob.Result, len(keys))
	var sent []blob.Key
	var at []int
	for i, key := range keys {
		results[i].Key = key
		class, hit := b.hits(key, len(keys))
		if !hit && p.keep >= 0 && i >= p.keep {
			class, hit = p.class, true
		}
		if hit {
			results[i].Err = fail(Delete, key, class)
			continue
		}
		sent, at = append(sent, key), append(at, i)
	}
	if len(sent) > 0 {
		for i, r := range b.inner.DeleteMany(ctx, sent) {
			results[at[i]] = r
		}
	}
	if p.after {
		return failAll(keys, p.class, ErrInjected)
	}
	return results
}

// hits decides whether a key of a request with n keys fails.
func (b *Bucket) hits(key blob.Key, n int) (blob.Class, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noBulk && n > 1 {
		return blob.NotSupported, true
	}
	if b.keyFault != nil {
		if class, hit := b.keyFault(key); hit {
			return class, true
		}
	}
	return blob.Other, b.fraction > 0 && b.random.Float64() < b.fraction
}

func (b *Bucket) arrive(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deleting++
	b.counts.DeleteKeys += n
	b.counts.MaxBatch = max(b.counts.MaxBatch, n)
	b.counts.MaxDeletes = max(b.counts.MaxDeletes, b.deleting)
}

func (b *Bucket) depart() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deleting--
}

func failAll(keys []blob.Key, class blob.Class, err error) []blob.Result {
	results := make([]blob.Result, len(keys))
	for i, key := range keys {
		results[i] = blob.Result{Key: key, Err: &blob.Error{Op: string(Delete), Key: key, Class: class, Err: err}}
	}
	return results
}
