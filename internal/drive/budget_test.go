package drive_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/tree"
)

// What operations send, BEGIN and COMMIT left out. The hot ones are promised; the others
// stand here so that nobody adds a statement unseen.
func TestStatements(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		ctx := t.Context()
		deep := "/" + strings.Join(strings.Split("abcdefghijklmno", ""), "/")
		now := time.Now()
		touched := [2]time.Time{now, now} // the directory and the root, not before that
		dir := r.mkdir(t, deep)
		put := func(path, text string) func() {
			return func() { r.put(t, path, text) }
		}
		put(deep+"/first", "1")() // takes a block of ids and touches the directory
		put("/first", "1")()
		long := strings.Repeat("x", 100)
		for _, c := range []struct {
			name string
			most int64
			do   func()
		}{
			{"stat of 16 names", 1, func() { _, _ = r.Stat(ctx, one, deep+"/first", true) }},
			{"HEAD", 2, func() { _, _ = r.Head(ctx, one, deep+"/first") }},
			{"create of an inline file", 8, put(deep+"/second", "2")},
			{"create of an inline file of unknown size", 8, func() {
				_, _, _ = r.Put(ctx, one, deep+"/third", drive.PutOptions{Body: strings.NewReader("3"), Size: -1})
			}},
			{"create of an inline file in the root", 8, put("/second", "2")},
			{"create with 100 directories on the way", 18, put("/"+strings.Repeat("q/", 100)+"f", "4")},
			{"read", 2, func() { _ = r.read(t, deep+"/second") }},
			{"list", 2, func() { _ = r.names(t, deep) }},
			{"overwrite", 9, put(deep+"/second", "3")},
			{"create of an object", 11, put(deep+"/object", long)},
			{"remove", 10, func() { _, _ = r.Remove(ctx, one, deep+"/second", drive.RemoveOptions{}) }},
			{"rename", 5, func() { _, _ = r.Rename(ctx, one, deep+"/object", deep+"/o2", drive.RenameOptions{}) }},
			{"link", 7, func() { _, _ = r.Link(ctx, one, deep+"/o2", deep+"/o3", drive.Change{}) }},
			{"copy", 9, func() { _, _, _ = r.Copy(ctx, one, deep+"/o2", deep+"/o4", drive.CopyOptions{}) }},
		} {
			for i, at := range []tree.Inode{dir.Inode, tree.Root} { // not due again within the second
				before, now := r.db.Statements(), time.Now()
				if r.tree.TouchDirectory(ctx, one, at); r.db.Statements() > before {
					touched[i] = now
				}
			}
			before := r.db.Statements()
			c.do()
			if time.Since(touched[0]) >= time.Second || time.Since(touched[1]) >= time.Second {
				before++ // a slow machine: a touch may have been due
			}
			if n := r.db.Statements() - before; n > c.most {
				t.Errorf("%s: %d statements, at most %d", c.name, n, c.most)
			} else {
				t.Logf("%s: %d", c.name, n)
			}
		}
	})
}
