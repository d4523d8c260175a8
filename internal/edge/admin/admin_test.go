package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/edge/admin"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// store is a kind's jobs in memory: what it is told, it answers.
type store struct {
	jobs   []admin.Job // newest first
	err    error       // of every control
	filter admin.Filter
	opts   job.RetryOptions
	calls  []string
	panics any // of every control
}

func (s *store) Job(_ context.Context, id job.ID) (admin.Job, error) {
	for _, j := range s.jobs {
		if j.Row.ID == id {
			return j, nil
		}
	}
	return admin.Job{}, fault.New("test", fault.NotFound, job.CodeNoSuchJob, "job purge-%d does not exist", id)
}

func (s *store) Jobs(_ context.Context, f admin.Filter, p job.Page) (out []admin.Job, next job.Page, err error) {
	s.filter = f
	for _, j := range s.jobs {
		if p.Before != 0 && j.Row.ID >= p.Before || f.State != "" && f.State != j.Row.State {
			continue
		}
		if len(out) == p.Limit {
			next.Before = out[len(out)-1].Row.ID
			break
		}
		out = append(out, j)
	}
	return out, next, nil
}

func (s *store) do(call string, id job.ID, state job.State) (job.Row, error) {
	s.calls = append(s.calls, call)
	if s.panics != nil {
		panic(s.panics)
	}
	if s.err != nil {
		return job.Row{}, s.err
	}
	i := slices.IndexFunc(s.jobs, func(j admin.Job) bool { return j.Row.ID == id })
	s.jobs[i].Row.State = state
	return s.jobs[i].Row, nil
}

func (s *store) Cancel(_ context.Context, id job.ID) (job.Row, error) {
	i := slices.IndexFunc(s.jobs, func(j admin.Job) bool { return j.Row.ID == id })
	if s.jobs[i].Row.State == job.Running {
		s.jobs[i].Row.CancelRequestedAt = 1
		return s.do("cancel", id, job.Running)
	}
	return s.do("cancel", id, job.Cancelled)
}

func (s *store) Retry(_ context.Context, id job.ID, opts job.RetryOptions) (job.Row, error) {
	s.opts = opts
	return s.do("retry", id, job.Pending)
}

func (s *store) Ack(_ context.Context, id job.ID) (job.Row, error) {
	return s.do("ack", id, job.Failed)
}

func (s *store) Pause(_ context.Context, id job.ID) (job.Row, error) {
	return s.do("pause", id, job.Pending)
}

func (s *store) Resume(_ context.Context, id job.ID) (job.Row, error) {
	return s.do("resume", id, job.Pending)
}

func row(id job.ID, state job.State) admin.Job {
	return admin.Job{
		Row:    job.Row{ID: id, State: state},
		Object: admin.Object{Warehouse: "default", Namespace: []string{"a.b", "c"}, Name: "t", Type: "TABLE", Location: "file:///w/t"},
	}
}

func kind(name string, s *store) admin.Kind { return admin.Kind{Name: name, Reader: s, Control: s} }

type bundle struct {
	store *store
	log   *bytes.Buffer
	http.Handler
}

func setup(t *testing.T, jobs ...admin.Job) *bundle {
	t.Helper()
	b := &bundle{store: &store{jobs: jobs}, log: &bytes.Buffer{}}
	b.Handler = admin.New(admin.Config{
		Kinds:     []admin.Kind{kind("purge", b.store)},
		Principal: func(context.Context) string { return "admin" },
		RequestID: func(context.Context) string { return "req-1" },
		Logger:    slog.New(slog.NewTextHandler(b.log, nil)),
	})
	return b
}

// call sends one request and decodes its answer.
func call(t *testing.T, h http.Handler, method, target, body string) (*http.Response, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body)))
	resp := w.Result()
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s %s answered no JSON: %q", method, target, raw)
	}
	return resp, out
}

func names(t *testing.T, body map[string]any) (out []string) {
	t.Helper()
	list, ok := body["jobs"].([]any)
	if !ok {
		t.Fatalf("jobs is no list in %v", body)
	}
	for _, j := range list {
		out = append(out, j.(map[string]any)["job"].(string))
	}
	return out
}

func TestShow(t *testing.T) {
	t.Parallel()
	j := row(42, job.Failed)
	j.Row = job.Row{
		ID: 42, State: job.Failed, Attempts: 3, Phase: "DATA", Progress: json.RawMessage(`{"files":7}`), LastError: "denied",
		Owner: "host-1", CancelRequestedAt: 5, AckedAt: 6, CreatedBy: "admin", CreatedAt: 1700000000123, UpdatedAt: 1700000001000, AvailableAt: 1700000002000,
	}
	b := setup(t, j)
	resp, got := call(t, b, "GET", "/v1/jobs/purge-42", "")
	want := map[string]any{
		"job": "purge-42", "kind": "purge", "state": "FAILED", "attempts": 3., "phase": "DATA", "progress": map[string]any{"files": 7.},
		"lastError": "denied", "owner": "host-1", "paused": false, "cancelRequested": true, "acked": true, "createdBy": "admin",
		"createdAt": "2023-11-14T22:13:20.123Z", "updatedAt": "2023-11-14T22:13:21Z", "availableAt": "2023-11-14T22:13:22Z",
		"object": map[string]any{"warehouse": "default", "namespace": []any{"a.b", "c"}, "name": "t", "type": "TABLE", "location": "file:///w/t"},
	}
	if resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	b := setup(t, row(3, job.Failed), row(2, job.Pending), row(1, job.Failed))
	_, page := call(t, b, "GET", "/v1/jobs?pageSize=1&state=FAILED&warehouse=w&namespace=a.b%1Fc&table=t", "")
	if diff := cmp.Diff([]string{"purge-3"}, names(t, page)); diff != "" {
		t.Errorf("first page (-want +got):\n%s", diff)
	}
	want := admin.Filter{State: job.Failed, Warehouse: "w", Namespace: []string{"a.b", "c"}, Table: "t"}
	if diff := cmp.Diff(want, b.store.filter); diff != "" {
		t.Errorf("filter (-want +got):\n%s", diff)
	}
	_, page = call(t, b, "GET", "/v1/jobs?pageSize=1&state=FAILED&pageToken="+page["nextPageToken"].(string), "")
	if diff := cmp.Diff([]string{"purge-1"}, names(t, page)); diff != "" {
		t.Errorf("second page (-want +got):\n%s", diff)
	}
	if page["nextPageToken"] != nil {
		t.Errorf("next page %v, want none", page["nextPageToken"])
	}
}

// TestListKinds walks two kinds of jobs at every page size: none is lost, none twice.
func TestListKinds(t *testing.T) {
	t.Parallel()
	purges := &store{jobs: []admin.Job{row(4, job.Pending), row(2, job.Pending)}}
	deletes := &store{jobs: []admin.Job{row(5, job.Pending), row(4, job.Pending), row(1, job.Pending)}}
	h := admin.New(admin.Config{Kinds: []admin.Kind{kind("purge", purges), kind("delete", deletes)}})
	want := []string{"purge-4", "purge-2", "delete-5", "delete-4", "delete-1"}
	for _, size := range []string{"1", "2", "3", "4", "5", "6", "99999"} {
		var got []string
		for token := ""; ; {
			_, page := call(t, h, "GET", "/v1/jobs?pageSize="+size+"&pageToken="+token, "")
			got = append(got, names(t, page)...)
			next, more := page["nextPageToken"].(string)
			if !more || len(got) > len(want) {
				break
			}
			token = next
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("page size %s (-want +got):\n%s", size, diff)
		}
	}
	_, page := call(t, h, "GET", "/v1/jobs?kind=delete", "")
	if diff := cmp.Diff(want[2:], names(t, page)); diff != "" {
		t.Errorf("kind=delete (-want +got):\n%s", diff)
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	tests := []struct {
		action, body string
		from         job.State
		status       int
		state        job.State
		accept       bool
	}{
		{"cancel", "", job.Pending, 200, job.Cancelled, false},
		{"cancel", "", job.Running, 202, job.Running, false},
		{"retry", "", job.Failed, 200, job.Pending, false},
		{"retry", "{}", job.Failed, 200, job.Pending, false},
		{"retry", `{"acceptMissing":true}`, job.Failed, 200, job.Pending, true},
		{"ack", "", job.Failed, 200, job.Failed, false},
		{"pause", "", job.Pending, 200, job.Pending, false},
		{"resume", "", job.Pending, 200, job.Pending, false},
	}
	for _, tt := range tests {
		t.Run(tt.action+" "+string(tt.from)+tt.body, func(t *testing.T) {
			t.Parallel()
			b := setup(t, row(7, tt.from))
			resp, got := call(t, b, "POST", "/v1/jobs/purge-7/"+tt.action, tt.body)
			if resp.StatusCode != tt.status || got["state"] != string(tt.state) || got["job"] != "purge-7" {
				t.Errorf("answer %d %v", resp.StatusCode, got)
			}
			if diff := cmp.Diff([]string{tt.action}, b.store.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if b.store.opts.AcceptMissing != tt.accept {
				t.Errorf("accept missing %v", b.store.opts.AcceptMissing)
			}
			for _, part := range []string{"msg=audit", "action=job." + tt.action, "principal=admin", "requestId=req-1", "job=purge-7", `namespace="[\"a.b\",\"c\"]"`, "outcome=ok"} {
				if !strings.Contains(b.log.String(), part) {
					t.Errorf("audit line lacks %s: %s", part, b.log)
				}
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, method, target, body string
		status                     int
		code                       string
	}{
		{"no such job", "GET", "/v1/jobs/purge-9", "", 404, "NoSuchJob"},
		{"another spelling", "GET", "/v1/jobs/purge-007", "", 404, "NoSuchJob"},
		{"another kind", "GET", "/v1/jobs/delete-7", "", 404, "NoSuchJob"},
		{"negative id", "GET", "/v1/jobs/purge--7", "", 404, "NoSuchJob"},
		{"control of no job", "POST", "/v1/jobs/purge-9/cancel", "", 404, "NoSuchJob"},
		{"unknown state", "GET", "/v1/jobs?state=failed", "", 400, "Invalid"},
		{"unknown kind", "GET", "/v1/jobs?kind=purges", "", 400, "Invalid"},
		{"page size 0", "GET", "/v1/jobs?pageSize=0", "", 400, "Invalid"},
		{"alien page token", "GET", "/v1/jobs?pageToken=zzz", "", 400, "Invalid"},
		{"wait of a word", "GET", "/v1/jobs/purge-7?wait=long", "", 400, "Invalid"},
		{"negative wait", "GET", "/v1/jobs/purge-7?wait=-1", "", 400, "Invalid"},
		{"misspelled option", "POST", "/v1/jobs/purge-7/retry", `{"acceptmising":true}`, 400, "Invalid"},
		{"option of a wrong type", "POST", "/v1/jobs/purge-7/retry", `{"acceptMissing":"yes"}`, 400, "Invalid"},
		{"two bodies", "POST", "/v1/jobs/purge-7/retry", `{}{"acceptMissing":true}`, 400, "Invalid"},
		{"endless body", "POST", "/v1/jobs/purge-7/retry", `{"acceptMissing":` + strings.Repeat(" ", 5000) + `true}`, 400, "Invalid"},
		{"a body and a rest", "POST", "/v1/jobs/purge-7/retry", `{"acceptMissing":true}}`, 400, "Invalid"},
		{"a query in part", "GET", "/v1/jobs?kind=purge&state=%zz", "", 400, "Invalid"},
		{"a query cut by a semicolon", "GET", "/v1/jobs?kind=purge;state=FAILED", "", 400, "Invalid"},
		{"body where none belongs", "POST", "/v1/jobs/purge-7/cancel", `{}`, 400, "Invalid"},
		{"get of a control", "GET", "/v1/jobs/purge-7/cancel", "", 405, "MethodNotAllowed"},
		{"delete of a job", "DELETE", "/v1/jobs/purge-7", "", 405, "MethodNotAllowed"},
		{"unknown control", "POST", "/v1/jobs/purge-7/explode", "", 404, "NoSuchRoute"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, row(7, job.Pending))
			resp, got := call(t, b, tt.method, tt.target, tt.body)
			body, _ := got["error"].(map[string]any)
			if resp.StatusCode != tt.status || body["code"] != tt.code || body["requestId"] != "req-1" || body["message"] == "" {
				t.Errorf("answer %d %v, want %d %s", resp.StatusCode, got, tt.status, tt.code)
			}
			if len(b.store.calls) != 0 {
				t.Errorf("the job was touched: %v", b.store.calls)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind   fault.Kind
		status int
		code   string
	}{
		{fault.Internal, 500, "Internal"},
		{fault.Invalid, 400, "Invalid"},
		{fault.Unauthenticated, 401, "Unauthenticated"},
		{fault.Denied, 403, "Denied"},
		{fault.NotFound, 404, "NotFound"},
		{fault.Unsupported, 501, "Unsupported"},
		{fault.Conflict, 409, "Conflict"},
		{fault.Precondition, 412, "Precondition"},
		{fault.Unprocessable, 422, "Unprocessable"},
		{fault.Busy, 503, "Busy"},
		{fault.Unknown, 500, "Unknown"},
		{fault.Full, 507, "Full"},
		{fault.Kind(200), 500, "Internal"},
	}
	for _, tt := range tests {
		t.Run(tt.code, func(t *testing.T) {
			t.Parallel()
			b := setup(t, row(7, job.Pending))
			b.store.err = &fault.Error{Op: "test", Kind: tt.kind, Message: "because", RetryAfter: 1500 * time.Millisecond, Err: errors.New("secret detail")}
			resp, got := call(t, b, "POST", "/v1/jobs/purge-7/pause", "")
			body, _ := got["error"].(map[string]any)
			if resp.StatusCode != tt.status || body["code"] != tt.code {
				t.Errorf("answer %d %v, want %d %s", resp.StatusCode, got, tt.status, tt.code)
			}
			if text, _ := body["message"].(string); text == "" || strings.Contains(text, "secret") {
				t.Errorf("message %q", text)
			}
			if retry := resp.Header.Get("Retry-After"); (retry == "2") != (tt.kind == fault.Busy) {
				t.Errorf("Retry-After %q", retry)
			}
			if strings.Contains(b.log.String(), "outcome=ok") {
				t.Error("the audit line calls it ok")
			}
		})
	}
}

func TestUnclassifiedStaysInside(t *testing.T) {
	t.Parallel()
	b := setup(t, row(7, job.Pending))
	b.store.err = errors.New("pq: secret detail")
	resp, got := call(t, b, "POST", "/v1/jobs/purge-7/pause", "")
	body, _ := got["error"].(map[string]any)
	if resp.StatusCode != 500 || body["message"] != "internal error" {
		t.Errorf("answer %d %v", resp.StatusCode, got)
	}
	if !strings.Contains(b.log.String(), "secret detail") {
		t.Errorf("the log does not tell it: %s", b.log)
	}
}

// A panic is answered like any other fault of ours.
func TestPanicStaysInside(t *testing.T) {
	t.Parallel()
	b := setup(t, row(7, job.Pending))
	b.store.panics = "secret detail"
	resp, got := call(t, b, "POST", "/v1/jobs/purge-7/pause", "")
	body, _ := got["error"].(map[string]any)
	if resp.StatusCode != 500 || body["code"] != "Internal" || body["message"] != "internal error" || body["requestId"] != "req-1" {
		t.Errorf("answer %d %v", resp.StatusCode, got)
	}
	if log := b.log.String(); !strings.Contains(log, "secret detail") || !strings.Contains(log, "req-1") {
		t.Errorf("the log does not tell it: %s", log)
	}
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	s := &store{jobs: []admin.Job{row(7, job.Pending)}}
	h := admin.New(admin.Config{Kinds: []admin.Kind{kind("purge", s)}, Authenticate: func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, "{}")
		})
	}})
	for _, target := range []string{"/v1/jobs", "/v1/jobs/purge-7", "/nothing"} {
		if resp, _ := call(t, h, "GET", target, ""); resp.StatusCode != 401 {
			t.Errorf("%s answered %d, want 401", target, resp.StatusCode)
		}
	}
}

// turning is a reader whose job ends after some time.
type turning struct {
	*store
	at time.Time
}

func (s *turning) Job(ctx context.Context, id job.ID) (admin.Job, error) {
	j, err := s.store.Job(ctx, id)
	if !time.Now().Before(s.at) {
		j.Row.State = job.Succeeded
	}
	return j, err
}

func TestWait(t *testing.T) {
	t.Parallel()
	const never = 24 * time.Hour
	tests := []struct {
		name        string
		wait        string
		ends, stop  time.Duration
		least, most time.Duration
		state       job.State
	}{
		{"no wait", "", never, never, 0, 0, job.Running},
		{"already ended", "30", 0, never, 0, 0, job.Succeeded},
		{"ends meanwhile", "30", 5 * time.Second, never, 5 * time.Second, 6 * time.Second, job.Succeeded},
		{"ends too late", "3", never, never, 3 * time.Second, 3 * time.Second, job.Running},
		{"capped", "100000000000", never, never, time.Minute, time.Minute, job.Running},
		{"server stops", "30", never, 2 * time.Second, 2 * time.Second, 2 * time.Second, job.Running},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				s := &turning{store: &store{jobs: []admin.Job{row(7, job.Running)}}, at: began.Add(tt.ends)}
				stopping := make(chan struct{})
				stopper := time.AfterFunc(tt.stop, func() { close(stopping) })
				defer stopper.Stop()
				h := admin.New(admin.Config{Kinds: []admin.Kind{{Name: "purge", Reader: s, Control: s}}, Stopping: stopping})
				_, got := call(t, h, "GET", "/v1/jobs/purge-7?wait="+tt.wait, "")
				if took := time.Since(began); took < tt.least || took > tt.most {
					t.Errorf("answered after %v, want %v to %v", took, tt.least, tt.most)
				}
				if got["state"] != string(tt.state) {
					t.Errorf("state %v, want %v", got["state"], tt.state)
				}
			})
		})
	}
}

func TestWaitEndsWithTheCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b := setup(t, row(7, job.Running))
		w := httptest.NewRecorder()
		began := time.Now()
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // the sentinel is compared by net/http the same way
					t.Errorf("recovered %v: the connection of a request that got no answer is to break", p)
				}
			}()
			b.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/v1/jobs/purge-7?wait=30", nil))
		}()
		if took := time.Since(began); took != time.Second || w.Body.Len() != 0 {
			t.Errorf("after %v: %q", took, w.Body)
		}
		if b.log.Len() != 0 {
			t.Errorf("a caller who left is no error: %s", b.log)
		}
	})
}
