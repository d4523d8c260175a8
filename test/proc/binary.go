package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Variables that name the binaries under test. `make test` builds and sets both.
const (
	EnvBinary      = "LETHE_BINARY"
	EnvCrashBinary = "LETHE_CRASH_BINARY" // built with the tag lethe_crash: it can pause and die at named points
)

// CrashTag is the build tag of the binary with pause points.
const CrashTag = "lethe_crash"

var (
	plain = sync.OnceValues(func() (string, error) { return binary(EnvBinary, "lethe") })
	crash = sync.OnceValues(func() (string, error) { return binary(EnvCrashBinary, "lethe-crash", "-tags", CrashTag) })
)

// Binary returns the path of the server under test: LETHE_BINARY, or one built now.
// With CI=true it must be given, so that every test there runs the same one.
func Binary(tb testing.TB) string {
	tb.Helper()
	return must(tb, plain)
}

// CrashBinary is Binary for LETHE_CRASH_BINARY.
func CrashBinary(tb testing.TB) string {
	tb.Helper()
	return must(tb, crash)
}

// Root returns the directory of the module.
func Root(tb testing.TB) string {
	tb.Helper()
	root, err := moduleRoot()
	if err != nil {
		tb.Fatal(err)
	}
	return root
}

func must(tb testing.TB, get func() (string, error)) string {
	tb.Helper()
	path, err := get()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// binary returns what the variable names, or builds it into bin/ of the module. Test
// packages may build at the same time: each links its own file and renames it.
func binary(variable, name string, flags ...string) (string, error) {
	if path := os.Getenv(variable); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", variable, err)
		}
		return filepath.Abs(path)
	}
	if os.Getenv("CI") == "true" {
		return "", fmt.Errorf("%s is not set: `make test` builds the binary and sets it", variable)
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "by-hand", name)
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	args := append([]string{"build", "-o", fresh}, flags...)
	cmd := exec.CommandContext(context.Background(), "go", append(args, "./cmd/lethe")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the server: %w\n%s", err, out)
	}
	return path, os.Rename(fresh, path)
}

func moduleRoot() (string, error) {
	out, err := exec.CommandContext(context.Background(), "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}
