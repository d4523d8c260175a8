package s3_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/blobtest"
	"github.com/lethe-project/lethe/internal/blob/s3"
	"github.com/lethe-project/lethe/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

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
func create(t *testing.T, endpoint string, creds aws.CredentialsProvider) string {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := awss3.New(awss3.Options{
		BaseEndpoint: &endpoint, UsePathStyle: true, Region: "us-east-1", Credentials: creds,
		HTTPClient: &http.Client{Transport: transport},
	})
	name := "t-" + strings.ToLower(rand.Text())
	if _, err := client.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	return name
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
			caps := blobtest.Caps{ByteKeys: true, ByteOrder: true, TextKeys: true}
			if prefix != "" {
				caps.MaxKey = 1024 - len(prefix+"/")
			}
			blobtest.Run(t, func(t *testing.T) blob.Bucket {
				t.Helper()
				cfg := s3.Config{Bucket: create(t, endpoint, keys), Endpoint: endpoint, Credentials: keys}
				if prefix != "" { // no test may see what lies beside it
					if err := open(t, cfg).Put(t.Context(), blob.Key(prefix+"2/x"), strings.NewReader("x")); err != nil {
						t.Fatal(err)
					}
				}
				cfg.Prefix = prefix
				return open(t, cfg)
			}, caps)
		})
	}
}

// The gateway keeps objects as files: "//", "." and ".." are cleaned away or refused, a
// trailing slash is a directory without bytes, and invalid UTF-8 is listed as U+FFFD.
func TestGatewayConformance(t *testing.T) {
	t.Parallel()
	endpoint := gateway(t)
	blobtest.Run(t, func(t *testing.T) blob.Bucket {
		t.Helper()
		return open(t, s3.Config{Bucket: create(t, endpoint, environment{}), Endpoint: endpoint})
	}, blobtest.Caps{PathsOnly: true, TextKeys: true, MaxComponent: 255})
}

// gateway is the endpoint of a versitygw over a directory. The bucket takes its
// credentials from the SDK's default chain, which is so tested as well.
func gateway(t *testing.T) string {
	t.Helper()
	endpoint := os.Getenv("LETHE_TEST_S3")
	if endpoint == "" {
		t.Skip("LETHE_TEST_S3 names no gateway")
	}
	return endpoint
}

// environment has the gateway's credentials for the tests' own client.
type environment struct{}

func (environment) Retrieve(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY")}, nil
}

func TestNotes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name             string
		versioning, lock string
		want             []string
	}{
		{"plain bucket", "", "", nil},
		{"versions", "<Status>Enabled</Status>", "", []string{"keeps versions"}},
		{"versions no longer made", "<Status>Suspended</Status>", "", []string{"keeps versions"}},
		{"object lock", "<Status>Enabled</Status>", "<ObjectLockEnabled>Enabled</ObjectLockEnabled>", []string{"keeps versions", "object lock"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := open(t, stub(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Query().Has("versioning"):
					write(w, 200, "<VersioningConfiguration>"+test.versioning+"</VersioningConfiguration>")
				case r.URL.Query().Has("object-lock") && test.lock != "":
					write(w, 200, "<ObjectLockConfiguration>"+test.lock+"</ObjectLockConfiguration>")
				default:
					refuse(w, 404, "ObjectLockConfigurationNotFoundError")
				}
			}))
			got := b.Notes(t.Context())
			if len(got) != len(test.want) {
				t.Fatalf("notes %q, want %d", got, len(test.want))
			}
			for i, part := range test.want {
				if !strings.Contains(got[i], part) {
					t.Errorf("note %q, want one about %q", got[i], part)
				}
			}
		})
	}
}

// What is switched on later, or was not to be had when the server started, is said all the
// same; a store that is away changes nothing of what is known.
func TestNotesFollowTheBucket(t *testing.T) {
	t.Parallel()
	var versions, away atomic.Bool
	away.Store(true)
	b := open(t, stub(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case away.Load():
			refuse(w, 500, "InternalError")
		case r.URL.Query().Has("versioning") && versions.Load():
			write(w, 200, "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
		case r.URL.Query().Has("versioning"):
			write(w, 200, "<VersioningConfiguration></VersioningConfiguration>")
		default:
			refuse(w, 404, "ObjectLockConfigurationNotFoundError")
		}
	}))
	for i, step := range []struct {
		versions, away, later bool
		want                  int
	}{
		{versions: true, away: true, later: true, want: 0},
		{versions: true, want: 0}, // the store was away just now
		{versions: true, later: true, want: 1},
		{away: true, later: true, want: 1},
		{versions: false, want: 1},
		{versions: false, later: true, want: 0},
		{versions: true, want: 0}, // it was asked just now
	} {
		versions.Store(step.versions)
		away.Store(step.away)
		if step.later {
			b.LookAgain()
		}
		if got := b.Notes(t.Context()); len(got) != step.want {
			t.Errorf("step %d: notes %q, want %d", i, got, step.want)
		}
		if away := b.Trouble() != nil; step.later && away != step.away {
			t.Errorf("step %d: trouble %v", i, b.Trouble())
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	endpoint := fake(t)
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	for _, test := range []struct {
		name string
		cfg  s3.Config
		want string // part of the error; empty: it opens
	}{
		{"no such bucket", s3.Config{Bucket: "nobody-made-it", Endpoint: endpoint}, "no such bucket"},
		{"store out of reach", s3.Config{Bucket: "bucket", Endpoint: down.URL}, ""},
		{"user name in the endpoint", s3.Config{Bucket: "bucket", Endpoint: "http://me:" + secret + "@host"}, "endpoint"},
		{"no URL", s3.Config{Bucket: "bucket", Endpoint: "http://ho st:" + secret}, "endpoint"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.cfg.Credentials = keys
			b, err := s3.Open(t.Context(), test.cfg)
			if b != nil {
				t.Cleanup(func() { _ = b.Close() })
			}
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want an error about %q", err, test.want)
			case err != nil && strings.Contains(err.Error(), secret):
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestWhereItIs(t *testing.T) {
	t.Parallel()
	endpoint := fake(t)
	bucket := create(t, endpoint, keys)
	no := false
	for _, test := range []struct {
		name, region string
		pathStyle    *bool
		wantRegion   string
		wantPath     bool
	}{
		{"as an endpoint of one's own needs it", "", nil, "us-east-1", true},
		{"as told", "eu-central-1", &no, "eu-central-1", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := open(t, s3.Config{Bucket: bucket, Endpoint: endpoint, Region: test.region, PathStyle: test.pathStyle, Credentials: keys})
			if b.Region() != test.wantRegion || b.PathStyle() != test.wantPath || b.EndpointURL() != endpoint {
				t.Errorf("region %q, path style %t, endpoint %q", b.Region(), b.PathStyle(), b.EndpointURL())
			}
			if got, want := b.Endpoint(), endpoint+"/"+bucket; got != want {
				t.Errorf("pool endpoint %q, want %q: prefixes of a bucket share what is learned", got, want)
			}
		})
	}
}
