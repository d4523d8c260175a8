// Package s3 is a Bucket in an S3 bucket, or in a store that speaks S3.
//
// Keys are used byte for byte below the root's prefix: the SDK percent-encodes them in
// the path, listings are asked for in URL encoding, and keys that XML cannot carry
// (control characters, invalid UTF-8) are left out of bulk deletes and go one by one.
//
// The XML of bulk deletes is written here, byte for byte as the SDK would, and their
// answers are read here as long as they have the usual form: the SDK's way through a thousand
// keys costs more than all the rest of a purge. Everything else is the SDK's.
//
// Invariants:
//   - Nothing is ever overwritten: every write carries If-None-Match. A body longer than
//     one part is sent in parts and its completion is conditional; stores that ignore the
//     condition there are asked for the key once more, before the first part.
//   - A key counts as deleted only when the store's answer names it. Missing keys are
//     Deleted: S3 does not tell them apart.
//   - One DeleteMany is one request. What has to follow it (keys that go one by one) is
//     sent within a few seconds or not at all, so that a process that was stopped in
//     between sends nothing late; what was not sent fails and is tried again.
//
// Failure model: the SDK repeats reads once, writes and deletes never; callers do. Every
// request has a time limit, a stream one for its silence. A store that does not answer,
// credentials that cannot be had or have expired, a bucket that is gone: Unavailable, of
// the store as a whole. An answer that a proxy made up never counts as proof that
// something is missing. A failed Put may have been carried out.
package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/lethe-project/lethe/internal/blob"
)

// Config says where a bucket is and how it is reached.
type Config struct {
	Bucket    string
	Prefix    string // below which all keys lie, without slashes around it; empty is the whole bucket
	Endpoint  string // URL of the store; empty means what the SDK's chain says, else AWS
	Region    string // empty means what the SDK's chain says, else us-east-1 with an endpoint
	PathStyle *bool  // bucket in the path, not in the host's name; nil means with an endpoint only
	// Credentials; nil means the SDK's default chain: environment, shared files with
	// assumed roles and web identities, container, instance.
	Credentials aws.CredentialsProvider
	Timeout     time.Duration // of a request, or of a stream's silence; 60 s
}

func (c Config) withDefaults() Config {
	if c.Timeout <= 0 {
		c.Timeout = time.Minute
	}
	return c
}

// Bucket is a prefix of an S3 bucket. It implements blob.Bucket and blob.Noter.
type Bucket struct {
	cfg       Config
	client    *awss3.Client
	transport *http.Transport
	root      string // what every key begins with: the prefix and a slash, or nothing
	retry     func(*awss3.Options)
	lateness  time.Duration
	kind      character
}

var (
	_ blob.Bucket      = (*Bucket)(nil)
	_ blob.Noter       = (*Bucket)(nil)
	_ blob.Ranger      = (*Bucket)(nil)
	_ blob.Multiparter = (*Bucket)(nil)
)

// Open returns the bucket. A bucket that the store does not know is an error; a store
// that is out of reach is none, it may come back.
func Open(ctx context.Context, cfg Config) (*Bucket, error) {
	b := &Bucket{cfg: cfg.withDefaults(), lateness: lateness}
	if cfg.Prefix != "" {
		b.root = cfg.Prefix + "/"
	}
	if err := b.connect(ctx); err != nil {
		return nil, fmt.Errorf("s3: bucket %s: %w", cfg.Bucket, err)
	}
	if err := b.look(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("s3: bucket %s: %w", cfg.Bucket, err), b.Close())
	}
	return b, nil
}

// Close releases idle connections. Calls under way end normally.
func (b *Bucket) Close() error {
	b.transport.CloseIdleConnections()
	return nil
}

// Endpoint names the store and the bucket in it: what is learned of one prefix, such as
// the rate it grants, holds for its neighbours.
func (b *Bucket) Endpoint() string {
	at := b.EndpointURL()
	if at == "" {
		at = "s3." + b.Region()
	}
	return strings.TrimRight(at, "/") + "/" + b.cfg.Bucket
}

// EndpointURL returns the store's URL, empty for AWS itself.
func (b *Bucket) EndpointURL() string { return aws.ToString(b.client.Options().BaseEndpoint) }

// Region returns the region that requests are signed for.
func (b *Bucket) Region() string { return b.client.Options().Region }

// PathStyle reports whether the bucket stands in the path and not in the host's name.
func (b *Bucket) PathStyle() bool { return b.client.Options().UsePathStyle }
