package feed

import (
	"context"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Delta is a change of what a drive uses. Reserved are the bytes that uploads under way
// have announced.
type Delta struct {
	Bytes    int64
	Files    int64 // inodes of files and symbolic links
	Reserved int64
}

// Usage is what a drive uses and may use. Quotas of 0 are none.
type Usage struct {
	Delta
	QuotaBytes int64
	QuotaFiles int64
}

const (
	insertDelta sqldb.Statement = "INSERT INTO usage_delta (fs_id, bytes, files, reserved) VALUES (?, ?, ?, ?)"

	// One statement, so that total and deltas are of one snapshot: a delta that is being
	// folded is seen once.
	selectUsage sqldb.Statement = `SELECT t.quota_bytes, t.quota_files,
		t.bytes + COALESCE((SELECT SUM(d.bytes) FROM usage_delta d {index:usage_delta_fs} WHERE d.fs_id = t.fs_id), 0),
		t.files + COALESCE((SELECT SUM(d.files) FROM usage_delta d {index:usage_delta_fs} WHERE d.fs_id = t.fs_id), 0),
		t.reserved + COALESCE((SELECT SUM(d.reserved) FROM usage_delta d {index:usage_delta_fs} WHERE d.fs_id = t.fs_id), 0)
		FROM usage_total t WHERE t.fs_id = ?`

	updateQuota sqldb.Statement = "UPDATE usage_total SET quota_bytes = ?, quota_files = ? WHERE fs_id = ?"
)

// Add records a change of usage inside the transaction that makes it. A zero delta is
// nothing.
func (s *Store) Add(ctx context.Context, tx *sqldb.Tx, fs int64, d Delta) error {
	if d == (Delta{}) {
		return nil
	}
	_, err := tx.Exec(ctx, insertDelta, fs, d.Bytes, d.Files, d.Reserved)
	return err
}

// Usage reads what a drive uses; fault.NotFound when there is no such drive.
func (s *Store) Usage(ctx context.Context, r sqldb.Reader, fs int64) (u Usage, err error) {
	err = r.QueryRow(ctx, selectUsage, fs).Scan(&u.QuotaBytes, &u.QuotaFiles, &u.Bytes, &u.Files, &u.Reserved)
	return u, noDrive("feed.Usage", err)
}

// CheckQuota refuses more with fault.Full when the drive would then use more than it may.
// Writes that are under way at once may overshoot by their own size. What makes the drive
// smaller is never refused.
func (s *Store) CheckQuota(ctx context.Context, r sqldb.Reader, fs int64, more Delta) error {
	u, err := s.Usage(ctx, r, fs)
	if err != nil {
		return err
	}
	// Compared by difference: what is asked for is the client's word, and the sum may overflow.
	if grows, most := more.Bytes+more.Reserved, quotaBytes(u); grows > 0 && grows > most-u.Bytes-u.Reserved {
		return fault.New("feed.CheckQuota", fault.Full, CodeQuotaExceeded, "the drive's quota of %d bytes is used up: %d are in use, %d more were asked for", most, u.Bytes+u.Reserved, grows)
	}
	if u.QuotaFiles > 0 && more.Files > 0 && u.Files+more.Files > u.QuotaFiles {
		return fault.New("feed.CheckQuota", fault.Full, CodeQuotaExceeded, "the drive's quota of %d files is used up", u.QuotaFiles)
	}
	return nil
}

// maxDrive is the most bytes that any drive may use: its sums stay far from overflowing.
const maxDrive = 1 << 60

func quotaBytes(u Usage) int64 {
	if u.QuotaBytes > 0 {
		return min(u.QuotaBytes, maxDrive)
	}
	return maxDrive
}

// SetQuota bounds a drive from now on; 0 is no bound. What is there already stays.
func (s *Store) SetQuota(ctx context.Context, tx *sqldb.Tx, fs, bytes, files int64) error {
	if bytes < 0 || files < 0 {
		return fault.New("feed.SetQuota", fault.Invalid, "InvalidQuota", "a quota is 0 (none) or more")
	}
	n, err := tx.Exec(ctx, updateQuota, bytes, files, fs)
	if err == nil && n == 0 {
		return fault.New("feed.SetQuota", fault.NotFound, CodeNoSuchDrive, "the drive does not exist")
	}
	return err
}
