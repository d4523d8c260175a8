package content_test

import (
	"fmt"
	"testing"

	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

func TestStatements(t *testing.T) {
	t.Parallel()
	owners := []sqldb.Migrations{content.Migrations}
	sqldbtest.PrepareAll(t, ".", owners, nil)
}

// Nothing reads all of a table or of a drive, which has five of six rows of each table.
func TestPlans(t *testing.T) {
	t.Parallel()
	ids := make(sqldb.IDs, 30) // for more of so few rows it is cheaper to read an index
	for i := range ids {
		ids[i] = int64(3 * (i + 1))
	}
	named := []any{one, sqldb.Strings{"k100", "o100", "p100"}}
	queries := []sqldbtest.Query{ // a page of the store's objects
		{Name: "tasksNamed", Args: named, Sweeper: true, By: "fs_id,object_key"},
		{Name: "partsNamed", Args: named, Sweeper: true, By: "object_key"},
		{Name: "contentsNamed", Args: named, Sweeper: true, By: "object_key"},
	}
	by := map[string]string{"claimTasks": "due_at", "oldestTask": "due_at", "dueUploads": "state,expires_at"}
	for _, p := range content.Plans(one, 100, "k100", "c1", "u100", ids) {
		queries = append(queries, sqldbtest.Query{Name: p.Name, Text: p.Text, Args: p.Args, Sweeper: p.Sweeper, By: by[p.Name]})
	}
	const rows = 6000
	fs := func(i int) int { return 7 + i/5000 }
	sqldbtest.Plans(t, sqldbtest.PlanTest{
		Owners: []sqldb.Migrations{content.Migrations},
		Rows: []sqldbtest.Rows{
			{Into: "contents (fs_id, content_id, refs, size, sha256, object_key, created_at)", N: rows, Values: func(i int) string {
				return fmt.Sprintf("(%d,%d,1,1,'x','o%d',0)", fs(i), i, i)
			}},
			{Into: "file_gc_tasks (fs_id, object_key, due_at, multipart, claim, attempts, last_error, created_at)", N: rows, Values: func(i int) string {
				return fmt.Sprintf("(%d,'k%d',%d,0,'c%d',0,'',0)", fs(i), i, int64(i)<<32, i/10)
			}},
			{Into: "uploads (fs_id, upload_id, base_inode, rest, path, state, declared_size, created_by, created_at, expires_at)", N: rows, Values: func(i int) string {
				return fmt.Sprintf("(%d,'u%d',%d,'','','%s',0,'',0,%d)", fs(i), i, i, map[bool]string{true: "OPEN", false: "CLOSED"}[i%50 == 0], int64(i)<<32)
			}},
			{Into: "upload_parts (fs_id, upload_id, number, size, sha256, etag, object_key, created_at)", N: rows, Values: func(i int) string {
				return fmt.Sprintf("(%d,'u%d',%d,1,'','','p%d',0)", fs(i), i/4, i, i)
			}},
		},
		Shared:  []string{"contents.fs_id", "file_gc_tasks.fs_id", "uploads.fs_id", "upload_parts.fs_id", "uploads.state"},
		Queries: queries,
	})
}
