package sqldb_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// frozenTimeout is enough for what goes well on a slow machine.
const frozenTimeout = 4 * time.Second

// apart runs fn on each server that can fall silent, with a gateway before it.
func apart(t *testing.T, fn func(t *testing.T, server sqldbtest.Server, g *sqldbtest.Gateway)) {
	t.Helper()
	for _, server := range sqldbtest.Servers(t) {
		if server.Name == sqldb.SQLite {
			continue // it is in this process
		}
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			fn(t, server, sqldbtest.NewGateway(t, server.URL(t)))
		})
	}
}

// within fails the test when fn takes so long that something is not bounded.
func within(t *testing.T, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	select {
	case <-done:
	case <-time.After(45 * time.Second):
		t.Fatalf("%s does not end", what)
	}
}

func wantLate(t *testing.T, what string, err error) {
	t.Helper()
	if fault.KindOf(err) != fault.Busy || !fault.Is(err, sqldb.CodeUnavailable) || fault.RetryAfter(err) <= 0 {
		t.Errorf("%s: %v, want Busy because the database is not there", what, err)
	}
}

// What is asked of a database that says nothing has an end, surely changed nothing, and
// leaves no connection behind of which nobody knows what it will answer.
func TestFrozenDatabase(t *testing.T) {
	t.Parallel()
	const long = 1 << 20
	for name, ask := range map[string]func(ctx context.Context, db *sqldb.DB, freeze func()) error{
		"rows": func(ctx context.Context, db *sqldb.DB, freeze func()) error {
			rows, err := db.Query(ctx, "SELECT a.body FROM things a, things b, things c")
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			for rows.Next() {
				freeze()
			}
			return rows.Err()
		},
		"statement": func(ctx context.Context, db *sqldb.DB, freeze func()) error {
			return db.Tx(ctx, func(tx *sqldb.Tx) error {
				freeze()
				_, err := tx.Exec(ctx, setThing, 7, "a")
				return err
			})
		},
		"statement of another context": func(ctx context.Context, db *sqldb.DB, freeze func()) error {
			return db.Tx(ctx, func(tx *sqldb.Tx) error {
				freeze()
				_, err := tx.Exec(context.WithoutCancel(ctx), setThing, 7, "a")
				return err
			})
		},
		"statement with a lock wait of its own": func(ctx context.Context, db *sqldb.DB, freeze func()) error {
			return db.Tx(ctx, func(tx *sqldb.Tx) error {
				freeze()
				_, err := tx.Exec(ctx, setThing, 7, "a")
				return err
			}, sqldb.LockWait(time.Second))
		},
		"crowd": func(ctx context.Context, db *sqldb.DB, freeze func()) error {
			freeze()
			var crowd sync.WaitGroup
			errs := make([]error, 30) // more than there are connections
			for i := range errs {
				crowd.Go(func() {
					var n int
					switch i % 3 {
					case 0:
						_, errs[i] = db.Exec(ctx, setThing, 7, "a")
					case 1:
						errs[i] = db.QueryRow(ctx, countThings, sqldb.Strings{"a"}).Scan(&n)
					default:
						rows, err := db.Query(ctx, "SELECT name FROM things")
						if err == nil {
							defer func() { _ = rows.Close() }()
							err = rows.Err()
						}
						errs[i] = err
					}
				})
			}
			crowd.Wait()
			for _, err := range errs {
				if fault.KindOf(err) != fault.Busy {
					return err
				}
			}
			return errs[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			apart(t, func(t *testing.T, server sqldbtest.Server, g *sqldbtest.Gateway) {
				db := server.OpenURL(t, g.URL, sqldb.Config{Timeout: frozenTimeout, LockWait: 3 * time.Second}, things)
				for _, thing := range []string{"a", "b", "c", "d"} {
					if _, err := db.Exec(t.Context(), "INSERT INTO things (name, n, body) VALUES (?, 1, ?)", thing, strings.Repeat("x", long)); err != nil {
						t.Fatal(err)
					}
				}
				within(t, name, func() { wantLate(t, name, ask(t.Context(), db, g.Freeze)) })
				g.Thaw()
				for range 20 { // on every connection that is left
					if got := count(t, db, "a", "b", "c", "d"); got != 4 {
						t.Errorf("%d rows afterwards", got)
					}
				}
				var n int
				if err := db.QueryRow(t.Context(), "SELECT n FROM things WHERE name = ?", "a").Scan(&n); err != nil || n != 1 {
					t.Errorf("n is %d, %v: something was changed", n, err)
				}
				exec(t, db, setThing, 2, "a") // nobody holds it any more
			})
		})
	}
}

// A COMMIT whose answer does not come is read back as soon as the database answers again,
// whether it had arrived or lay on the way; and is unknown while it does not.
func TestFrozenCommit(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		silence func(*sqldbtest.Gateway)
		thaw    bool
		hangUp  bool // whoever asked has left
	}{
		"answered late":             {silence: (*sqldbtest.Gateway).Mute, thaw: true},
		"arrives late":              {silence: (*sqldbtest.Gateway).Freeze, thaw: true},
		"never answered":            {silence: (*sqldbtest.Gateway).Mute},
		"never arrives":             {silence: (*sqldbtest.Gateway).Freeze},
		"nobody waits for it":       {silence: (*sqldbtest.Gateway).Freeze, hangUp: true},
		"nobody, and answered late": {silence: (*sqldbtest.Gateway).Mute, thaw: true, hangUp: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			apart(t, func(t *testing.T, server sqldbtest.Server, g *sqldbtest.Gateway) {
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				var armed atomic.Bool
				db := server.OpenURL(t, g.URL, sqldb.Config{Timeout: frozenTimeout, LockWait: 3 * time.Second, Hooks: sqldb.Hooks{
					BeforeCommit: func(context.Context) error {
						if !armed.CompareAndSwap(true, false) {
							return nil
						}
						tt.silence(g)
						if tt.hangUp {
							time.AfterFunc(time.Second, leave) // when COMMIT was sent, or else nothing was
						}
						return nil
					},
				}}, things)
				exec(t, db, insertThing, "lock", 1)
				armed.Store(true)
				if tt.thaw {
					go func() { <-g.GivenUp(); g.Thaw() }()
				}
				var err error
				within(t, name, func() {
					err = db.Tx(ctx, func(tx *sqldb.Tx) error {
						if _, err := tx.Exec(ctx, setThing, 2, "lock"); err != nil {
							return err
						}
						_, err := tx.Exec(ctx, insertThing, "x", 1)
						return err
					}, sqldb.Confirm(func(ctx context.Context, tx *sqldb.Tx) (bool, error) {
						var n int
						if err := tx.QueryRow(ctx, lockThing, "lock").Scan(&n); err != nil {
							return false, err
						}
						err := tx.QueryRow(ctx, countThings, sqldb.Strings{"x"}).Scan(&n)
						return n == 1, err
					}))
				})
				g.Thaw()
				switch {
				case tt.hangUp && !errors.Is(err, sqldb.ErrCommitUnknown) && errors.Is(err, context.Canceled):
					if count(t, db, "x") != 0 { // a machine so slow that COMMIT was never sent
						t.Error("committed, and called cancelled")
					}
				case !tt.thaw:
					if !errors.Is(err, sqldb.ErrCommitUnknown) || fault.KindOf(err) != fault.Unknown {
						t.Errorf("%v, want that it is unknown", err)
					}
				case errors.Is(err, sqldb.ErrCommitUnknown):
					t.Errorf("%v: the database answers again", err)
				default:
					if there := count(t, db, "x") == 1; there != (err == nil) {
						t.Errorf("error %v, and the row is there: %v", err, there)
					}
				}
				exec(t, db, setThing, 3, "lock")
			})
		})
	}
}

// Close is no matter of patience, and whoever still waits learns of it.
func TestCloseFrozen(t *testing.T) {
	t.Parallel()
	apart(t, func(t *testing.T, server sqldbtest.Server, g *sqldbtest.Gateway) {
		var armed atomic.Bool
		committing := make(chan struct{})
		db := server.OpenURL(t, g.URL, sqldb.Config{Timeout: time.Hour, Hooks: sqldb.Hooks{BeforeCommit: func(context.Context) error {
			if armed.Load() {
				g.Freeze()
				close(committing)
			}
			return nil
		}}}, things)
		armed.Store(true)
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := db.Exec(t.Context(), insertThing, "a", 1); err == nil {
				t.Error("committed")
			}
		})
		<-committing
		waiting.Go(func() {
			if err := db.Ping(t.Context()); err == nil {
				t.Error("it answers")
			}
		})
		within(t, "Close", func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			waiting.Wait()
		})
	})
}

// A server that is silent from the beginning is no server.
func TestOpenFrozen(t *testing.T) {
	t.Parallel()
	apart(t, func(t *testing.T, _ sqldbtest.Server, g *sqldbtest.Gateway) {
		g.Freeze()
		within(t, "Open", func() {
			db, err := sqldb.Open(t.Context(), g.URL, sqldb.Config{Timeout: time.Second})
			if err == nil {
				t.Error(errors.Join(errors.New("opened"), db.Close()))
			}
		})
	})
}

// The time is that of the work: a request's, four times as much in the background, and none
// for migrations.
func TestTimeout(t *testing.T) {
	t.Parallel()
	slow := sqldb.Migrations{Owner: "slow", Files: fstest.MapFS{
		"migrations/00001_init.sql": {Data: []byte("SELECT {on postgres}pg_sleep(6){else}SLEEP(6){end};\n")},
	}}
	for _, server := range sqldbtest.Servers(t) {
		if server.Name == sqldb.SQLite {
			continue // it cannot sleep
		}
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			db := server.Open(t, sqldb.Config{Timeout: 4 * time.Second, LockWait: time.Second}, slow)
			nap := func(ctx context.Context) error {
				rows, err := db.Query(ctx, "SELECT {on postgres}pg_sleep(6){else}SLEEP(6){end}")
				if err != nil {
					return err
				}
				defer func() { _ = rows.Close() }()
				for rows.Next() { // it has nothing to say
				}
				return rows.Err()
			}
			wantLate(t, "a request", nap(t.Context()))
			if err := nap(sqldb.Patient(t.Context())); err != nil {
				t.Errorf("in the background: %v", err)
			}
		})
	}
}
