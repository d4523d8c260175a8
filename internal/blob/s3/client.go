package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	dialTimeout   = 10 * time.Second
	idlePerHost   = 128 // connections kept: more than anybody has delete threads
	readAttempts  = 2
	readBackoff   = 500 * time.Millisecond
	regionOfNoAWS = "us-east-1" // what stores that know no regions expect
)

// connect makes the client. It talks to nobody yet.
func (b *Bucket) connect(ctx context.Context) error {
	web := awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
		WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConns, t.MaxIdleConnsPerHost = 2*idlePerHost, idlePerHost
			t.TLSHandshakeTimeout = dialTimeout
			t.ResponseHeaderTimeout = b.cfg.Timeout
		})
	options := []func(*config.LoadOptions) error{config.WithHTTPClient(web), config.WithAppID("lethe")}
	if b.cfg.Region != "" {
		options = append(options, config.WithRegion(b.cfg.Region))
	}
	if b.cfg.Credentials != nil {
		options = append(options, config.WithCredentialsProvider(b.cfg.Credentials))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return fmt.Errorf("settings of the AWS SDK: %w", err)
	}
	b.transport = web.GetTransport()
	if chosen, ok := loaded.HTTPClient.(*awshttp.BuildableClient); ok {
		b.transport = chosen.GetTransport() // with the certificates that the chain names
	}
	b.client = awss3.NewFromConfig(loaded, b.options)
	// Its own budget of repetitions: a store in trouble is not asked twice by everybody.
	reads := retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = readAttempts, readBackoff
	})
	b.retry = func(o *awss3.Options) { o.Retryer = reads }

	if b.Region() == "" {
		return errors.New("no region: name one with region=…, or in AWS_REGION")
	}
	if u, err := url.Parse(b.EndpointURL()); err != nil || u.User != nil {
		return errors.New("the endpoint is no URL, or holds a user name") // never shown: it may hold a password
	}
	return nil
}

func (b *Bucket) options(o *awss3.Options) {
	// No redirect is followed: a signature holds for one host only.
	o.HTTPClient = sender{&http.Client{
		Transport:     paced{b.transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	o.Retryer = aws.NopRetryer{}
	if b.cfg.Endpoint != "" {
		o.BaseEndpoint = aws.String(b.cfg.Endpoint)
	}
	if o.Region == "" && o.BaseEndpoint != nil {
		o.Region = regionOfNoAWS
	}
	o.UsePathStyle = o.BaseEndpoint != nil
	if b.cfg.PathStyle != nil {
		o.UsePathStyle = *b.cfg.PathStyle
	}
	// The checksums that AWS likes to add are unknown to many other stores.
	o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	o.DisableLogOutputChecksumValidationSkipped = true
}

// sender sends the SDK's requests. The SDK closes a body as soon as the answer begins, and
// its closed bodies answer WriteTo with io.EOF. When the store is quick, net/http meets
// that on its last look at a body that was sent in full, takes it for a failed write and
// cuts the connection under the answer. A body without WriteTo does not.
type sender struct{ *http.Client }

// Do sends a request.
func (s sender) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return s.Client.Do(r)
}

// limited bounds one request.
func (b *Bucket) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.cfg.Timeout)
}
