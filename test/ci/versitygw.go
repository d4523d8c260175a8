package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The S3 gateway over a directory that stands for a real store in tests.
const (
	gatewayModule  = "github.com/versity/versitygw"
	gatewayVersion = "v1.8.0"
	gatewayKey     = "testkey"
	gatewaySecret  = "testsecret" // of a gateway that nobody else reaches
)

// versitygw is a private gateway on a free port of 127.0.0.1, over a temporary folder.
type versitygw struct {
	dir    string
	server *exec.Cmd
	done   chan struct{} // closed when the server has ended
}

// start builds the gateway when it is missing, which takes minutes, and starts it.
func (g *versitygw) start(ctx context.Context) ([]string, error) {
	bin, err := buildGateway(ctx)
	if err != nil {
		return nil, err
	}
	if g.dir, err = os.MkdirTemp("", "lethe-s3-"); err != nil {
		return nil, err
	}
	data := filepath.Join(g.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + port
	logs, err := os.Create(filepath.Join(g.dir, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }() // the server has its own handle
	server := exec.CommandContext(context.WithoutCancel(ctx), bin, "--quiet", "--port", address, "posix", data)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+gatewayKey, "ROOT_SECRET_KEY="+gatewaySecret)
	server.Stdout, server.Stderr = logs, logs
	// A signal of the terminal must not end the gateway before the tests have ended.
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := server.Start(); err != nil {
		return nil, err
	}
	g.server, g.done = server, make(chan struct{})
	go func() {
		_ = server.Wait() // it ends when it is told to, or await sees that it is gone
		close(g.done)
	}()
	// The credentials are for the SDK's default chain, in tests and in the servers and
	// clients that they start; nobody looks for those of a cloud's machine.
	return []string{
		"LETHE_TEST_S3=http://" + address, "AWS_ACCESS_KEY_ID=" + gatewayKey, "AWS_SECRET_ACCESS_KEY=" + gatewaySecret,
		"AWS_EC2_METADATA_DISABLED=true",
	}, g.await(ctx, address)
}

// buildGateway returns the binary of the pinned version.
func buildGateway(ctx context.Context) (string, error) {
	dir, err := filepath.Abs(".cache/bin")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "versitygw")
	if out, err := exec.CommandContext(ctx, "go", "version", "-m", bin).Output(); err == nil &&
		strings.Contains(string(out), gatewayModule+"\t"+gatewayVersion) {
		return bin, nil
	}
	return bin, quiet(ctx, "env", "GOBIN="+dir, "go", "install", gatewayModule+"/cmd/versitygw@"+gatewayVersion)
}

// await waits until the gateway takes connections.
func (g *versitygw) await(ctx context.Context, address string) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for over := time.After(time.Minute); ; {
		if conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address); err == nil {
			return conn.Close()
		}
		select {
		case <-ticker.C:
		case <-g.done:
			return errors.New("the gateway ended, see " + filepath.Join(g.dir, "log"))
		case <-over:
			return errors.New("the gateway is not ready after a minute")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stop ends the gateway by its process id and removes its folder. Start has returned.
func (g *versitygw) stop() {
	if g.server != nil {
		_ = g.server.Process.Signal(syscall.SIGTERM) // an error means that it has ended
		select {
		case <-g.done:
		case <-time.After(20 * time.Second):
			_ = g.server.Process.Kill()
			<-g.done
		}
	}
	if g.dir != "" {
		if err := os.RemoveAll(g.dir); err != nil {
			fmt.Fprintln(os.Stderr, "ci:", err)
		}
	}
}
