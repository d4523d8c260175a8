package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/internal/server"
)

// served is a server in this process, and a client with its operator's token.
type served struct {
	*client.Client
	token string
}

// serve runs a server until the test ends.
func serve(t *testing.T, args ...string) served {
	t.Helper()
	var commands cli
	parser, err := kong.New(&commands)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := parser.Parse(append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0"}, args...)); err != nil {
		t.Fatal(err)
	}
	up, done := make(chan server.Started, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		done <- server.Run(ctx, server.Config{
			Settings: commands.Serve.Settings, Logger: slog.New(slog.DiscardHandler),
			Lookup:  func(string) (string, bool) { return "", false },
			Started: func(s server.Started) { up <- s },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ended: %v", err)
		}
	})
	select {
	case started := <-up:
		raw, err := os.ReadFile(started.TokenFile)
		if err != nil {
			t.Fatal(err)
		}
		token := strings.TrimSpace(string(raw))
		c, err := client.New(client.Options{URI: started.BaseURL, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		return served{c, token}
	case err := <-done:
		done <- nil
		t.Fatalf("the server did not start: %v", err)
		return served{}
	}
}

// tenantOf makes a tenant, and a token that may do everything in it.
func tenantOf(ctx context.Context, operator served, name string) (string, error) {
	if _, err := operator.Tenants().Create(ctx, name); err != nil {
		return "", err
	}
	_, token, err := operator.Tokens(name).Create(ctx, client.NewToken{Name: "script", Grants: []client.Grant{{Admin: true}}})
	return token, err
}

// TestDriveScripts runs the command as a process against a real server, each script in a
// tenant of its own. The operator's token is in OPERATOR.
func TestDriveScripts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"drive", nil},
		{"trash", []string{"--trash-retention", "1h"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			operator := serve(t, tt.args...)
			testscript.Run(t, testscript.Params{
				Dir: filepath.Join("testdata", tt.name),
				Setup: func(env *testscript.Env) error {
					name := "t-" + strings.ReplaceAll(strings.ToLower(filepath.Base(env.WorkDir)), "_", "-")
					token, err := tenantOf(context.Background(), operator, name)
					if err != nil {
						return err
					}
					env.Setenv("LETHE_URI", operator.URI())
					env.Setenv("LETHE_TOKEN", token)
					env.Setenv("LETHE_TENANT", name)
					env.Setenv("TENANT", name)
					env.Setenv("OPERATOR", operator.token)
					return nil
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
			})
		})
	}
}

// call runs a command line in this process.
func call(t *testing.T, server served, args ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), append(args, "--uri", server.URI(), "--data", t.TempDir()), &console{out: &stdout, err: &stderr})
	return code, stdout.String(), stderr.String()
}

// snapshot is a tree as it is on disk: type, mode and bytes by path.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(raw)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " -> " + target
		}
		out[rel] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRoundTrip sends a tree of odd names and fetches it again, byte for byte; a copy
// within the drive too.
func TestRoundTrip(t *testing.T) {
	operator := serve(t)
	t.Setenv(tokenVariable, operator.token)
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	long := strings.Repeat("l", 255)
	big := strings.Repeat("0123456789abcdef", 9<<20/16) + "tail"
	files := map[string]string{
		"plain": "x", "empty": "", " spaces ": "s", "100%": "p", "%2E%2E": "dots", "a+b&c=d?e#f;g": "q", "quote'\"`": "q",
		"new\nline": "n", "tab\t\x1b[2J": "t", "ünï/日本語.txt": "u", "e\u0301": "nfd", "\u00e9": "nfc", "..data": "d", "back\\slash": "b", "*[?]": "g",
		long: "long", "deep/" + strings.Repeat("d/", 40) + "leaf": "leaf", "big": big, "inline": strings.Repeat("i", 4096), "above": strings.Repeat("a", 4097),
		"many/_": "", "lethe:": "l", "-r": "flag",
	}
	for name, text := range files {
		path := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		if err := os.WriteFile(filepath.Join(tree, "many", time.Now().Format("150405.000000000")), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []error{
		os.Mkdir(filepath.Join(tree, "void"), 0o755),
		os.Mkdir(filepath.Join(tree, "void", "private"), 0o700),
		os.Symlink("plain", filepath.Join(tree, "link")),
		os.Symlink("../100%", filepath.Join(tree, "void", "up")),
		os.Symlink("nowhere", filepath.Join(tree, "dangling")),
		os.Chmod(filepath.Join(tree, "plain"), 0o751),
		os.Chmod(filepath.Join(tree, "100%"), 0o400),
		os.Chmod(filepath.Join(tree, "many"), 0o555),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	t.Cleanup(func() {
		for _, d := range []string{"tree", "out", "copied"} {
			_ = os.Chmod(filepath.Join(dir, d, "many"), 0o755) // so that it can be removed
		}
	})
	code, out, errs := call(t, operator, "fs", "put", "-r", "--parts-above", "5MiB", "--part-size", "5MiB", tree, "/t")
	if code != exitOK || errs != "" {
		t.Fatalf("put: %d, %s%s", code, out, errs)
	}
	if code, out, errs = call(t, operator, "fs", "cp", "-r", "lethe:/t", "lethe:/u"); code != exitOK || errs != "" {
		t.Fatalf("cp: %d, %s%s", code, out, errs)
	}
	want := snapshot(t, tree)
	for from, to := range map[string]string{"/t": "out", "lethe:/u": "copied"} {
		code, out, errs = call(t, operator, "fs", "get", "-r", from, filepath.Join(dir, to))
		if code != exitOK || errs != "" {
			t.Fatalf("get: %d, %s%s", code, out, errs)
		}
		if diff := cmp.Diff(want, snapshot(t, filepath.Join(dir, to))); diff != "" {
			t.Errorf("%s came back otherwise (-want +got):\n%.2000s", from, diff)
		}
	}
	if code, out, errs = call(t, operator, "fs", "check"); code != exitOK {
		t.Errorf("check: %s%s", out, errs)
	}
}

// TestFetchStaysInside fetches what would write elsewhere, if it could.
func TestFetchStaysInside(t *testing.T) {
	operator := serve(t)
	t.Setenv(tokenVariable, operator.token)
	ctx, drive := t.Context(), operator.Drive()
	for path, target := range map[string]string{"/t/abs": "/etc/passwd", "/t/sub/up": "../../x", "/t/turn": "self/../../x", "/t/self": "sub"} {
		if _, err := drive.Symlink(ctx, path, target); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/t/trap/stolen", "/t/file", "/t/sub/file"} {
		if _, err := drive.Put(ctx, path, strings.NewReader("new"), client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	out, victim := filepath.Join(dir, "out"), filepath.Join(dir, "victim")
	for _, step := range []error{
		os.Mkdir(out, 0o755), os.Mkdir(victim, 0o755),
		os.WriteFile(filepath.Join(victim, "file"), []byte("old"), 0o600),
		os.Mkdir(filepath.Join(out, "t"), 0o755),
		os.Symlink(victim, filepath.Join(out, "t", "trap")),
		os.Symlink(filepath.Join(victim, "file"), filepath.Join(out, "t", "file")),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	code, text, errs := call(t, operator, "fs", "get", "-r", "/t", out)
	if code != exitFailed || !strings.Contains(errs, "/t/trap: ") || strings.Count(errs, "leads out of what is fetched") != 3 {
		t.Errorf("exit code %d\n%s%s", code, text, errs)
	}
	want := map[string]string{".": "drwxr-xr-x", "file": "-rw------- old"}
	if diff := cmp.Diff(want, snapshot(t, victim)); diff != "" {
		t.Errorf("the other directory (-want +got):\n%s", diff)
	}
	got := snapshot(t, filepath.Join(out, "t"))
	if got["file"] != "-rw-r--r-- new" || got["sub/file"] != "-rw-r--r-- new" || got["self"] != "Lrwxrwxrwx -> sub" || len(got) != 6 {
		t.Errorf("fetched %q", got)
	}
	if names, err := filepath.Glob(filepath.Join(out, "t", ".lethe-*")); err != nil || len(names) > 0 {
		t.Errorf("left over: %v, %v", names, err)
	}
}

func TestSafeNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"a": true, "..a": true, "a\nb": true, " ": true, "": false, ".": false, "..": false, "a/b": false, "/a": false, "a\x00": false} {
		if safe(name) != want {
			t.Errorf("safe(%q) is %v", name, !want)
		}
	}
	for _, tt := range []struct {
		name, target string
		out          bool
	}{
		{"l", "a", false},
		{"l", "./a", false},
		{"d/l", "../a", false},
		{"d/e/l", "../../a", false},
		{"l", "../a", true},
		{"d/l", "../../a", true},
		{"l", "/a", true},
		{"d/l", "a/../b", true},
		{"l", "..", true},
	} {
		if leadsOut(tt.name, tt.target) != tt.out {
			t.Errorf("%s -> %s leads out: %v", tt.name, tt.target, !tt.out)
		}
	}
}

func TestByteCount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "123": 123, "5B": 5, "5kB": 5000, "5MB": 5e6, "5MiB": 5 << 20, "8191PiB": 8191 << 50} {
		var n byteCount
		if err := n.UnmarshalText([]byte(text)); err != nil || int64(n) != want {
			t.Errorf("%s is %d, %v, want %d", text, n, err, want)
		}
	}
	for _, text := range []string{"", "-1", "MB", "5 MB", "5mb", "1.5MB", "8192PiB", "5MBB"} {
		var n byteCount
		if err := n.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %d, want an error", text, n)
		}
	}
}

// TestMeter shows a bar to a terminal, and lines above it.
func TestMeter(t *testing.T) {
	operator := serve(t)
	t.Setenv(tokenVariable, operator.token)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(dir, "abs")); err != nil {
		t.Fatal(err)
	}
	var out, err bytes.Buffer
	c := &console{out: &out, err: &err, terminal: true}
	code := run(t.Context(), []string{"fs", "put", "-r", dir, "/t", "--uri", operator.URI()}, c)
	if code != exitOK || !strings.Contains(err.String(), "abs: left out") || !strings.Contains(err.String(), "1 file") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), err.String())
	}
	if want := "Copied 1 file, 1.0 MB, 1 directory, 1 left out.\n"; out.String() != want {
		t.Errorf("told %q, want %q", out.String(), want)
	}
}

// TestInterruptedTransfer ends a transfer as a signal does: no file is there in part.
func TestInterruptedTransfer(t *testing.T) {
	operator := serve(t)
	t.Setenv(tokenVariable, operator.token)
	if _, err := operator.Drive().Put(t.Context(), "/f", io.LimitReader(zeros{}, 1<<20), client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	dir := t.TempDir()
	var out, err bytes.Buffer
	code := run(ctx, []string{"fs", "get", "/f", dir, "--uri", operator.URI()}, &console{out: &out, err: &err})
	if code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, err.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
