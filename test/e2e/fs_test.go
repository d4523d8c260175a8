package e2e

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/proc"
)

// Closing runs give a real one, such as a Go module cache.
var realTree = flag.String("e2e.tree", "", "directory that TestTreeThereAndBack sends and fetches, instead of one that it makes")

// oddNames are names that something on the way could take for something else.
var oddNames = []string{
	"plain", ".hidden", "..two", "-dash", "--recursive", "with space", " leading", "trailing ", "100%", "%2E%2E", "%00", "a_b", "axb", `back\slash`, `"quoted"`, "it's",
	"new\nline", "tab\tstop", "\x01control", "#anchor", "que?ry", "semi;colon", "a&b=c", "plus+plus", "*", "[a-z]", "{x}", "$HOME", "`id`", "~", "colon:name", "lethe:", "@", "CON", "null",
	"caf\u00e9", "cafe\u0301", "\u65e5\u672c\u8a9e", "\U0001f600", "\u202eright", "\ufeffmark", strings.Repeat("n", 255), strings.Repeat("\u00fc", 127),
}

// plant makes a tree of a few hundred files: every odd name as a file and as a directory,
// empty and large files, empty directories, and several levels.
func plant(t *testing.T, root string) {
	t.Helper()
	file := func(path string, size, mode int) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the drive's default
			t.Fatal(err)
		}
		unit := path[len(root):] + "\n"
		if err := os.WriteFile(path, []byte(strings.Repeat(unit, size/len(unit)+1)[:size]), fs.FileMode(mode)); err != nil { //nolint:gosec // modes are what is sent
			t.Fatal(err)
		}
	}
	for n, name := range oddNames {
		file(filepath.Join(root, "files", name), 37*n, 0o644)
		file(filepath.Join(root, "directories", name, name), 1000+n, 0o644)
		for i := range 4 {
			file(filepath.Join(root, "deep", name, "1", "2", "3", fmt.Sprint(i)), 4090+4*i, 0o644) // around what is kept in a row
		}
	}
	file(filepath.Join(root, "empty"), 0, 0o644)
	file(filepath.Join(root, "large"), 3<<20, 0o644)
	file(filepath.Join(root, "program"), 100, 0o755)
	for _, name := range []string{"nothing", "nothing either/below"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil { //nolint:gosec // the drive's default
			t.Fatal(err)
		}
	}
}

// picture is every directory, file and symbolic link below root, with a file's bytes
// and whether it is a program.
func picture(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			all[name] = "directory"
		case e.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			all[name] = "link to " + target
			return err
		default:
			body, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			all[name] = fmt.Sprintf("%d bytes %x, %o", len(body), sha256.Sum256(body), info.Mode().Perm()&0o111)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// lethe runs a command against a server.
func lethe(t *testing.T, s *proc.Server, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute) // of a real tree
	defer cancel()
	cmd := exec.CommandContext(ctx, proc.Binary(t), append(args, "--uri", s.URI)...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "LETHE_TOKEN=" + s.Token(t)}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("lethe %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestTreeThereAndBack sends a tree and fetches it: it is the same, byte for byte. Then it
// is deleted and nothing is left of it.
func TestTreeThereAndBack(t *testing.T) {
	t.Parallel()
	from := *realTree
	if from == "" {
		from = filepath.Join(t.TempDir(), "tree")
		plant(t, from)
	}
	want := picture(t, from)
	for _, db := range sqldbtest.Servers(t) {
		t.Run(string(db.Name), func(t *testing.T) {
			t.Parallel()
			s := proc.Start(t, proc.Options{Database: db.URL(t)})
			began := time.Now()
			lethe(t, s, "fs", "put", "-r", "--parts-above", "1MiB", "--part-size", "1MiB", from, "/there")
			sent := time.Since(began)
			lethe(t, s, "fs", "check")
			back := filepath.Join(t.TempDir(), "back")
			began = time.Now()
			lethe(t, s, "fs", "get", "-r", "--parts-above", "1MiB", "--part-size", "1MiB", "/there", back)
			t.Logf("%d entries, sent in %s, fetched in %s", len(want), sent.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
			if diff := cmp.Diff(want, picture(t, back)); diff != "" {
				t.Errorf("what came back (-sent +fetched):\n%.4000s", diff)
			}
			lethe(t, s, "fs", "rm", "-r", "/there")
			if usage, err := dial(t, s).Drive().Usage(t.Context()); err != nil || usage.Bytes != 0 || usage.Files != 0 {
				t.Errorf("usage after all is deleted: %+v, %v", usage, err)
			}
		})
	}
}
