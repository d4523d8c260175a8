package mem

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
)

var (
	_ blob.Ranger      = (*Bucket)(nil)
	_ blob.Multiparter = (*Bucket)(nil)

	errNoUpload = errors.New("no such upload")
	errPart     = errors.New("a part is not what was sent, or out of order")
	errSize     = errors.New("the body has another size")
)

// upload is one that is not complete.
type upload struct {
	key   blob.Key
	parts map[int][]byte
}

// OpenRange streams a part of an object, as it was at the time of the call.
func (b *Bucket) OpenRange(ctx context.Context, key blob.Key, offset, length int64) (io.ReadCloser, error) {
	o, err := b.get(ctx, "open", key)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(io.NewSectionReader(bytes.NewReader(o.data), offset, length)), nil
}

// MinPart is 1: memory takes any.
func (b *Bucket) MinPart() int64 { return 1 }

// Uploads returns how many uploads are not complete.
func (b *Bucket) Uploads() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.uploads)
}

// CreateMultipart begins an upload.
func (b *Bucket) CreateMultipart(ctx context.Context, key blob.Key) (string, error) {
	if ctx.Err() != nil {
		return "", fail("put", key, blob.Other, context.Cause(ctx))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	id := rand.Text()
	b.uploads[id] = &upload{key: key, parts: map[int][]byte{}}
	return id, nil
}

// PutPart takes a part.
func (b *Bucket) PutPart(ctx context.Context, key blob.Key, id string, number int, body io.Reader, size int64) (string, error) {
	data, err := io.ReadAll(body)
	if err == nil && int64(len(data)) != size {
		err = errSize
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return "", fail("put", key, blob.Other, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.uploads[id]
	if u == nil || u.key != key {
		return "", fail("put", key, blob.NotExist, errNoUpload)
	}
	u.parts[number] = data
	return tag(data), nil
}

func tag(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// CompleteMultipart makes the object.
func (b *Bucket) CompleteMultipart(ctx context.Context, key blob.Key, id string, parts []blob.PartRef) error {
	if ctx.Err() != nil {
		return fail("put", key, blob.Other, context.Cause(ctx))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.uploads[id]
	if u == nil || u.key != key {
		return fail("put", key, blob.NotExist, errNoUpload)
	}
	if _, taken := b.objects[key]; taken {
		return fail("put", key, blob.Exist, errTaken)
	}
	var whole []byte
	last := 0
	for _, p := range parts {
		data, sent := u.parts[p.Number]
		if !sent || p.Number <= last || tag(data) != p.Tag {
			return fail("put", key, blob.Other, errPart)
		}
		last = p.Number
		whole = append(whole, data...)
	}
	delete(b.uploads, id)
	b.objects[key] = object{data: whole, at: time.Now()}
	return nil
}

// AbortMultipart drops the uploads of a key.
func (b *Bucket) AbortMultipart(ctx context.Context, key blob.Key) error {
	if ctx.Err() != nil {
		return fail("abort", key, blob.Other, context.Cause(ctx))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, u := range b.uploads {
		if u.key == key {
			delete(b.uploads, id)
		}
	}
	return nil
}
