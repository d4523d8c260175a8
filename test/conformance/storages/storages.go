// Package storages gives the conformance tests the places where a server under test
// keeps its tables: the local disk, with every database, and a bucket of an S3 gateway,
// with those databases that several servers share. The gateway is the one that
// LETHE_TEST_S3 names (`make test` starts it); with CI=true it must be there.
//
// A server is told the bucket and its endpoint; clients are told by the server. Both have
// credentials from their own environment, by the AWS SDK's names.
package storages

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/proc"
)

// Env names the gateway: http://host:port.
const Env = "LETHE_TEST_S3"

const region = "us-east-1"

// Place is a database and a storage for one server.
type Place struct {
	Name     string // for the subtest, such as postgres or postgres-s3
	Database sqldbtest.Server
	s3       bool
}

// All returns every place that can be tested here.
func All(t *testing.T) []Place {
	t.Helper()
	var all []Place
	gateway := os.Getenv(Env) != ""
	if !gateway && os.Getenv("CI") == "true" {
		t.Fatalf("%s is not set: it must be tested in CI", Env)
	}
	for _, db := range sqldbtest.Servers(t) {
		all = append(all, Place{Name: db.String(), Database: db})
		switch {
		case db.Name == sqldb.SQLite: // one server, on one machine: its tables lie there too
		case gateway:
			all = append(all, Place{Name: db.String() + "-s3", Database: db, s3: true})
		default:
			t.Logf("not run on %s with S3: %s is not set", db, Env)
		}
	}
	return all
}

// Storage is where a running server keeps its tables.
type Storage struct {
	Root   string // its URI, without a slash at the end
	client *awss3.Client
	bucket string // empty on the local disk
}

// Start starts a server on an empty database and an empty storage.
func (p Place) Start(t *testing.T, args ...string) (*proc.Server, *Storage) {
	t.Helper()
	if !p.s3 {
		server := proc.Start(t, proc.Options{Database: p.Database.URL(t), Args: args})
		return server, &Storage{Root: "file://" + server.Warehouse()}
	}
	endpoint := os.Getenv(Env)
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRegion(region), config.WithBaseEndpoint(endpoint))
	if err != nil {
		t.Fatal(err)
	}
	s := &Storage{
		client: awss3.NewFromConfig(cfg, func(o *awss3.Options) { o.UsePathStyle = true }),
		bucket: "conformance-" + uuid.NewString(),
	}
	s.Root = "s3://" + s.bucket + "/tables"
	if _, err := s.client.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &s.bucket}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.remove(t) })
	where := s.Root + "?region=" + region + "&path-style=true&endpoint=" + url.QueryEscape(endpoint)
	return proc.Start(t, proc.Options{Database: p.Database.URL(t), Args: append(args, "--storage", where)}), s
}

// Files returns the files below a location, each URI with its bytes.
func (s *Storage) Files(t *testing.T, location string) map[string]string {
	t.Helper()
	found := map[string]string{}
	if s.bucket == "" {
		err := filepath.WalkDir(path(t, location), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			found["file://"+path] = string(content)
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return found
	}
	for _, key := range s.list(t.Context(), t, s.key(t, location)+"/") {
		out, err := s.client.GetObject(t.Context(), &awss3.GetObjectInput{Bucket: &s.bucket, Key: &key})
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		_, err = io.Copy(&body, out.Body)
		if err = errors.Join(err, out.Body.Close()); err != nil {
			t.Fatal(err)
		}
		found["s3://"+s.bucket+"/"+key] = body.String()
	}
	return found
}

// Gone reports whether nothing is left at a location, no directory either.
func (s *Storage) Gone(t *testing.T, location string) bool {
	t.Helper()
	if s.bucket == "" {
		_, err := os.Stat(path(t, location))
		return errors.Is(err, fs.ErrNotExist)
	}
	return len(s.list(t.Context(), t, s.key(t, location))) == 0
}

func path(t *testing.T, location string) string {
	t.Helper()
	path, ok := strings.CutPrefix(location, "file://")
	if !ok {
		t.Fatalf("location %q is not on the local disk", location)
	}
	return path
}

func (s *Storage) key(t *testing.T, location string) string {
	t.Helper()
	key, ok := strings.CutPrefix(location, "s3://"+s.bucket+"/")
	if !ok {
		t.Fatalf("location %q is not in the bucket %s", location, s.bucket)
	}
	return key
}

func (s *Storage) list(ctx context.Context, tb testing.TB, prefix string) (keys []string) {
	tb.Helper()
	pages := awss3.NewListObjectsV2Paginator(s.client, &awss3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			tb.Fatal(err)
		}
		for _, object := range page.Contents {
			keys = append(keys, aws.ToString(object.Key))
		}
	}
	return keys
}

// remove empties the bucket and removes it.
func (s *Storage) remove(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, key := range s.list(ctx, t, "") {
		if _, err := s.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &s.bucket, Key: &key}); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.client.DeleteBucket(ctx, &awss3.DeleteBucketInput{Bucket: &s.bucket}); err != nil {
		t.Error(err)
	}
}
