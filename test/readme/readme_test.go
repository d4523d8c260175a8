// Package readme runs what the README tells a person to paste, as it stands there.
package readme

import (
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/test/proc"
)

// listen is where `make run` serves.
const listen = "127.0.0.1:8181"

// block returns the first block of a language in the README.
func block(t *testing.T, language string) string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(proc.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "```"+language+"\n")
	text, _, closed := strings.Cut(rest, "```\n")
	if !found || !closed {
		t.Fatalf("README.md has no block of %s", language)
	}
	return text
}

// TestFirstScreen starts a server as `make run` does, with no setting at all, in an empty
// directory, and pastes the lines for PyIceberg.
func TestFirstScreen(t *testing.T) {
	t.Parallel()
	python := proc.Python(t)
	if shell := block(t, "sh"); !strings.Contains(shell, "make run\n") && !strings.Contains(shell, "make run ") {
		t.Fatalf("the README does not start the server with make run:\n%s", shell)
	}
	recipe := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-n", "run")
	recipe.Dir = proc.Root(t)
	out, err := recipe.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; last != "bin/lethe serve" {
		t.Fatalf("make run starts %q: start the same here", last)
	}
	if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", listen); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("the port of the README is taken: %v", err)
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	server := proc.Start(t, proc.Options{Dir: dir})
	if server.URI != "http://"+listen {
		t.Errorf("the server is at %s", server.URI)
	}
	paste := exec.CommandContext(t.Context(), python, "-c", block(t, "python"))
	paste.Dir = dir
	paste.Env = append(os.Environ(), "PYICEBERG_HOME="+dir) // no configuration of the person's own
	said, err := paste.CombinedOutput()
	if err != nil {
		t.Fatalf("the lines of the README fail: %v\n%s", err, said)
	}
	if !strings.Contains(string(said), "Berlin") || strings.Contains(string(said), "Drachten") {
		t.Errorf("the lines of the README print:\n%s", said)
	}
	// The last line purges the table.
	err = filepath.WalkDir(server.Warehouse(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != ".lethe-root" { // the store's own marker stays
			t.Errorf("left after the purge: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if python := strings.Count(strings.TrimSpace(block(t, "python")), "\n") + 1; python > 11 {
		t.Errorf("%d lines to paste are too many", python)
	}
}
