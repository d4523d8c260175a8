package sqldb

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMySQLConfig(t *testing.T) {
	t.Parallel()
	type place struct{ User, Password, Addr, Name, TLS string }
	for _, tt := range []struct {
		name, url string
		want      place
	}{
		{"whole", "mysql://u:p@h:3307/lethe", place{"u", "p", "h:3307", "lethe", ""}},
		{"the usual port", "mysql://u@h/lethe", place{"u", "", "h:3306", "lethe", ""}},
		{"IPv6", "mysql://u@[::1]/lethe", place{"u", "", "[::1]:3306", "lethe", ""}},
		{"escaped", "mysql://u%40x:p%40%2F%3A%3Fs@h:1/a%20b", place{"u@x", "p@/:?s", "h:1", "a b", ""}},
		{"parameters of the driver", "mysql://u@h:1/l?tls=skip-verify", place{"u", "", "h:1", "l", "skip-verify"}},
		{
			"what must not be",
			"mysql://u@h:1/l?clientFoundRows=false&multiStatements=true&transaction_isolation=%27SERIALIZABLE%27&time_zone=%27Europe%2FBerlin%27&sql_mode=%27%27&autocommit=0",
			place{"u", "", "h:1", "l", ""},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := mysqlConfig(tt.url, Config{LockWait: 2500 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, place{c.User, c.Passwd, c.Addr, c.DBName, c.TLSConfig}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !c.ClientFoundRows || c.MultiStatements || !c.RejectReadOnly || c.Timeout <= 0 {
				t.Errorf("not forced: %+v", c)
			}
			want := map[string]string{
				"autocommit": "1", "sql_mode": "'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'", "time_zone": "'+00:00'",
				"sql_safe_updates": "0", "foreign_key_checks": "1", "innodb_lock_wait_timeout": "3", "lock_wait_timeout": "3",
			}
			if diff := cmp.Diff(want, c.Params); diff != "" {
				t.Errorf("session (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMySQLConfigRefuses(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"no database":       "mysql://u:geheim@h:1/",
		"no host":           "mysql:///lethe",
		"a path":            "mysql://u:geheim@h:1/a/b",
		"no URL":            "mysql://u:gehe%im@h:1/a",
		"unknown TLS":       "mysql://u:geheim@h:1/a?tls=perhaps",
		"a broken duration": "mysql://u:geheim@h:1/a?timeout=soon",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Open(t.Context(), url, Config{}); err == nil || strings.Contains(err.Error(), "gehe") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestMySQLVersions(t *testing.T) {
	t.Parallel()
	for version, ok := range map[string]bool{
		"8.0.36": true, "8.4.0-log": true, "9.1.0": true, "5.7.44-log": false,
		"10.11.19-MariaDB-0+deb12u1": true, "10.6.0-MariaDB": true, "11.4.2-MariaDB": true, "10.5.23-MariaDB": false,
		"8.0.11-TiDB-v7.5.1": true, "5.7.25-TiDB-v6.1.0": true, "strange": false,
	} {
		if err := supported(version); (err == nil) != ok {
			t.Errorf("%s: %v", version, err)
		}
	}
}

func TestLockWaitSeconds(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]string{time.Millisecond: "1", time.Second: "1", 1001 * time.Millisecond: "2", 5 * time.Second: "5"} {
		if got := lockWaitSeconds(wait); got != want {
			t.Errorf("%s: %s seconds, want %s", wait, got, want)
		}
	}
}
