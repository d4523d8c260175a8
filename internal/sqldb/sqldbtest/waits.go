package sqldbtest

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Who waits for a lock, in the test's own database. On PostgreSQL, where tests share a
// database, they are told by the tables of the schema that they have touched. InnoDB tells it
// in a text; what it shows as a table is renewed only when nobody has read it for a while.
const (
	waitsPostgres sqldb.Statement = `SELECT COUNT(DISTINCT w.pid) FROM pg_locks w JOIN pg_locks h ON h.pid = w.pid AND h.granted JOIN pg_class c ON c.oid = h.relation
		WHERE NOT w.granted AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())`

	waitsTiDB sqldb.Statement = "SELECT COUNT(*) FROM information_schema.tidb_trx WHERE state = 'LockWaiting' AND db = DATABASE()"

	mysqlSessions sqldb.Statement = "SELECT VERSION(), COALESCE(GROUP_CONCAT(id), '') FROM information_schema.processlist WHERE db = DATABASE()"
	innodbStatus  sqldb.Statement = "SHOW ENGINE INNODB STATUS"
)

var threadID = regexp.MustCompile(`thread id (\d+)`)

// waitsInnoDB counts the sessions that a status of InnoDB says to wait for a lock.
func waitsInnoDB(status string, sessions []string) (n int) {
	_, status, _ = strings.Cut(status, "LIST OF TRANSACTIONS") // before it stands the last deadlock
	for trx := range strings.SplitSeq(status, "---TRANSACTION ") {
		id := threadID.FindStringSubmatch(trx)
		if id != nil && strings.Contains(trx, "\nLOCK WAIT ") && slices.Contains(sessions, id[1]) {
			n++
		}
	}
	return n
}

// transactions counts those that are under way in each open *sqldb.DB, as *atomic.Int64.
var transactions sync.Map

// counted returns the config with a count of the transactions under way.
func counted(cfg sqldb.Config) (sqldb.Config, *atomic.Int64) {
	open, theirs := &atomic.Int64{}, cfg.Watch
	cfg.Watch = func(ctx context.Context) func(int, error) {
		var ended func(int, error)
		if theirs != nil {
			ended = theirs(ctx)
		}
		open.Add(1)
		return func(tries int, err error) {
			open.Add(-1)
			if ended != nil {
				ended(tries, err)
			}
		}
	}
	return cfg, open
}

// Waiting returns how many transactions of a database that Open or OpenURL opened wait for
// a lock.
func Waiting(tb testing.TB, db *sqldb.DB) (n int) {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	read := func(s sqldb.Statement, into ...any) {
		tb.Helper()
		if err := db.QueryRow(ctx, s).Scan(into...); err != nil {
			tb.Fatal(err)
		}
	}
	switch db.Dialect().Name {
	case sqldb.SQLite: // one writes, the others stand in line
		open, ok := transactions.Load(db)
		if !ok {
			tb.Fatal("this package has not opened the database")
		}
		n = max(0, int(open.(*atomic.Int64).Load())-1)
	case sqldb.MySQL:
		var version, sessions, kind, name, status string
		if read(mysqlSessions, &version, &sessions); strings.Contains(version, "TiDB") {
			read(waitsTiDB, &n)
			break
		}
		read(innodbStatus, &kind, &name, &status)
		n = waitsInnoDB(status, strings.Split(sessions, ","))
	case sqldb.Postgres:
		read(waitsPostgres, &n)
	}
	return n
}

// blockedFor is how long an operation that neither comes anywhere nor waits for a lock is
// watched: less than a server bears a transaction that stands still.
const blockedFor = 8 * time.Second

// Blocked waits for what becomes of an operation beside others that stand still: it
// returns false as soon as came reports that the operation is where it was to come, true
// when it waits for a lock, which is when more than others transactions do. So no
// slow machine is taken for a lock.
func Blocked(tb testing.TB, db *sqldb.DB, others int, came func() bool) bool {
	tb.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for seen, end := 0, time.Now().Add(blockedFor); time.Now().Before(end); <-tick.C {
		if came() {
			return false
		}
		if seen++; Waiting(tb, db) <= others {
			seen = 0
		}
		if seen == 2 { // the first time it may be passing
			return !came()
		}
	}
	return !came()
}
