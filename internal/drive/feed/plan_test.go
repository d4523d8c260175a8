package feed_test

import (
	"fmt"
	"testing"

	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// Nothing that a request or a round of the sequencer does reads what it does not use. There
// are 12,000 events of 12 drives, a quarter of one, 6,000 deltas and 3,000 drives.
func TestPlans(t *testing.T) {
	t.Parallel()
	ids := make(sqldb.IDs, 300)
	for i := range ids {
		ids[i] = int64(7*i + 100)
	}
	drive := func(i int) int {
		if i%4 == 0 {
			return one
		}
		return 8 + i%11
	}
	sqldbtest.Plans(t, sqldbtest.PlanTest{
		Owners: []sqldb.Migrations{feed.Migrations},
		Rows: []sqldbtest.Rows{
			{
				Into: "fs_events (fs_id, seq, kind, parent_id, name, inode_id, revision, path, from_path, actor, created_at)", N: 12_000,
				Values: func(i int) string {
					seq := i + 1
					if i >= 11_900 {
						seq = 0
					}
					return fmt.Sprintf("(%d,%d,'create',1,'n%d',%d,1,'/some/directory/n%d','','ann',%d)", drive(i), seq, i, i, i, int64(i)<<32)
				},
			},
			{Into: "usage_delta (fs_id, bytes, files, reserved)", N: 6000, Values: func(i int) string { return fmt.Sprintf("(%d,1,1,0)", drive(i)) }},
			{
				Into: "usage_total (fs_id, bytes, files, quota_bytes, quota_files, next_seq, reserved, oldest_seq, full_due_at)", N: 3000,
				Values: func(i int) string { return fmt.Sprintf("(%d,0,0,0,0,1,0,1,%d)", i+1, int64(i)<<32) },
			},
		},
		Queries: []sqldbtest.Query{
			{Name: "selectUsage", Args: []any{one}, By: "fs_id"},
			{Name: "updateQuota", Args: []any{1, 1, one}, By: "fs_id"},
			{Name: "selectBounds", Args: []any{one}, By: "fs_id"},
			{Name: "selectEvents", Args: []any{one, 11_000, 50}, By: "fs_id,seq"},
			{Name: "dropTotal", Args: []any{one}, By: "fs_id"},
			{Name: "dropDeltas", Args: []any{two}, By: "fs_id"},
			{Name: "dropEvents", Args: []any{two}, By: "fs_id"},
			{Name: "postpone", Args: []any{1, one}, By: "fs_id", Sweeper: true},
			{Name: "lockTotal", Args: []any{one}, By: "fs_id", Sweeper: true},
			{Name: "updateTotal", Args: []any{1, 1, 1, 1, one}, By: "fs_id", Sweeper: true},
			{Name: "raiseOldest", Args: []any{2, one, 2}, By: "fs_id", Sweeper: true},
			{Name: "dueAudits", Args: []any{100}, By: "full_due_at", Sweeper: true},
			{Name: "someDeltas", Args: []any{one, 500}, By: "fs_id", Sweeper: true},
			{Name: "deleteDeltas", Args: []any{ids}, By: "id", Sweeper: true},
			{Name: "newEvents", Args: []any{one, 500}, Sweeper: true}, // by one of two indexes
			{Name: "numberEvents", Args: []any{1, ids}, By: "id", Sweeper: true},
			{Name: "agedEvents", Args: []any{1000, 500}, By: "created_at", Sweeper: true},
			{Name: "deleteEvents", Args: []any{ids}, By: "id", Sweeper: true},
			// It reads all deltas, and folds them then; and all events that have no number yet.
			{Name: "busyDrives", Sweeper: true, Whole: []string{"usage_delta", "fs_events_new"}},
		},
	})
}
