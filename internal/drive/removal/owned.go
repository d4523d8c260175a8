package removal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// What an inode owns, and where it goes:
//
//	a file or link  its content (one reference), its tags, its bytes and its place in the usage
//	a directory     its tags, the open uploads bound to it with their reservations
//
// A new kind of row that belongs to an inode is added here, and to the test that makes one
// of each.

// Freed is what an unlink gave back.
type Freed struct {
	Files int64 // inodes of files and links that went
	Bytes int64 // their sizes
}

// Unlink is the step that settles dentries of files and links which the transaction has
// removed already: counts says how many of each inode. What nobody names any more goes with
// all it owns. It locks files by id, then contents by id, and writes the usage.
func (m *Removal) Unlink(ctx context.Context, tx *sqldb.Tx, fs tree.FS, counts map[tree.Inode]int64) (Freed, error) {
	lost := make([]unlinked, 0, len(counts))
	for ino, k := range counts {
		lost = append(lost, unlinked{Leaf: tree.Leaf{Inode: ino}, entries: k})
	}
	slices.SortFunc(lost, byInode)
	return m.unlink(ctx, tx, fs, lost)
}

// unlinked is a file or link and how many of its dentries went.
type unlinked struct {
	tree.Leaf
	entries int64
}

func byInode(a, b unlinked) int { return cmp.Compare(a.Inode, b.Inode) }

// perInode counts the entries of each inode: of one that several name, one is left.
func perInode(leaves []tree.Leaf) []unlinked {
	all := make([]unlinked, len(leaves))
	for i, l := range leaves {
		all[i] = unlinked{Leaf: l, entries: 1}
	}
	slices.SortFunc(all, byInode)
	kept := all[:0]
	for _, u := range all {
		if n := len(kept); n > 0 && kept[n-1].Inode == u.Inode {
			kept[n-1].entries++
			continue
		}
		kept = append(kept, u)
	}
	return kept
}

// hold locks the files and reads what they say, unless the look that found them has read it
// and is as good as a lock (tree.FilesIn).
func (m *Removal) hold(ctx context.Context, tx *sqldb.Tx, fs tree.FS, files []unlinked) error {
	if !slices.ContainsFunc(files, func(u unlinked) bool { return u.NLink == 0 }) {
		return nil
	}
	ids := make([]tree.Inode, len(files))
	for i, u := range files {
		ids[i] = u.Inode
	}
	leaves, err := m.tree.LockLeaves(ctx, tx, fs, ids)
	if err != nil {
		return err
	}
	if len(leaves) != len(ids) {
		return fmt.Errorf("%w: %d dentries name files of which %d are there", errDamaged, len(ids), len(leaves))
	}
	for i, l := range leaves { // both ascend
		files[i].Leaf = l
	}
	return nil
}

// unlink is Unlink of files by ascending id.
func (m *Removal) unlink(ctx context.Context, tx *sqldb.Tx, fs tree.FS, files []unlinked) (freed Freed, err error) {
	if len(files) == 0 {
		return Freed{}, nil
	}
	if err := m.hold(ctx, tx, fs, files); err != nil {
		return Freed{}, err
	}
	gone := make([]tree.Inode, 0, len(files))
	stay := map[int64][]tree.Inode{}          // by how many links each loses
	uses := make(map[int64]int64, len(files)) // of contents
	for _, u := range files {
		switch k := u.entries; {
		case u.NLink > k:
			stay[k] = append(stay[k], u.Inode)
		case u.NLink == k:
			gone = append(gone, u.Inode)
			freed.Bytes += u.Size
			if u.Content != 0 {
				uses[u.Content]++
			}
		default:
			return Freed{}, fmt.Errorf("%w: inode %d has %d links and lost %d", errDamaged, u.Inode, u.NLink, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(stay)) {
		if err := exactly(len(stay[k]), m.cfg.lax)(m.tree.LowerLinks(ctx, tx, fs, stay[k], k)); err != nil {
			return Freed{}, err
		}
	}
	if len(gone) == 0 {
		return Freed{}, nil
	}
	if len(uses) > 0 {
		if err := m.content.Unref(ctx, tx, int64(fs), uses); err != nil {
			return Freed{}, err
		}
	}
	if err := exactly(len(gone), m.cfg.lax)(m.tree.DeleteInodes(ctx, tx, fs, gone)); err != nil {
		return Freed{}, err
	}
	if err := m.tree.DeleteTags(ctx, tx, fs, gone); err != nil {
		return Freed{}, err
	}
	freed.Files = int64(len(gone))
	return freed, m.feed.Add(ctx, tx, int64(fs), feed.Delta{Bytes: -freed.Bytes, Files: -freed.Files})
}

// RemoveDirectories is the step that removes the inodes of directories which the
// transaction holds exclusively, found empty and took the dentries of, with all they own.
func (m *Removal) RemoveDirectories(ctx context.Context, tx *sqldb.Tx, fs tree.FS, dirs []tree.Inode) error {
	if len(dirs) == 0 {
		return nil
	}
	if err := exactly(len(dirs), m.cfg.lax)(m.tree.DeleteInodes(ctx, tx, fs, dirs)); err != nil {
		return err
	}
	if err := m.tree.DeleteTags(ctx, tx, fs, dirs); err != nil {
		return err
	}
	ids := make([]int64, len(dirs))
	for i, d := range dirs {
		ids[i] = int64(d)
	}
	_, reserved, err := m.content.AbortIn(ctx, tx, int64(fs), ids)
	if err != nil {
		return err
	}
	return m.feed.Add(ctx, tx, int64(fs), feed.Delta{Reserved: -reserved})
}

// exactly turns the count of a set write into tree.ErrMoved when it is not want.
func exactly(want int, lax lax) func(int64, error) error {
	return func(n int64, err error) error {
		if err == nil && n != int64(want) && !lax.noCount {
			return fmt.Errorf("%w: %d of %d rows", tree.ErrMoved, n, want)
		}
		return err
	}
}
