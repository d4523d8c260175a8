package catalog

import (
	"container/list"
	"sync"
)

// cacheKey names immutable metadata: a location alone could be registered, purged and
// written again.
type cacheKey struct{ uuid, location string }

// cache keeps parsed metadata, least recently used out first, bounded in bytes.
type cache struct {
	mu    sync.Mutex
	max   int64
	size  int64
	order *list.List // of *cacheEntry, most recent first
	items map[cacheKey]*list.Element
}

type cacheEntry struct {
	key cacheKey
	doc document
}

func newCache(limit int64) *cache {
	return &cache{max: limit, order: list.New(), items: map[cacheKey]*list.Element{}}
}

func (c *cache) get(k cacheKey) document {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[k]
	if !ok {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*cacheEntry).doc
}

func (c *cache) put(k cacheKey, t document) {
	if t.Size() > c.max/4 { // one giant must not push everything else out
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.items[k]; ok {
		return
	}
	c.items[k] = c.order.PushFront(&cacheEntry{key: k, doc: t})
	c.size += t.Size()
	for c.size > c.max {
		last := c.order.Back()
		entry := c.order.Remove(last).(*cacheEntry)
		delete(c.items, entry.key)
		c.size -= entry.doc.Size()
	}
}
