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
			ctx, cancel := context.WithCancel(t.Context())
			fourth := make(chan error, 1)
			go func() { fourth <- db.Ping(ctx) }()
			await(t, "the fourth waits", func() bool { return db.Stats().WaitCount > 0 || len(fourth) > 0 })
			cancel()
			if err := <-fourth; !errors.Is(err, context.Canceled) {
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
			await(t, "idle connections are closed", func() bool { return db.Stats().OpenConnections == 0 })
		})
	}
}

// await polls until done is true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
