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

var pairs = sqldb.Migrations{Owner: "pairs", Files: fstest.MapFS{
	"migrations/00001_init.sql": {Data: []byte(`
CREATE TABLE parents (
    id {serial},
    n BIGINT NOT NULL,
    name {name:8} NOT NULL,
    UNIQUE (name)
){table};
CREATE TABLE children (
    id {serial},
    parent_id BIGINT NOT NULL,
    n BIGINT NOT NULL,
    UNIQUE (parent_id, n),
    FOREIGN KEY (parent_id) REFERENCES parents (id)
){table};
`)},
}}

const (
	insertParent = sqldb.Statement("INSERT INTO parents (name, n) VALUES (?, 0)")
	insertChild  = sqldb.Statement("INSERT INTO children (parent_id, n) VALUES (?, ?)")
	leaveParent  = sqldb.Statement("{insert ignore} parents (name, n) VALUES (?, ?) {ignore}")
	leaveChild   = sqldb.Statement("{insert ignore} children (parent_id, n) VALUES (?, ?) {ignore}")
	touchParent  = sqldb.Statement("UPDATE parents SET n = n + 1 WHERE name = ?")
	lockParent   = sqldb.Statement("SELECT n FROM parents WHERE name = ? {for update}")
)

func exec(t *testing.T, db *sqldb.DB, s sqldb.Statement, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), s, args...); err != nil {
		t.Fatal(err)
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{pairs}, func(t *testing.T, db *sqldb.DB) {
		exec(t, db, insertParent, "a")
		exec(t, db, insertChild, 1, 1)
		for _, tt := range []struct {
			name string
			s    sqldb.Statement
			args []any
			want sqldb.Class
		}{
			{"unique", insertParent, []any{"a"}, sqldb.ClassUnique},
			{"unique of two columns", insertChild, []any{1, 1}, sqldb.ClassUnique},
			{"primary key", "INSERT INTO parents (id, name, n) VALUES (1, ?, 0)", []any{"b"}, sqldb.ClassUnique},
			{"no such parent", insertChild, []any{7, 1}, sqldb.ClassReference},
			{"a parent with children", "DELETE FROM parents WHERE id = ?", []any{1}, sqldb.ClassReference},
			{"no value", insertParent, []any{nil}, sqldb.ClassOther},
			{"no such table", "DELETE FROM nothing WHERE id = ?", []any{1}, sqldb.ClassOther},
		} {
			_, err := db.Exec(t.Context(), tt.s, tt.args...)
			if err == nil || db.Dialect().Classify(err) != tt.want {
				t.Errorf("%s: class %d of %v, want %d", tt.name, db.Dialect().Classify(err), err, tt.want)
			}
		}
	})
}

// A duplicate inserts nothing and leaves the transaction whole; every other error stays
// an error.
func TestInsertIgnore(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{pairs}, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		err := db.Tx(ctx, func(tx *sqldb.Tx) error {
			for _, tt := range []struct {
				name string
				n    int
				want int64
			}{{"a", 1, 1}, {"a", 1, 0}, {"a", 2, 0}, {"A", 1, 1}, {"b", 1, 1}} {
				got, err := tx.Exec(ctx, leaveParent, tt.name, tt.n)
				if err != nil || got != tt.want {
					t.Errorf("%s, %d: %d rows, %v, want %d", tt.name, tt.n, got, err, tt.want)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var rows, first int
		if err := db.QueryRow(ctx, "SELECT COUNT(*), MAX(n) FROM parents").Scan(&rows, &first); err != nil || rows != 3 || first != 1 {
			t.Errorf("%d rows, largest n %d, %v", rows, first, err)
		}
		if _, err := db.Exec(ctx, leaveChild, 99, 1); db.Dialect().Classify(err) != sqldb.ClassReference {
			t.Errorf("no such parent: %v", err)
		}
		if n, err := db.Exec(ctx, leaveParent, nil, 1); err == nil {
			t.Errorf("no value: %d rows and no error", n)
		}
		if db.Dialect().Name == sqldb.MySQL {
			if n, err := db.Exec(ctx, leaveParent, "123456789", 1); err == nil {
				t.Errorf("a name that is too long: %d rows and no error", n)
			}
		}
	})
}

// What a server decides alone: two transactions that wait for each other.
func TestDeadlockRunsAgain(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{pairs}, func(t *testing.T, db *sqldb.DB) {
		if db.Dialect().Name == sqldb.SQLite {
			return // one writer
		}
		exec(t, db, insertParent, "a")
		exec(t, db, insertParent, "b")
		var both sync.WaitGroup
		both.Add(2)
		results := make(chan error, 2)
		for _, order := range [][2]string{{"a", "b"}, {"b", "a"}} {
			go func() {
				run := 0
				results <- db.Tx(t.Context(), func(tx *sqldb.Tx) error {
					run++
					if _, err := tx.Exec(t.Context(), touchParent, order[0]); err != nil {
						return err
					}
					if run == 1 { // until the other one holds its first row, too
						both.Done()
						both.Wait()
					}
					_, err := tx.Exec(t.Context(), touchParent, order[1])
					return err
				})
			}()
		}
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		var sum int
		if err := db.QueryRow(t.Context(), "SELECT SUM(n) FROM parents").Scan(&sum); err != nil || sum != 4 {
			t.Errorf("%d changes, %v, want 4", sum, err)
		}
		if db.Retries() == 0 {
			t.Error("nothing ran again: there was no deadlock")
		}
	})
}

// A lock that is not had in time ends as fault.Busy, after the wait that was asked for,
// and what the transaction did before is gone.
func TestLockWait(t *testing.T) {
	t.Parallel()
	for _, server := range sqldbtest.Servers(t) {
		if server.Name == sqldb.SQLite {
			continue // its writers queue in the process, as long as their contexts live
		}
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			url := server.URL(t)
			holder := server.OpenURL(t, url, sqldb.Config{}, pairs)
			db := server.OpenURL(t, url, sqldb.Config{LockWait: 30 * time.Second, MaxConns: 1})
			exec(t, holder, insertParent, "a")
			err := holder.Tx(ctx, func(tx *sqldb.Tx) error {
				if _, err := tx.Exec(ctx, touchParent, "a"); err != nil {
					return err
				}
				began := time.Now()
				err := db.Tx(ctx, func(waiting *sqldb.Tx) error {
					// A server ends the session of a transaction that is silent for long.
					if _, err := tx.Exec(ctx, touchParent, "a"); err != nil {
						t.Error(err)
					}
					if _, err := waiting.Exec(ctx, insertParent, "b"); err != nil {
						return err
					}
					var n int
					err := waiting.QueryRow(ctx, lockParent, "a").Scan(&n)
					if class := db.Dialect().Classify(err); class != sqldb.ClassLockWait {
						t.Errorf("class %d of %v, want ClassLockWait", class, err)
					}
					return err
				}, sqldb.LockWait(time.Second))
				if fault.KindOf(err) != fault.Busy {
					t.Errorf("error %v, want Busy", err)
				}
				if took := time.Since(began); took > time.Minute { // of half a minute each they were two
					t.Errorf("4 waits of a second took %s", took)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			var rows int
			if err := db.QueryRow(ctx, "SELECT COUNT(*) FROM parents").Scan(&rows); err != nil || rows != 1 {
				t.Errorf("%d rows, %v: the statement before the wait survived", rows, err)
			}
			setting, want := sqldb.Statement("SHOW lock_timeout"), "30s"
			if server.Name == sqldb.MySQL {
				setting, want = "SELECT @@SESSION.innodb_lock_wait_timeout", "30"
			}
			var got string
			if err := db.QueryRow(ctx, setting).Scan(&got); err != nil || got != want {
				t.Errorf("the session waits %s, %v: the transaction's wait outlived it", got, err)
			}
		})
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{things}, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		fill := "INSERT INTO things (name, n, raw) VALUES (?, 1, zeroblob(8192))"
		switch db.Dialect().Name {
		case sqldb.Postgres:
			return // only a full disk brings it about; TestClassifyCodes
		case sqldb.SQLite:
			exec(t, db, "PRAGMA max_page_count = 64")
		case sqldb.MySQL:
			fill = "INSERT INTO tiny VALUES (?, REPEAT('x', 8000))"
		}
		err := db.Tx(ctx, func(tx *sqldb.Tx) error {
			if db.Dialect().Name == sqldb.MySQL {
				for _, s := range []sqldb.Statement{"SET SESSION max_heap_table_size = 65536", "CREATE TEMPORARY TABLE tiny (a VARBINARY(32), b VARBINARY(8000)) ENGINE=MEMORY"} {
					if _, err := tx.Exec(ctx, s); err != nil {
						return err
					}
				}
			}
			for i := range 100 {
				if _, err := tx.Exec(ctx, sqldb.Statement(fill), time.Unix(int64(i), 0).String()[:19]); err != nil {
					return err
				}
			}
			return nil
		})
		if fault.KindOf(err) != fault.Full {
			t.Errorf("error %v, want Full", err)
		}
	})
}

// A connection that breaks before COMMIT changed nothing; one that breaks in COMMIT is
// read back.
func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	for _, server := range sqldbtest.Servers(t) {
		if server.Name == sqldb.SQLite {
			continue
		}
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			url := server.URL(t)
			killer := server.OpenURL(t, url, sqldb.Config{}, things)
			session := map[sqldb.Name]sqldb.Statement{sqldb.Postgres: "SELECT pg_backend_pid()", sqldb.MySQL: "SELECT CONNECTION_ID()"}[server.Name]
			kill := func(id int64) {
				var err error
				if server.Name == sqldb.Postgres {
					_, err = killer.Exec(ctx, "SELECT pg_terminate_backend(?::int)", id)
				} else {
					_, err = killer.Exec(ctx, "KILL ?", id)
				}
				if err != nil {
					t.Error(err)
				}
			}
			var id int64
			var atCommit bool
			db := server.OpenURL(t, url, sqldb.Config{Hooks: sqldb.Hooks{BeforeCommit: func(context.Context) error {
				if atCommit {
					atCommit = false
					kill(id)
				}
				return nil
			}}})
			insert := func(tx *sqldb.Tx) error {
				if err := tx.QueryRow(ctx, session).Scan(&id); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, insertThing, "x", 1)
				return err
			}
			err := db.Tx(ctx, func(tx *sqldb.Tx) error {
				if err := insert(tx); err != nil {
					return err
				}
				kill(id)
				var err error
				for err == nil { // the server ends the session after it answered the killer
					_, err = tx.Exec(ctx, setThing, 2, "x")
				}
				return err
			})
			if fault.KindOf(err) != fault.Busy || !fault.Is(err, sqldb.CodeUnavailable) {
				t.Errorf("in the middle: %v, want CodeUnavailable", err)
			}
			if n := count(t, db, "x"); n != 0 {
				t.Errorf("%d rows of a broken transaction", n)
			}
			atCommit = true
			err = db.Tx(ctx, insert)
			if !errors.Is(err, sqldb.ErrCommitUnknown) {
				t.Errorf("at COMMIT, without a look: %v", err)
			}
			atCommit = true
			err = db.Tx(ctx, insert, sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
				var n int
				err := tx.QueryRow(ctx, countThings, sqldb.Strings{"x"}).Scan(&n)
				return n > 0, err
			}))
			if err == nil || errors.Is(err, sqldb.ErrCommitUnknown) {
				t.Errorf("at COMMIT, read back as not applied: %v", err)
			}
			if n := count(t, db, "x"); n != 0 {
				t.Errorf("%d rows", n)
			}
		})
	}
}
