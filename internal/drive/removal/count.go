package removal

import (
	"context"

	"github.com/lethe-project/lethe/internal/drive/tree"
)

// count counts a tree with plain reads, up to limit nodes. files, unless it is nil, is given
// the names that are no directories, some at a time.
func (m *Removal) count(ctx context.Context, fs tree.FS, node tree.Node, limit int, files func(names []tree.Inode) error) (counts Counts, more bool, err error) {
	counts.Directories = 1
	for todo := []tree.Inode{node.Inode}; len(todo) > 0; {
		part := todo[max(0, len(todo)-m.batch):]
		todo = todo[:len(todo)-len(part)]
		part = sortedSet(part)
		room := limit - int(counts.Nodes())
		entries, err := m.tree.Children(ctx, m.db, fs, part, room+1)
		if err != nil {
			return counts, false, err
		}
		more = len(entries) > room
		var names []tree.Inode
		for _, e := range entries[:min(len(entries), room)] {
			if e.Dir {
				counts.Directories++
				todo = append(todo, e.Inode)
			} else {
				counts.Files++
				names = append(names, e.Inode)
			}
		}
		if files != nil {
			if err := files(names); err != nil {
				return counts, false, err
			}
		}
		if more {
			return counts, true, nil
		}
	}
	return counts, false, nil
}

// dryRun counts what a delete would take, up to maxCounted nodes, and the bytes that it would
// free: those of files that have no name outside of what was counted. It locks nothing, so a
// tree that is written to meanwhile is counted as it was somewhere in between.
func (m *Removal) dryRun(ctx context.Context, fs tree.FS, node tree.Node) (counts Counts, more bool, err error) {
	if node.Kind != tree.Directory {
		return Counts{Files: 1, Bytes: frees(node)}, false, nil
	}
	var bytes int64
	left := map[tree.Inode]int64{} // names that were not met yet, of files with several
	counts, more, err = m.count(ctx, fs, node, maxCounted, func(names []tree.Inode) error {
		met := make(map[tree.Inode]int64, len(names))
		for _, ino := range names {
			met[ino]++
		}
		nodes, err := m.tree.Sizes(ctx, m.sweeper, fs, names)
		for _, n := range nodes {
			if n.NLink > 1 {
				if _, known := left[n.Inode]; !known {
					left[n.Inode] = n.NLink
				}
				if left[n.Inode] -= met[n.Inode]; left[n.Inode] != 0 {
					continue
				}
			}
			bytes += n.Size
		}
		return err
	})
	counts.Bytes = bytes
	return counts, more, err
}

// frees is how many bytes go with the name of a file.
func frees(node tree.Node) int64 {
	if node.NLink > 1 {
		return 0
	}
	return node.Size
}
