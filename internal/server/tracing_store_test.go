package server

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/blobtest"
	"github.com/lethe-project/lethe/internal/blob/deletepool"
	"github.com/lethe-project/lethe/internal/blob/local"
	"github.com/lethe-project/lethe/internal/blob/s3"
)

// recorder is a tracing whose spans are kept here.
func recorder() (*tracing, *tracetest.SpanRecorder) {
	seen := tracetest.NewSpanRecorder()
	return &tracing{tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(seen)).Tracer("test")}, seen
}

func directoryBucket(t *testing.T, tr *tracing) blob.Bucket {
	t.Helper()
	b, err := local.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return tr.directory(b)
}

func s3Bucket(t *testing.T, tr *tracing) blob.Bucket {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("lake"); err != nil {
		t.Fatal(err)
	}
	store := httptest.NewServer(gofakes3.New(backend, gofakes3.WithTimeSkewLimit(0)).Server())
	t.Cleanup(store.Close)
	b, err := s3.Open(t.Context(), s3.Config{
		Bucket: "lake", Endpoint: store.URL, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("tester", "geheim-geheim", ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return tr.s3(b, "lake")
}

// A bucket with spans does what it does without, and is asked for the same abilities.
func TestTracedBuckets(t *testing.T) {
	t.Parallel()
	tr, _ := recorder()
	for name, store := range map[string]struct {
		open func(*testing.T, *tracing) blob.Bucket
		caps blobtest.Caps
	}{
		"directory": {directoryBucket, blobtest.Caps{TellsMissing: true, MaxComponent: 255}},
		"s3":        {s3Bucket, blobtest.Caps{ByteKeys: true, ByteOrder: true, TextKeys: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blobtest.Run(t, func(t *testing.T) blob.Bucket {
				t.Helper()
				return store.open(t, tr)
			}, store.caps)
			if diff := cmp.Diff(abilities(store.open(t, nil)), abilities(store.open(t, tr))); diff != "" {
				t.Errorf("abilities (-bare +traced):\n%s", diff)
			}
		})
	}
}

func abilities(b blob.Bucket) map[string]bool {
	can := map[string]bool{}
	_, can["prune"] = b.(blob.DirPruner)
	_, can["mark"] = b.(blob.Marked)
	_, can["note"] = b.(blob.Noter)
	_, can["range"] = b.(blob.Ranger)
	_, can["multipart"] = b.(blob.Multiparter)
	_, can["endpoint"] = b.(deletepool.Endpointer)
	return can
}

// What a request asks of a store is in its trace, of a job the deletes; never a name.
func TestStoreSpans(t *testing.T) {
	t.Parallel()
	const key, other = blob.Key("nobody-knows-it"), blob.Key("nor-this")
	ask := func(t *testing.T, ctx context.Context, b blob.Bucket) {
		t.Helper()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		must(b.Put(ctx, key, strings.NewReader("x")))
		if err := b.Put(ctx, key, strings.NewReader("y")); blob.ClassOf(err) != blob.Exist {
			t.Errorf("over another: %v", err)
		}
		_, err := b.Stat(ctx, key)
		must(err)
		if _, err = b.Stat(ctx, other); !blob.IsNotExist(err) {
			t.Errorf("missing: %v", err)
		}
		body, _, err := b.Open(ctx, key)
		must(err)
		must(body.Close())
		body, err = b.(blob.Ranger).OpenRange(ctx, key, 0, 1)
		must(err)
		must(body.Close())
		must(b.List(ctx, "", func(blob.Info) error { return blob.ErrStop }))
		for _, r := range b.DeleteMany(ctx, []blob.Key{key, other}) {
			must(r.Err)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if r := b.DeleteMany(gone, []blob.Key{key}); r[0].Outcome != blob.Failed {
			t.Errorf("cancelled: %v", r)
		}
		if parts, ok := b.(blob.Multiparter); ok {
			upload, err := parts.CreateMultipart(ctx, key)
			must(err)
			_, err = parts.PutPart(ctx, key, upload, 1, strings.NewReader("x"), 1)
			must(err)
			must(parts.AbortMultipart(ctx, key))
		}
	}
	deletes := []string{"delete keys=2 failed=0", "delete keys=1 failed=1 error"}
	requests := append([]string{"put", "put", "stat", "stat", "open", "open", "list keys=1"}, deletes...)
	for name, tt := range map[string]struct {
		open func(*testing.T, *tracing) blob.Bucket
		kind trace.SpanKind
		want []string
	}{
		"directory, request": {directoryBucket, trace.SpanKindServer, requests},
		"directory, job":     {directoryBucket, trace.SpanKindInternal, deletes},
		"s3, request":        {s3Bucket, trace.SpanKindServer, append(requests, "multipart create", "multipart put", "multipart abort")},
		"s3, job":            {s3Bucket, trace.SpanKindInternal, deletes},
		"s3, neither":        {s3Bucket, trace.SpanKindUnspecified, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr, seen := recorder()
			b := tt.open(t, tr)
			ctx := t.Context()
			var parent trace.Span
			if tt.kind != trace.SpanKindUnspecified {
				ctx, parent = tr.tracer.Start(ctx, "parent", trace.WithSpanKind(tt.kind))
			}
			ask(t, ctx, b)
			var got []string
			for _, span := range seen.Ended() {
				got = append(got, sketch(span))
				if span.SpanKind() != trace.SpanKindClient || span.Parent().SpanID() != parent.SpanContext().SpanID() {
					t.Errorf("%s: kind %s, parent %s", span.Name(), span.SpanKind(), span.Parent().SpanID())
				}
				if text := fmt.Sprint(span.Name(), span.Attributes(), span.Status(), span.Events()); strings.Contains(text, string(key)) || strings.Contains(text, string(other)) {
					t.Errorf("a name is shown: %s", text)
				}
				if on := attribute.NewSet(span.Attributes()...); strings.HasPrefix(name, "s3") {
					if bucket, _ := on.Value("aws.s3.bucket"); bucket.AsString() != "lake" {
						t.Errorf("%s: bucket %q", span.Name(), bucket.AsString())
					}
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("spans (-want +got):\n%s", diff)
			}
		})
	}
}

// sketch is a span in a few words.
func sketch(span sdktrace.ReadOnlySpan) string {
	set := attribute.NewSet(span.Attributes()...)
	operation, _ := set.Value(operationKey)
	text := operation.AsString()
	if span.Name() != "store "+text {
		text = span.Name()
	}
	if keys, ok := set.Value(keysKey); ok {
		text += fmt.Sprintf(" keys=%d", keys.AsInt64())
	}
	if failed, ok := set.Value(failedKey); ok {
		text += fmt.Sprintf(" failed=%d", failed.AsInt64())
	}
	if span.Status().Code != 0 {
		text += " " + strings.ToLower(span.Status().Code.String())
	}
	return text
}

// Without tracing a bucket is the very one that was opened.
func TestUntracedBucket(t *testing.T) {
	t.Parallel()
	if _, ok := directoryBucket(t, nil).(*local.Bucket); !ok {
		t.Error("a directory is wrapped")
	}
	if _, ok := s3Bucket(t, nil).(*s3.Bucket); !ok {
		t.Error("a bucket is wrapped")
	}
}
