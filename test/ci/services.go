package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// command returns a stage that runs a program and shows its output.
func command(name string, args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 20 * time.Second
		return cmd.Run()
	}
}

// quiet runs a program whose output is only shown when it fails.
func quiet(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// Downloads are tried as often, with a pause that grows.
const (
	fetchTries = 4
	fetchPause = 5 * time.Second
)

// fetch is quiet of a program that needs the network, which fails at times: it may be run
// again.
func fetch(ctx context.Context, name string, args ...string) error {
	return again(ctx, fetchPause, func() error { return quiet(ctx, name, args...) })
}

func again(ctx context.Context, pause time.Duration, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == fetchTries {
			return err
		}
		timer := time.NewTimer(time.Duration(try) * pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// service is something the tests need and cannot build.
type service struct {
	name string
	env  []string // what it gives to the tests
	err  error
	done chan struct{}
}

// startServices prepares everything in the background, or only what is named.
func (r *run) startServices(ctx context.Context, only ...string) []*service {
	var services []*service
	begin := func(name string, prepare func(context.Context) ([]string, error)) {
		if len(only) > 0 && !slices.Contains(only, name) {
			return
		}
		s := &service{name: name, done: make(chan struct{})}
		services = append(services, s)
		go func() {
			defer close(s.done)
			s.env, s.err = prepare(ctx)
		}()
	}
	cluster, maria, gateway := &postgres{}, &mariadb{}, &versitygw{}
	r.onClose(func() {
		for _, s := range services {
			<-s.done
		}
		cluster.stop()
		maria.stop()
		gateway.stop()
	})
	begin("C compiler of the race detector", func(ctx context.Context) ([]string, error) {
		return nil, need(ctx, func() bool { return has("cc") || has("gcc") }, "gcc", "libc6-dev")
	})
	begin("PostgreSQL", cluster.start)
	begin("MariaDB", maria.start)
	begin("S3 gateway", gateway.start)
	begin("PyIceberg", pyiceberg)
	begin("DuckDB", duckdb)
	begin("Java suites", java)
	begin("Spark", spark)
	return services
}

// awaitServices waits for them. Outside CI a missing one is said, and its tests skip.
func (r *run) awaitServices(ctx context.Context, services []*service) error {
	var errs []error
	for _, s := range services {
		select {
		case <-s.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if s.err != nil {
			fmt.Printf("%s is missing, what needs it is skipped: %v\n", s.name, s.err)
			errs = append(errs, fmt.Errorf("%s is missing", s.name))
			continue
		}
		r.env = append(r.env, s.env...)
	}
	for _, s := range [][2]string{{"MySQL 8", "LETHE_TEST_MYSQL8"}, {"TiDB", "LETHE_TEST_TIDB"}} {
		if os.Getenv(s[1]) == "" {
			fmt.Printf("not run on %s: %s names no server\n", s[0], s[1])
		}
	}
	if !r.ci {
		return nil
	}
	return errors.Join(errs...)
}

var apt sync.Mutex // one at a time

// need installs Debian packages unless found says that they are there.
func need(ctx context.Context, found func() bool, names ...string) error {
	if found() {
		return nil
	}
	apt.Lock()
	defer apt.Unlock()
	if !has("apt-get") {
		return fmt.Errorf("install %s", strings.Join(names, ", "))
	}
	// Debian makes and starts a cluster of its own otherwise.
	script := `set -e
export DEBIAN_FRONTEND=noninteractive
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
apt-get -o DPkg::Lock::Timeout=300 -q update
apt-get -o DPkg::Lock::Timeout=300 -q install -y --no-install-recommends ` + strings.Join(names, " ")
	args := []string{"sh", "-c", script}
	if os.Geteuid() != 0 {
		if !has("sudo") || quiet(ctx, "sudo", "-n", "true") != nil {
			return fmt.Errorf("not root and no sudo without a password: run `apt-get install %s`", strings.Join(names, " "))
		}
		args = append([]string{"sudo", "-n"}, args...)
	}
	if err := fetch(ctx, args[0], args[1:]...); err != nil {
		return err
	}
	if !found() {
		return fmt.Errorf("not found after installing %s", strings.Join(names, ", "))
	}
	return nil
}

func has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
