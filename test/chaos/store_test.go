package chaos

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/blob/s3"
)

// request is one delete request as it came to the store.
type request struct {
	at    time.Time
	lease lease
	keys  []string // with the bucket's name in front
	cut   bool     // its sender ended in the middle: what came of it names no keys
}

// lease is what a delete request says of its sender.
type lease struct {
	server string // host/process id/random
	job    string // purge-42
	epoch  int64
}

// pid is the process that sent the request, 0 when nobody knows.
func (l lease) pid() int {
	parts := strings.Split(l.server, "/")
	if len(parts) != 3 {
		return 0
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0
	}
	return pid
}

// parseLease reads the header of a delete; the zero lease when it has none.
func parseLease(header string) lease {
	parts := strings.Fields(header)
	if len(parts) != 3 {
		return lease{}
	}
	epoch, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return lease{}
	}
	return lease{server: parts[0], job: parts[1], epoch: epoch}
}

// trouble is what a store does to requests. The shares add up to 1 at most.
type trouble struct {
	fail     float64       // answered 500, not carried out
	throttle float64       // answered 503 SlowDown, not carried out
	cut      float64       // the connection ends, not carried out
	lose     float64       // carried out, and the connection ends without an answer
	latency  time.Duration // of each request, before it is carried out
}

// store is a gateway in front of the S3 gateway. It notes every delete when it comes,
// and does harm on the way. What came is carried out even when its sender is gone:
// nobody can call a request back from a store.
type store struct {
	URL string

	target  *url.URL
	base    atomic.Int64 // latency of deletes at all times, ns
	trouble atomic.Pointer[trouble]
	client  *http.Transport

	mu     sync.Mutex
	rnd    *rand.Rand
	log    []*request
	harmed map[string]int // by kind, how many requests
}

func newStore(t *testing.T, target string, latency time.Duration) *store {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	s := &store{
		target: u, rnd: rand.New(rand.NewPCG(1, 2)), harmed: map[string]int{},
		client: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
	}
	s.calm()
	s.far(latency)
	server := httptest.NewServer(s)
	s.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		s.client.CloseIdleConnections()
	})
	return s
}

func (s *store) calm() { s.trouble.Store(&trouble{}) }

// far gives deletes a latency.
func (s *store) far(by time.Duration) { s.base.Store(int64(by)) }

// requests returns the deletes so far, in the order in which they came.
func (s *store) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]request, len(s.log))
	for i, r := range s.log {
		all[i] = *r
	}
	return all
}

func (s *store) harm() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(s.harmed)) {
		all = append(all, fmt.Sprintf("%s %d", kind, s.harmed[kind]))
	}
	return strings.Join(all, ", ")
}

// ServeHTTP notes a delete and passes it on, or not.
func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	seen := s.note(r)
	body, err := io.ReadAll(r.Body)
	if err != nil { // its sender ended in the middle: nobody can carry it out
		if seen != nil {
			s.mu.Lock()
			seen.cut = true
			s.mu.Unlock()
		}
		return
	}
	now := s.trouble.Load()
	wait := now.latency
	if seen != nil {
		wait += time.Duration(s.base.Load())
		s.name(seen, r, body)
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		<-timer.C
	}
	switch s.choose(now) {
	case "fail":
		refuse(w, http.StatusInternalServerError, "InternalError")
	case "throttle":
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
	case "cut":
		panic(http.ErrAbortHandler)
	case "lose":
		s.pass(httptest.NewRecorder(), r, body)
		panic(http.ErrAbortHandler)
	default:
		s.pass(w, r, body)
	}
}

// note writes a delete down, before anything is read of its body; nil for other requests.
func (s *store) note(r *http.Request) *request {
	if r.Method != http.MethodDelete && (r.Method != http.MethodPost || !r.URL.Query().Has("delete")) {
		return nil
	}
	seen := &request{at: time.Now(), lease: parseLease(r.Header.Get(s3.LeaseHeader))}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, seen)
	return seen
}

// name adds the keys.
func (s *store) name(seen *request, r *http.Request, body []byte) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	keys := []string{path}
	if r.Method == http.MethodPost {
		var doc struct {
			Object []struct{ Key string }
		}
		if err := xml.Unmarshal(body, &doc); err != nil {
			return // keys that nobody can read are reported by the check
		}
		keys = keys[:0]
		for _, o := range doc.Object {
			keys = append(keys, strings.TrimSuffix(path, "/")+"/"+o.Key)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen.keys = keys
}

// choose draws what becomes of a request.
func (s *store) choose(t *trouble) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.rnd.Float64()
	for _, kind := range []struct {
		name  string
		share float64
	}{{"fail", t.fail}, {"throttle", t.throttle}, {"cut", t.cut}, {"lose", t.lose}} {
		if x -= kind.share; x < 0 {
			s.harmed[kind.name]++
			return kind.name
		}
	}
	return ""
}

// pass carries a request out.
func (s *store) pass(w http.ResponseWriter, r *http.Request, body []byte) {
	out := r.Clone(context.WithoutCancel(r.Context()))
	out.URL.Scheme, out.URL.Host, out.RequestURI = s.target.Scheme, s.target.Host, ""
	out.Body, out.ContentLength = http.NoBody, int64(len(body))
	if len(body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := s.client.RoundTrip(out)
	if err != nil {
		refuse(w, http.StatusBadGateway, "InternalError")
		return
	}
	defer func() { _ = resp.Body.Close() }()
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // whoever asked may be gone
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>chaos</Message></Error>`, code)
}
