package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	mysqlDialTimeout = 10 * time.Second
	mysqlIsolation   = "READ-COMMITTED"
)

// openMySQL opens a database of MySQL, MariaDB or TiDB. What correctness rests on is
// forced into every session, whatever the URL or the server's configuration say.
func openMySQL(ctx context.Context, rawURL string, cfg Config) (*DB, error) {
	mc, err := mysqlConfig(rawURL, cfg)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	wires := newWires(mc.DialFunc)
	mc.DialFunc = wires.dial
	server, err := askMySQL(ctx, mc, cfg.Timeout)
	if err != nil {
		return nil, fmt.Errorf("mysql: open: %w", err)
	}
	mc.Params[server.isolation] = "'" + mysqlIsolation + "'"
	if server.mariadb { // MySQL has nothing of the kind
		mc.Params["idle_transaction_timeout"] = lockWaitSeconds(idleInTx)
	}
	if server.tidb {
		mc.Params["tidb_txn_mode"] = "'pessimistic'" // row locks; clusters that were upgraded may have another default
	}
	pool, err := mysqlPool(mc)
	if err != nil {
		return nil, fmt.Errorf("mysql: %w", err)
	}
	cfg.limit(pool)
	db := &DB{dialect: mysqlDialect(server.tidb), cfg: cfg, write: pool, read: pool, reads: pool, isolation: sql.LevelReadCommitted, wires: wires, counts: &counts{}}
	db.migrating = func(ctx context.Context) (func() error, error) { return lockMigrations(ctx, mc) }
	err = db.Tx(ctx, func(tx *Tx) error {
		var level string
		if err := tx.QueryRow(ctx, Statement("SELECT @@SESSION."+server.isolation)).Scan(&level); err != nil {
			return err
		}
		if level != mysqlIsolation {
			return fmt.Errorf("sessions run at %s, the product needs %s", level, mysqlIsolation)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mysql: open: %w", err), db.Close())
	}
	return db, nil
}

// mysqlConfig reads mysql://user:password@host:port/name. Parameters are the driver's,
// tls for one. Errors do not show the URL.
func mysqlConfig(rawURL string, cfg Config) (*mysql.Config, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("the URL cannot be read: percent-encode special characters of the password")
	}
	name := strings.TrimPrefix(u.Path, "/")
	if u.Host == "" || name == "" || strings.Contains(name, "/") {
		return nil, errors.New("want mysql://user:password@host:port/name")
	}
	mc, err := mysql.ParseDSN("/?" + u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("parameters of the URL: %w", err)
	}
	mc.User = u.User.Username()
	mc.Passwd, _ = u.User.Password()
	mc.Net, mc.Addr, mc.DBName = "tcp", u.Host, name
	if u.Port() == "" {
		mc.Addr = strings.TrimSuffix(u.Host, ":") + ":3306"
	}
	if mc.Timeout == 0 {
		mc.Timeout = mysqlDialTimeout
	}
	mc.DialFunc = dialer().DialContext
	mc.Logger = mysqlLogger{cfg.Logger}
	// Otherwise an UPDATE that changes nothing hits 0 rows, and a lease looks lost.
	mc.ClientFoundRows = true
	// One way to the server and back instead of three: database/sql keeps no statements.
	// The charset below is safe for it.
	mc.InterpolateParams = true
	mc.MultiStatements = false
	mc.RejectReadOnly = true // after a failover the old primary still answers
	mc.MaxAllowedPacket = 0  // as the server says
	if err := mc.Apply(mysql.Charset("utf8mb4", "utf8mb4_bin")); err != nil {
		return nil, err
	}
	if mc.Params == nil {
		mc.Params = map[string]string{}
	}
	for _, name := range []string{"tx_isolation", "transaction_isolation"} {
		delete(mc.Params, name)
	}
	wait := lockWaitSeconds(cfg.LockWait)
	maps.Copy(mc.Params, map[string]string{
		"autocommit": "1",
		"sql_mode":   "'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
		// {now} goes through the session's time zone, and an hour that comes twice in
		// autumn would give every lease back.
		"time_zone":                "'+00:00'",
		"sql_safe_updates":         "0",
		"foreign_key_checks":       "1",
		"innodb_lock_wait_timeout": wait,
		"lock_wait_timeout":        wait, // for tables that a migration is changing
	})
	return mc, nil
}

// lockWaitSeconds rounds up: the server counts whole seconds, and 0 would mean no wait.
func lockWaitSeconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}

func mysqlPool(mc *mysql.Config) (*sql.DB, error) {
	if _, err := mysql.NewConnector(mc); err != nil {
		return nil, err
	}
	return sql.OpenDB(mysqlConnector{mc}), nil
}

type mysqlServer struct {
	isolation string // the system variable: MariaDB up to 11.0 has no transaction_isolation
	tidb      bool
	mariadb   bool
}

// askMySQL asks the server what it is.
func askMySQL(ctx context.Context, mc *mysql.Config, within time.Duration) (s mysqlServer, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	pool, err := mysqlPool(mc)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	var version string
	if err := pool.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return s, err
	}
	s.tidb, s.mariadb = strings.Contains(version, "TiDB"), strings.Contains(version, "MariaDB")
	if err := supported(version); err != nil {
		return s, err
	}
	var value string
	err = pool.QueryRowContext(ctx, "SHOW SESSION VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation')").Scan(&s.isolation, &value)
	return s, err
}

// supported refuses servers that lack SKIP LOCKED: MySQL before 8.0, MariaDB before 10.6.
func supported(version string) error {
	if strings.Contains(version, "TiDB") { // its version of MySQL is what it was told to say
		return nil
	}
	least, product := [2]int{8, 0}, "MySQL"
	if strings.Contains(version, "MariaDB") {
		least, product = [2]int{10, 6}, "MariaDB"
	}
	var got [2]int
	if _, err := fmt.Sscanf(version, "%d.%d", &got[0], &got[1]); err != nil {
		return fmt.Errorf("server version %q is not understood", version)
	}
	if got[0] < least[0] || (got[0] == least[0] && got[1] < least[1]) {
		return fmt.Errorf("%s %s is too old, at least %d.%d is needed", product, version, least[0], least[1])
	}
	return nil
}

// impatient takes a session whose row lock waits are shorter until done is called: the
// engine has no such setting for one transaction.
func (db *DB) impatient(ctx context.Context, wait time.Duration) (conn *sql.Conn, done func(), err error) {
	set := func(ctx context.Context, wait time.Duration) error {
		_, err := conn.ExecContext(ctx, "SET SESSION innodb_lock_wait_timeout = "+lockWaitSeconds(wait))
		return err
	}
	if conn, err = db.write.Conn(ctx); err != nil {
		return nil, nil, err
	}
	done = func() {
		// Whatever ended the transaction, the session goes back as it was, or not at all.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.cfg.LockWait)
		defer cancel()
		if set(ctx, db.cfg.LockWait) != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = conn.Close()
	}
	if err := set(ctx, wait); err != nil {
		done()
		return nil, nil, err
	}
	return conn, done, nil
}

// mysqlLogger takes what the driver says about connections; the errors themselves reach
// the caller.
type mysqlLogger struct{ to *slog.Logger }

func (l mysqlLogger) Print(v ...any) { l.to.Debug("mysql driver", "message", fmt.Sprint(v...)) }
