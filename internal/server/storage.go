package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/local"
	"github.com/lethe-project/lethe/internal/blob/s3"
	"github.com/lethe-project/lethe/internal/tenant"
)

// place is a storage root as the settings name it.
type place struct {
	root   blob.Location
	bucket *s3.Config // nil for a local directory
}

// storagePlace returns where tables live.
func (s *Settings) storagePlace() (place, error) {
	if isS3(s.Storage) {
		return parseS3(s.Storage)
	}
	dir, err := s.StorageDir()
	if err != nil {
		return place{}, err
	}
	root, err := blob.ParseLocation(dir)
	return place{root: root}, err
}

// allowedPlace reads one of the allowed locations. One in S3 is reached as the storage
// root is, unless it says otherwise.
func (s *Settings) allowedPlace(where string) (place, error) {
	if scheme, rest, ok := strings.Cut(where, "://"); !ok || scheme == "" || strings.Trim(rest, "/") == "" {
		return place{}, fmt.Errorf("%q is no location such as file:///data/shared", where)
	}
	if isS3(where) {
		p, err := parseS3(where)
		if root, rootErr := s.storagePlace(); err == nil && rootErr == nil && root.bucket != nil && !strings.Contains(where, "?") {
			p.bucket.Endpoint, p.bucket.Region, p.bucket.PathStyle = root.bucket.Endpoint, root.bucket.Region, root.bucket.PathStyle
		}
		return p, err
	}
	root, err := blob.ParseLocation(where)
	if err != nil {
		return place{}, err
	}
	if !strings.HasPrefix(string(root), "file://") {
		return place{}, fmt.Errorf("%q is not supported yet: give file:// or s3://", where)
	}
	return place{root: root}, nil
}

func isS3(where string) bool {
	scheme, _, ok := strings.Cut(where, "://")
	return ok && (strings.EqualFold(scheme, "s3") || strings.EqualFold(scheme, "s3a") || strings.EqualFold(scheme, "s3n"))
}

// parseS3 reads s3://bucket/prefix?endpoint=…&region=…&path-style=true. The prefix is
// taken byte for byte up to the first '?'. No message shows the URL: somebody may have
// written credentials into it.
func parseS3(raw string) (place, error) {
	where, query, _ := strings.Cut(raw, "?")
	_, where, _ = strings.Cut(where, "://")
	name, _, _ := strings.Cut(where, "/")
	if strings.Contains(name, "@") {
		return place{}, errNoCredentials
	}
	if !bucketName(name) {
		return place{}, errors.New("an S3 URL begins with a bucket of 3 to 63 letters, digits, dots and dashes: s3://bucket/prefix")
	}
	root, err := blob.ParseLocation("s3://" + where)
	if err != nil {
		return place{}, errors.New("the prefix of the S3 URL has a NUL byte")
	}
	cfg := &s3.Config{Bucket: name, Prefix: strings.TrimPrefix(strings.TrimPrefix(string(root), "s3://"+name), "/")}
	params, err := url.ParseQuery(query)
	if err != nil {
		return place{}, errors.New("the parameters of the S3 URL cannot be read: percent-encode them")
	}
	for key, values := range params {
		if err := parameter(cfg, key, values); err != nil {
			return place{}, err
		}
	}
	return place{root: root, bucket: cfg}, nil
}

var errNoCredentials = errors.New("an S3 URL holds no credentials: the AWS SDK's default chain has them, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")

func parameter(cfg *s3.Config, key string, values []string) error {
	if len(values) != 1 {
		return fmt.Errorf("the S3 URL gives %s %d times", key, len(values))
	}
	switch value := values[0]; key {
	case "endpoint":
		u, err := url.Parse(value)
		if err == nil && u.User != nil {
			return errNoCredentials
		}
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return errors.New("endpoint of the S3 URL must be http://host[:port] or the same with https")
		}
		cfg.Endpoint = strings.TrimRight(value, "/")
	case "region":
		cfg.Region = value
	case "path-style":
		on, err := strconv.ParseBool(value)
		if err != nil {
			return errors.New("path-style of the S3 URL must be true or false")
		}
		cfg.PathStyle = &on
	default:
		return fmt.Errorf("the S3 URL has an unknown parameter %q: there are endpoint, region and path-style; credentials come from the AWS SDK's default chain", key)
	}
	return nil
}

// bucketName allows what S3 ever allowed, and other stores do (upper case, underscores).
func bucketName(name string) bool {
	return len(name) >= 3 && len(name) <= 63 && strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
	}) < 0
}

// openStorage opens the default warehouse's root and its allowed locations.
func (s *server) openStorage(ctx context.Context) (tenant.Storage, error) {
	root, err := s.set.storagePlace()
	if err != nil {
		return tenant.Storage{}, fmt.Errorf("server: storage: %w", err)
	}
	places := []place{root}
	for _, where := range s.set.Warehouse.AllowedLocations {
		p, err := s.set.allowedPlace(where)
		if err != nil {
			return tenant.Storage{}, fmt.Errorf("server: storage: %w", err)
		}
		places = append(places, p)
	}
	opened, err := openPlaces(ctx, places, s.log, s.tracing)
	if err != nil {
		return tenant.Storage{}, fmt.Errorf("server: storage: %w", err)
	}
	s.onClose(opened.Close)
	return tenant.Storage{
		RootURI: string(root.root), Space: opened.Space, ClientConfig: opened.ClientConfig, Spec: root.spec(places[1:]),
	}, nil
}

// spec describes storage of the settings for people.
func (p place) spec(allowed []place) tenant.StorageSpec {
	spec := tenant.StorageSpec{URL: string(p.root)}
	if p.bucket != nil {
		spec.Endpoint, spec.Region, spec.PathStyle = p.bucket.Endpoint, p.bucket.Region, p.bucket.PathStyle
	}
	for _, a := range allowed {
		spec.AllowedLocations = append(spec.AllowedLocations, string(a.root))
	}
	return spec
}

// openPlaces opens a storage root and what belongs to it. What clients are told is how to
// reach the root.
func openPlaces(ctx context.Context, places []place, log *slog.Logger, t *tracing) (opened tenant.Opened, err error) {
	var closers []func() error
	opened.Close = func() error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}()
	mounts := make([]blob.Mount, len(places))
	for i, p := range places {
		bucket, clients, closer, err := openBucket(ctx, p, log, t)
		if err != nil {
			return opened, fmt.Errorf("%s: %w", p.root, err)
		}
		closers = append(closers, closer)
		mounts[i] = blob.Mount{Root: p.root, Bucket: bucket}
		if i == 0 {
			opened.ClientConfig = clients
		}
	}
	opened.Space, err = blob.NewSpace(mounts...)
	return opened, err
}

// openBucket also returns what clients must be told to reach the same files.
func openBucket(ctx context.Context, p place, log *slog.Logger, t *tracing) (bucket blob.Bucket, clients map[string]string, closer func() error, err error) {
	if p.bucket == nil {
		b, err := local.Open(pathOf(p.root))
		if err != nil {
			return nil, nil, nil, err
		}
		return t.directory(b), nil, b.Close, nil
	}
	b, err := s3.Open(ctx, *p.bucket)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := b.Trouble(); err != nil { // it may come back: that is no reason not to start
		log.WarnContext(ctx, "object store is not usable now", slog.String("location", string(p.root)), slog.Any("error", err))
	}
	for _, note := range b.Notes(ctx) {
		log.WarnContext(ctx, "storage keeps more than its keys show", slog.String("note", note))
	}
	clients = map[string]string{"client.region": b.Region()}
	if b.EndpointURL() != "" {
		clients["s3.endpoint"] = b.EndpointURL()
	}
	if b.PathStyle() {
		clients["s3.path-style-access"] = "true"
	}
	return t.s3(b, p.bucket.Bucket), clients, b.Close, nil
}

// pathOf is the directory of a file URI; "file://" is the whole file system.
func pathOf(l blob.Location) string {
	return filepath.FromSlash(cmp.Or(strings.TrimPrefix(string(l), "file://"), "/"))
}
