package server

import (
	"context"
	"errors"
	"io"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/local"
	"github.com/lethe-project/lethe/internal/blob/s3"
)

// Attributes of what a store is asked. Keys are names of tenants' files: how many they are
// says enough.
const (
	operationKey = attribute.Key("lethe.store.operation")
	keysKey      = attribute.Key("lethe.store.keys") // of a delete, or that a listing found
	failedKey    = attribute.Key("lethe.store.keys_failed")
)

// directory makes spans of what a directory is asked.
func (t *tracing) directory(b *local.Bucket) blob.Bucket {
	if t == nil {
		return b
	}
	return &tracedDirectory{tracedBucket{b, b, t.tracer, nil}, directoryRest{b}}
}

// s3 makes spans of what a bucket is asked.
func (t *tracing) s3(b *s3.Bucket, name string) blob.Bucket {
	if t == nil {
		return b
	}
	return &tracedS3{tracedBucket{b, b, t.tracer, []attribute.KeyValue{semconv.AWSS3Bucket(name)}}, s3Rest{b}}
}

// tracedDirectory and tracedS3 have everything that the bucket has: what is nearer hides
// what is below, which is the rest.
type (
	tracedDirectory struct {
		tracedBucket
		directoryRest
	}
	directoryRest struct{ *local.Bucket }

	tracedS3 struct {
		tracedBucket
		s3Rest
	}
	s3Rest struct{ *s3.Bucket }
)

// tracedBucket makes a client's span of each operation that belongs to a request, and of
// each bulk delete of a job: what a job reads is too much. A span ends with the answer;
// what is read of it afterwards is not in it.
type tracedBucket struct {
	bucket blob.Bucket
	ranger blob.Ranger
	tracer trace.Tracer
	about  []attribute.KeyValue
}

// ender ends a span, if there is one.
type ender func(err error, more ...attribute.KeyValue)

func noSpan(error, ...attribute.KeyValue) {}

// span begins one. Nothing below has spans, so its context is not passed on.
func (b *tracedBucket) span(ctx context.Context, operation string, always bool) ender {
	parent, ok := trace.SpanFromContext(ctx).(sdktrace.ReadOnlySpan)
	if !ok || !always && parent.SpanKind() != trace.SpanKindServer {
		return noSpan
	}
	_, span := b.tracer.Start(ctx, "store "+operation, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(b.about...), trace.WithAttributes(operationKey.String(operation)))
	return func(err error, more ...attribute.KeyValue) {
		span.SetAttributes(more...)
		if err != nil && !errors.Is(err, blob.ErrStop) {
			// Not the error itself, which names the key.
			class := blob.ClassOf(err)
			span.SetAttributes(semconv.ErrorTypeKey.String(class.String()))
			if class != blob.NotExist && class != blob.Exist { // which are answers
				span.SetStatus(codes.Error, class.String())
			}
		}
		span.End()
	}
}

// Open implements blob.Bucket.
func (b *tracedBucket) Open(ctx context.Context, key blob.Key) (io.ReadCloser, blob.Info, error) {
	end := b.span(ctx, "open", false)
	body, info, err := b.bucket.Open(ctx, key)
	end(err)
	return body, info, err
}

// OpenRange implements blob.Ranger.
func (b *tracedBucket) OpenRange(ctx context.Context, key blob.Key, offset, length int64) (io.ReadCloser, error) {
	end := b.span(ctx, "open", false)
	body, err := b.ranger.OpenRange(ctx, key, offset, length)
	end(err)
	return body, err
}

// Put implements blob.Bucket.
func (b *tracedBucket) Put(ctx context.Context, key blob.Key, body io.Reader) error {
	end := b.span(ctx, "put", false)
	err := b.bucket.Put(ctx, key, body)
	end(err)
	return err
}

// Stat implements blob.Bucket.
func (b *tracedBucket) Stat(ctx context.Context, key blob.Key) (blob.Info, error) {
	end := b.span(ctx, "stat", false)
	info, err := b.bucket.Stat(ctx, key)
	end(err)
	return info, err
}

// List implements blob.Bucket.
func (b *tracedBucket) List(ctx context.Context, prefix blob.Key, fn func(blob.Info) error) error {
	end := b.span(ctx, "list", false)
	keys := 0
	err := b.bucket.List(ctx, prefix, func(info blob.Info) error {
		keys++
		return fn(info)
	})
	end(err, keysKey.Int(keys))
	return err
}

// DeleteMany implements blob.Bucket.
func (b *tracedBucket) DeleteMany(ctx context.Context, keys []blob.Key) []blob.Result {
	end := b.span(ctx, "delete", true)
	results := b.bucket.DeleteMany(ctx, keys)
	failed := 0
	var err error // the first of them
	for _, r := range results {
		if r.Outcome == blob.Failed {
			failed++
			if err == nil {
				err = r.Err
			}
		}
	}
	end(err, keysKey.Int(len(keys)), failedKey.Int(failed))
	return results
}

// CreateMultipart implements blob.Multiparter.
func (b *tracedS3) CreateMultipart(ctx context.Context, key blob.Key) (string, error) {
	end := b.span(ctx, "multipart create", false)
	upload, err := b.s3Rest.CreateMultipart(ctx, key)
	end(err)
	return upload, err
}

// PutPart implements blob.Multiparter.
func (b *tracedS3) PutPart(ctx context.Context, key blob.Key, upload string, number int, body io.Reader, size int64) (string, error) {
	end := b.span(ctx, "multipart put", false)
	tag, err := b.s3Rest.PutPart(ctx, key, upload, number, body, size)
	end(err)
	return tag, err
}

// CompleteMultipart implements blob.Multiparter.
func (b *tracedS3) CompleteMultipart(ctx context.Context, key blob.Key, upload string, parts []blob.PartRef) error {
	end := b.span(ctx, "multipart complete", false)
	err := b.s3Rest.CompleteMultipart(ctx, key, upload, parts)
	end(err)
	return err
}

// AbortMultipart implements blob.Multiparter.
func (b *tracedS3) AbortMultipart(ctx context.Context, key blob.Key) error {
	end := b.span(ctx, "multipart abort", false)
	err := b.s3Rest.AbortMultipart(ctx, key)
	end(err)
	return err
}
