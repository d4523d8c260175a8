package tree_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// A directory's time follows its entries, late and once a second.
func TestTouchDirectory(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.populate("/d/f")
		d, f := b.at("/d").Inode, b.at("/d/f").Inode
		b.tx(func(ctx context.Context, tx *sqldb.Tx) error {
			return errors.Join(b.Touch(ctx, tx, b.fs, d, 5, 5), b.Touch(ctx, tx, b.fs, f, 5, 5))
		})
		for range 20 { // one may be lost: nobody waits for it for longer than a second
			if tree.New(b.db).TouchDirectory(b.t.Context(), b.fs, d); b.at("/d").Modified != 5 {
				break
			}
		}
		b.TouchDirectory(b.t.Context(), b.fs, f)
		if dir, file := b.at("/d"), b.at("/d/f"); dir.Modified == 5 || dir.Revision != 2 || file.Modified != 5 {
			b.t.Errorf("after a touch: %+v, %+v", dir, file)
		}
	})
}

// What is remembered of directories is bounded, and forgetting costs a write at most.
func TestTouchThrottle(t *testing.T) {
	t.Parallel()
	tr := tree.New(nil)
	start := time.Now()
	for i, tt := range []struct {
		after time.Duration
		fs    tree.FS
		dir   tree.Inode
		want  bool
	}{
		{0, 7, 20, true},
		{999 * time.Millisecond, 7, 20, false},
		{999 * time.Millisecond, 8, 20, true},
		{999 * time.Millisecond, 7, 21, true},
		{time.Second, 7, 20, true},
		{1999 * time.Millisecond, 7, 20, false},
	} {
		if got := tr.TouchDue(tt.fs, tt.dir, start.Add(tt.after)); got != tt.want {
			t.Errorf("%d: due %t", i, got)
		}
	}
	for i := range 20_000 {
		if !tr.TouchDue(7, tree.Inode(100+i), start.Add(2*time.Second)) {
			t.Fatalf("directory %d is not due at first", i)
		}
		if n := tr.Remembered(); n > 4096 {
			t.Fatalf("%d directories are remembered", n)
		}
	}
}
