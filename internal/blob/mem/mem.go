// Package mem is a Bucket in memory, for tests and benchmarks. It behaves like an
// object store: keys are bytes, listings are in their order, and every call is atomic.
//
// Failure model: none of its own, apart from keys that an object store cannot hold.
// Wrap it with package faulty for trouble.
package mem

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
)

// maxKey is the longest key in bytes, as in S3.
const maxKey = 1024

var (
	errMissing = errors.New("no such object")
	errTaken   = errors.New("object exists")
	errKey     = errors.New("a key has 1 to 1,024 bytes and no NUL")
)

// Bucket is a map of keys to bytes. It implements blob.Bucket.
type Bucket struct {
	mu      sync.RWMutex
	objects map[blob.Key]object
	uploads map[string]*upload
}

type object struct {
	data []byte // never changed once stored
	at   time.Time
}

var _ blob.Bucket = (*Bucket)(nil)

// New returns an empty bucket.
func New() *Bucket {
	return &Bucket{objects: make(map[blob.Key]object), uploads: make(map[string]*upload)}
}

// Len returns the number of objects.
func (b *Bucket) Len() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.objects)
}

// Keys returns all keys in byte order.
func (b *Bucket) Keys() []blob.Key {
	infos := b.snapshot("")
	keys := make([]blob.Key, len(infos))
	for i, info := range infos {
		keys[i] = info.Key
	}
	return keys
}

// Open streams an object, as it was at the time of the call.
func (b *Bucket) Open(ctx context.Context, key blob.Key) (io.ReadCloser, blob.Info, error) {
	o, err := b.get(ctx, "open", key)
	if err != nil {
		return nil, blob.Info{}, err
	}
	return io.NopCloser(bytes.NewReader(o.data)), o.info(key), nil
}

// Stat describes an object.
func (b *Bucket) Stat(ctx context.Context, key blob.Key) (blob.Info, error) {
	o, err := b.get(ctx, "stat", key)
	if err != nil {
		return blob.Info{}, err
	}
	return o.info(key), nil
}

func (b *Bucket) get(ctx context.Context, op string, key blob.Key) (object, error) {
	if ctx.Err() != nil {
		return object{}, fail(op, key, blob.Other, context.Cause(ctx))
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	o, ok := b.objects[key]
	if !ok {
		return object{}, fail(op, key, blob.NotExist, errMissing)
	}
	return o, nil
}

func (o object) info(key blob.Key) blob.Info {
	return blob.Info{Key: key, Size: int64(len(o.data)), ModTime: o.at}
}

// Put creates an object.
func (b *Bucket) Put(ctx context.Context, key blob.Key, body io.Reader) error {
	if key == "" || len(key) > maxKey || strings.IndexByte(string(key), 0) >= 0 {
		return fail("put", key, blob.Invalid, errKey)
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return fail("put", key, blob.Other, err)
	}
	if ctx.Err() != nil {
		return fail("put", key, blob.Other, context.Cause(ctx))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, taken := b.objects[key]; taken {
		return fail("put", key, blob.Exist, errTaken)
	}
	b.objects[key] = object{data: data, at: time.Now()}
	return nil
}

// List calls fn for the objects that existed at the time of the call.
func (b *Bucket) List(ctx context.Context, prefix blob.Key, fn func(blob.Info) error) error {
	for _, info := range b.snapshot(prefix) {
		if ctx.Err() != nil {
			return fail("list", prefix, blob.Other, context.Cause(ctx))
		}
		if err := fn(info); err != nil {
			if errors.Is(err, blob.ErrStop) {
				return nil
			}
			return err
		}
	}
	return nil
}

func (b *Bucket) snapshot(prefix blob.Key) []blob.Info {
	b.mu.RLock()
	var infos []blob.Info
	for key, o := range b.objects {
		if strings.HasPrefix(string(key), string(prefix)) {
			infos = append(infos, o.info(key))
		}
	}
	b.mu.RUnlock()
	slices.SortFunc(infos, func(x, y blob.Info) int { return strings.Compare(string(x.Key), string(y.Key)) })
	return infos
}

// DeleteMany deletes keys, telling missing ones apart.
func (b *Bucket) DeleteMany(ctx context.Context, keys []blob.Key) []blob.Result {
	results := make([]blob.Result, len(keys))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, key := range keys {
		results[i] = blob.Result{Key: key, Outcome: blob.Missing}
		if ctx.Err() != nil {
			results[i].Outcome = blob.Failed
			results[i].Err = fail("delete", key, blob.Other, context.Cause(ctx))
			continue
		}
		if _, ok := b.objects[key]; ok {
			delete(b.objects, key)
			results[i].Outcome = blob.Deleted
		}
	}
	return results
}

func fail(op string, key blob.Key, class blob.Class, err error) error {
	return &blob.Error{Op: op, Key: key, Class: class, Err: err}
}
