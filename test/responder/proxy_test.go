package responder

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// spy is a test that keeps what is reported to it.
type spy struct {
	testing.TB
	mu     sync.Mutex
	faults []string
	ends   []func()
}

func (s *spy) Error(args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprint(args...))
}
func (s *spy) Errorf(format string, args ...any) { s.Error(fmt.Sprintf(format, args...)) }
func (s *spy) Cleanup(end func())                { s.ends = append(s.ends, end) }

// end ends the spied test.
func (s *spy) end() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
}

// wants asserts the parts of what was reported, in order.
func (s *spy) wants(t *testing.T, parts ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.EqualFunc(s.faults, parts, strings.Contains) {
		t.Errorf("reported %q, want %q", s.faults, parts)
	}
}

func send(t *testing.T, method, uri string, header ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, uri, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // nothing is unpacked, no redirect followed
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp, body
}

const namespaces = Base + "/v1/p/namespaces"

// answering starts a server, and a proxy before it on behalf of a spied test.
func answering(t *testing.T, handler http.HandlerFunc) (s *spy, uri string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s = &spy{TB: t}
	uri = New(t).Proxy(s, server.URL)
	t.Cleanup(s.end)
	return s, uri
}

func TestProxyReports(t *testing.T) {
	t.Parallel()
	const good = `{"namespaces":[["a"]],"next-page-token":null}`
	for _, c := range []struct {
		name, path, body string
		status           int
		want             []string
	}{
		{"nothing wrong", namespaces, good, 200, nil},
		{"a wrong shape", namespaces, `{"namespaces":[]}`, 200, []string{"GET /v1/p/namespaces answered 200: the answer: next-page-token is missing"}},
		{"a status of nobody", namespaces, good, 418, []string{"status 418", "error is missing", "namespaces is unknown", "next-page-token is unknown"}},
		{"no operation", Base + "/v2", good, 200, []string{"status 200", "error is missing", "namespaces is unknown", "next-page-token is unknown"}},
		{"the cleanups", "/api/metalakes/m/catalogs/c/cleanups", `{"cleanups":[]}`, 200, []string{"nextPageToken is missing"}},
		{"not described", "/v1/jobs", `{}`, 200, nil},
		{"beside the catalog", "/icebergs/v1/config", `{}`, 200, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, uri := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("X-Request-Id", "11111111-2222-3333-4444-555555555555")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			})
			for range 2 { // the second time nothing is new
				if resp, body := send(t, http.MethodGet, uri+c.path); resp.StatusCode != c.status || string(body) != c.body {
					t.Errorf("passed on %d %s", resp.StatusCode, body)
				}
			}
			s.wants(t, c.want...)
		})
	}
}

// TestProxyChangesNothing sends what proxies like to tidy up.
func TestProxyChangesNothing(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	_, _ = zw.Write([]byte(`{"namespaces":[],"next-page-token":null}`))
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	got := make(chan *http.Request, 1)
	s, uri := answering(t, func(w http.ResponseWriter, req *http.Request) {
		got <- req
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "x")
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", strconv.Itoa(packed.Len()))
		_, _ = w.Write(packed.Bytes())
	})
	const target = namespaces + "?parent=a;b%1F&x=%zz"
	resp, body := send(t, http.MethodGet, uri+target, "Accept-Encoding", "gzip")
	if sent := <-got; sent.RequestURI != target {
		t.Errorf("sent on %s, want %s", sent.RequestURI, target)
	}
	if resp.Header.Get("Content-Encoding") != "gzip" || !bytes.Equal(body, packed.Bytes()) {
		t.Errorf("answered %v %q", resp.Header, body)
	}
	s.wants(t)

	const strange = Base + "/v1/p/namespaces/a%2Fb%2e..//tables/%E4%BD%A0+x"
	send(t, http.MethodHead, uri+strange)
	if sent := <-got; sent.RequestURI != strange {
		t.Errorf("sent on %s, want %s", sent.RequestURI, strange)
	}
}

func TestProxyMustBeUsed(t *testing.T) {
	t.Parallel()
	s, _ := answering(t, func(http.ResponseWriter, *http.Request) {})
	s.end()
	s.wants(t, "no answer went through the proxy")
	s.ends = nil
}

func TestProxyReportsNoAnswer(t *testing.T) {
	t.Parallel()
	s, uri := answering(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if resp, _ := send(t, http.MethodGet, uri+namespaces); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("status %d", resp.StatusCode)
	}
	s.wants(t, "GET "+namespaces)
}
