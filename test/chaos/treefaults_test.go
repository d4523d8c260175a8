package chaos

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// In a drive of which trees were deleted in peace nothing is found; then one fault after
// the other is planted in it, and each is found.
func TestTreeChecksFindPlantedFaults(t *testing.T) {
	onServers(t, func(t *testing.T, db sqldbtest.Server) {
		// Nobody repairs what is planted.
		w := newWorld(t, db, config{nodes: 1, drive: true, args: []string{"--reconcile-interval", "24h"}})
		trees := []*tree{newTree(0), newTree(3), newTree(5)} // small, bushy, linked
		stays := w.plant(trees)
		deletes := &deleting{again: map[string]string{}}
		for _, tr := range trees {
			deletes.begin(t.Context(), w, tr, 0)
		}
		if err := deletes.group.Wait(); err != nil {
			t.Fatal(err)
		}
		w.settleTrees(patience)
		maps.Copy(stays, deletes.again)
		w.wantTrees(trees, stays, nil)
		if t.Failed() {
			return
		}

		exec := func(s sqldb.Statement, args ...any) {
			t.Helper()
			if n, err := w.sql.Exec(t.Context(), s, args...); err != nil || n != 1 {
				t.Fatalf("%s: %d rows, %v", s, n, err)
			}
		}
		put := func(path, body string) {
			t.Helper()
			if x := w.ask(t.Context(), w.nodes[0], siblingObject, "PUT", fsTarget(path, ""), body); x.status/100 != 2 {
				t.Fatal(x)
			}
		}
		kept := trees[2].links[2:] // any that goes out of the tree
		i := slices.IndexFunc(kept, func(pair [2]string) bool { return !strings.HasPrefix(pair[1], trees[2].path+"/") })
		path, parent := kept[i][1], trees[2].path[:strings.LastIndexByte(trees[2].path, '/')]
		name := path[len(parent)+1:]
		shows := "what server 0 shows"
		for _, fault := range []struct {
			name        string
			plant, heal func()
			want        []string // looks that find it
		}{
			{
				"a file of a tree is left", func() { put(trees[1].path+"/left", "x") },
				func() {
					if x := w.ask(t.Context(), w.nodes[0], treeDelete, "DELETE", fsTarget(trees[1].path, "recursive=true"), ""); x.status != 200 {
						t.Fatal(x)
					}
				},
				[]string{shows},
			},
			{"a sibling has other bytes", func() { put(path, "x") }, func() { put(path, stays[path]) }, []string{shows}},
			{
				"a job has failed", func() { exec(`UPDATE drive_delete_job SET state = 'FAILED' WHERE root_inode = ?`, trees[1].inode) },
				func() { exec(`UPDATE drive_delete_job SET state = 'SUCCEEDED' WHERE root_inode = ?`, trees[1].inode) },
				[]string{"jobs"},
			},
			{
				"a link is counted that is not there", func() {
					exec(`UPDATE inodes SET nlink = nlink + 1 WHERE inode_id = (SELECT inode_id FROM file_nodes WHERE name = ?)`, name)
				},
				func() {
					exec(`UPDATE inodes SET nlink = nlink - 1 WHERE inode_id = (SELECT inode_id FROM file_nodes WHERE name = ?)`, name)
				},
				[]string{"check", "rows"},
			},
			{"usage is wrong", func() { exec(`UPDATE usage_total SET files = files + 1`) }, func() { exec(`UPDATE usage_total SET files = files - 1`) }, []string{"check", "rows"}},
			{
				"an object is left", func() {
					if err := w.drive.bucket.Put(t.Context(), "objects/1/00/left", strings.NewReader("x")); err != nil {
						t.Fatal(err)
					}
				},
				func() { w.drive.bucket.DeleteMany(t.Context(), []blob.Key{"objects/1/00/left"}) },
				[]string{"objects (-rows +bucket)"},
			},
			{
				"a directory's entries are left", func() { exec(`UPDATE file_nodes SET parent_id = 987654321 WHERE name = ?`, name) }, func() {},
				[]string{shows, "check", "reconcile", "metrics", "rows"},
			},
			{
				"an object is gone", func() {
					key := blob.Key(w.objectRows()[0]) // of now: a write above replaced one
					if r := w.drive.bucket.DeleteMany(t.Context(), []blob.Key{key})[0]; r.Outcome != blob.Deleted {
						t.Fatalf("%+v", r)
					}
				},
				func() {},
				[]string{shows, "objects (-rows +bucket)"},
			},
		} {
			fault.plant()
			var found []string
			for _, f := range w.treeProblems(trees, stays, nil) {
				found = append(found, f.what)
			}
			for _, want := range fault.want {
				if !slices.Contains(found, want) {
					t.Errorf("%s: found by %q, want %q among them", fault.name, found, want)
				}
			}
			fault.heal()
		}
	})
}
