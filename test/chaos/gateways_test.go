package chaos

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob/s3"
)

// The store's gateway writes down what the check rests on, and does what it is told.
func TestStoreGateway(t *testing.T) {
	t.Parallel()
	const body = `<Delete><Object><Key>wh/a b</Key></Object><Object><Key>wh/&lt;c&gt;</Key></Object></Delete>`
	for _, tt := range []struct {
		name           string
		method, target string
		body           string
		trouble        trouble
		status         int // 0: no answer
		carriedOut     bool
		keys           []string // of the note; nil: none is made
	}{
		{name: "a read", method: "GET", target: "/bucket/wh/a", status: 200, carriedOut: true},
		{name: "a write", method: "PUT", target: "/bucket/wh/a", body: "x", status: 200, carriedOut: true},
		{name: "an upload that begins", method: "POST", target: "/bucket/wh/a?uploads", status: 200, carriedOut: true},
		{name: "many keys", method: "POST", target: "/bucket?delete", body: body, status: 200, carriedOut: true, keys: []string{"bucket/wh/a b", "bucket/wh/<c>"}},
		{name: "one key", method: "DELETE", target: "/bucket/wh/d%20a%23t%2Fa%3F", status: 200, carriedOut: true, keys: []string{"bucket/wh/d a#t/a?"}},
		{name: "keys that cannot be read", method: "POST", target: "/bucket?delete=", body: "<Del", status: 200, carriedOut: true, keys: []string{}},
		{name: "fail", method: "DELETE", target: "/bucket/k", trouble: trouble{fail: 1}, status: 500, keys: []string{"bucket/k"}},
		{name: "throttle", method: "DELETE", target: "/bucket/k", trouble: trouble{throttle: 1}, status: 503, keys: []string{"bucket/k"}},
		{name: "cut", method: "DELETE", target: "/bucket/k", trouble: trouble{cut: 1}, keys: []string{"bucket/k"}},
		{name: "lose", method: "DELETE", target: "/bucket/k", trouble: trouble{lose: 1}, carriedOut: true, keys: []string{"bucket/k"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var came atomic.Int32
			var target, got atomic.Value
			behind := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				came.Add(1)
				raw, _ := io.ReadAll(r.Body)
				target.Store(r.RequestURI)
				got.Store(r.Host + " " + string(raw))
			}))
			defer behind.Close()
			s := newStore(t, behind.URL, 0)
			s.trouble.Store(&tt.trouble)
			req, err := http.NewRequestWithContext(t.Context(), tt.method, s.URL+tt.target, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(s3.LeaseHeader, "host/7/abc purge-3 2")
			began := time.Now()
			status := 0
			if resp, err := patientClient.Do(req); err == nil {
				status = resp.StatusCode
				_ = resp.Body.Close()
			}
			if status != tt.status || (came.Load() == 1) != tt.carriedOut {
				t.Errorf("status %d, carried out %d times; want %d, %t", status, came.Load(), tt.status, tt.carriedOut)
			}
			// A signature holds for host and path as they were sent.
			if tt.carriedOut && (target.Load() != tt.target || got.Load() != strings.TrimPrefix(s.URL, "http://")+" "+tt.body) {
				t.Errorf("carried out %v, %v; want %s of %s", target.Load(), got.Load(), tt.target, s.URL)
			}
			notes := s.requests()
			if tt.keys == nil {
				if len(notes) > 0 {
					t.Errorf("noted %+v", notes)
				}
				return
			}
			if len(notes) != 1 {
				t.Fatalf("noted %+v, want one", notes)
			}
			if n := notes[0]; n.lease != (lease{"host/7/abc", "purge-3", 2}) || n.lease.pid() != 7 || n.at.Before(began) || n.at.After(time.Now()) {
				t.Errorf("noted %+v", n)
			}
			if diff := cmp.Diff(strings.Join(tt.keys, "\n"), strings.Join(notes[0].keys, "\n")); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}

// A sender that is killed in the middle of its request is no fault of what it sent.
func TestStoreGatewayOfARequestInPart(t *testing.T) {
	t.Parallel()
	s := newStore(t, "http://127.0.0.1:1", 0) // nothing is passed on
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "POST /bucket?delete HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n%s: host/7/abc purge-3 2\r\n\r\n<Delete><Obj", s3.LeaseHeader)
	if err := errors.Join(err, conn.(*net.TCPConn).CloseWrite()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil { // until the gateway is through with it
		t.Fatal(err)
	}
	notes := s.requests()
	if len(notes) != 1 || !notes[0].cut || len(notes[0].keys) > 0 || notes[0].lease.job != "purge-3" {
		t.Errorf("noted %+v", notes)
	}
}

// The database's gateway passes bytes on, holds them, and ends connections.
func TestDatabaseGateway(t *testing.T) {
	t.Parallel()
	echo, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = echo.Close() }()
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	d := newDatabase(t, fmt.Sprintf("postgres://%s/t", echo.Addr()))
	dial := func() (net.Conn, *bufio.Reader) {
		t.Helper()
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn, bufio.NewReader(conn)
	}
	// say sends a line and waits for it to come back.
	say := func(conn net.Conn, r *bufio.Reader, limit time.Duration) error {
		t.Helper()
		_ = conn.SetDeadline(time.Now().Add(limit))
		if _, err := io.WriteString(conn, "hello\n"); err != nil {
			return err
		}
		_, err := r.ReadString('\n')
		return err
	}
	conn, r := dial()
	if err := say(conn, r, patience); err != nil {
		t.Fatal(err)
	}
	d.stall()
	if err := say(conn, r, 100*time.Millisecond); err == nil {
		t.Error("it came back through a stalled gateway")
	}
	d.heal()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := r.ReadString('\n'); err != nil { // what was held
		t.Error(err)
	}
	d.slow(50 * time.Millisecond)
	began := time.Now()
	if err := say(conn, r, patience); err != nil || time.Since(began) < 100*time.Millisecond {
		t.Errorf("%v, after %s, want 50 ms each way", err, time.Since(began))
	}
	d.far(20 * time.Millisecond)
	d.heal()
	began = time.Now()
	if err := say(conn, r, patience); err != nil || time.Since(began) < 40*time.Millisecond {
		t.Errorf("%v, after %s, want 20 ms each way, healed or not", err, time.Since(began))
	}
	d.far(0)
	d.cut()
	if err := say(conn, r, patience); err == nil {
		t.Error("a cut connection lives")
	}
	conn, r = dial()
	if err := say(conn, r, patience); err != nil {
		t.Errorf("after a cut: %v", err)
	}
	d.down()
	again, ra := dial()
	if say(conn, r, patience) == nil || say(again, ra, patience) == nil {
		t.Error("a connection to a database that is down")
	}
	d.heal()
	conn, r = dial()
	if err := say(conn, r, patience); err != nil {
		t.Errorf("after an outage: %v", err)
	}
}
