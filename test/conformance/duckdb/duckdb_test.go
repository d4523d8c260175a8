// Package duckdb drives a built server through DuckDB's SQL: the cases are the Python
// file beside this one, each is a subtest here.
//
// DuckDB is fetched once, by `make test` or by hand:
//
//	python3 -m venv .cache/duckdb
//	.cache/duckdb/bin/pip install --no-deps -r test/conformance/duckdb/requirements.txt
package duckdb

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lethe-project/lethe/test/proc"
	"github.com/lethe-project/lethe/test/responder"
)

// envHome names the virtual environment with DuckDB and its extensions.
const envHome = "LETHE_DUCKDB"

func TestDuckDB(t *testing.T) {
	t.Parallel()
	interpreter := find(t)
	server := proc.Start(t, proc.Options{})
	uri := responder.New(t).Proxy(t, server.URI)
	cmd := exec.CommandContext(t.Context(), interpreter, "run.py", uri, server.Token(t), server.Warehouse())
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	proc.Cases(t, cmd)
}

// find returns Python with DuckDB. Without it the test is skipped; CI must have it.
func find(t *testing.T) string {
	t.Helper()
	home := os.Getenv(envHome)
	if home == "" {
		home = filepath.Join(proc.Root(t), ".cache", "duckdb")
	}
	interpreter := filepath.Join(home, "bin", "python")
	if _, err := os.Stat(interpreter); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("DuckDB must be tested in CI: %v", err)
		}
		t.Skipf("no Python with DuckDB (`make test` installs it): %v", err)
	}
	return interpreter
}
