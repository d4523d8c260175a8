package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// The S3 gateway over a directory that stands for a real store in tests.
const (
	gatewayModule  = "github.com/versity/versitygw"
	gatewayVersion = "v1.8.0"
	gatewayKey     = "testkey"
	gatewaySecret  = "testsecret" // of a gateway that nobody else reaches
)

// versitygw is a private gateway on a free port of 127.0.0.1, over a temporary folder.
type versitygw struct{ daemon }

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
	port, err := g.listen(ctx, func(port string) (*exec.Cmd, error) {
		server := exec.CommandContext(context.WithoutCancel(ctx), bin, "--quiet", "--port", "127.0.0.1:"+port, "posix", data)
		server.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+gatewayKey, "ROOT_SECRET_KEY="+gatewaySecret)
		// A signal of the terminal must not end the gateway before the tests have ended.
		server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		return server, nil
	}, func(ctx context.Context, port string) bool {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+port)
		return err == nil && conn.Close() == nil
	})
	// The credentials are for the SDK's default chain, in tests and in the servers and
	// clients that they start; nobody looks for those of a cloud's machine.
	return []string{
		"LETHE_TEST_S3=http://127.0.0.1:" + port, "AWS_ACCESS_KEY_ID=" + gatewayKey, "AWS_SECRET_ACCESS_KEY=" + gatewaySecret,
		"AWS_EC2_METADATA_DISABLED=true",
	}, err
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
	return bin, fetch(ctx, "env", "GOBIN="+dir, "go", "install", gatewayModule+"/cmd/versitygw@"+gatewayVersion)
}

// stop ends the gateway and removes its folder.
func (g *versitygw) stop() { g.end(syscall.SIGTERM, syscall.SIGKILL) }
