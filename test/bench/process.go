package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	startLimit = 2 * time.Minute
	stopLimit  = time.Minute
)

// process is a server of its own on an empty data folder and an empty database.
type process struct {
	*endpoint
	binary  string
	args    []string
	env     []string
	dir     string // the data folder
	store   *store // nil: the data folder
	cmd     *exec.Cmd
	log     bytes.Buffer // read after the end only
	ended   chan error
	cleanup func() error // of the database
}

// start starts a server with more arguments of serve and waits until it is ready.
func (b *bench) start(ctx context.Context, args ...string) (*process, error) {
	return b.startOn(ctx, nil, args...)
}

// startOn is start with the tables in a store.
func (b *bench) startOn(ctx context.Context, in *store, args ...string) (*process, error) {
	data, err := os.MkdirTemp(b.dir, "data-")
	if err != nil {
		return nil, err
	}
	url, cleanup, err := b.emptyDatabase(ctx)
	if err != nil {
		return nil, err
	}
	args = append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--log-level", "WARN"}, args...)
	if url != "" {
		args = append(args, "--database", url)
	}
	env := withoutSettings(os.Environ())
	if in != nil {
		args, env = append(args, "--storage", in.storage()), append(env, in.credentials()...)
	}
	p := &process{binary: b.binary, args: args, env: env, dir: data, store: in, cleanup: cleanup}
	if err := p.launch(ctx); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *process) launch(ctx context.Context) (err error) {
	p.cmd, p.ended = exec.CommandContext(ctx, p.binary, p.args...), make(chan error, 1)
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = stopLimit
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = &p.log, &p.log, p.env
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return err
	}
	cmd, ended := p.cmd, p.ended
	go func() { ended <- cmd.Wait() }()
	p.endpoint, err = p.ready(ctx)
	return err
}

// restart ends the server and starts it again on what it had: its caches are empty.
func (p *process) restart(ctx context.Context) error {
	if err := p.halt(); err != nil {
		return err
	}
	return p.launch(ctx)
}

// ready polls: the other side is a process.
func (p *process) ready(ctx context.Context) (*endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the server is not ready: %w", context.Cause(ctx))
		case err := <-p.ended:
			p.ended <- err
			return nil, fmt.Errorf("the server ended before it was ready: %w", errors.Join(err, errors.New(p.log.String())))
		case <-tick.C:
		}
		address, err := os.ReadFile(filepath.Join(p.dir, "address"))
		if err != nil || len(address) == 0 { // not there, or being written
			continue
		}
		token, err := os.ReadFile(filepath.Join(p.dir, "admin-token"))
		if err != nil {
			return nil, err
		}
		e, err := newEndpoint(ctx, strings.TrimSpace(string(address)), strings.TrimSpace(string(token)), p.dir, p.store)
		if err != nil {
			return nil, err
		}
		if e.do(ctx, http.MethodGet, "/readyz", nil, nil) == nil {
			return e, nil
		}
		e.close()
	}
}

// halt ends the server, if it runs.
func (p *process) halt() error {
	if p.cmd == nil {
		return nil
	}
	err := p.cmd.Process.Signal(syscall.SIGTERM)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	select {
	case exit := <-p.ended:
		err = errors.Join(err, exit)
	case <-time.After(stopLimit):
		err = errors.Join(err, errors.New("the server did not end"), p.cmd.Process.Kill(), <-p.ended)
	}
	if err != nil {
		err = fmt.Errorf("stop the server: %w\n%s", err, p.log.Bytes())
	}
	if p.endpoint != nil {
		p.close()
	}
	p.cmd, p.endpoint = nil, nil
	return err
}

// stop ends the server and removes what it had.
func (p *process) stop() error {
	return errors.Join(p.halt(), os.RemoveAll(p.dir), p.cleanup())
}

// kill ends the server as a crash does.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	if exit := <-p.ended; exit == nil {
		err = errors.Join(err, errors.New("the server had ended before it was killed"))
	}
	p.close()
	p.cmd, p.endpoint = nil, nil
	return err
}

// cpu returns the processor time of the server so far, its own and the system's for it.
func (p *process) cpu() (time.Duration, error) { return cpuOf(p.cmd.Process.Pid) }

func cpuOf(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil // the system does not tell
	}
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), ") ") // the name may hold anything
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("%d fields of the process's state", len(fields))
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	const second = 100 // ticks, on every Linux
	return time.Duration(ticks) * time.Second / second, nil
}

// peak returns the most memory that the process ever had resident (VmHWM), in MiB. It
// is 0 where the system does not tell.
func (p *process) peak() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(kib), " kB"), 64)
			return n / 1024, err
		}
	}
	return 0, nil
}

// withoutSettings drops the settings of the person who runs the benchmark.
func withoutSettings(env []string) []string {
	kept := make([]string, 0, len(env))
	for _, variable := range env {
		if !strings.HasPrefix(variable, "LETHE_") {
			kept = append(kept, variable)
		}
	}
	return kept
}
