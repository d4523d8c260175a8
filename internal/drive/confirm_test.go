package drive_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// An answer of the database that was lost is read back: the operation says what it did.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for _, s := range sqldbtest.Servers(t) {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			var lose atomic.Int64 // answers to lose
			hooks := sqldb.Hooks{AfterCommit: func(context.Context) error {
				if lose.Add(-1) >= 0 {
					return errors.New("the answer was lost")
				}
				return nil
			}}
			r := setup(t, s.Open(t, sqldb.Config{Hooks: hooks}, owners...), nil)
			ctx := t.Context()
			r.put(t, "/file", "file")
			r.put(t, "/victim", "victim")
			r.mkdir(t, "/dir")
			for _, c := range []struct {
				name string
				do   func() error
			}{
				{"create", func() error {
					_, _, err := r.Put(ctx, one, "/new", drive.PutOptions{Body: strings.NewReader("new"), Size: 3, IfNoneMatchAny: true})
					return err
				}},
				{"overwrite", func() error {
					_, _, err := r.Put(ctx, one, "/file", drive.PutOptions{Body: strings.NewReader("file, again"), Size: -1})
					return err
				}},
				{"mkdir", func() error { _, _, err := r.Mkdir(ctx, one, "/dir2", drive.MkdirOptions{}); return err }},
				{"link", func() error { _, err := r.Link(ctx, one, "/file", "/hard", drive.Change{}); return err }},
				{"rename", func() error { _, err := r.Rename(ctx, one, "/new", "/victim", drive.RenameOptions{}); return err }},
				{"rename of a directory", func() error { _, err := r.Rename(ctx, one, "/dir2", "/dir/sub", drive.RenameOptions{}); return err }},
				{"copy", func() error {
					_, _, err := r.Copy(ctx, one, "/file", "/copy", drive.CopyOptions{NoReplace: true})
					return err
				}},
				{"remove", func() error { _, err := r.Remove(ctx, one, "/hard", drive.RemoveOptions{}); return err }},
				{"rmdir", func() error { _, err := r.Remove(ctx, one, "/dir/sub", drive.RemoveOptions{}); return err }},
				{"chmod", func() error { _, err := r.Chmod(ctx, one, "/file", 0o600, drive.Change{}); return err }},
			} {
				lose.Store(1)
				if err := c.do(); err != nil {
					t.Errorf("%s whose answer was lost: %v", c.name, err)
				}
				if lose.Load() > 0 {
					t.Errorf("%s has lost nothing", c.name)
				}
				lose.Store(0)
			}
			if got := r.names(t, "/"); got != "copy dir file victim" {
				t.Errorf("the tree: %s", got)
			}
			for path, want := range map[string]string{"/file": "file, again", "/copy": "file, again", "/victim": "new"} {
				if got := r.read(t, path); got != want {
					t.Errorf("%s reads %q, want %q", path, got, want)
				}
			}
			r.agree(t)
		})
	}
}
