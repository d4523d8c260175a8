package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/client"
)

const letters = "abcdefghijklmnopqrstuvwxyz"

// TestPutResume goes on with the upload that an interrupted put has left.
func TestPutResume(t *testing.T) {
	s := serve(t)
	t.Setenv(tokenVariable, s.token)
	ctx := t.Context()
	_, err := s.Drive().Upload(ctx, "/dir/f", strings.NewReader(letters[:20]), 26, client.UploadOptions{PartSize: 10, Parallel: 1})
	var failed *client.UploadError
	if !errors.As(err, &failed) {
		t.Fatalf("a reader that ends early was taken: %v", err)
	}
	local := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(local, []byte(letters), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, told bytes.Buffer
	code := run(ctx, []string{"fs", "put", "--resume", "--parts-above", "5", "--part-size", "10", local, "/dir/f", "--uri", s.URI()}, &console{out: &out, err: &told})
	if code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, &out, &told)
	}
	if u, err := s.Drive().UploadInfo(ctx, failed.ID); err != nil || u.State != "COMPLETED" {
		t.Errorf("the upload that was begun: %+v, %v", u, err)
	}
	f, err := s.Drive().Get(ctx, "/dir/f", client.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != letters {
		t.Errorf("the drive has %q, %v", text, err)
	}
	if f.SHA256 == "" {
		t.Error("a whole file came without the checksum that it is compared with")
	}
}

// TestPutKeepsWhatArrived: a failed upload is given up, unless it is to go on later.
func TestPutKeepsWhatArrived(t *testing.T) {
	t.Setenv(tokenVariable, fakeToken)
	for _, resume := range []bool{false, true} {
		t.Run(fmt.Sprint(resume), func(t *testing.T) {
			aborted := false
			mux := http.NewServeMux()
			mux.HandleFunc("GET /v1/fs/f", func(w http.ResponseWriter, _ *http.Request) { refuse(w, 404, "NotFound", "it is not there") })
			mux.HandleFunc("GET /v1/uploads", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"uploads":[{"id":"u-0","path":"/f","size":3}],"nextCursor":null}`)
			})
			mux.HandleFunc("POST /v1/uploads", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"id":"u-1","path":"/f","state":"OPEN","size":26}`)
			})
			mux.HandleFunc("PUT /v1/uploads/u-1/parts/{n}", func(w http.ResponseWriter, _ *http.Request) {
				refuse(w, 507, "QuotaExceeded", "the quota is used up")
			})
			mux.HandleFunc("DELETE /v1/uploads/u-1", func(w http.ResponseWriter, _ *http.Request) {
				aborted = true
				w.WriteHeader(http.StatusNoContent)
			})
			srv := httptest.NewServer(mux)
			defer srv.Close()
			local := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(local, []byte(letters), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"fs", "put", "--parts-above", "5", "--parallel", "1", local, "/f", "--uri", srv.URL}
			if resume {
				args = append(args, "--resume")
			}
			var out, told bytes.Buffer
			code := run(t.Context(), args, &console{out: &out, err: &told})
			if code != exitFailed || aborted == resume || strings.Contains(told.String(), "--resume goes on") != resume {
				t.Errorf("exit code %d, aborted %t\n%s%s", code, aborted, &out, &told)
			}
		})
	}
}
