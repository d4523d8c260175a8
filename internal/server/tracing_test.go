package server_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collected is a collector of traces, and what it was sent.
type collected struct {
	*httptest.Server
	mu       sync.Mutex
	requests int
	headers  http.Header
	resource map[string]string
	spans    []*traces.Span
}

// collect runs a collector; answer, if not nil, answers in its place.
func collect(t *testing.T, answer http.HandlerFunc) *collected {
	t.Helper()
	c := &collected{resource: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.requests++
		c.headers = r.Header
		c.mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		raw, err := io.ReadAll(r.Body)
		var sent collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(raw, &sent)
		}
		if err != nil || r.Method != "POST" || r.URL.Path != "/v1/traces" {
			t.Errorf("collector: %s %s: %v", r.Method, r.URL.Path, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range sent.GetResourceSpans() {
			c.resource = attributes(rs.GetResource().GetAttributes())
			for _, ss := range rs.GetScopeSpans() {
				c.spans = append(c.spans, ss.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// named returns the spans of a name, as they stand after the server has stopped.
func (c *collected) named(name string) (out []*traces.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name {
			out = append(out, s)
		}
	}
	return out
}

func (c *collected) names() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		out = append(out, s.GetName())
	}
	return out
}

func attributes(list []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range list {
		switch v := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			out[kv.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			out[kv.GetKey()] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_BoolValue:
			out[kv.GetKey()] = fmt.Sprint(v.BoolValue)
		}
	}
	return out
}

const traceID = "4bf92f3577b34da6a3ce929d0e0e4736"

func TestTracedRequests(t *testing.T) {
	t.Parallel()
	c := collect(t, nil)
	r := start(t, config(t, t.TempDir(), nil, "--otlp-endpoint", c.URL))
	r.table()
	tests := []struct {
		method, path, body string
		status             int
		name, route        string
	}{
		{"GET", space + "/n/tables/t", "", 200, "GET /iceberg/v1/{prefix}/namespaces/{namespace}/tables/{table}", ""},
		{"GET", space + "/n/tables/nobody-knows-it", "", 404, "GET /iceberg/v1/{prefix}/namespaces/{namespace}/tables/{table}", ""},
		{"HEAD", space + "/n", "", 204, "HEAD /iceberg/v1/{prefix}/namespaces/{namespace}", ""},
		{"GET", "/iceberg/v1/config", "", 200, "GET /iceberg/v1/config", ""},
		{"GET", "/iceberg/v1/nobody-knows-it", "", 404, "GET", "none"},
		{"GET", "/api/metalakes/default/catalogs/default/cleanups", "", 200, "GET /api/metalakes/{metalake}/catalogs/{catalog}/cleanups", ""},
		{"GET", "/v1/jobs/purge-77", "", 404, "GET /v1/jobs/{name}", ""},
		{"PUT", "/v1/fs/nobody-knows-it", "x", 201, "PUT /v1/fs/{path}", ""},
		{"GET", "/v1/fs/nobody-knows-it", "", 200, "GET /v1/fs/{path}", ""},
		{"GET", "/v1/fs/?list", "", 200, "GET /v1/fs/{path}?list", "/v1/fs/{path}"},
		{"POST", "/v1/fs/dir?op=mkdir", "{}", 201, "POST /v1/fs/{path}?op=mkdir", "/v1/fs/{path}"},
		{"POST", "/v1/fs/dir?op=nobody-knows-it", "{}", 400, "POST /v1/fs/{path}?op", "/v1/fs/{path}"},
		{"GET", "/healthz", "", 200, "", ""},
	}
	ids := make([]string, len(tests))
	trace := func(i int) string { return fmt.Sprintf("%s%02x", traceID[:30], i) }
	for i, tt := range tests {
		ids[i] = r.want(tt.status, tt.method, tt.path, tt.body, "Traceparent", "00-"+trace(i)+"-00f067aa0ba902b7-01").header.Get("X-Request-Id")
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	for i, tt := range tests {
		var span *traces.Span
		for _, s := range c.named(tt.name) {
			if fmt.Sprintf("%x", s.GetTraceId()) == trace(i) {
				span = s
			}
		}
		if span == nil {
			if tt.name != "" {
				t.Errorf("%s %s: no span %q of trace %s among %q", tt.method, tt.path, tt.name, trace(i), c.names())
			}
			continue
		}
		got := attributes(span.GetAttributes())
		route := tt.route
		switch route {
		case "":
			_, route, _ = strings.Cut(tt.name, " ")
		case "none":
			route = ""
		}
		if got["http.response.status_code"] != fmt.Sprint(tt.status) || got["http.route"] != route || got["lethe.request.id"] != ids[i] || ids[i] == "" {
			t.Errorf("%s %s: request %s: attributes %v", tt.method, tt.path, ids[i], got)
		}
		if parent := fmt.Sprintf("%x", span.GetParentSpanId()); parent != "00f067aa0ba902b7" || span.GetKind() != traces.Span_SPAN_KIND_SERVER {
			t.Errorf("%s %s: parent %s, kind %s", tt.method, tt.path, parent, span.GetKind())
		}
	}
	if text := fmt.Sprint(c.spans); strings.Contains(text, "nobody-knows-it") || strings.Contains(text, r.token) {
		t.Error("a span shows a tenant's name, or a token")
	}
	if c.resource["service.name"] != "lethe" {
		t.Errorf("resource %v", c.resource)
	}
}

// A delete is seen whole: the request, its transactions, and the run of its job, which the
// request's id joins; lines of the log name the trace.
func TestTracedPurge(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprintf("broken=%t", broken), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := collect(t, nil)
			r := start(t, config(t, dir, nil, "--otlp-endpoint", c.URL+"/"))
			r.table()
			if broken {
				if err := os.RemoveAll(dir + "/warehouse/n"); err != nil {
					t.Fatal(err)
				}
			}
			answer := r.do("DELETE", space+"/n/tables/t?purgeRequested=true", "", "Traceparent", "00-"+traceID+"-00f067aa0ba902b7-01")
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			requests := c.named("DELETE /iceberg/v1/{prefix}/namespaces/{namespace}/tables/{table}")
			runs := c.named("job purge")
			if len(requests) != 1 || len(runs) == 0 {
				t.Fatalf("spans %q", c.names())
			}
			got := attributes(runs[0].GetAttributes())
			want := map[string]string{
				"lethe.job.name": "purge-1", "lethe.job.kind": "purge", "lethe.job.attempt": "1", "lethe.job.epoch": "1",
				"lethe.job.outcome": "done", "lethe.request.id": answer.header.Get("X-Request-Id"),
			}
			status := traces.Status_STATUS_CODE_UNSET
			if broken {
				want["lethe.job.outcome"], status = "failed", traces.Status_STATUS_CODE_ERROR
			}
			for key, value := range want {
				if got[key] != value {
					t.Errorf("%s is %q, want %q", key, got[key], value)
				}
			}
			if code := runs[0].GetStatus().GetCode(); code != status {
				t.Errorf("status %s, want %s", code, status)
			}
			committed := 0
			for _, s := range c.named("transaction") {
				got := attributes(s.GetAttributes())
				if bytes.Equal(s.GetParentSpanId(), requests[0].GetSpanId()) && got["lethe.transaction.committed"] == "true" && got["lethe.transaction.tries"] == "1" {
					committed++
				}
			}
			if committed == 0 {
				t.Error("the request has no transaction")
			}
			deleted := 0
			for _, s := range c.named("store delete") {
				if keys := attributes(s.GetAttributes())["lethe.store.keys"]; bytes.Equal(s.GetParentSpanId(), runs[0].GetSpanId()) && keys != "" {
					deleted++
				}
			}
			if (deleted == 0) != broken {
				t.Errorf("the run has %d deletes, among %q", deleted, c.names())
			}
			line := lineWith(r.log.String(), "msg=audit action=table.drop")
			if !strings.Contains(line, "trace="+traceID) {
				t.Errorf("the log does not name the trace: %s", line)
			}
		})
	}
}

func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}

// A collector that does not answer is felt by nobody, and the end of the server is bounded.
func TestCollectorAway(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.NotFoundHandler())
	refusing.Close()
	hanging := collect(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the end of the connection is seen only then
		<-r.Context().Done()
	})
	busy := collect(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		http.Error(w, "not now", http.StatusServiceUnavailable)
	})
	for name, url := range map[string]string{"refuses": refusing.URL, "hangs": hanging.URL, "is busy": busy.URL, "knows nothing": "http://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, config(t, t.TempDir(), nil, "--otlp-endpoint", url))
			r.table()
			began := time.Now()
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 40*time.Second { // a machine under load is slow too
				t.Errorf("the stop took %s", took)
			}
			// One, and one at the end for those that were lost after it, which only a slow server has.
			if n := strings.Count(r.log.String(), "traces were not sent"); n < 1 || n > 2 {
				t.Errorf("%d lines say that traces were lost:\n%s", n, r.log.String())
			}
		})
	}
}

// The standard variables are obeyed, and their secrets stay out of the log, even where a
// collector repeats them. Not parallel: the environment is the process's.
func TestTracingEnvironment(t *testing.T) {
	const secret = "streng-geheim"
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20"+secret)
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // the setting wins
	for _, tt := range []struct {
		name, sampler string
		refuse        bool
		spans         int
	}{{"sent", "always_on", false, 1}, {"not sampled", "always_off", false, 0}, {"refused", "always_on", true, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_SAMPLER", tt.sampler)
			t.Setenv("OTEL_SERVICE_NAME", "lethe-"+tt.sampler)
			var answer http.HandlerFunc
			if tt.refuse {
				answer = func(w http.ResponseWriter, r *http.Request) {
					http.Error(w, fmt.Sprint(r.Header), http.StatusUnauthorized)
				}
			}
			c := collect(t, answer)
			r := start(t, config(t, t.TempDir(), nil, "--otlp-endpoint", c.URL))
			r.want(200, "GET", "/iceberg/v1/config", "")
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			if n := len(c.named("GET /iceberg/v1/config")); n != tt.spans {
				t.Errorf("%d spans, want %d", n, tt.spans)
			}
			if tt.sampler == "always_on" && c.headers.Get("Authorization") != "Bearer "+secret {
				t.Errorf("headers %v", c.headers)
			}
			if tt.spans > 0 && (c.resource["service.name"] != "lethe-always_on" || c.resource["deployment.environment"] != "test") {
				t.Errorf("resource %v", c.resource)
			}
			if strings.Contains(r.log.String(), secret) {
				t.Errorf("the log shows the secret:\n%s", r.log.String())
			}
			if tt.refuse && !strings.Contains(r.log.String(), "401 Unauthorized") {
				t.Errorf("the log does not say why:\n%s", r.log.String())
			}
		})
	}
}

// Without the setting nothing is traced, whatever the environment says.
func TestTracingIsOff(t *testing.T) {
	c := collect(t, nil)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	r := start(t, config(t, t.TempDir(), nil))
	r.table()
	r.do("DELETE", space+"/n/tables/t?purgeRequested=true", "", "Traceparent", "00-"+traceID+"-00f067aa0ba902b7-01")
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(stacks.String(), "opentelemetry") {
		t.Error("OpenTelemetry runs")
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if c.requests != 0 || strings.Contains(r.log.String(), "trace=") {
		t.Errorf("%d requests to the collector; log:\n%s", c.requests, r.log.String())
	}
}

func TestOTLPEndpointIsChecked(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"127.0.0.1:4318", "grpc://h:4317", "http://", "http://u:geheim@h:4318", "http://h/?key=geheim", "http://h/#x"} {
		_, err := load(t, map[string]string{"LETHE_OTLP_ENDPOINT": bad})
		if err == nil || !strings.Contains(err.Error(), "otlp-endpoint (flag --otlp-endpoint, environment LETHE_OTLP_ENDPOINT)") || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
