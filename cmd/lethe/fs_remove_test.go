package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestFollowedRemove looks at what a person is told of a tree whose delete takes long.
func TestFollowedRemove(t *testing.T) {
	t.Setenv(tokenVariable, fakeToken)
	tests := []struct {
		name     string
		job      string // what the second look at the job brings; empty: a signal comes then
		terminal bool
		code     int
		tells    []string
	}{
		{"a signal at a terminal", "", true, exitInterrupted, []string{"The path is gone; delete-9 frees its space.", "/t is gone, and the server goes on", "lethe job cancel delete-9"}},
		{"a signal", "", false, exitInterrupted, []string{"lethe: interrupted\n/t is gone", "Watch it with lethe job wait delete-9; stop it with lethe job cancel delete-9."}},
		{"well", `"state":"SUCCEEDED","progress":{"files":2000,"directories":1,"bytes":3000}`, true, exitOK, []string{"Deleted /t: 2,000 files, 1 directory, 3.0 kB."}},
		{"cancelled by somebody", `"state":"CANCELLED"`, false, exitFailed, []string{"delete-9 was cancelled; what it had not deleted is in the trash", "lethe job retry delete-9, or lethe fs trash empty delete-9"}},
		{"failed", `"state":"FAILED","lastError":"disk"`, false, exitFailed, []string{"delete-9 ended FAILED: disk", "lethe job retry delete-9"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			looks := 0
			mux := http.NewServeMux()
			mux.HandleFunc("GET /v1/fs/t", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"path":"/t","type":"directory","inode":7,"etag":"\"7\""}`)
			})
			mux.HandleFunc("DELETE /v1/fs/t", func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusAccepted)
				_, _ = io.WriteString(w, `{"path":"/t","inode":7,"job":"delete-9","state":"RUNNING"}`)
			})
			mux.HandleFunc("GET /v1/jobs/delete-9", func(w http.ResponseWriter, r *http.Request) {
				switch looks++; {
				case looks == 1:
					_, _ = io.WriteString(w, `{"job":"delete-9","state":"RUNNING","progress":{"files":1000}}`)
				case tt.job == "":
					cancel(errInterrupted)
					<-r.Context().Done()
				default:
					_, _ = io.WriteString(w, `{"job":"delete-9",`+tt.job+`}`)
				}
			})
			srv := httptest.NewServer(mux)
			defer srv.Close()
			var out, err bytes.Buffer
			c := &console{out: &out, err: &err, terminal: tt.terminal}
			if code := run(ctx, []string{"fs", "rm", "-r", "/t", "--uri", srv.URL}, c); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			told := out.String() + err.String()
			for _, text := range tt.tells {
				if !strings.Contains(told, text) {
					t.Errorf("not told %q in\n%s", text, told)
				}
			}
		})
	}
}

// TestInterruptedRemove says what may have happened when the signal comes before any answer.
func TestInterruptedRemove(t *testing.T) {
	t.Setenv(tokenVariable, fakeToken)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/fs/t", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"path":"/t","type":"directory","inode":7,"etag":"\"7\""}`)
	})
	mux.HandleFunc("DELETE /v1/fs/t", func(_ http.ResponseWriter, r *http.Request) {
		cancel(errInterrupted)
		<-r.Context().Done()
	})
	srv := httptest.NewServer(mux)
	defer srv.Close()
	var out, err bytes.Buffer
	code := run(ctx, []string{"fs", "rm", "-r", "/t", "--uri", srv.URL}, &console{out: &out, err: &err})
	told := err.String()
	if code != exitInterrupted || out.Len() > 0 || !strings.Contains(told, "If the server had accepted the delete, it goes on by itself: see lethe job ls --kind delete, and stop it with lethe job cancel.") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), told)
	}
}

// TestServerGone ends a transfer when nobody answers any more, and does not try each file.
func TestServerGone(t *testing.T) {
	t.Setenv(tokenVariable, fakeToken)
	var srv *httptest.Server
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/fs/t", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("stat") {
			_, _ = io.WriteString(w, `{"path":"/t","type":"directory","inode":7,"mode":"0755"}`)
			return
		}
		var list strings.Builder
		for range 500 {
			list.WriteString(`{"name":"f","type":"file","size":1},`)
		}
		_, _ = io.WriteString(w, `{"entries":[`+strings.TrimSuffix(list.String(), ",")+`],"nextCursor":null}`)
		_ = srv.Listener.Close()
		w.Header().Set("Connection", "close")
	})
	mux.HandleFunc("GET /v1/fs/t/f", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		refuse(w, 404, "NotFound", "it is gone")
	})
	srv = httptest.NewServer(mux)
	defer srv.Close()
	var out, err bytes.Buffer
	code := run(t.Context(), []string{"fs", "get", "-r", "/t", t.TempDir(), "--parallel", "2", "--uri", srv.URL}, &console{out: &out, err: &err})
	if code != exitFailed || !strings.Contains(err.String(), "Is the server running?") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), err.String())
	}
}
