package drive

import (
	"context"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Usage is what a drive holds, its trash included. Files are those and symbolic links,
// each once however many names it has. Reserved are the declared bytes of open uploads.
// Quotas of 0 are none.
type Usage struct {
	Bytes, Files, Reserved int64
	QuotaBytes, QuotaFiles int64
}

// Usage returns what the drive holds now.
func (d *Drive) Usage(ctx context.Context, fs tree.FS) (Usage, error) {
	u, err := d.feed.Usage(ctx, d.db, int64(fs))
	return Usage{Bytes: u.Bytes, Files: u.Files, Reserved: u.Reserved, QuotaBytes: u.QuotaBytes, QuotaFiles: u.QuotaFiles}, err
}

// SetQuota limits bytes and files; 0 means no limit. What is there already stays.
func (d *Drive) SetQuota(ctx context.Context, fs tree.FS, bytes, files int64) error {
	return d.idempotent(ctx, func(tx *sqldb.Tx) error { return d.feed.SetQuota(ctx, tx, int64(fs), bytes, files) })
}
