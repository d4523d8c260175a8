package files_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/drive"
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

// TestStreamEndsWithItsToken: who may not ask any more is not told any more, however quiet
// the stream is.
func TestStreamEndsWithItsToken(t *testing.T) {
	t.Parallel()
	var revoked atomic.Bool
	asked := make(chan struct{}, 100)
	b := open(t, options{heartbeat: time.Hour, recheck: time.Millisecond, still: func(*http.Request) error {
		if revoked.Load() {
			return fault.New("test", fault.Unauthenticated, "", "revoked")
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return fault.New("test", fault.Busy, "", "the database is away")
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.server.URL+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Test-Caller", "ann")
	resp, err := b.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for range 3 {
		select {
		case <-asked:
		case <-ctx.Done():
			t.Fatal("nobody asked about the token")
		}
	}
	revoked.Store(true)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() { // ends, or ctx does
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}

// TestHeartbeat: a quiet stream shows that it lives, and moves its id on past what is hidden.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	b := open(t, options{heartbeat: 10 * time.Millisecond})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.server.URL+"/v1/events?path=/quiet", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Test-Caller", "ann")
	resp, err := b.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines, last, moved := bufio.NewScanner(resp.Body), "", 0
	for moved < 2 && lines.Scan() {
		id, ok := strings.CutPrefix(lines.Text(), "id: ")
		switch {
		case ok && id != last:
			last, moved = id, moved+1
		case lines.Text() == ": heartbeat" && moved == 1:
			b.do("PUT", "/v1/fs/elsewhere", "x")
		case strings.HasPrefix(lines.Text(), "data:"):
			t.Errorf("a quiet stream brings %s", lines.Text())
		}
	}
	if err := lines.Err(); err != nil || moved < 2 {
		t.Errorf("the id moved %d times, %v", moved, err)
	}
}

// dial sends text as it is, and returns the connection.
func (b *bench) dial(t *testing.T, text string) *net.TCPConn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(b.server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// TestBodiesOnTheWire: what is no whole body writes nothing, and a body that is not wanted is
// not asked for.
func TestBodiesOnTheWire(t *testing.T) {
	t.Parallel()
	b := open(t, options{idle: 2 * time.Second})
	const head = " HTTP/1.1\r\nHost: x\r\nX-Test-Caller: ann\r\n"
	large := strings.Repeat("x", 20_000)
	for _, c := range []struct {
		name, request, more string
		hangUp              bool
		status              []int
		want                string
	}{
		{"nobody waits for what is refused", "Content-Length: 3\r\nExpect: 100-continue\r\nIf-Match: \"0-0\"\r\n\r\n", "", false, []int{412}, ""},
		{"what is wanted is asked for", "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n", "abc", false, []int{100, 201}, "abc"},
		{"another expectation", "Content-Length: 3\r\nExpect: the-unexpected\r\n\r\n", "", false, []int{417}, ""},
		{"shorter than announced", "Content-Length: 10\r\n\r\nabc", "", true, nil, ""},
		{"shorter, and large", "Content-Length: 30000\r\n\r\n" + large, "", true, nil, ""},
		{"one that comes to a halt", "Content-Length: 10\r\n\r\nabc", "", false, nil, ""},
		{"large, and comes to a halt", "Content-Length: 30000\r\n\r\n" + large, "", false, nil, ""},
		{"longer than announced", "Content-Length: 3\r\n\r\nabcdef\r\n\r\n", "", false, []int{201, 400}, "abc"},
		{"in pieces", "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", "", false, []int{201}, "abc"},
		{"pieces without an end", "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", "", true, nil, ""},
		{"pieces that are none", "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\nzz\r\n", "", false, []int{400}, ""},
		{"two lengths", "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "", false, []int{400}, ""},
		{"a length and pieces", "Content-Length: -1\r\n\r\nabcd", "", false, []int{400}, ""},
	} {
		for _, target := range []string{"PUT /v1/fs/f", "POST /v1/fs/g?op=append"} {
			if strings.HasPrefix(target, "POST") {
				b.do("PUT", "/v1/fs/g", "").want(201)
			}
			conn := b.dial(t, target+head+c.request)
			answers := bufio.NewReader(conn)
			if c.hangUp {
				if err := conn.CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			if c.status == nil {
				if resp, err := http.ReadResponse(answers, nil); err == nil {
					if _ = resp.Body.Close(); resp.StatusCode < 400 {
						t.Errorf("%s: %s: %s", c.name, target, resp.Status)
					}
				}
			}
			for _, status := range c.status {
				if status == 201 && strings.HasPrefix(target, "POST") {
					status = 200
				}
				resp, err := http.ReadResponse(answers, nil)
				if err != nil {
					t.Errorf("%s: %s: no answer, want %d: %v", c.name, target, status, err)
					break
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Error(err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != status {
					t.Errorf("%s: %s: %s, want %d", c.name, target, resp.Status, status)
				}
				if status == 100 {
					if _, err := io.WriteString(conn, c.more); err != nil {
						t.Fatal(err)
					}
				}
			}
			_ = conn.Close()
			path, _, _ := strings.Cut(strings.Fields(target)[1], "?")
			got := b.do("GET", path, "")
			if text := string(got.body); got.status == 200 && text != c.want || got.status != 200 && c.want != "" {
				t.Errorf("%s: %s: afterwards %d, %.40q", c.name, target, got.status, text)
			}
			b.do("DELETE", path, "")
		}
	}
}

// TestReaderThatTakesNothing: who stops reading holds nothing for longer than is allowed.
func TestReaderThatTakesNothing(t *testing.T) {
	t.Parallel()
	b := open(t, options{idle: 200 * time.Millisecond})
	const size = 32 << 20 // more than two sockets keep
	if _, _, err := b.drive.Put(t.Context(), 1, "/large", drive.PutOptions{Body: io.LimitReader(zeros{}, size), Size: size}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	handler := b.server.Config.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	other := *b
	other.server = server
	conn := other.dial(t, "GET /v1/fs/large HTTP/1.1\r\nHost: x\r\nX-Test-Caller: ann\r\n\r\n")
	select {
	case <-ended:
	case <-t.Context().Done():
		t.Fatal("it is still being sent")
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("%d bytes came as if they were all", n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
