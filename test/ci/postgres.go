package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// postgres is a private cluster in a temporary folder, on a free port of 127.0.0.1. It
// does not wait for the disk: nothing of it outlives the run.
type postgres struct {
	dir    string
	server *exec.Cmd
	done   chan struct{} // closed when the server has ended
}

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
	owner, err := account()
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
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	server, err := run("postgres", "-D", data, "-p", port, "-k", p.dir, "-c", "listen_addresses=127.0.0.1",
		"-c", "max_connections=400", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off")
	if err != nil {
		return nil, err
	}
	logs, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }() // the server has its own handle
	server.Stdout, server.Stderr = logs, logs
	if err := p.launch(server); err != nil {
		return nil, err
	}
	return []string{"LETHE_TEST_POSTGRES=postgres://postgres@127.0.0.1:" + port + "/postgres?sslmode=disable"}, p.await(ctx, port)
}

func (p *postgres) launch(server *exec.Cmd) error {
	if err := server.Start(); err != nil {
		return err
	}
	p.server, p.done = server, make(chan struct{})
	go func() {
		_ = server.Wait() // it ends when it is told to, or await sees that it is gone
		close(p.done)
	}()
	return nil
}

// await waits until the server takes connections.
func (p *postgres) await(ctx context.Context, port string) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for over := time.After(time.Minute); ; {
		if quiet(ctx, filepath.Join(bins(), "pg_isready"), "-q", "-h", "127.0.0.1", "-p", port) == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-p.done:
			return errors.New("the server ended, see " + filepath.Join(p.dir, "log"))
		case <-over:
			return errors.New("the server is not ready after a minute")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stop ends the server by its process id and removes the cluster. Start has returned.
func (p *postgres) stop() {
	if p.server != nil {
		_ = p.server.Process.Signal(syscall.SIGINT) // fast shutdown; an error means that it has ended
		select {
		case <-p.done:
		case <-time.After(20 * time.Second):
			_ = p.server.Process.Signal(syscall.SIGQUIT) // without a checkpoint; its children end with it
			<-p.done
		}
	}
	if p.dir != "" {
		if err := os.RemoveAll(p.dir); err != nil {
			fmt.Fprintln(os.Stderr, "ci:", err)
		}
	}
}

// as makes the command run as another user when this process is root.
func as(cmd *exec.Cmd, owner *user.User) error {
	// A signal of the terminal must not end the server before the tests have ended.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, err := ids(owner)
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	return err
}

func chown(dir string, owner *user.User) error {
	uid, gid, err := ids(owner)
	return errors.Join(err, os.Chown(dir, int(uid), int(gid)))
}

func ids(owner *user.User) (uid, gid uint32, err error) {
	u, uerr := strconv.ParseUint(owner.Uid, 10, 32)
	g, gerr := strconv.ParseUint(owner.Gid, 10, 32)
	return uint32(u), uint32(g), errors.Join(uerr, gerr)
}

func freePort(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}
