// Package proc runs the built server as a process of its own, as tests of the whole
// product need it: started on a free port, stopped by its process id, killed at any
// moment and started again on the same data.
//
// A process never outlives its test. Its output is kept and shown when the test fails.
// Waiting is polling with a deadline, since the other side is a real process.
package proc

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lethe-project/lethe/test/port"
)

const (
	startLimit = 3 * time.Minute  // migrations on a slow, shared machine included
	stopLimit  = 90 * time.Second // longer than the server's own drain
	poll       = 20 * time.Millisecond
)

// Options of a server; zero values are a server with its defaults on a free port.
type Options struct {
	Binary   string   // Binary(tb) when empty
	Data     string   // data folder, a temporary one when empty
	Database string   // --database, the embedded default when empty
	Listen   string   // a free port of 127.0.0.1 when empty
	Dir      string   // working directory; when given, serve gets no --data and no --listen
	Args     []string // more arguments of serve
	Env      []string // more variables, NAME=value
}

// Server is one server under test; Kill, Stop and Start may follow one another.
type Server struct {
	Data string // its data folder
	URI  string // http://127.0.0.1:port, of the latest start

	opts Options
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	exit error         // how, after done
	log  output
}

// Start starts a server and returns when it is ready. It is stopped when the test ends.
func Start(tb testing.TB, opts Options) *Server {
	tb.Helper()
	if opts.Binary == "" {
		opts.Binary = Binary(tb)
	}
	if opts.Dir != "" {
		opts.Data = filepath.Join(opts.Dir, "lethe-data") // the default
	}
	if opts.Data == "" {
		opts.Data = filepath.Join(tb.TempDir(), "lethe-data")
	}
	if opts.Listen == "" {
		opts.Listen = "127.0.0.1:0"
	}
	s := &Server{opts: opts, Data: opts.Data}
	tb.Cleanup(func() {
		if s.Alive() {
			s.Stop(tb)
		}
		if tb.Failed() {
			tb.Logf("output of the server:\n%s", s.log.String())
		}
	})
	s.Start(tb)
	return s
}

// Start starts the server again, on the same data, after Stop or Kill.
func (s *Server) Start(tb testing.TB) {
	tb.Helper()
	s.Launch(tb)
	s.WaitReady(tb)
}

// Launch starts the process and does not wait until it is ready.
func (s *Server) Launch(tb testing.TB) {
	tb.Helper()
	if s.Alive() {
		tb.Fatal("the server runs already")
	}
	// A killed server leaves its address behind.
	if err := os.Remove(s.addressFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		tb.Fatal(err)
	}
	args := []string{"serve"}
	if s.opts.Dir == "" {
		args = append(args, "--data", s.Data, "--listen", s.opts.Listen)
	}
	if s.opts.Database != "" {
		args = append(args, "--database", s.opts.Database)
	}
	s.cmd = exec.CommandContext(context.Background(), s.opts.Binary, append(args, s.opts.Args...)...)
	s.cmd.Dir = s.opts.Dir
	s.cmd.Env = append(clean(os.Environ()), s.opts.Env...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	s.done = make(chan struct{})
	if err := s.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func(cmd *exec.Cmd, done chan struct{}) {
		s.exit = cmd.Wait()
		close(done)
	}(s.cmd, s.done)
}

// WaitReady waits until the server answers /readyz, and fails the test when it ends before.
func (s *Server) WaitReady(tb testing.TB) {
	tb.Helper()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	ready := func() bool {
		select {
		case <-s.done:
			tb.Fatalf("the server ended before it was ready: %v", s.exit)
		default:
		}
		address, err := os.ReadFile(s.addressFile())
		if err != nil {
			return false
		}
		s.URI = strings.TrimSpace(string(address))
		req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, s.URI+"/readyz", http.NoBody)
		if err != nil {
			return false
		}
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}
	Eventually(tb, startLimit, "the server is ready", ready)
}

// Stop asks the server to end (SIGTERM) and fails the test unless it ends cleanly.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Errorf("stop the server: %v", err)
	}
	select {
	case <-s.done:
		if s.exit != nil {
			tb.Errorf("the server did not end cleanly: %v", s.exit)
		}
	case <-time.After(stopLimit):
		tb.Errorf("the server did not end within %s of SIGTERM", stopLimit)
		s.Kill(tb)
	}
}

// Signal sends a signal, unless the process has ended.
func (s *Server) Signal(tb testing.TB, signal os.Signal) {
	tb.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Fatalf("%s: %v", signal, err)
	}
}

// Kill ends the server at once (SIGKILL) and returns when it has ended.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Fatalf("kill the server: %v", err)
	}
	<-s.done
}

// Alive reports whether the process runs.
func (s *Server) Alive() bool {
	if s.done == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// PID is the id of the latest process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Done is closed when the latest process has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// CatalogURI is what an Iceberg client is given.
func (s *Server) CatalogURI() string { return s.URI + "/iceberg" }

// Warehouse is the directory below which the default warehouse's tables lie.
func (s *Server) Warehouse() string { return filepath.Join(s.Data, "warehouse") }

// Token is the admin's bearer token, from the file that the server made.
func (s *Server) Token(tb testing.TB) string {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join(s.Data, "admin-token"))
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

// Log is what the server has printed so far, all starts together.
func (s *Server) Log() string { return s.log.String() }

func (s *Server) addressFile() string { return filepath.Join(s.Data, "address") }

// FreeAddress is an address of 127.0.0.1 for a server that keeps it over its restarts:
// nobody else comes by it while the server is down.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	free, err := port.Free(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return "127.0.0.1:" + free
}

// Eventually polls until ok holds, and fails the test when it does not within the limit.
func Eventually(tb testing.TB, limit time.Duration, what string, ok func() bool) {
	tb.Helper()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for over := time.After(limit); !ok(); {
		select {
		case <-ticker.C:
		case <-over:
			tb.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// clean drops the settings of the person who runs the tests.
func clean(env []string) []string {
	kept := make([]string, 0, len(env))
	for _, variable := range env {
		if !strings.HasPrefix(variable, "LETHE_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// output is what processes write, safe to read meanwhile.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
