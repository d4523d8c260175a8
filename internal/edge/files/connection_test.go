package files_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
)

// TestSilenceIsNoSuccess: a request whose context ended gets a broken connection, never the
// empty 200 that net/http writes for a handler that wrote nothing. The client closes only
// its own half, so it still listens.
func TestSilenceIsNoSuccess(t *testing.T) {
	t.Parallel()
	reached, stall := make(chan struct{}), make(chan struct{})
	b := open(t, options{step: func(op, point string) error {
		if op == "drive.Mkdir" && point == "locked" {
			close(reached)
			<-stall
			return context.Canceled
		}
		return nil
	}})
	gone := make(chan struct{})
	handler := b.server.Config.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { close(gone) })
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "POST /v1/fs/dir?op=mkdir HTTP/1.1\r\nHost: x\r\nX-Test-Caller: ann\r\nContent-Length: 0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-reached
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	<-gone
	close(stall)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil {
		_ = resp.Body.Close()
		t.Errorf("a mkdir that failed was answered %s", resp.Status)
	}
}

// TestStreamEndsWithItsToken: who may not ask any more is not told any more.
func TestStreamEndsWithItsToken(t *testing.T) {
	t.Parallel()
	var revoked atomic.Bool
	b := open(t, options{heartbeat: 10 * time.Millisecond, still: func(*http.Request) error {
		if revoked.Load() {
			return fault.New("test", fault.Unauthenticated, "", "revoked")
		}
		return fault.New("test", fault.Busy, "", "the database is away")
	}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.server.URL+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Test-Caller", "ann")
	resp, err := b.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for beats := 0; beats < 3 && lines.Scan(); {
		if lines.Text() == ": heartbeat" {
			beats++
		}
	}
	revoked.Store(true)
	for lines.Scan() { // ends, or the test's own limit does
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}
