package s3

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/lethe-project/lethe/internal/blob"
)

const (
	partSize    = 16 << 20 // bytes held in memory for one Put
	maxParts    = 10_000   // of S3: a body may have 156 GiB
	uploadTimes = 5        // a part may take so much longer than a request
)

var (
	ifAbsent   = aws.String("*")
	errTooLong = errors.New("the body is longer than 10,000 parts of 16 MiB")
)

// Put creates an object: in one request when it fits into a part.
func (b *Bucket) Put(ctx context.Context, key blob.Key, body io.Reader) error {
	name, ok := b.name(key)
	if !ok {
		return failed("put", key, blob.Invalid, errNoName)
	}
	var part bytes.Buffer
	n, err := io.CopyN(&part, body, partSize)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return failed("put", key, blob.Other, err)
	case n < partSize:
		return b.putWhole(ctx, key, name, part.Bytes())
	}
	return b.putParts(ctx, key, name, &part, body)
}

func (b *Bucket) putWhole(ctx context.Context, key blob.Key, name string, body []byte) error {
	inner, cancel := context.WithTimeout(ctx, uploadTimes*b.cfg.Timeout)
	defer cancel()
	_, err := b.client.PutObject(inner, &awss3.PutObjectInput{
		Bucket: &b.cfg.Bucket, Key: &name, IfNoneMatch: ifAbsent,
		Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))),
	})
	if err != nil {
		return fail(ctx, "put", key, err)
	}
	return nil
}

// putParts sends a long body, of which the first part was read.
func (b *Bucket) putParts(ctx context.Context, key blob.Key, name string, part *bytes.Buffer, body io.Reader) (err error) {
	if _, err := b.Stat(ctx, key); err == nil {
		return failed("put", key, blob.Exist, errTaken)
	} else if !blob.IsNotExist(err) {
		return failed("put", key, blob.ClassOf(err), err)
	}
	id, err := b.begin(ctx, key, name)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			b.abort(ctx, name, id)
		}
	}()
	var sent []types.CompletedPart
	for part.Len() > 0 {
		if len(sent) == maxParts {
			return failed("put", key, blob.Invalid, errTooLong)
		}
		done, err := b.sendPart(ctx, key, &awss3.UploadPartInput{
			Bucket: &b.cfg.Bucket, Key: &name, UploadId: &id,
			PartNumber: aws.Int32(int32(len(sent) + 1)), //nolint:gosec // at most maxParts
			Body:       bytes.NewReader(part.Bytes()), ContentLength: aws.Int64(int64(part.Len())),
		})
		if err != nil {
			return err
		}
		sent = append(sent, done)
		part.Reset()
		if _, err := io.CopyN(part, body, partSize); err != nil && !errors.Is(err, io.EOF) {
			return failed("put", key, blob.Other, err)
		}
	}
	inner, cancel := context.WithTimeout(ctx, uploadTimes*b.cfg.Timeout)
	defer cancel()
	_, err = b.client.CompleteMultipartUpload(inner, &awss3.CompleteMultipartUploadInput{
		Bucket: &b.cfg.Bucket, Key: &name, UploadId: &id, IfNoneMatch: ifAbsent,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: sent},
	})
	if err != nil {
		return fail(ctx, "put", key, err)
	}
	return nil
}

func (b *Bucket) begin(ctx context.Context, key blob.Key, name string) (id string, err error) {
	inner, cancel := b.limited(ctx)
	defer cancel()
	out, err := b.client.CreateMultipartUpload(inner, &awss3.CreateMultipartUploadInput{Bucket: &b.cfg.Bucket, Key: &name})
	if err != nil {
		return "", fail(ctx, "put", key, err)
	}
	return aws.ToString(out.UploadId), nil
}

// sendPart sends a part. The same part may be sent twice, so it is repeated as reads are.
func (b *Bucket) sendPart(ctx context.Context, key blob.Key, in *awss3.UploadPartInput) (types.CompletedPart, error) {
	inner, cancel := context.WithTimeout(ctx, uploadTimes*b.cfg.Timeout)
	defer cancel()
	out, err := b.client.UploadPart(inner, in, b.retry)
	if err != nil {
		return types.CompletedPart{}, fail(ctx, "put", key, err)
	}
	return types.CompletedPart{ETag: out.ETag, PartNumber: in.PartNumber}, nil
}

// abort frees the parts, also when ctx has ended. Where it fails, the bucket's lifecycle
// rule for incomplete uploads has to.
func (b *Bucket) abort(ctx context.Context, name, id string) {
	ctx, cancel := b.limited(context.WithoutCancel(ctx))
	defer cancel()
	_, _ = b.client.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{Bucket: &b.cfg.Bucket, Key: &name, UploadId: &id}, b.retry)
}
