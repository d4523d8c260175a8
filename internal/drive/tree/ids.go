package tree

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// blockSize is how many ids a process takes at once. An id handed out inside a create
// would make all creates of a drive wait for each other.
const blockSize = 256

// block is the ids of one drive that this process may still hand out.
type block struct {
	mu        sync.Mutex
	next, end int64
}

const (
	takeIDs  sqldb.Statement = "UPDATE fs_ids SET next_id = next_id + ? WHERE fs_id = ?"
	readNext sqldb.Statement = "SELECT next_id FROM fs_ids WHERE fs_id = ?"
)

// NewID returns an id, for an inode or a content, that was never used in the drive. It
// may open a transaction of its own, so it is called before the caller's.
func (t *Tree) NewID(ctx context.Context, fs FS) (int64, error) {
	ids, err := t.NewIDs(ctx, fs, 1)
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// NewIDs is NewID of n ids, ascending.
func (t *Tree) NewIDs(ctx context.Context, fs FS, n int) ([]int64, error) {
	kept, _ := t.blocks.LoadOrStore(fs, &block{})
	b := kept.(*block)
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := make([]int64, 0, n)
	for len(ids) < n {
		if b.next == b.end {
			size := int64(max(blockSize, n-len(ids)))
			end, err := t.takeBlock(ctx, fs, size)
			if err != nil {
				return nil, err
			}
			b.next, b.end = end-size, end
		}
		ids = append(ids, b.next)
		b.next++
	}
	return ids, nil
}

// takeBlock takes size ids, which end before end. A block of which nobody knows whether it
// was taken is given up, since no id is ever missed: to the caller nothing has happened.
func (t *Tree) takeBlock(ctx context.Context, fs FS, size int64) (end int64, err error) {
	err = t.db.Tx(ctx, func(tx *sqldb.Tx) error {
		hit, err := tx.Exec(ctx, takeIDs, size, int64(fs))
		if err != nil {
			return err
		}
		if hit == 0 {
			return noSuchDrive()
		}
		return tx.QueryRow(ctx, readNext, int64(fs)).Scan(&end)
	})
	if errors.Is(err, sqldb.ErrCommitUnknown) {
		err = &fault.Error{
			Op: "tree.NewIDs", Kind: fault.Busy, Code: sqldb.CodeUnavailable,
			Message: "the database can not be reached, nothing was changed", RetryAfter: time.Second, Err: err,
		}
	}
	return end, err
}
