package s3

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/lethe-project/lethe/internal/blob"
)

// minPart is what S3 asks of every part but the last, in bytes.
const minPart = 5 << 20

var errNoEnd = errors.New("the listing of uploads has no end")

// MinPart is 5 MiB.
func (b *Bucket) MinPart() int64 { return minPart }

// CreateMultipart begins an upload.
func (b *Bucket) CreateMultipart(ctx context.Context, key blob.Key) (string, error) {
	name, ok := b.name(key)
	if !ok {
		return "", failed("put", key, blob.Invalid, errNoName)
	}
	return b.begin(ctx, key, name)
}

// PutPart streams a part. Its bytes are not in the request's signature, which would need
// all of them first; who cares reads the object back.
func (b *Bucket) PutPart(ctx context.Context, key blob.Key, upload string, number int, body io.Reader, size int64) (string, error) {
	name, ok := b.name(key)
	if !ok {
		return "", failed("put", key, blob.Invalid, errNoName)
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(b.cfg.Timeout, func() { cancel(errStalled) })
	defer silent.Stop()
	out, err := b.client.UploadPart(inner, &awss3.UploadPartInput{
		Bucket: &b.cfg.Bucket, Key: &name, UploadId: &upload,
		PartNumber:    aws.Int32(int32(number)), //nolint:gosec // at most 10,000
		Body:          &patient{body: body, silent: silent, limit: b.cfg.Timeout},
		ContentLength: &size,
	}, awss3.WithAPIOptions(v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware))
	if err != nil {
		return "", fail(ctx, "put", key, err)
	}
	return aws.ToString(out.ETag), nil
}

// patient waits for its source as long as that takes; silent runs while the store does not
// take what was read, or does not answer.
type patient struct {
	body   io.Reader
	silent *time.Timer
	limit  time.Duration
}

func (p *patient) Read(buf []byte) (int, error) {
	p.silent.Stop()
	n, err := p.body.Read(buf)
	p.silent.Reset(p.limit)
	return n, err
}

// CompleteMultipart makes the object.
func (b *Bucket) CompleteMultipart(ctx context.Context, key blob.Key, upload string, parts []blob.PartRef) error {
	name, ok := b.name(key)
	if !ok {
		return failed("put", key, blob.Invalid, errNoName)
	}
	sent := make([]types.CompletedPart, len(parts))
	for i, p := range parts {
		sent[i] = types.CompletedPart{ETag: aws.String(p.Tag), PartNumber: aws.Int32(int32(p.Number))} //nolint:gosec // at most 10,000
	}
	inner, cancel := context.WithTimeout(ctx, uploadTimes*b.cfg.Timeout)
	defer cancel()
	_, err := b.client.CompleteMultipartUpload(inner, &awss3.CompleteMultipartUploadInput{
		Bucket: &b.cfg.Bucket, Key: &name, UploadId: &upload, IfNoneMatch: ifAbsent,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: sent},
	})
	if err != nil {
		return fail(ctx, "put", key, err)
	}
	return nil
}

// AbortMultipart asks for the uploads of the key and aborts each.
func (b *Bucket) AbortMultipart(ctx context.Context, key blob.Key) error {
	name, ok := b.name(key)
	if !ok {
		return nil
	}
	in := &awss3.ListMultipartUploadsInput{Bucket: &b.cfg.Bucket, Prefix: &name}
	for range maxParts {
		out, err := b.uploads(ctx, in)
		if err != nil {
			return fail(ctx, "list", key, err)
		}
		for _, u := range out.Uploads {
			if aws.ToString(u.Key) != name {
				continue
			}
			if err := b.abortOne(ctx, key, name, aws.ToString(u.UploadId)); err != nil && !blob.IsNotExist(err) {
				return err
			}
		}
		if !aws.ToBool(out.IsTruncated) {
			return nil
		}
		in.KeyMarker, in.UploadIdMarker = out.NextKeyMarker, out.NextUploadIdMarker
	}
	return failed("list", key, blob.Other, errNoEnd)
}

func (b *Bucket) uploads(ctx context.Context, in *awss3.ListMultipartUploadsInput) (*awss3.ListMultipartUploadsOutput, error) {
	ctx, cancel := b.limited(ctx)
	defer cancel()
	return b.client.ListMultipartUploads(ctx, in, b.retry)
}

func (b *Bucket) abortOne(ctx context.Context, key blob.Key, name, id string) error {
	inner, cancel := b.limited(ctx)
	defer cancel()
	_, err := b.client.AbortMultipartUpload(inner, &awss3.AbortMultipartUploadInput{Bucket: &b.cfg.Bucket, Key: &name, UploadId: &id}, b.retry)
	if err != nil {
		return fail(ctx, "abort", key, err)
	}
	return nil
}
