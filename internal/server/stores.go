package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/s3"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

// stores opens the storage of warehouses. It implements tenant.Stores.
type stores struct {
	set     *Settings
	log     *slog.Logger
	tracing *tracing
}

// openTenants opens the directory of tenants and warehouses; none of them may touch the
// contents of drives.
func (s *server) openTenants(ctx context.Context, storage tenant.Storage, contents place) error {
	keys, err := s.openKeys()
	if err != nil {
		return err
	}
	s.tenants, err = tenant.Open(ctx, s.db, tenant.Config{
		Default: storage, Keys: keys, Stores: &stores{set: s.set, log: s.log, tracing: s.tracing}, Reserved: []blob.Location{contents.root}, Logger: s.log,
	})
	if err != nil {
		return err
	}
	s.onClose(s.tenants.Close)
	return nil
}

func badStorage(err error) error {
	return fault.New("server.storage", fault.Invalid, tenant.CodeBadWarehouse, "%s", err)
}

// Check refuses storage that can be none, or that clients must not reach.
func (s *stores) Check(spec tenant.StorageSpec, places []blob.Location) error {
	if spec.Type() == "s3" {
		_, err := s3Places(spec)
		return err
	}
	for i, l := range places {
		uri := spec.URL
		if i > 0 {
			uri = spec.AllowedLocations[i-1]
		}
		if strings.ContainsAny(uri, "?#%") {
			return badStorage(errors.New("a directory's URL has no parameters, and no percent-encoding: it is taken as it is written"))
		}
		if err := s.set.apartDir(pathOf(l)); err != nil {
			return badStorage(err)
		}
	}
	return nil
}

// Open opens the storage of a warehouse.
func (s *stores) Open(ctx context.Context, spec tenant.StorageSpec, roots []blob.Location, current func(context.Context) (tenant.Credentials, error)) (tenant.Opened, error) {
	if spec.Type() != "s3" {
		places := make([]place, len(roots))
		for i, l := range roots {
			places[i] = place{root: l}
		}
		opened, err := openPlaces(ctx, places, s.log, s.tracing)
		opened.Close = nil // whoever still uses the directories keeps them open
		return opened, err
	}
	places, err := s3Places(spec)
	if err != nil {
		return tenant.Opened{}, err
	}
	for _, p := range places {
		p.bucket.Credentials = s3.Refreshed(func(ctx context.Context) (s3.Grant, error) {
			c, err := current(ctx)
			return s3.Grant{
				AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey.Reveal(), SessionToken: c.SessionToken.Reveal(),
				RoleARN: c.RoleARN, ExternalID: c.ExternalID.Reveal(), SessionName: c.SessionName, STSEndpoint: c.STSEndpoint, Region: spec.Region,
			}, err
		})
	}
	return openPlaces(ctx, places, s.log, s.tracing)
}

// s3Places reads a storage root in S3 and what belongs to it; all are reached alike.
func s3Places(spec tenant.StorageSpec) ([]place, error) {
	var out []place
	for _, uri := range append([]string{spec.URL}, spec.AllowedLocations...) {
		if strings.Contains(uri, "?") {
			return nil, badStorage(errors.New("an S3 URL of a warehouse has no parameters: give endpoint, region and pathStyle beside it"))
		}
		p, err := parseS3(uri)
		if err != nil {
			return nil, badStorage(err)
		}
		if spec.Endpoint != "" {
			if err := parameter(p.bucket, "endpoint", []string{spec.Endpoint}); err != nil {
				return nil, badStorage(err)
			}
		}
		p.bucket.Region, p.bucket.PathStyle = spec.Region, spec.PathStyle
		out = append(out, p)
	}
	return out, nil
}
