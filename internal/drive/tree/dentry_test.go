package tree_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/sqldb"
)

func TestChangesOfNames(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		b.populate("/a/f", "/b/g", "/b/sub/x", "/e/")
		empty := b.at("/e").Inode
		a, bb, sub, f, g := b.at("/a"), b.at("/b"), b.at("/b/sub"), b.at("/a/f"), b.at("/b/g")
		id := b.id()
		before := b.rows()
		stale := f
		stale.Inode = g.Inode
		for _, tt := range []struct {
			name string
			do   func(ctx context.Context, tx *sqldb.Tx) error
			want error
		}{
			{"insert of a taken name", func(ctx context.Context, tx *sqldb.Tx) error {
				return b.Insert(ctx, tx, b.fs, tree.Node{Parent: a.Inode, Name: "f", Inode: id, Kind: tree.File})
			}, tree.ErrExists},
			{"link of a taken name", func(ctx context.Context, tx *sqldb.Tx) error {
				return b.Link(ctx, tx, b.fs, a.Inode, "f", g.Inode)
			}, tree.ErrExists},
			{"move to a taken name", func(ctx context.Context, tx *sqldb.Tx) error {
				return b.Move(ctx, tx, b.fs, g, a.Inode, "f")
			}, tree.ErrExists},
			{"link of a directory", func(ctx context.Context, tx *sqldb.Tx) error {
				return b.Link(ctx, tx, b.fs, a.Inode, "sub", sub.Inode)
			}, tree.ErrMoved},
			{"link of what is gone", func(ctx context.Context, tx *sqldb.Tx) error {
				return b.Link(ctx, tx, b.fs, a.Inode, "x", 9999)
			}, tree.ErrMoved},
			{"removal of another inode", func(ctx context.Context, tx *sqldb.Tx) error { return b.RemoveDentry(ctx, tx, b.fs, stale) }, tree.ErrMoved},
			{"move of another inode", func(ctx context.Context, tx *sqldb.Tx) error { return b.Move(ctx, tx, b.fs, stale, a.Inode, "x") }, tree.ErrMoved},
			{"lock of a file as a directory", func(ctx context.Context, tx *sqldb.Tx) error { return b.LockShared(ctx, tx, b.fs, f.Inode) }, tree.ErrMoved},
			{"lock of what is gone", func(ctx context.Context, tx *sqldb.Tx) error { return b.LockShared(ctx, tx, b.fs, a.Inode, 9999) }, tree.ErrMoved},
		} {
			if err := b.try(tt.do); !errors.Is(err, tt.want) {
				b.t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
		}
		if diff := cmp.Diff(before, b.rows()); diff != "" {
			b.t.Errorf("what was refused changed something (-before +after):\n%s", diff)
		}
		// An id that was used is a fault of ours, no taken name.
		err := b.try(func(ctx context.Context, tx *sqldb.Tx) error {
			return b.Insert(ctx, tx, b.fs, tree.Node{Parent: a.Inode, Name: "new", Inode: f.Inode, Kind: tree.File})
		})
		if err == nil || errors.Is(err, tree.ErrExists) {
			b.t.Errorf("insert of a taken inode: %v", err)
		}
		b.link("/a/f", "/b/h")
		b.tx(func(ctx context.Context, tx *sqldb.Tx) error {
			if err := b.LockShared(ctx, tx, b.fs, bb.Inode, a.Inode); err != nil {
				return err
			}
			if err := b.Move(ctx, tx, b.fs, sub, a.Inode, "moved"); err != nil {
				return err
			}
			return b.Move(ctx, tx, b.fs, g, bb.Inode, "G")
		})
		if x := b.at("/a/moved/x"); x.Name != "x" || b.at("/b/G").Inode != g.Inode || b.at("/b/h").NLink != 2 || b.resolve("/b/sub").Exists() {
			b.t.Errorf("after moves: %+v", x)
		}
		b.tx(func(ctx context.Context, tx *sqldb.Tx) error {
			for dir, want := range map[tree.Inode]bool{empty: true, a.Inode: false, 9999: true} {
				if got, err := b.Childless(ctx, tx, b.fs, dir); got != want || err != nil {
					b.t.Errorf("childless %d: %t, %v", dir, got, err)
				}
			}
			return nil
		})
		b.check()
	})
}
