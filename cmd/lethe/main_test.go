package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/internal/server"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"lethe": main})
}

// TestScripts runs the command as a process against a server that is made up.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			api := httptest.NewServer(newFake(env.WorkDir + "/requests"))
			env.Defer(api.Close)
			env.Setenv("LETHE_URI", api.URL)
			env.Setenv("LETHE_TOKEN", fakeToken)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"until": until,
		},
	})
}

// exits CODE COMMAND ARGS… runs a command that must exit with that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// until FILE REGEXP waits for a line of a file that another process writes.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until FILE REGEXP")
	}
	pattern := regexp.MustCompile(args[1])
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); <-tick.C {
		raw, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && pattern.Match(raw) {
			return
		}
	}
	ts.Fatalf("%s did not get a line like %s", args[0], args[1])
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
		code int
		text string
	}{
		{"failure", errors.New("disk on fire"), 1, "lethe: disk on fire\n"},
		{"usage", usageError{errors.New("no such flag")}, 2, "lethe: no such flag\n"},
		{"interrupted", fmt.Errorf("client: GET x: %w", errInterrupted), 130, "lethe: interrupted\n"},
		{"interrupted with a hint", hintError{errInterrupted, "It goes on."}, 130, "lethe: interrupted\nIt goes on.\n"},
		{"token", &client.Error{Status: 401, Message: "who are you"}, 1, "lethe: who are you (401)\nSet LETHE_TOKEN to a token of the server, or --data to its data folder.\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var err bytes.Buffer
			c := &console{out: &bytes.Buffer{}, err: &err}
			if code := c.fail(tt.err); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if diff := cmp.Diff(tt.text, err.String()); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInterruptedWait ends a wait as a signal does.
func TestInterruptedWait(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{false, true} {
		api := httptest.NewServer(newFake(t.TempDir() + "/requests"))
		defer api.Close()
		ctx, cancel := context.WithCancelCause(t.Context())
		var out, err signalled
		out.wrote, err.wrote = make(chan struct{}, 1), make(chan struct{}, 1)
		go func() {
			select {
			case <-out.wrote: // a line
			case <-err.wrote: // the spinner
			}
			cancel(errInterrupted)
		}()
		c := &console{out: &out, err: &err, terminal: terminal}
		server, cerr := client.New(client.Options{URI: api.URL, Token: fakeToken})
		if cerr != nil {
			t.Fatal(cerr)
		}
		if code := c.fail(c.await(ctx, server.Jobs(), "purge-5", false)); code != exitInterrupted {
			t.Errorf("terminal %v: exit code %d, want %d", terminal, code, exitInterrupted)
		}
		if !strings.Contains(err.String(), "lethe job wait purge-5") {
			t.Errorf("terminal %v: no next step in %q", terminal, err.String())
		}
	}
}

// signalled is a buffer that says when something was written first.
type signalled struct {
	bytes.Buffer
	wrote chan struct{}
}

func (s *signalled) Write(p []byte) (int, error) {
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return s.Buffer.Write(p)
}

func TestWelcome(t *testing.T) {
	t.Parallel()
	base := server.Started{
		CatalogURI: "http://127.0.0.1:8181/iceberg", Storage: "file:///data/warehouse",
		DriveURI: "http://127.0.0.1:8181/v1/fs", DriveStorage: "file:///data/drive",
		Database: "sqlite:lethe-data/lethe.db", TokenFile: "lethe-data/admin-token", TokenMade: true,
	}
	want := `Lethe dev is running.

  catalog    http://127.0.0.1:8181/iceberg
  warehouse  default, file:///data/warehouse
  drive      http://127.0.0.1:8181/v1/fs, file:///data/drive
  database   sqlite:lethe-data/lethe.db
  token      lethe-data/admin-token (just made)

Use it from Python (pip install "pyiceberg[pyarrow]"):

  from pyiceberg.catalog import load_catalog
  catalog = load_catalog("lethe", type="rest", uri="http://127.0.0.1:8181/iceberg", warehouse="default", token=open("lethe-data/admin-token").read().strip())

Files: lethe fs put FILE lethe:/FILE, lethe fs ls /, lethe fs rm -r /DIR.

Stop with Ctrl-C.
`
	if diff := cmp.Diff(want, welcome(base)); diff != "" {
		t.Errorf("first screen (-want +got):\n%s", diff)
	}
	fromEnv := base
	fromEnv.TokenFile = ""
	if got := welcome(fromEnv); !strings.Contains(got, `token=os.environ["LETHE_ADMIN_TOKEN"])`) || !strings.Contains(got, "  import os\n") {
		t.Errorf("token from the environment:\n%s", got)
	}
	open := base
	open.NoAuth = true
	if got := welcome(open); !strings.Contains(got, `warehouse="default")`) || !strings.Contains(got, "everybody on this machine") {
		t.Errorf("no authentication:\n%s", got)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 2_560_000: "2.6 MB", 7e18: "7.0 EB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
	for arg, want := range map[string]string{"a.b": "a.b", `a\.b`: `'a\.b'`, "it's": `'it'\''s'`} {
		if got := shell(arg); got != want {
			t.Errorf("shell(%s) = %s, want %s", arg, got, want)
		}
	}
	if got := printable("a\x1b[2Jb\n"); got != "a\uFFFD[2Jb\uFFFD" {
		t.Errorf("printable: %q", got)
	}
}
