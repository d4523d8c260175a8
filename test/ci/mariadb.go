package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// mariadb is a private server in a temporary folder, on a free port of 127.0.0.1. Like
// the PostgreSQL cluster it does not wait for the disk. It stands for MySQL, too; a
// MySQL 8 or TiDB that somebody has is named by LETHE_TEST_MYSQL8 or LETHE_TEST_TIDB.
type mariadb struct{ daemon }

// start installs MariaDB when it is missing, makes a data folder and starts it.
func (m *mariadb) start(ctx context.Context) ([]string, error) {
	server, err := "", error(nil)
	found := func() bool {
		server, err = exec.LookPath("mariadbd")
		if err != nil {
			server, err = exec.LookPath("/usr/sbin/mariadbd") // not in every PATH
		}
		return err == nil && has("mariadb-install-db") && has("mariadb")
	}
	if err := need(ctx, found, "mariadb-server-core", "mariadb-client-core"); err != nil {
		return nil, err
	}
	owner, err := account("nobody") // this way it needs no user of its own
	if err != nil {
		return nil, err
	}
	if m.dir, err = os.MkdirTemp("", "lethe-mariadb-"); err != nil {
		return nil, err
	}
	if err := chown(m.dir, owner); err != nil {
		return nil, err
	}
	run := func(name string, args ...string) (*exec.Cmd, error) {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), name, append([]string{"--no-defaults"}, args...)...)
		cmd.Dir = m.dir
		return cmd, as(cmd, owner)
	}
	data := "--datadir=" + filepath.Join(m.dir, "data")
	install, err := run("mariadb-install-db", data, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
	if err != nil {
		return nil, err
	}
	if out, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	client := func(ctx context.Context, port, statement string) error {
		return quiet(ctx, "mariadb", "--no-defaults", "-h127.0.0.1", "-P"+port, "-uroot", "-e", statement)
	}
	port, err := m.listen(ctx, func(port string) (*exec.Cmd, error) {
		return run(server, data, "--port="+port, "--bind-address=127.0.0.1", "--skip-name-resolve",
			"--tmpdir="+m.dir, "--socket="+filepath.Join(m.dir, "socket"), "--pid-file="+filepath.Join(m.dir, "pid"),
			"--max-connections=600", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0",
			"--innodb-buffer-pool-size=256M", "--character-set-server=utf8mb4", "--collation-server=utf8mb4_bin")
	}, func(ctx context.Context, port string) bool { return client(ctx, port, "SELECT 1") == nil })
	if err != nil {
		return nil, err
	}
	return []string{"LETHE_TEST_MYSQL=mysql://root@127.0.0.1:" + port + "/lethe"}, client(ctx, port, "CREATE DATABASE lethe")
}

// stop ends the server and removes its data.
func (m *mariadb) stop() { m.end(syscall.SIGTERM, syscall.SIGKILL) }
