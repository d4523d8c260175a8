package tree_test

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
	"testing"

	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// A block of ids whose commit was not answered is lost and nothing else: the caller may try
// again, and no id is given twice.
func TestLostAnswerCostsNoMoreThanIDs(t *testing.T) {
	t.Parallel()
	for _, s := range sqldbtest.Servers(t) {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			var lose atomic.Bool
			hooks := sqldb.Hooks{AfterCommit: func(context.Context) error {
				if lose.Load() {
					return driver.ErrBadConn
				}
				return nil
			}}
			db := s.Open(t, sqldb.Config{Hooks: hooks}, tree.Migrations)
			b := &bench{Tree: tree.New(db), t: t, db: db, fs: 7}
			b.create()
			lose.Store(true)
			if ids, err := b.NewIDs(t.Context(), b.fs, 3); fault.KindOf(err) != fault.Busy || fault.RetryAfter(err) <= 0 {
				t.Errorf("an answer was lost: %v, %v, want Busy", ids, err)
			}
			lose.Store(false)
			first, err := b.NewIDs(t.Context(), b.fs, 2)
			if err != nil {
				t.Fatal(err)
			}
			other, err := tree.New(db).NewIDs(t.Context(), b.fs, 2)
			if err != nil || other[0] <= first[1] {
				t.Errorf("%v after %v, %v", other, first, err)
			}
		})
	}
}
