package removal_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// TestPlans explains what runs on a request, on a claim and on every page of a reconcile:
// there are 8,000 jobs of all kinds of 7 drives, most of them of files that are not due yet,
// and a mark for each of as many drives. (The rooms below prove their own statements.)
func TestPlans(t *testing.T) {
	t.Parallel()
	ids := sqldb.IDs{3, 5, 7}
	const columns = `attempts, stale_reclaims, lease_epoch, owner, available_at, paused, request_id,
		last_error, phase, {q:cursor}, progress, created_by, created_at, updated_at)`
	kind := func(i int) (kind, state string, due int64) {
		switch {
		case i%40 == 0:
			return "TREE", "CANCELLED", int64(i) << 32
		case i%41 == 0:
			return "TREE", "PENDING", int64(i)
		case i%42 == 0:
			return "FILE", "PENDING", int64(i)
		case i%3 == 0:
			return "FILE", "SUCCEEDED", int64(i) << 32
		}
		return "FILE", "PENDING", int64(i) << 32
	}
	sqldbtest.Plans(t, sqldbtest.PlanTest{
		Owners: owners,
		Dirs:   []string{"../../job", "."},
		Fill: func(s sqldb.Statement) sqldb.Statement {
			fill := strings.NewReplacer("{table_name}", "drive_delete_job", "{only}", " AND kind = 'TREE'", "{row}", "id")
			return sqldb.Statement(fill.Replace(string(s)))
		},
		Rows: []sqldbtest.Rows{
			{
				Into: "drive_delete_job (fs_id, kind, root_inode, path, origin_parent, origin_name, state, " + columns, N: 8000,
				Values: func(i int) string {
					kind, state, due := kind(i + 1)
					return fmt.Sprintf("(%d,'%s',%d,'/p',1,'n','%s',0,0,0,'',%d,0,'r%d','','','','{}','',0,0)", 11+i%7, kind, 1_000_000+i, state, due, i)
				},
			},
			{
				Into: "delete_reconcile_pending (fs_id, state, " + columns, N: 8000,
				Values: func(i int) string {
					_, state, due := kind(i + 1)
					return fmt.Sprintf("(%d,'%s',0,0,0,'',%d,0,'','','','','{}','',0,0)", 100+i, state, due)
				},
			},
		},
		Shared: []string{"drive_delete_job.fs_id", "drive_delete_job.kind", "delete_reconcile_pending.state"},
		Queries: []sqldbtest.Query{
			{Name: "claimable", Args: []any{1000}, By: "kind,state", Sorts: true, Counts: true}, // its two windows of 8
			{Name: "anyWaiting", By: "kind,state,available_at", Counts: true},
			{Name: "selectJob", Args: []any{7}, By: "id"},
			{Name: "selectJobs", Args: []any{11, 4000, 10}, By: "fs_id,id"},
			{Name: "jobsOf", Args: []any{11, "CANCELLED", 4000, 10}, By: "fs_id,state,id"},
			{Name: "restoreJob", Args: []any{7, 11}},
			{Name: "dueNow", Args: []any{7}, By: "id"},
			{Name: "dueNowAll", Args: []any{ids, 11}, By: "id"},
			{Name: "beginAgainAll", Args: []any{ids, 11}, By: "id"},
			{Name: "readMark", Args: []any{2000}, By: "fs_id"},
			{Name: "holdMark", Args: []any{2000}, By: "fs_id"},
			{Name: "rearmMark", Args: []any{1, 2000}, By: "fs_id"},
			{Name: "reviveMark", Args: []any{1, 2000}, By: "fs_id"},
			{Name: "hastenMark", Args: []any{2000}, By: "fs_id"},
			{Name: "markedDrive", Args: []any{7}, By: "id", Sweeper: true},
			{Name: "rearmAt", Args: []any{7}, By: "id", Sweeper: true},
			{Name: "againMark", Args: []any{7, 1}, By: "id", Sweeper: true},
			{Name: "dropMark", Args: []any{7, 1}, By: "id", Sweeper: true},
			{Name: "holdJob", Args: []any{7, 0}, By: "id", Sweeper: true},
			{Name: "dueFiles", Args: []any{100}, By: "kind,state,available_at", Sweeper: true, Counts: true},
			{Name: "holdFiles", Args: []any{ids}, By: "id", Sweeper: true},
			{Name: "putOffFile", Args: []any{"FAILED", 1, "x", 10, 7}, By: "id", Sweeper: true},
			{Name: "endFiles", Args: []any{"a", "b", ids}, By: "id", Sweeper: true},
			{Name: "countFiles", Args: []any{"{}", ids}, By: "id", Sweeper: true},
			{Name: "trashJobs", Args: []any{11, ids}, Sweeper: true},
		},
	})
}
