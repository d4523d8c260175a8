package faulty

import (
	"context"
	"io"

	"github.com/lethe-project/lethe/internal/blob"
)

// The methods of blob.Multiparter; OpenRange is an Open.
const (
	Create   Op = "create"
	PutPart  Op = "part"
	Complete Op = "complete"
	Abort    Op = "abort"
)

var (
	_ blob.Ranger      = (*Bucket)(nil)
	_ blob.Multiparter = (*Bucket)(nil)
)

// multiparter is the inner bucket where it is one.
func (b *Bucket) multiparter(op Op, key blob.Key) (blob.Multiparter, error) {
	if inner, ok := b.inner.(blob.Multiparter); ok {
		return inner, nil
	}
	return nil, fail(op, key, blob.NotSupported)
}

// OpenRange passes on to the inner bucket, where it is a Ranger.
func (b *Bucket) OpenRange(ctx context.Context, key blob.Key, offset, length int64) (io.ReadCloser, error) {
	inner, ok := b.inner.(blob.Ranger)
	if !ok {
		return nil, fail(Open, key, blob.NotSupported)
	}
	p, err := b.enter(ctx, Open, key)
	if err != nil {
		return nil, err
	}
	body, err := inner.OpenRange(ctx, key, offset, length)
	if lost := p.leave(key, err); lost != nil {
		if body != nil {
			_ = body.Close()
		}
		return nil, lost
	}
	return body, nil
}

// MinPart is the inner bucket's, where it is a Multiparter.
func (b *Bucket) MinPart() int64 {
	if inner, ok := b.inner.(blob.Multiparter); ok {
		return inner.MinPart()
	}
	return 0
}

// CreateMultipart passes on to the inner bucket.
func (b *Bucket) CreateMultipart(ctx context.Context, key blob.Key) (string, error) {
	inner, err := b.multiparter(Create, key)
	if err != nil {
		return "", err
	}
	p, err := b.enter(ctx, Create, key)
	if err != nil {
		return "", err
	}
	id, err := inner.CreateMultipart(ctx, key)
	return id, p.leave(key, err)
}

// PutPart passes on to the inner bucket.
func (b *Bucket) PutPart(ctx context.Context, key blob.Key, upload string, number int, body io.Reader, size int64) (string, error) {
	inner, err := b.multiparter(PutPart, key)
	if err != nil {
		return "", err
	}
	p, err := b.enter(ctx, PutPart, key)
	if err != nil {
		return "", err
	}
	tag, err := inner.PutPart(ctx, key, upload, number, body, size)
	return tag, p.leave(key, err)
}

// CompleteMultipart passes on to the inner bucket.
func (b *Bucket) CompleteMultipart(ctx context.Context, key blob.Key, upload string, parts []blob.PartRef) error {
	inner, err := b.multiparter(Complete, key)
	if err != nil {
		return err
	}
	p, err := b.enter(ctx, Complete, key)
	if err != nil {
		return err
	}
	return p.leave(key, inner.CompleteMultipart(ctx, key, upload, parts))
}

// AbortMultipart passes on to the inner bucket; one that is no Multiparter has nothing to
// abort.
func (b *Bucket) AbortMultipart(ctx context.Context, key blob.Key) error {
	inner, ok := b.inner.(blob.Multiparter)
	if !ok {
		return nil
	}
	p, err := b.enter(ctx, Abort, key)
	if err != nil {
		return err
	}
	return p.leave(key, inner.AbortMultipart(ctx, key))
}
