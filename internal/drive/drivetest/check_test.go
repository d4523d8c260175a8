package drivetest_test

import (
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/drivetest"
	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

const fs = 7

var owners = []sqldb.Migrations{tree.Migrations, content.Migrations, feed.Migrations}

func TestSoundDrive(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, owners, func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		sound(t, db)
		drivetest.Check(t, db, fs)
	})
}

// Every kind of damage is found, one row of it.
func TestFind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		want, damage string
		put          func(t *testing.T, db *sqldb.DB)
	}{
		{want: "dentry without parent", put: damaged("file_nodes", row{"parent_id": 99, "name": "x", "inode_id": 21})},
		{want: "dentry without parent", damage: "DELETE FROM inodes WHERE fs_id = 7 AND inode_id = 20"},
		{want: "parent is no directory", damage: "UPDATE file_nodes SET parent_id = 22 WHERE fs_id = 7 AND name = 'h'"},
		{want: "dentry without inode", damage: "DELETE FROM inodes WHERE fs_id = 7 AND inode_id = 22"},
		{want: "kind", damage: "UPDATE file_nodes SET is_directory = 1 WHERE fs_id = 7 AND name = 'f'"},
		{want: "kind", damage: "UPDATE inodes SET kind = 2 WHERE fs_id = 7 AND inode_id = 2"},
		{want: "inode without dentry", damage: "DELETE FROM file_nodes WHERE fs_id = 7 AND name = 'l'"},
		{want: "nlink", damage: "UPDATE inodes SET nlink = 1 WHERE fs_id = 7 AND inode_id = 21"},
		{want: "nlink", damage: "DELETE FROM file_nodes WHERE fs_id = 7 AND name = 'h'"},
		{want: "nlink", damage: "UPDATE inodes SET nlink = 2 WHERE fs_id = 7 AND inode_id = 20"},
		{want: "unreachable", damage: "UPDATE file_nodes SET parent_id = 20 WHERE fs_id = 7 AND name = 'd'"},
		{want: "tag without inode", put: damaged("file_tags", row{"inode_id": 99, "name": "k"})},
		{want: "refs", damage: "UPDATE contents SET refs = 2 WHERE fs_id = 7 AND content_id = 30"},
		{want: "refs", damage: "UPDATE inodes SET content_id = NULL WHERE fs_id = 7 AND inode_id = 21"},
		{want: "inode without content", damage: "DELETE FROM contents WHERE fs_id = 7 AND content_id = 30"},
		{want: "size", damage: "UPDATE contents SET size = 6 WHERE fs_id = 7 AND content_id = 30"},
		{want: "content", damage: "UPDATE contents SET object_key = NULL WHERE fs_id = 7 AND content_id = 30"},
		{want: "task of a live object", put: damaged("file_gc_tasks", row{"object_key": "o1"})},
		{want: "usage", damage: "UPDATE usage_total SET bytes = 5 WHERE fs_id = 7"},
		{want: "usage", put: damaged("usage_delta", row{"id": 2, "files": 1})},
		{want: "usage", damage: "UPDATE uploads SET state = 'ABORTED' WHERE fs_id = 7"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			t.Parallel()
			db := sqldbtest.Servers(t)[0].Open(t, sqldb.Config{}, owners...)
			sound(t, db)
			if tt.damage != "" {
				run(t, db, tt.damage)
			}
			if tt.put != nil {
				tt.put(t, db)
			}
			found := drivetest.Find(t, db, fs)
			for _, f := range found {
				if strings.HasPrefix(f, tt.want+":") {
					return
				}
			}
			t.Errorf("%s: found %q", tt.damage, found)
		})
	}
}

func run(t *testing.T, db *sqldb.DB, s string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sqldb.Statement(s), args...); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
}

// row is what a test says of a row; other columns are empty.
type row map[string]any

// sound makes a directory d with a file f that has the name h too, and an upload.
func sound(t *testing.T, db *sqldb.DB) {
	t.Helper()
	tables := sqldbtest.Schema(t, db)
	for _, r := range []struct {
		table string
		row   row
	}{
		{"inodes", row{"inode_id": 1, "kind": 1, "nlink": 1}},
		{"inodes", row{"inode_id": 2, "kind": 1, "nlink": 1}},
		{"inodes", row{"inode_id": 20, "kind": 1, "nlink": 1}},
		{"inodes", row{"inode_id": 21, "kind": 2, "nlink": 2, "size": 5, "content_id": 30}},
		{"inodes", row{"inode_id": 22, "kind": 3, "nlink": 1, "size": 1, "target": "f"}},
		{"file_nodes", row{"parent_id": 1, "name": "d", "inode_id": 20, "is_directory": 1}},
		{"file_nodes", row{"parent_id": 20, "name": "f", "inode_id": 21}},
		{"file_nodes", row{"parent_id": 1, "name": "h", "inode_id": 21}},
		{"file_nodes", row{"parent_id": 20, "name": "l", "inode_id": 22}},
		{"file_tags", row{"inode_id": 21, "name": "k"}},
		{"contents", row{"content_id": 30, "refs": 1, "size": 5, "object_key": "o1"}},
		{"file_gc_tasks", row{"object_key": "o2"}},
		{"uploads", row{"upload_id": "u", "state": "OPEN", "declared_size": 9}},
		{"uploads", row{"upload_id": "v", "state": "COMPLETED", "declared_size": 5}},
		{"usage_total", row{"bytes": 4, "files": 2, "reserved": 9}},
		{"usage_delta", row{"id": 1, "bytes": 2}},
		{"contents", row{"fs_id": 8, "content_id": 30, "refs": 5}}, // of another drive
		{"file_nodes", row{"fs_id": 8, "parent_id": 99, "name": "d", "inode_id": 98}},
	} {
		put(t, db, r.table, tables[r.table], r.row)
	}
}

// damaged adds a row that does not agree.
func damaged(table string, r row) func(t *testing.T, db *sqldb.DB) {
	return func(t *testing.T, db *sqldb.DB) {
		t.Helper()
		put(t, db, table, sqldbtest.Schema(t, db)[table], r)
	}
}

func put(t *testing.T, db *sqldb.DB, table string, schema sqldbtest.Table, r row) {
	t.Helper()
	var names, marks []string
	var values []any
	for _, c := range schema.Columns {
		v, given := r[c.Name]
		switch {
		case given:
		case c.Name == "fs_id":
			v = fs
		case c.Null:
		case c.Kind == "int":
			v = 0
		default:
			v = ""
		}
		names, marks, values = append(names, "{q:"+c.Name+"}"), append(marks, "?"), append(values, v)
	}
	run(t, db, "INSERT INTO "+table+" ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(marks, ", ")+")", values...)
}
