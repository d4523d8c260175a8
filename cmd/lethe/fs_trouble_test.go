package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/client"
)

// TestTroubleInTheMiddle: what cannot be sent or fetched is named and counted, and all else
// arrives.
func TestTroubleInTheMiddle(t *testing.T) {
	operator := serve(t)
	_, text, err := operator.Tokens("default").Create(t.Context(), client.NewToken{Name: "part", Grants: []client.Grant{
		{Drive: "/t/a", Actions: []string{"read", "write"}}, {Drive: "/t/z", Actions: []string{"read", "write"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(tokenVariable, text)
	dir := t.TempDir()
	for _, name := range []string{"a/one", "a/bad\xff", "a/bad\xfe/in", "b/closed", "z/last"} {
		path := filepath.Join(dir, "t", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := call(t, operator, "fs", "put", "-r", filepath.Join(dir, "t"), "/t")
	if code != exitFailed || !strings.Contains(out, "Copied 2 files, ") || !strings.Contains(out, ", 3 failed.") {
		t.Errorf("put: exit code %d\n%s%s", code, out, errs)
	}
	for _, told := range []string{"a/bad\ufffd: ", "a/bad\ufffd/in: ", "400 InvalidPath", "b/closed: ", "403 Denied", "lethe: 3 paths failed"} {
		if !strings.Contains(errs, told) {
			t.Errorf("put does not tell %q:\n%s", told, errs)
		}
	}
	code, out, _ = call(t, operator, "fs", "put", "-r", "--json", filepath.Join(dir, "t"), "/t")
	var last tally
	for line := range strings.Lines(out) {
		last = tally{}
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if code != exitFailed || last.Files != 2 || last.Failed != 3 {
		t.Errorf("put --json: exit code %d\n%s", code, out)
	}

	// What is fetched meets a directory in the place of a file.
	if err := os.MkdirAll(filepath.Join(dir, "back", "one"), 0o755); err != nil {
		t.Fatal(err)
	}
	code, out, errs = call(t, operator, "fs", "get", "-r", "/t/a", "/t/b", "/t/z", filepath.Join(dir, "back"))
	if code != exitFailed || !strings.Contains(errs, "/t/b: ") || !strings.Contains(out, "Copied 2 files, ") {
		t.Errorf("get: exit code %d\n%s%s", code, out, errs)
	}
	code, out, errs = call(t, operator, "fs", "get", "/t/a/one", "/t/z/last", filepath.Join(dir, "back"))
	if code != exitFailed || !strings.Contains(errs, "/t/a/one: ") || !strings.Contains(out, "Copied 1 file, 6 B, 1 failed.") {
		t.Errorf("get onto a directory: exit code %d\n%s%s", code, out, errs)
	}
	got := snapshot(t, filepath.Join(dir, "back"))
	if len(got) != 7 || got["a/one"] != "-rw------- a/one" || got["z/last"] != "-rw------- z/last" || got["last"] != "-rw------- z/last" {
		t.Errorf("back came %q", got)
	}
}

// TestFetchOntoNoFile: what is no file is not replaced by one.
func TestFetchOntoNoFile(t *testing.T) {
	operator := serve(t)
	t.Setenv(tokenVariable, operator.token)
	if _, err := operator.Drive().Put(t.Context(), "/d/f", strings.NewReader("text"), client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", in("f"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := os.Symlink("f", in("link")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"/d/f", in("f")}, {"/d/f", in("link")}, {"/d/f", dir}, {"-r", "/d", dir + "/."}} {
		code, out, errs := call(t, operator, append([]string{"fs", "get"}, args...)...)
		if args[0] == "-r" { // all of it goes into a directory of its own
			if code != exitOK {
				t.Errorf("%q: exit code %d\n%s%s", args, code, out, errs)
			}
			continue
		}
		if code != exitFailed || !strings.Contains(errs, "is no file") {
			t.Errorf("%q: exit code %d\n%s%s", args, code, out, errs)
		}
	}
	if err := os.Rename(in("f"), in("d/f")); err != nil { // over the file that came
		t.Fatal(err)
	}
	if code, out, errs := call(t, operator, "fs", "get", "-r", "/d", dir); code != exitFailed || !strings.Contains(errs, "is no file") {
		t.Errorf("a tree onto it: exit code %d\n%s%s", code, out, errs)
	}
	if info, err := os.Lstat(in("d/f")); err != nil || info.Mode()&os.ModeSocket == 0 {
		t.Errorf("the socket is %v, %v", info, err)
	}
}
