package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// script is a transport that gives one answer after another, and keeps what was asked.
type script struct {
	answers  []func(*http.Request) (*http.Response, error)
	requests []*http.Request
	at       []time.Time
	open     int // bodies that were handed out and not closed
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.open > 0 {
		return nil, errors.New("test: a body is still open")
	}
	s.requests = append(s.requests, r)
	s.at = append(s.at, time.Now())
	if len(s.requests) > len(s.answers) {
		return nil, fmt.Errorf("test: request %d has no answer", len(s.requests))
	}
	resp, err := s.answers[len(s.requests)-1](r)
	if resp != nil {
		s.open++
		resp.Body = &body{Reader: resp.Body, closed: func() { s.open-- }}
	}
	return resp, err
}

type body struct {
	io.Reader
	closed func()
}

func (b *body) Close() error { b.closed(); return nil }

func (s *script) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URI: "http://lethe.test", Token: "t0ken", HTTPClient: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answer(status int, text string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{
			StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)),
			Header: h, Body: io.NopCloser(strings.NewReader(text)), Request: r,
		}, nil
	}
}

func broken(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset") }

func TestNew(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"http://h:8181":               "http://h:8181",
		"http://h:8181/":              "http://h:8181",
		"http://h:8181/iceberg":       "http://h:8181",
		"https://h/behind/a/iceberg/": "https://h/behind/a",
	} {
		c, err := client.New(client.Options{URI: uri})
		if err != nil || c.URI() != want {
			t.Errorf("%s: %v, %v, want %s", uri, c, err, want)
		}
	}
	for _, uri := range []string{"", "h:8181", "ftp://h", "http://", "http://u:geheim@h", "http://h?x=1", "http://h/%zz"} {
		_, err := client.New(client.Options{URI: uri})
		if err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q: error %v, want one without the password", uri, err)
		}
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	ok := answer(200, `{"job":"purge-1","state":"SUCCEEDED"}`)
	get := func(ctx context.Context, c *client.Client) error {
		_, err := c.Jobs().Get(ctx, "purge-1")
		return err
	}
	drop := func(ctx context.Context, c *client.Client) error {
		return c.Warehouse("").DropNamespace(ctx, client.Namespace{"a"})
	}
	cancel := func(ctx context.Context, c *client.Client) error {
		_, err := c.Jobs().Cancel(ctx, "purge-1")
		return err
	}
	rename := func(ctx context.Context, c *client.Client) error {
		a := client.Namespace{"a"}
		return c.Warehouse("").RenameTable(ctx, client.Identifier{Namespace: a, Name: "t"}, client.Identifier{Namespace: a, Name: "u"})
	}
	type answers = []func(*http.Request) (*http.Response, error)
	tests := []struct {
		name     string
		call     func(context.Context, *client.Client) error
		answers  answers
		requests int
		status   int           // of the error, 0 means success
		least    time.Duration // between the first and the last request
		most     time.Duration
	}{
		{"first try", get, answers{ok}, 1, 0, 0, 0},
		{"network, then well", get, answers{broken, ok}, 2, 0, 100 * time.Millisecond, 200 * time.Millisecond},
		{"retry after in seconds", get, answers{answer(503, "", "Retry-After", "7"), ok}, 2, 0, 7 * time.Second, 7 * time.Second},
		{"retry after is clamped", get, answers{answer(429, "", "Retry-After", "86400"), ok}, 2, 0, time.Minute, time.Minute},
		{"retry after of ages is clamped", get, answers{answer(503, "", "Retry-After", "99999999999"), ok}, 2, 0, time.Minute, time.Minute},
		{"retry after as a date", get, answers{answer(503, "", "Retry-After", "Sat, 01 Jan 2000 00:00:07 GMT"), ok}, 2, 0, 7 * time.Second, 7 * time.Second},
		{"a date of ages is clamped", get, answers{answer(503, "", "Retry-After", "Fri, 01 Jan 2100 00:00:00 GMT"), ok}, 2, 0, time.Minute, time.Minute},
		{"a date that is over", get, answers{answer(503, "", "Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"), ok}, 2, 0, 100 * time.Millisecond, 200 * time.Millisecond},
		{"retry after of nonsense", get, answers{answer(429, "", "Retry-After", "soon"), ok}, 2, 0, 100 * time.Millisecond, 200 * time.Millisecond},
		{"negative retry after", get, answers{answer(429, "", "Retry-After", "-5"), ok}, 2, 0, 100 * time.Millisecond, 200 * time.Millisecond},
		{"five requests are all", get, answers{answer(502, ""), answer(502, ""), answer(502, ""), answer(502, ""), answer(504, "")}, 5, 504, 1500 * time.Millisecond, 3 * time.Second},
		{"half an answer", get, answers{answer(200, `{"job":`), ok}, 2, 0, 100 * time.Millisecond, 200 * time.Millisecond},
		{"not found is final", get, answers{answer(404, "")}, 1, 404, 0, 0},
		{"conflict is final", drop, answers{answer(409, "", "Retry-After", "1")}, 1, 409, 0, 0},
		{"delete is repeated", drop, answers{answer(500, ""), broken, answer(204, "")}, 3, 0, 300 * time.Millisecond, 600 * time.Millisecond},
		{"post with a key is repeated", rename, answers{answer(500, ""), broken, answer(204, "")}, 3, 0, 300 * time.Millisecond, 600 * time.Millisecond},
		{"post without one is not", cancel, answers{answer(503, "", "Retry-After", "1")}, 1, 503, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: tt.answers}
				err := tt.call(t.Context(), s.client(t))
				if client.StatusOf(err) != tt.status || (err == nil) != (tt.status == 0) {
					t.Fatalf("error %v, want status %d", err, tt.status)
				}
				if len(s.requests) != tt.requests {
					t.Fatalf("%d requests, want %d", len(s.requests), tt.requests)
				}
				if took := s.at[len(s.at)-1].Sub(s.at[0]); took < tt.least || took > tt.most {
					t.Errorf("tries lasted %v, want %v to %v", took, tt.least, tt.most)
				}
				if s.open != 0 {
					t.Errorf("%d bodies left open", s.open)
				}
			})
		})
	}
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func(*http.Request) (*http.Response, error){
			answer(503, ""), answer(204, "", "X-Lethe-Job", "purge-9", "X-Lethe-Job-State", "RUNNING"), answer(204, ""),
		}}
		c := s.client(t)
		id := client.Identifier{Namespace: client.Namespace{"a"}, Name: "t"}
		dropped, err := c.Warehouse("").DropTable(t.Context(), id, client.DropOptions{Purge: true})
		if err != nil {
			t.Fatal(err)
		}
		if want := (client.Dropped{Job: "purge-9", State: client.Running}); dropped != want {
			t.Errorf("dropped %+v, want %+v", dropped, want)
		}
		if _, err := c.Warehouse("").DropTable(t.Context(), id, client.DropOptions{}); err != nil {
			t.Fatal(err)
		}
		keys := make([]string, 0, 3)
		for _, r := range s.requests {
			keys = append(keys, r.Header.Get("Idempotency-Key"))
		}
		v7 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
		if !v7.MatchString(keys[0]) || keys[1] != keys[0] || keys[2] == keys[0] {
			t.Errorf("keys %q: want a UUIDv7, the same for the second try, another for the second drop", keys)
		}
	})
}

func TestDropTableHeaders(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		opts  client.DropOptions
		query string
		async string
	}{
		{"plain", client.DropOptions{}, "", ""},
		{"purge", client.DropOptions{Purge: true}, "purgeRequested=true", ""},
		{"async purge", client.DropOptions{Purge: true, Async: true}, "purgeRequested=true", "true"},
		{"async without purge means nothing", client.DropOptions{Async: true}, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &script{answers: []func(*http.Request) (*http.Response, error){answer(204, "")}}
			id := client.Identifier{Namespace: client.Namespace{"a.b", "c d"}, Name: "t/+ü"}
			if _, err := s.client(t).Warehouse("w 1").DropTable(t.Context(), id, tt.opts); err != nil {
				t.Fatal(err)
			}
			r := s.requests[0]
			if got, want := r.URL.EscapedPath(), "/iceberg/v1/w%201/namespaces/a.b%1Fc%20d/tables/t%2F%2B%C3%BC"; got != want {
				t.Errorf("path %s, want %s", got, want)
			}
			if r.URL.RawQuery != tt.query || r.Header.Get("X-Gravitino-Async-Purge") != tt.async {
				t.Errorf("query %q, async %q", r.URL.RawQuery, r.Header.Get("X-Gravitino-Async-Purge"))
			}
			if got := r.Header.Get("Authorization"); got != "Bearer t0ken" {
				t.Errorf("authorization %q", got)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer func(*http.Request) (*http.Response, error)
		want   client.Error
		text   string
	}{
		{
			"catalog", answer(404, `{"error":{"message":"no table a.t","type":"NoSuchTableException","code":404,"request-id":"r1"}}`),
			client.Error{Status: 404, Code: "NoSuchTableException", Message: "no table a.t", RequestID: "r1"},
			"no table a.t (404 NoSuchTableException, request r1)",
		},
		{
			"request id in the header only", answer(404, `{"error":{"message":"no table a.t"}}`, "X-Request-Id", "r3"),
			client.Error{Status: 404, Message: "no table a.t", RequestID: "r3"},
			"no table a.t (404, request r3)",
		},
		{
			"jobs", answer(409, `{"error":{"code":"JobState","message":"job purge-1 is RUNNING","requestId":"r2"}}`),
			client.Error{Status: 409, Code: "JobState", Message: "job purge-1 is RUNNING", RequestID: "r2"},
			"job purge-1 is RUNNING (409 JobState, request r2)",
		},
		{
			"a proxy's page", answer(403, "<html>", "Retry-After", "3"),
			client.Error{Status: 403, Message: "the server answered 403 Forbidden", RetryAfter: 3 * time.Second},
			"the server answered 403 Forbidden (403)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &script{answers: []func(*http.Request) (*http.Response, error){tt.answer}}
			_, err := s.client(t).Jobs().Get(t.Context(), "purge-1")
			var got *client.Error
			if !errors.As(err, &got) {
				t.Fatalf("error %v is no *client.Error", err)
			}
			if diff := cmp.Diff(tt.want, *got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if err.Error() != tt.text {
				t.Errorf("text %q, want %q", err, tt.text)
			}
		})
	}
}

func TestContextEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("the user has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		s := &script{answers: []func(*http.Request) (*http.Response, error){answer(503, "", "Retry-After", "30")}}
		time.AfterFunc(time.Second, func() { cancel(reason) })
		_, err := s.client(t).Jobs().Get(ctx, "purge-1")
		if !errors.Is(err, reason) || time.Since(s.at[0]) != time.Second {
			t.Errorf("error %v after %v, want the cause after 1s", err, time.Since(s.at[0]))
		}
	})
}

func TestLists(t *testing.T) {
	t.Parallel()
	pages := map[string]string{ // by path and query
		"/v1/jobs?kind=purge&namespace=a.b%1Fc&pageSize=2&state=FAILED&table=t&warehouse=w":              `{"jobs":[{"job":"purge-3"},{"job":"purge-2"}],"nextPageToken":"p2"}`,
		"/v1/jobs?kind=purge&namespace=a.b%1Fc&pageSize=2&pageToken=p2&state=FAILED&table=t&warehouse=w": `{"jobs":[{"job":"purge-1"}]}`,
		"/api/metalakes/m/catalogs/default/cleanups?namespace=a&state=PENDING&table=t":                   `{"cleanups":[{"id":2,"job":"purge-2","namespace":["a"]}],"nextPageToken":"x"}`,
		"/api/metalakes/m/catalogs/default/cleanups?namespace=a&pageToken=x&state=PENDING&table=t":       `{"cleanups":[{"id":1,"job":"purge-1"}],"nextPageToken":null}`,
		"/iceberg/v1/default/namespaces?pageToken=&parent=a%1Fb":                                         `{"namespaces":[["a","b","x"]],"next-page-token":"n"}`,
		"/iceberg/v1/default/namespaces?pageToken=n&parent=a%1Fb":                                        `{"namespaces":[["a","b","y.z"]],"next-page-token":null}`,
		"/iceberg/v1/default/namespaces/a/tables?pageToken=":                                             `{"identifiers":[{"namespace":["a"],"name":"t"}]}`,
		"/iceberg/v1/default/namespaces/%2E%2E/tables?pageToken=":                                        `{"identifiers":[]}`,
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.EscapedPath()+"?"+r.URL.RawQuery]
		if !ok {
			http.Error(w, `{"error":{"message":"unexpected `+r.URL.String()+`"}}`, http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, page)
	}))
	defer srv.Close()
	defer srv.Client().CloseIdleConnections()
	c, err := client.New(client.Options{URI: srv.URL, HTTPClient: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()

	jobs := c.Jobs().List(ctx, client.JobFilter{
		State: client.Failed, Kind: "purge", Warehouse: "w", Namespace: client.Namespace{"a.b", "c"}, Table: "t", PageSize: 2,
	})
	for range 2 { // the walk may be begun again
		var names []string
		for job, err := range jobs {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, job.Job)
		}
		if diff := cmp.Diff([]string{"purge-3", "purge-2", "purge-1"}, names); diff != "" {
			t.Errorf("jobs (-want +got):\n%s", diff)
		}
	}
	var ids []int64
	for cleanup, err := range c.Cleanups(ctx, client.CleanupFilter{Metalake: "m", Namespace: client.Namespace{"a"}, Table: "t", State: client.Pending}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, cleanup.ID)
	}
	if diff := cmp.Diff([]int64{2, 1}, ids); diff != "" {
		t.Errorf("cleanups (-want +got):\n%s", diff)
	}
	var spaces []string
	for ns, err := range c.Warehouse("").Namespaces(ctx, client.Namespace{"a", "b"}) {
		if err != nil {
			t.Fatal(err)
		}
		spaces = append(spaces, ns.String())
	}
	if diff := cmp.Diff([]string{"a.b.x", `a.b.y\.z`}, spaces); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	for _, level := range []string{"a", ".."} {
		for id, err := range c.Warehouse("").Tables(ctx, client.Namespace{level}) {
			if err != nil || id.String() != "a.t" {
				t.Errorf("table %v, %v", id, err)
			}
		}
	}
	for _, err := range c.Warehouse("").Namespaces(ctx, client.Namespace{"a", "b"}) {
		if err != nil {
			t.Error(err)
		}
		break // must not fetch, nor yield, any more
	}
	for _, err := range c.Jobs().List(ctx, client.JobFilter{}) {
		if !client.IsNotFound(err) {
			t.Errorf("error %v, want the answer's 404", err)
		}
	}
}

func TestSamePageTwice(t *testing.T) {
	t.Parallel()
	page := answer(200, `{"jobs":[{"job":"purge-1"}],"nextPageToken":"p"}`)
	s := &script{answers: []func(*http.Request) (*http.Response, error){page, page, page}}
	n := 0
	for _, err := range s.client(t).Jobs().List(t.Context(), client.JobFilter{}) {
		if n++; err != nil {
			break
		}
	}
	if n != 2 || len(s.requests) != 2 {
		t.Errorf("%d items by %d requests, want the walk to end at the second page", n, len(s.requests))
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		running := answer(200, `{"job":"purge-1","state":"RUNNING","progress":{"files":3,"skipped":{"outside":2,"foreign":1}}}`)
		s := &script{answers: []func(*http.Request) (*http.Response, error){
			running, // answers at once: a server that is stopping
			answer(503, ""),
			running,
			answer(200, `{"job":"purge-1","state":"FAILED","lastError":"denied"}`),
		}}
		var seen []client.Counts
		job, err := s.client(t).Jobs().Wait(t.Context(), "purge-1", client.WaitOptions{
			Every:  2 * time.Second,
			Update: func(job client.Job) { seen = append(seen, job.Counts()) },
		})
		if err != nil || job.State != client.Failed || job.LastError != "denied" {
			t.Fatalf("job %+v, %v", job, err)
		}
		if len(seen) != 3 || seen[0].Files != 3 || seen[0].SkippedTotal() != 3 {
			t.Errorf("updates %+v", seen)
		}
		if got := s.requests[0].URL.Query().Get("wait"); got != "2" {
			t.Errorf("wait=%s, want 2", got)
		}
		if gap := s.at[1].Sub(s.at[0]); gap != time.Second {
			t.Errorf("asked again after %v, want 1s", gap)
		}
	})
}

func TestControl(t *testing.T) {
	t.Parallel()
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.URL.Path+" "+string(raw))
		_ = json.NewEncoder(w).Encode(client.Job{Job: "purge-7", State: client.Pending})
	}))
	defer srv.Close()
	defer srv.Client().CloseIdleConnections()
	c, err := client.New(client.Options{URI: srv.URL, HTTPClient: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	jobs, ctx := c.Jobs(), t.Context()
	for _, call := range []func() (client.Job, error){
		func() (client.Job, error) { return jobs.Cancel(ctx, "purge-7") },
		func() (client.Job, error) {
			return jobs.Retry(ctx, "purge-7", client.RetryOptions{AcceptMissing: true})
		},
		func() (client.Job, error) { return jobs.Ack(ctx, "purge-7") },
		func() (client.Job, error) { return jobs.Pause(ctx, "purge-7") },
		func() (client.Job, error) { return jobs.Resume(ctx, "purge-7") },
	} {
		if job, err := call(); err != nil || job.Job != "purge-7" {
			t.Fatalf("job %+v, %v", job, err)
		}
	}
	want := []string{
		"POST /v1/jobs/purge-7/cancel ",
		`POST /v1/jobs/purge-7/retry {"acceptMissing":true}`,
		"POST /v1/jobs/purge-7/ack ",
		"POST /v1/jobs/purge-7/pause ",
		"POST /v1/jobs/purge-7/resume ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestShow reads what the catalog tells of itself, of a namespace and of a table.
func TestShow(t *testing.T) {
	t.Parallel()
	s := &script{answers: []func(*http.Request) (*http.Response, error){
		answer(200, `{"defaults":{},"overrides":{"prefix":"default"},"idempotency-key-lifetime":"PT30M"}`),
		answer(200, `{"namespace":["a"],"properties":{"location":"file:///x"}}`),
		answer(200, `{"metadata-location":"file:///x/m.json","metadata":{"format-version":2}}`),
	}}
	c := s.client(t)
	if cfg, err := c.Config(t.Context(), ""); err != nil || cfg.Overrides["prefix"] != "default" || cfg.IdempotencyLifetime != "PT30M" {
		t.Errorf("config %+v, %v", cfg, err)
	}
	if ns, err := c.Warehouse("").Namespace(t.Context(), client.Namespace{"a"}); err != nil || ns.Properties["location"] != "file:///x" {
		t.Errorf("namespace %+v, %v", ns, err)
	}
	id := client.Identifier{Namespace: client.Namespace{"a"}, Name: "t"}
	if table, err := c.Warehouse("").Table(t.Context(), id); err != nil || string(table.Metadata) != `{"format-version":2}` {
		t.Errorf("table %+v, %v", table, err)
	}
}
