package sqldb_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// The pool is no larger than asked, keeps what was opened, and gives it back in time.
func TestPool(t *testing.T) {
	t.Parallel()
	for _, server := range sqldbtest.Servers(t) {
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			db := server.Open(t, sqldb.Config{MaxConns: 3, IdleTime: 500 * time.Millisecond}, pairs)
			exec(t, db, insertParent, "a")
			var open []func() error
			for range 3 {
				rows, err := db.Query(t.Context(), "SELECT id FROM parents")
				if err != nil {
					t.Fatal(err)
				}
				if !rows.Next() || rows.Err() != nil {
					t.Fatalf("no row: %v", rows.Err())
				}
				open = append(open, rows.Close)
			}
			if got := db.Stats(); got.InUse != 3 || got.MaxOpenConnections != 3 {
				t.Errorf("stats %+v", got)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := db.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a fourth connection: %v", err)
			}
			for _, closeRows := range open {
				if err := closeRows(); err != nil {
					t.Error(err)
				}
			}
			if got := db.Stats(); got.InUse != 0 || got.WaitDuration <= 0 {
				t.Errorf("stats afterwards %+v", got)
			}
			if server.Name == sqldb.SQLite {
				return // its connections are cheap to keep, and their compiled statements worth it
			}
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for deadline := time.After(20 * time.Second); db.Stats().OpenConnections > 0; {
				select {
				case <-tick.C:
				case <-deadline:
					t.Fatalf("idle connections stay: %+v", db.Stats())
				}
			}
		})
	}
}
