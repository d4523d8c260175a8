package client_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lethe-project/lethe/client"
)

// TestAnswersAreDrained: what is left of an answer that is tried again is read, so that the
// next try has the connection, and nobody sleeps on an open one.
func TestAnswersAreDrained(t *testing.T) {
	t.Parallel()
	var connections, requests atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, strings.Repeat("x", 200<<10))
			return
		}
		_, _ = io.WriteString(w, `{"job":"purge-1"}`)
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	defer srv.Client().CloseIdleConnections()
	c, err := client.New(client.Options{URI: srv.URL, HTTPClient: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Jobs().Get(t.Context(), "purge-1"); err != nil {
		t.Fatal(err)
	}
	if r, n := requests.Load(), connections.Load(); r != 2 || n != 1 {
		t.Errorf("%d requests over %d connections, want 2 over 1", r, n)
	}
}
