package sqldb_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

var things = sqldb.Migrations{Owner: "things", Files: fstest.MapFS{
	"migrations/00001_init.sql": {Data: []byte(`
-- One table with every token of a migration.
CREATE TABLE things (
    id {serial},
    name {name:255} NOT NULL,
    body {text},
    raw {bytes},
    n BIGINT NOT NULL,
    UNIQUE (name)
){table};
CREATE INDEX things_n ON things (n);
`)},
}}

const (
	insertThing = sqldb.Statement("INSERT INTO things (name, n) VALUES (?, ?)")
	countThings = sqldb.Statement("SELECT COUNT(*) FROM things WHERE name {in}")
	lockThing   = sqldb.Statement("SELECT n FROM things WHERE name = ? {for update}")
	setThing    = sqldb.Statement("UPDATE things SET n = ? WHERE name = ?")
)

func count(t *testing.T, db *sqldb.DB, names ...string) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), countThings, sqldb.Strings(names)).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTxCommitsAndRollsBack(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{things}, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		var first, second int64
		err := db.Tx(ctx, func(tx *sqldb.Tx) (err error) {
			if first, err = tx.InsertID(ctx, insertThing, "a", 1); err != nil {
				return err
			}
			second, err = tx.InsertID(ctx, insertThing, "b_%'\"\\", 2)
			return err
		})
		if err != nil || second <= first {
			t.Fatalf("ids %d, %d, error %v", first, second, err)
		}
		boom := errors.New("boom")
		err = db.Tx(ctx, func(tx *sqldb.Tx) error {
			if _, err := tx.Exec(ctx, insertThing, "c", 3); err != nil {
				return err
			}
			return boom
		})
		if !errors.Is(err, boom) {
			t.Fatalf("error %v, want boom", err)
		}
		if got := count(t, db, "a", "b_%'\"\\", "c"); got != 2 {
			t.Fatalf("%d rows, want 2", got)
		}
		_, err = db.Exec(ctx, insertThing, "a", 9)
		if class := db.Dialect().Classify(err); class != sqldb.ClassUnique {
			t.Fatalf("class %d of %v, want ClassUnique", class, err)
		}
	})
}

// Increments that read, then write, must not lose one: lock waits and retries sort them.
func TestTxSerializesLockedRows(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{things}, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		if _, err := db.Exec(ctx, insertThing, "counter", 0); err != nil {
			t.Fatal(err)
		}
		const workers, each = 6, 20
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range each {
					err := db.Tx(ctx, func(tx *sqldb.Tx) error {
						var n int64
						if err := tx.QueryRow(ctx, lockThing, "counter").Scan(&n); err != nil {
							return err
						}
						_, err := tx.Exec(ctx, setThing, n+1, "counter")
						return err
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		var n int64
		if err := db.QueryRow(ctx, "SELECT n FROM things WHERE name = ?", "counter").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != workers*each {
			t.Fatalf("counter %d, want %d", n, workers*each)
		}
	})
}

// A COMMIT whose answer is lost is read back: applied, not applied, or unknown.
func TestTxAmbiguousCommit(t *testing.T) {
	t.Parallel()
	for _, server := range sqldbtest.Servers(t) {
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			lost := errors.New("connection reset")
			var fail bool
			var refuse error
			hooks := sqldb.Hooks{
				AfterCommit: func(context.Context) error {
					if fail {
						fail = false
						return lost
					}
					return nil
				},
				BeforeCommit: func(context.Context) error { return refuse },
			}
			db := server.Open(t, sqldb.Config{LockWait: 20 * time.Second, Hooks: hooks}, things)
			look := sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
				var n int
				err := tx.QueryRow(ctx, countThings, sqldb.Strings{"x"}).Scan(&n)
				return n == 1, err
			})
			insert := func(tx *sqldb.Tx) error {
				_, err := tx.Exec(ctx, insertThing, "x", 1)
				return err
			}
			fail = true
			if err := db.Tx(ctx, insert, look); err != nil {
				t.Fatalf("applied and read back, but: %v", err)
			}
			fail = true
			err := db.Tx(ctx, func(tx *sqldb.Tx) error { return nil })
			if !errors.Is(err, sqldb.ErrCommitUnknown) || fault.KindOf(err) != fault.Unknown {
				t.Fatalf("without a look: %v, want ErrCommitUnknown", err)
			}
			fail = true
			err = db.Tx(ctx, func(tx *sqldb.Tx) error { return nil }, sqldb.Confirm(func(context.Context, *sqldb.Tx) (bool, error) {
				return false, nil
			}))
			if errors.Is(err, sqldb.ErrCommitUnknown) || !errors.Is(err, lost) {
				t.Fatalf("surely not applied: %v, want the lost connection", err)
			}
			impatient := server.Open(t, sqldb.Config{LockWait: 300 * time.Millisecond, Hooks: hooks}) // it looks for so long
			fail = true
			err = impatient.Tx(ctx, func(*sqldb.Tx) error { return nil }, sqldb.Confirm(func(context.Context, *sqldb.Tx) (bool, error) {
				return false, errors.New("the database is down")
			}))
			if !errors.Is(err, sqldb.ErrCommitUnknown) {
				t.Fatalf("look failed: %v, want ErrCommitUnknown", err)
			}
			refuse = errors.New("refused")
			if err := db.Tx(ctx, func(*sqldb.Tx) error { return nil }); !errors.Is(err, refuse) {
				t.Fatalf("before commit: %v", err)
			}
		})
	}
}

// PostgreSQL rolls a transaction back in which a statement failed, whatever its function
// makes of that: the others undo the statement and commit the rest. It is never unknown.
func TestTxThatHidesAnError(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{things}, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		exec(t, db, insertThing, "a", 1)
		err := db.Tx(ctx, func(tx *sqldb.Tx) error {
			if _, err := tx.Exec(ctx, insertThing, "b", 1); err != nil {
				return err
			}
			_, _ = tx.Exec(ctx, insertThing, "a", 1)
			return nil
		})
		if errors.Is(err, sqldb.ErrCommitUnknown) {
			t.Errorf("error %v", err)
		}
		if rows := count(t, db, "b"); (rows == 1) != (err == nil) {
			t.Errorf("%d rows, error %v", rows, err)
		}
	})
}
