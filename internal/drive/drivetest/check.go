// Package drivetest says, for tests, whether the rows of a drive agree with each other
// once nobody works on it: names and inodes, link and reference counts, usage.
package drivetest

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// Check fails the test for everything that does not agree in a drive. Nothing may be
// under way in it. Rooms whose tables are not there are left out.
func Check(tb testing.TB, db *sqldb.DB, fs int64) {
	tb.Helper()
	for _, found := range Find(tb, db, fs) {
		tb.Errorf("drive %d: %s", fs, found)
	}
}

// Find returns what Check complains of, in words that begin with what is wrong:
// "dentry without parent", "dentry without inode", "parent is no directory", "kind",
// "inode without dentry", "nlink", "unreachable", "tag without inode", "refs", "inode
// without content", "content", "size", "task of a live object", "usage".
func Find(tb testing.TB, db *sqldb.DB, fs int64) []string {
	tb.Helper()
	c := &checker{tb: tb, db: db, fs: fs, inodes: map[int64]inode{}}
	tables := sqldbtest.Schema(tb, db)
	has := func(name string) bool { _, ok := tables[name]; return ok }
	c.tree()
	if has("contents") {
		c.contents()
	}
	if has("usage_total") && has("usage_delta") {
		c.usage(has("uploads"))
	}
	return c.found
}

type checker struct {
	tb     testing.TB
	db     *sqldb.DB
	fs     int64
	inodes map[int64]inode
	found  []string
}

type inode struct{ kind, nlink, size, content int64 }

func (c *checker) add(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// each calls fn with the rows of a query, whose parameter is the drive.
func (c *checker) each(s sqldb.Statement, fn func(scan func(...any))) {
	c.tb.Helper()
	rows, err := c.db.Query(c.tb.Context(), s, c.fs)
	if err != nil {
		c.tb.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		fn(func(dest ...any) {
			c.tb.Helper()
			if err := rows.Scan(dest...); err != nil {
				c.tb.Fatal(err)
			}
		})
	}
	if err := rows.Err(); err != nil {
		c.tb.Fatal(err)
	}
}

const (
	directory = 1
	root      = 1
	trash     = 2
)

func (c *checker) tree() {
	c.tb.Helper()
	c.each("SELECT inode_id, kind, nlink, size, COALESCE(content_id, 0) FROM inodes WHERE fs_id = ?", func(scan func(...any)) {
		var id int64
		var i inode
		scan(&id, &i.kind, &i.nlink, &i.size, &i.content)
		c.inodes[id] = i
	})
	links, children := map[int64]int64{}, map[int64][]int64{}
	c.each("SELECT parent_id, name, inode_id, is_directory FROM file_nodes WHERE fs_id = ?", func(scan func(...any)) {
		var parent, id, dir int64
		var name string
		scan(&parent, &name, &id, &dir)
		links[id]++
		children[parent] = append(children[parent], id)
		switch p, there := c.inodes[parent]; {
		case !there:
			c.add("dentry without parent: %q in %d", name, parent)
		case p.kind != directory:
			c.add("parent is no directory: %d, of %q", parent, name)
		}
		switch i, there := c.inodes[id]; {
		case !there:
			c.add("dentry without inode: %q in %d, inode %d", name, parent, id)
		case (i.kind == directory) != (dir == 1):
			c.add("kind: %q in %d is_directory %d, kind %d", name, parent, dir, i.kind)
		}
	})
	reached := map[int64]bool{root: true, trash: true}
	for next := []int64{root, trash}; len(next) > 0; {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		for _, id := range children[at] {
			if !reached[id] {
				reached[id] = true
				next = append(next, id)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.inodes)) {
		i := c.inodes[id]
		switch {
		case id == root || id == trash:
			if links[id] != 0 || i.kind != directory {
				c.add("kind: inode %d is the root or the trash and has %d dentries, kind %d", id, links[id], i.kind)
			}
		case links[id] == 0:
			c.add("inode without dentry: %d, kind %d, nlink %d", id, i.kind, i.nlink)
		case links[id] != i.nlink || (i.kind == directory && i.nlink != 1):
			c.add("nlink: inode %d, kind %d, has %d dentries and nlink %d", id, i.kind, links[id], i.nlink)
		case !reached[id]:
			c.add("unreachable: inode %d", id)
		}
	}
	c.each("SELECT DISTINCT inode_id FROM file_tags WHERE fs_id = ?", func(scan func(...any)) {
		var id int64
		scan(&id)
		if _, there := c.inodes[id]; !there {
			c.add("tag without inode: %d", id)
		}
	})
}

func (c *checker) contents() {
	c.tb.Helper()
	uses, sizes, live := map[int64]int64{}, map[int64]int64{}, map[string]bool{}
	for _, i := range c.inodes {
		if i.content != 0 {
			uses[i.content]++
		}
	}
	c.each("SELECT content_id, refs, size, COALESCE(object_key, ''), inline_bytes IS NOT NULL FROM contents WHERE fs_id = ?", func(scan func(...any)) {
		var id, refs, size int64
		var key string
		var inline bool
		scan(&id, &refs, &size, &key, &inline)
		sizes[id] = size
		if refs != uses[id] {
			c.add("refs: content %d has %d and is used %d times", id, refs, uses[id])
		}
		if inline == (key != "") {
			c.add("content: %d is inline %t and has the object %q", id, inline, key)
		}
		live[key] = true
	})
	for _, id := range slices.Sorted(maps.Keys(c.inodes)) {
		i := c.inodes[id]
		if i.content == 0 {
			continue
		}
		switch size, there := sizes[i.content]; {
		case !there:
			c.add("inode without content: %d, content %d", id, i.content)
		case size != i.size:
			c.add("size: inode %d has %d, its content %d", id, i.size, size)
		}
	}
	c.each("SELECT object_key FROM file_gc_tasks WHERE fs_id = ?", func(scan func(...any)) {
		var key string
		scan(&key)
		if live[key] {
			c.add("task of a live object: %s", key)
		}
	})
}

func (c *checker) usage(uploads bool) {
	c.tb.Helper()
	type sums struct{ bytes, files, reserved int64 }
	var want, got sums
	for _, i := range c.inodes {
		if i.kind != directory {
			want.bytes, want.files = want.bytes+i.size, want.files+1
		}
	}
	if uploads {
		c.each("SELECT declared_size FROM uploads WHERE fs_id = ? AND state = 'OPEN'", func(scan func(...any)) {
			var size int64
			scan(&size)
			want.reserved += size
		})
	}
	err := c.db.QueryRow(c.tb.Context(), "SELECT bytes, files, reserved FROM usage_total WHERE fs_id = ?", c.fs).Scan(&got.bytes, &got.files, &got.reserved)
	if errors.Is(err, sql.ErrNoRows) {
		return // a tree without the other rooms
	}
	if err != nil {
		c.tb.Fatal(err)
	}
	c.each("SELECT bytes, files, reserved FROM usage_delta WHERE fs_id = ?", func(scan func(...any)) {
		var d sums
		scan(&d.bytes, &d.files, &d.reserved)
		got = sums{got.bytes + d.bytes, got.files + d.files, got.reserved + d.reserved}
	})
	if got != want {
		c.add("usage: %+v is noted, the rows sum to %+v", got, want)
	}
}
