package tenant

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/fault"
)

// tryFor bounds how long a store is waited for before a change of a warehouse is refused.
const tryFor = 20 * time.Second

// try opens storage with credentials that are not stored yet, asks it something, and
// closes it again. To open it is not enough: a server starts although a store is away, so
// that neither a wrong key nor a wrong endpoint would show.
func (d *Directory) try(ctx context.Context, spec StorageSpec, places []blob.Location, c Credentials) (err error) {
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	opened, err := d.cfg.Stores.Open(ctx, spec, places, func(context.Context) (Credentials, error) { return c, nil })
	if err != nil {
		if fault.KindOf(err) != fault.Internal {
			return err
		}
		return fault.Wrap("tenant.try", fault.Invalid, CodeStorageTrouble, err, "the storage cannot be opened: is there such a bucket or directory, and may the server use it?")
	}
	if opened.Close != nil {
		defer func() { err = errors.Join(err, opened.Close()) }()
	}
	for _, m := range opened.Space.Mounts() {
		if err := ask(ctx, m); err != nil {
			d.cfg.Logger.WarnContext(ctx, "storage of a warehouse refused", "error", err)
			return err
		}
	}
	return nil
}

// ask lists nothing: purges list what is left, and need that right before any other.
func ask(ctx context.Context, m blob.Mount) error {
	nothing := blob.Key(".lethe-try-" + uuid.NewString())
	err := m.Bucket.List(ctx, nothing, func(blob.Info) error { return blob.ErrStop })
	if err == nil {
		return nil
	}
	why := "it cannot be listed: look at bucket, endpoint, region and credentials" // the store's own text is in the log only
	switch class := blob.ClassOf(err); {
	case class == blob.Denied:
		why = "the store denies a listing with these credentials: the secret may be wrong, or the right s3:ListBucket missing"
	case class.Outage(), errors.Is(err, context.DeadlineExceeded):
		why = "the store does not answer, or does not know the credentials: look at endpoint, region and key, and whether the store is up"
	}
	return fault.Wrap("tenant.ask", fault.Invalid, CodeStorageTrouble, err, "%s cannot be used: %s", m.Root, why)
}
