package sqldb_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// Watch is told of every transaction's end, however it ends.
func TestWatch(t *testing.T) {
	t.Parallel()
	for _, server := range sqldbtest.Servers(t) {
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			type ignored struct{}
			var begun, tries int
			var ended error
			db := server.Open(t, sqldb.Config{Watch: func(ctx context.Context) func(int, error) {
				begun++
				if ctx.Value(ignored{}) != nil {
					return nil
				}
				return func(n int, err error) { tries, ended = n, err }
			}}, things)
			ctx := t.Context()
			tx := func(ctx context.Context, fn func(*sqldb.Tx) error) (err error) {
				begun, tries, ended = 0, 0, nil
				return db.Tx(ctx, fn)
			}
			insert := func(tx *sqldb.Tx) error { _, err := tx.Exec(ctx, insertThing, "x", 1); return err }
			if err := tx(ctx, insert); err != nil || begun != 1 || tries != 1 || ended != nil {
				t.Errorf("committed: %v: begun %d, tries %d, %v", err, begun, tries, ended)
			}
			boom := errors.New("boom")
			if err := tx(ctx, func(*sqldb.Tx) error { return boom }); !errors.Is(err, boom) || tries != 1 || !errors.Is(ended, boom) {
				t.Errorf("rolled back: %v: tries %d, %v", err, tries, ended)
			}
			if err := tx(context.WithValue(ctx, ignored{}, true), func(*sqldb.Tx) error { return nil }); err != nil || begun != 1 || tries != 0 {
				t.Errorf("ignored: %v: begun %d, tries %d", err, begun, tries)
			}
			func() {
				defer func() {
					if p := recover(); p != "boom" || tries != 1 || ended == nil {
						t.Errorf("panic %v: tries %d, %v", p, tries, ended)
					}
				}()
				_ = tx(ctx, func(*sqldb.Tx) error { panic("boom") })
			}()
		})
	}
}
