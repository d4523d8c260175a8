package content_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/s3"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// TestOnS3 uses a store's own uploads in parts, on the fake and on the gateway where there
// is one.
func TestOnS3(t *testing.T) {
	t.Parallel()
	fake := httptest.NewServer(gofakes3.New(s3mem.New(), gofakes3.WithTimeSkewLimit(0)).Server())
	t.Cleanup(fake.Close)
	for name, endpoint := range map[string]string{"fake": fake.URL, "gateway": os.Getenv("LETHE_TEST_S3")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if endpoint == "" {
				t.Skip("LETHE_TEST_S3 names no gateway")
			}
			keys := credentials.NewStaticCredentialsProvider("tester", "secret-secret", "")
			if name == "gateway" {
				keys = credentials.NewStaticCredentialsProvider(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), "")
			}
			bucket, client := openS3(t, endpoint, keys)
			db := sqldbtest.Server{Name: sqldb.SQLite}.Open(t, sqldb.Config{}, content.Migrations)
			e := newEnv(t, db, bucket, nil)
			onS3(t, e, func() int {
				out, err := client.ListMultipartUploads(t.Context(), &awss3.ListMultipartUploadsInput{Bucket: aws.String(bucketOf(bucket))})
				e.must(err)
				return len(out.Uploads)
			})
		})
	}
}

func onS3(t *testing.T, e *env, atStore func() int) {
	t.Helper()
	first, second := noise(5<<20), noise(100)
	u := e.initiate(5, 0)
	e.must(e.part(u, 2, second))
	e.must(e.part(u, 1, noise(5<<20+1)))
	e.must(e.part(u, 1, first))
	_, err := e.complete(u, content.CompleteOptions{})
	e.must(err)
	p, err := e.complete(u, content.CompleteOptions{}) // the answer was lost, say
	e.must(err)
	e.must(e.commit(p, 1))
	e.wantBytes(p.ID, append(first, second...))
	got, err := e.read(p.ID, 5<<20-2, 4)
	e.must(err)
	want(t, "range", got, append(first[5<<20-2:], second[:2]...))

	tiny := e.initiate(5, 0)
	e.must(e.part(tiny, 1, noise(100)))
	e.must(e.part(tiny, 2, noise(100)))
	_, err = e.complete(tiny, content.CompleteOptions{})
	wantCode(t, err, fault.Unprocessable, content.CodePartTooSmall)
	_, err = e.store.Prepare(t.Context(), one)
	e.must(err)
	want(t, "uploads at the store", atStore(), 2)
	_, err = e.abort(tiny)
	e.must(err)
	e.settle()
	want(t, "uploads at the store", atStore(), 0)
	want(t, "objects", e.objects(), 1)
	e.must(e.unref(map[int64]int64{p.ID: 1}))
	e.settle()
	want(t, "objects", e.objects(), 0)
}

func openS3(t *testing.T, endpoint string, keys aws.CredentialsProvider) (*s3.Bucket, *awss3.Client) {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := awss3.New(awss3.Options{
		BaseEndpoint: &endpoint, UsePathStyle: true, Region: "us-east-1", Credentials: keys,
		HTTPClient: &http.Client{Transport: transport},
	})
	name := "t-" + strings.ToLower(rand.Text())
	if _, err := client.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	b, err := s3.Open(context.WithoutCancel(t.Context()), s3.Config{Bucket: name, Endpoint: endpoint, Credentials: keys})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b, client
}

// bucketOf returns the name of the bucket within its store.
func bucketOf(b blob.Bucket) string {
	at := b.(*s3.Bucket).Endpoint()
	return at[strings.LastIndexByte(at, '/')+1:]
}
