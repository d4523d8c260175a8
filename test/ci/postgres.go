package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// postgres is a private cluster in a temporary folder, on a free port of 127.0.0.1. It
// does not wait for the disk: nothing of it outlives the run.
type postgres struct{ daemon }

// bins returns the folder of the newest PostgreSQL of this machine.
func bins() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // sorted
	if err != nil || len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}

// start installs PostgreSQL when it is missing, makes the cluster and starts it.
func (p *postgres) start(ctx context.Context) ([]string, error) {
	if err := need(ctx, func() bool { return bins() != "" }, "postgresql"); err != nil {
		return nil, err
	}
	owner, err := account("postgres")
	if err != nil {
		return nil, err
	}
	if p.dir, err = os.MkdirTemp("", "lethe-postgres-"); err != nil {
		return nil, err
	}
	run := func(name string, args ...string) (*exec.Cmd, error) {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(bins(), name), args...)
		cmd.Dir = p.dir
		return cmd, as(cmd, owner)
	}
	if err := chown(p.dir, owner); err != nil {
		return nil, err
	}
	data := filepath.Join(p.dir, "data")
	initdb, err := run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	if err != nil {
		return nil, err
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, err := p.listen(ctx, func(port string) (*exec.Cmd, error) {
		return run("postgres", "-D", data, "-p", port, "-k", p.dir, "-c", "listen_addresses=127.0.0.1",
			"-c", "max_connections=400", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off")
	}, func(ctx context.Context, port string) bool {
		return quiet(ctx, filepath.Join(bins(), "pg_isready"), "-q", "-h", "127.0.0.1", "-p", port) == nil
	})
	return []string{"LETHE_TEST_POSTGRES=postgres://postgres@127.0.0.1:" + port + "/postgres?sslmode=disable"}, err
}

// stop ends the server, at last without a checkpoint, and removes the cluster.
func (p *postgres) stop() { p.end(syscall.SIGINT, syscall.SIGQUIT) } // its children end with it
