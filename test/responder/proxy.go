package responder

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Base is where a server has its catalog; docs/api describes the paths below it.
const Base = "/iceberg"

// Handler checks each answer before it goes on. The handler is the catalog itself, without
// Base, or the list of cleanups.
func (r *Responder) Handler(tb testing.TB, next http.Handler) http.Handler {
	tb.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		method, path := req.Method, rawPath(req.URL)
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, req)
		for _, fault := range r.Check(method, path, rec.Code, rec.Header(), rec.Body.Bytes()) {
			tb.Error(explain(method, path, rec.Code, fault, rec.Body.Bytes()))
		}
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()) // the client may be gone
	})
}

// Proxy starts a proxy before a server (http://host:port) and returns its own URI, which
// a client is given in the server's place. Each answer below Base, and each list of
// cleanups, is checked; the rest is passed on only. A fault is reported once an operation.
// The proxy ends with the test, which fails when nothing was checked.
func (r *Responder) Proxy(tb testing.TB, server string) string {
	tb.Helper()
	to, err := url.Parse(server)
	if err != nil {
		tb.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.DisableCompression = true // the client decides, and gets what the server sent
	transport.MaxIdleConnsPerHost = transport.MaxIdleConns

	c := &checked{responder: r, tb: tb, routes: map[string]int{}, reported: map[string]bool{}}
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = to.Scheme, to.Host
			p.Out.URL.RawQuery = p.In.URL.RawQuery // also one that cannot be read
		},
		Transport:      transport,
		ModifyResponse: c.answer,
		ErrorHandler:   c.failed,
		ErrorLog:       log.New(io.Discard, "", 0), // a client that went away
	})
	tb.Cleanup(func() {
		front.Close()
		transport.CloseIdleConnections()
		c.summary()
	})
	return front.URL
}

// checked is what a proxy has seen.
type checked struct {
	responder *Responder
	tb        testing.TB

	mu       sync.Mutex
	routes   map[string]int // answers by operation
	reported map[string]bool
}

// documented is the path of a request as docs/api has it, and whether it is there at all.
func documented(u *url.URL) (string, bool) {
	path := rawPath(u)
	if below, ok := strings.CutPrefix(path, Base); ok && (below == "" || below[0] == '/') {
		return below, true
	}
	return path, strings.HasPrefix(path, "/api/metalakes/")
}

// answer checks one answer and leaves it as it is.
func (c *checked) answer(resp *http.Response) error {
	method := resp.Request.Method
	path, ok := documented(resp.Request.URL)
	if !ok {
		return nil
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	faults := c.responder.Check(method, path, resp.StatusCode, resp.Header, body)

	route := c.responder.route(method, path)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.routes[route]++
	for _, fault := range faults {
		if key := fmt.Sprint(route, resp.StatusCode, fault); !c.reported[key] {
			c.reported[key] = true
			c.tb.Error(explain(method, path, resp.StatusCode, fault, body))
		}
	}
	return nil
}

// failed is called when there is no whole answer, which is fine only when the client has
// gone away.
func (c *checked) failed(w http.ResponseWriter, req *http.Request, err error) {
	if req.Context().Err() == nil {
		c.tb.Errorf("%s %s: %v", req.Method, rawPath(req.URL), err)
	}
	w.WriteHeader(http.StatusBadGateway)
}

func (c *checked) summary() {
	c.mu.Lock()
	defer c.mu.Unlock()
	answers := 0
	for _, n := range c.routes {
		answers += n
	}
	if answers == 0 && !c.tb.Skipped() {
		c.tb.Error("no answer went through the proxy")
	}
	c.tb.Logf("%d answers of %d operations held to docs/api", answers, len(c.routes))
}

// explain is one fault as a person wants to read it.
func explain(method, path string, status int, fault string, body []byte) string {
	const most = 400
	tail := ""
	if len(body) > most {
		body, tail = body[:most], "…"
	}
	return fmt.Sprintf("%s %s answered %d: %s\n%s%s", method, path, status, fault, body, tail)
}

// rawPath is the path as it was sent.
func rawPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}
