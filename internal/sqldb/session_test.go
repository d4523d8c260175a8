package sqldb_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// What a transaction reads is what was committed before the statement, not before the
// transaction: a lock and the look that depends on it rest on that.
func TestReadCommitted(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{things}, func(t *testing.T, db *sqldb.DB) {
		if db.Dialect().Name == sqldb.SQLite {
			return // nobody else writes meanwhile
		}
		ctx := t.Context()
		err := db.Tx(ctx, func(tx *sqldb.Tx) error {
			for want := range 3 {
				var n int
				if err := tx.QueryRow(ctx, countThings, sqldb.Strings{"0", "1", "2"}).Scan(&n); err != nil {
					return err
				}
				if n != want {
					t.Errorf("%d rows, want %d", n, want)
				}
				exec(t, db, insertThing, fmt.Sprint(want), 1)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// An UPDATE that changes nothing hits its row all the same: a heartbeat within the same
// millisecond is no lost lease.
func TestRowsThatMatch(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{things}, func(t *testing.T, db *sqldb.DB) {
		exec(t, db, insertThing, "a", 1)
		for _, want := range []struct {
			name string
			n    int64
		}{{"a", 1}, {"b", 0}} {
			if n, err := db.Exec(t.Context(), setThing, 1, want.name); err != nil || n != want.n {
				t.Errorf("%s: %d rows, %v, want %d", want.name, n, err, want.n)
			}
		}
	})
}

func TestClock(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, nil, func(t *testing.T, db *sqldb.DB) {
		before := time.Now().Add(-time.Minute).UnixMilli()
		var first, second int64
		for range 20 { // it goes on by milliseconds, unless this process stands still
			if err := db.QueryRow(t.Context(), "SELECT {now}").Scan(&first); err != nil {
				t.Fatal(err)
			}
			for second = first; second <= first; {
				if err := db.QueryRow(t.Context(), "SELECT {now}").Scan(&second); err != nil {
					t.Fatal(err)
				}
			}
			if second-first < 900 {
				break
			}
		}
		if after := time.Now().Add(time.Minute).UnixMilli(); first < before || second > after || second-first > 900 {
			t.Errorf("the database's clock says %d, then %d; this process %d", first, second, after)
		}
	})
}

// A standby, or a primary that was put to rest, is no server to work on.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	for _, server := range sqldbtest.Servers(t) {
		if server.Name != sqldb.Postgres {
			continue // MySQL's driver drops such connections at their first write
		}
		u, err := url.Parse(server.URL(t))
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("default_transaction_read_only", "on")
		u.RawQuery = q.Encode()
		if db, err := sqldb.Open(t.Context(), u.String(), sqldb.Config{}); err == nil {
			t.Errorf("it was opened: %v", db.Close())
		}
		db := server.Open(t, sqldb.Config{}, things)
		err = db.Tx(t.Context(), func(tx *sqldb.Tx) error {
			if _, err := tx.Exec(t.Context(), "SET TRANSACTION READ ONLY"); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), insertThing, "a", 1)
			return err
		})
		if fault.KindOf(err) != fault.Busy {
			t.Errorf("a write: %v, want Busy", err)
		}
	}
}

// A server in a time zone with summer time must not give an hour back in autumn.
func TestMySQLSession(t *testing.T) {
	t.Parallel()
	for _, server := range sqldbtest.Servers(t) {
		if server.Name != sqldb.MySQL {
			continue
		}
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			u, err := url.Parse(server.URL(t))
			if err != nil {
				t.Fatal(err)
			}
			u.RawQuery = url.Values{
				"time_zone": {"'+05:00'"}, "sql_mode": {"''"}, "autocommit": {"0"}, "clientFoundRows": {"false"}, "foreign_key_checks": {"0"},
			}.Encode()
			db := server.OpenURL(t, u.String(), sqldb.Config{LockWait: 4200 * time.Millisecond})
			for variable, want := range map[string]string{
				"time_zone": "+00:00", "autocommit": "1", "foreign_key_checks": "1", "sql_safe_updates": "0", "innodb_lock_wait_timeout": "5",
				"character_set_client": "utf8mb4", "character_set_results": "utf8mb4", "collation_connection": "utf8mb4_bin",
				"sql_mode": "STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION",
			} {
				var got string
				if err := db.QueryRow(t.Context(), sqldb.Statement("SELECT @@SESSION."+variable)).Scan(&got); err != nil || got != want {
					t.Errorf("%s is %s, %v, want %s", variable, got, err, want)
				}
			}
		})
	}
}

// Names compare and sort by bytes, and every byte that they may hold comes back.
func TestNames(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{things}, func(t *testing.T, db *sqldb.DB) {
		ctx := t.Context()
		names := []string{
			"a", "A", "a ", " a", "ä", "a\u0308", "ß", "ss", "'; DROP TABLE things; --", `back\slash`, `\'`, "\"q\"", "?", "{now}", "%", "_", "\n", "\x01\x1f", "𝄞", "\u200b",
		}
		for i, name := range names {
			exec(t, db, insertThing, name, i)
		}
		rows, err := db.Query(ctx, "SELECT name, n FROM things WHERE name {in} ORDER BY name", sqldb.Strings(names))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		var got []string
		for rows.Next() {
			var name string
			var n int
			if err := rows.Scan(&name, &n); err != nil {
				t.Fatal(err)
			}
			if name != names[n] {
				t.Errorf("name %q came back as %q", names[n], name)
			}
			got = append(got, name)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(names)), got); diff != "" {
			t.Errorf("not in the order of bytes (-want +got):\n%s", diff)
		}
		if n := count(t, db, names...); n != len(names) {
			t.Errorf("%d names found, want %d", n, len(names))
		}
	})
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{things}, func(t *testing.T, db *sqldb.DB) {
		if err := db.Prepare(t.Context(), "DELETE FROM things WHERE name {in}", sqldb.Strings{"x"}); err != nil {
			t.Error(err)
		}
		for _, wrong := range []sqldb.Statement{"DELETE things WHERE WHERE", "DELETE FROM nothing", "SELECT {then}"} {
			if db.Prepare(t.Context(), wrong) == nil {
				t.Errorf("%s is understood", wrong)
			}
		}
	})
}

// A process that was stopped, or cut off, inside a transaction does not keep its rows from
// others for ever: a stopped owner of a job would hold the row that others must claim.
func TestSilentTransactionIsEnded(t *testing.T) {
	t.Parallel()
	for _, server := range sqldbtest.Servers(t) {
		if server.Name == sqldb.SQLite || server.Env == sqldbtest.EnvMySQL8 || server.Env == sqldbtest.EnvTiDB {
			continue // one process only; MySQL and TiDB have no such limit for a session
		}
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			db := server.Open(t, sqldb.Config{}, things)
			exec(t, db, insertThing, "a", 1)
			err := db.Tx(t.Context(), func(tx *sqldb.Tx) error {
				if _, err := tx.Exec(t.Context(), setThing, 2, "a"); err != nil {
					return err
				}
				exec(t, db, setThing, 3, "a") // another process, which waits for the row
				return nil
			})
			if err == nil {
				t.Error("the silent transaction was committed")
			}
		})
	}
}
