package s3_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.uber.org/goleak"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/blobtest"
	"github.com/lethe-project/lethe/internal/blob/s3"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "geheim-geheim-geheim"

// keys of the stores that a test starts itself.
var keys = credentials.NewStaticCredentialsProvider("tester", secret, "")

// open opens a bucket and closes it with the test.
func open(t *testing.T, cfg s3.Config) *s3.Bucket {
	t.Helper()
	b, err := s3.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// create makes a bucket with a name of its own in a store.
func create(t *testing.T, endpoint string, creds aws.CredentialsProvider, choose ...func(*awss3.CreateBucketInput)) string {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := awss3.New(awss3.Options{
		BaseEndpoint: &endpoint, UsePathStyle: true, Region: "us-east-1", Credentials: creds,
		HTTPClient: &http.Client{Transport: transport},
	})
	in := &awss3.CreateBucketInput{Bucket: aws.String("t-" + strings.ToLower(rand.Text()))}
	for _, f := range choose {
		f(in)
	}
	if _, err := client.CreateBucket(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return *in.Bucket
}

func fake(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(gofakes3.New(s3mem.New(), gofakes3.WithTimeSkewLimit(0)).Server())
	t.Cleanup(server.Close)
	return server.URL
}

func TestConformance(t *testing.T) {
	t.Parallel()
	endpoint := fake(t)
	for name, prefix := range map[string]string{"whole bucket": "", "below a prefix": "a#b c/%2F+ö"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blobtest.Run(t, func(t *testing.T) blob.Bucket {
				t.Helper()
				b := open(t, s3.Config{Bucket: create(t, endpoint, keys), Prefix: prefix, Endpoint: endpoint, Credentials: keys})
				neighbour(t, endpoint, b, prefix)
				return b
			}, blobtest.Caps{ByteKeys: true, ByteOrder: true, MaxKey: 1024 - len(prefix+"/"), TextKeys: true})
		})
	}
}

// gateway is the endpoint of a versitygw over a directory. Its credentials are those of
// the SDK's default chain, which is so tested as well.
func gateway(t *testing.T) string {
	t.Helper()
	endpoint := os.Getenv("LETHE_TEST_S3")
	if endpoint == "" {
		t.Skip("LETHE_TEST_S3 names no gateway")
	}
	return endpoint
}
