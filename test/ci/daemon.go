package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/lethe-project/lethe/test/port"
)

// daemon is a server that tests need: a process in a temporary folder of its own.
type daemon struct {
	dir    string
	server *exec.Cmd
	done   chan struct{} // closed when the server has ended
}

const (
	listenTries = 3
	listenLimit = 5 * time.Minute // beside compilers, on a slow machine
)

var errEnded = errors.New("the server ended")

// listen starts the server on a port that is free and waits until it takes connections.
// One that ends before is started again on another port: somebody may have been faster.
func (d *daemon) listen(ctx context.Context, server func(port string) (*exec.Cmd, error), ready func(ctx context.Context, port string) bool) (string, error) {
	for try := 1; ; try++ {
		at, err := port.Free(ctx)
		if err != nil {
			return "", err
		}
		cmd, err := server(at)
		if err != nil {
			return "", err
		}
		if err := d.launch(cmd); err != nil {
			return "", err
		}
		if err = d.await(ctx, func(ctx context.Context) bool { return ready(ctx, at) }); !errors.Is(err, errEnded) || try == listenTries {
			return at, err
		}
	}
}

// launch starts the server, which writes to the file log of its folder.
func (d *daemon) launch(server *exec.Cmd) error {
	logs, err := os.Create(filepath.Join(d.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = logs.Close() }() // the server has its own handle
	server.Stdout, server.Stderr = logs, logs
	if err := server.Start(); err != nil {
		return err
	}
	d.server, d.done = server, make(chan struct{})
	go func() {
		_ = server.Wait() // it ends when it is told to, or await sees that it is gone
		close(d.done)
	}()
	return nil
}

// await waits until the server takes connections.
func (d *daemon) await(ctx context.Context, ready func(context.Context) bool) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for over := time.After(listenLimit); ; {
		if ready(ctx) {
			return nil
		}
		select {
		case <-ticker.C:
		case <-d.done:
			log, _ := os.ReadFile(filepath.Join(d.dir, "log")) // the folder goes
			return fmt.Errorf("%w:\n%s", errEnded, log)
		case <-over:
			return fmt.Errorf("the server is not ready after %s", listenLimit)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// end ends the server by its process id, hard when the first signal is not enough, and
// removes its folder. Its start has returned.
func (d *daemon) end(polite, hard syscall.Signal) {
	if d.server != nil {
		_ = d.server.Process.Signal(polite) // an error means that it has ended
		select {
		case <-d.done:
		case <-time.After(20 * time.Second):
			_ = d.server.Process.Signal(hard)
			<-d.done
		}
	}
	if d.dir != "" {
		if err := os.RemoveAll(d.dir); err != nil {
			fmt.Fprintln(os.Stderr, "ci:", err)
		}
	}
}

// account returns the user that runs a server, which refuses root.
func account(name string) (*user.User, error) {
	if os.Geteuid() != 0 {
		return user.Current()
	}
	return user.Lookup(name)
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
