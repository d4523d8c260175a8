package proc

import (
	"os"
	"path/filepath"
	"testing"
)

// EnvPython names the interpreter that has PyIceberg. `make test` makes it and sets it.
const EnvPython = "LETHE_PYTHON"

// Python returns an interpreter that has PyIceberg: LETHE_PYTHON, else the environment
// that an earlier `make test` left. Without one the test is skipped; CI must have one.
func Python(tb testing.TB) string {
	tb.Helper()
	path := os.Getenv(EnvPython)
	if path == "" {
		path = filepath.Join(Root(tb), ".cache", "venv", "bin", "python")
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			tb.Fatalf("PyIceberg must be tested in CI: %v", err)
		}
		tb.Skipf("no Python with PyIceberg (`make test` installs it): %v", err)
	}
	return path
}
