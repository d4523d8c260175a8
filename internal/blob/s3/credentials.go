package s3

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// Grant says with whose rights a bucket is used: those of a static key, else those of a
// role that the server assumes, else those of the SDK's default chain.
type Grant struct {
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string // may be empty

	RoleARN     string
	ExternalID  string // may be empty
	SessionName string // in the other account's logs; empty means lethe
	STSEndpoint string // URL; empty means what the SDK's chain says, else AWS
	Region      string // of STS; empty means what the SDK's chain says, else us-east-1
}

// staleAfter is how long credentials are used before they are asked for again, so that
// a bucket that is used for hours learns of new ones.
const staleAfter = 30 * time.Second

// Refreshed returns credentials that follow what current answers. An error of current is
// the store's as a whole: nothing was sent.
func Refreshed(current func(context.Context) (Grant, error)) aws.CredentialsProvider {
	return &refreshed{current: current}
}

type refreshed struct {
	current func(context.Context) (Grant, error)

	mu    sync.Mutex
	grant Grant
	inner aws.CredentialsProvider // of grant; nil before the first
}

// Retrieve implements aws.CredentialsProvider.
func (r *refreshed) Retrieve(ctx context.Context) (aws.Credentials, error) {
	grant, err := r.current(ctx)
	if err != nil {
		return aws.Credentials{}, fmt.Errorf("s3: credentials: %w", err)
	}
	inner, err := r.provider(ctx, grant)
	if err != nil {
		return aws.Credentials{}, err
	}
	creds, err := inner.Retrieve(ctx)
	if err != nil {
		return aws.Credentials{}, err
	}
	if until := time.Now().Add(staleAfter); !creds.CanExpire || creds.Expires.After(until) {
		creds.CanExpire, creds.Expires = true, until
	}
	return creds, nil
}

// provider keeps the one of a grant as long as it is the current one: a role is assumed
// once per session, not every time somebody asks.
func (r *refreshed) provider(ctx context.Context, grant Grant) (aws.CredentialsProvider, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inner != nil && r.grant == grant {
		return r.inner, nil
	}
	inner, err := grant.provider(ctx)
	if err != nil {
		return nil, err
	}
	r.grant, r.inner = grant, inner
	return inner, nil
}

func (g Grant) provider(ctx context.Context) (aws.CredentialsProvider, error) {
	if g.AccessKeyID != "" {
		static := aws.Credentials{AccessKeyID: g.AccessKeyID, SecretAccessKey: g.SecretAccessKey, SessionToken: g.SessionToken, Source: "lethe"}
		return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return static, nil }), nil
	}
	options := []func(*config.LoadOptions) error{config.WithAppID("lethe"), config.WithHTTPClient(seldom())}
	if g.Region != "" {
		options = append(options, config.WithRegion(g.Region))
	}
	chain, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("settings of the AWS SDK: %w", err)
	}
	if g.RoleARN == "" {
		return chain.Credentials, nil
	}
	client := sts.NewFromConfig(chain, func(o *sts.Options) {
		if g.STSEndpoint != "" {
			o.BaseEndpoint = aws.String(g.STSEndpoint)
		}
		if o.Region == "" {
			o.Region = regionOfNoAWS
		}
	})
	role := stscreds.NewAssumeRoleProvider(client, g.RoleARN, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = "lethe"
		if g.SessionName != "" {
			o.RoleSessionName = g.SessionName
		}
		if g.ExternalID != "" {
			o.ExternalID = aws.String(g.ExternalID)
		}
	})
	return aws.NewCredentialsCache(role, func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = 2 * time.Minute }), nil
}

// seldom is a client for requests minutes apart: it keeps no connection.
func seldom() aws.HTTPClient {
	return awshttp.NewBuildableClient().WithTimeout(dialTimeout).
		WithTransportOptions(func(t *http.Transport) { t.DisableKeepAlives = true })
}
