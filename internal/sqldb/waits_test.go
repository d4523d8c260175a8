package sqldb_test

import (
	"testing"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// What tests of locks rest on: who waits for a lock is seen on every engine, and told from who
// is under way.
func TestBlocked(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{things}, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		exec(t, db, insertThing, "a", 1)
		held, release := make(chan struct{}), make(chan struct{})
		change := func(then func()) <-chan error {
			done := make(chan error, 1)
			go func() {
				done <- db.Tx(ctx, func(tx *sqldb.Tx) error {
					if _, err := tx.Exec(ctx, setThing, 2, "a"); err != nil {
						return err
					}
					then()
					return nil
				})
			}()
			return done
		}
		first := change(func() { close(held); <-release })
		<-held
		if n := sqldbtest.Waiting(t, db); n != 0 {
			t.Errorf("%d wait beside nobody", n)
		}
		second := change(func() {})
		came := func() bool { return len(second) > 0 }
		if !sqldbtest.Blocked(t, db, 0, came) || sqldbtest.Waiting(t, db) != 1 {
			t.Errorf("%d wait for the row that is held", sqldbtest.Waiting(t, db))
		}
		close(release)
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		if sqldbtest.Blocked(t, db, 0, came) {
			t.Error("it waits although nobody holds the row")
		}
		if err := <-second; err != nil {
			t.Error(err)
		}
	})
}
