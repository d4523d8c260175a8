package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/lethe-project/lethe/internal/job"
)

// tracing sends spans of requests and of runs of jobs to a collector (OTLP over HTTP). It
// is the only place that knows OpenTelemetry: edges tell their routes to a function, and
// the handlers of jobs are wrapped. A nil tracing is switched off: nothing is wrapped, and
// nothing runs.
//
// Spans wait in a bounded queue and are dropped when it is full, so that a collector which
// is slow or away is felt by nobody.
type tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	exporter *exporter
}

// flushTime is how long the spans of the last seconds may take to be sent when the server
// stops, if Drain allows as much.
const flushTime = 5 * time.Second

// Attributes of spans that OpenTelemetry has no name for.
const (
	requestKey = attribute.Key("lethe.request.id") // as in X-Request-Id, rows of jobs and the log
	jobKey     = attribute.Key("lethe.job.name")
	kindKey    = attribute.Key("lethe.job.kind")
	attemptKey = attribute.Key("lethe.job.attempt")
	epochKey   = attribute.Key("lethe.job.epoch")
	phaseKey   = attribute.Key("lethe.job.phase") // where the run began
	outcomeKey = attribute.Key("lethe.job.outcome")

	triesKey     = attribute.Key("lethe.transaction.tries")
	committedKey = attribute.Key("lethe.transaction.committed") // false also where a rule said no
)

// openTracing begins to trace if the settings say so. Headers, resource, sampler and bounds
// come from the standard OTEL_* variables, which the SDK reads.
func (s *server) openTracing(ctx context.Context) error {
	if s.set.OTLPEndpoint == "" {
		return nil
	}
	quiet(s.log)
	to, err := url.JoinPath(s.set.OTLPEndpoint, "v1/traces")
	if err != nil {
		return fmt.Errorf("server: setting otlp-endpoint: %w", err)
	}
	otlp, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(to))
	if err != nil {
		return fmt.Errorf("server: tracing: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(semconv.ServiceName("lethe")), resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil { // what could be read is there
		s.log.WarnContext(ctx, "tracing: the server is described in part only", "error", err)
	}
	t := &tracing{exporter: newExporter(otlp, s.log)}
	t.provider = sdktrace.NewTracerProvider(sdktrace.WithBatcher(t.exporter), sdktrace.WithResource(about))
	t.tracer = t.provider.Tracer("github.com/lethe-project/lethe")
	s.tracing, s.log = t, slog.New(traced{s.log.Handler()})
	s.onClose(func() error { t.close(context.WithoutCancel(ctx), min(flushTime, s.cfg.Drain)); return nil })
	return nil
}

// close sends what waits, gives up when the time is over, and leaves nothing running. A
// collector that is away is no failure of the server: the log has what was lost.
func (t *tracing) close(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_ = t.provider.Shutdown(ctx)
	t.exporter.giveUp()
}

// requests makes a span of each request, which goes on with the trace of its traceparent.
func (t *tracing) requests(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	identified := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		span := trace.SpanFromContext(r.Context())
		defer func() { span.SetAttributes(requestKey.String(w.Header().Get("X-Request-Id"))) }()
		next.ServeHTTP(w, r)
	})
	return otelhttp.NewHandler(identified, "",
		otelhttp.WithTracerProvider(t.provider), otelhttp.WithPropagators(propagation.TraceContext{}), otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
		// Paths are names of tenants' tables and files; the route says enough.
		otelhttp.WithSpanOptions(trace.WithAttributes(semconv.URLPath("REDACTED"))))
}

// routed returns what names the span of a request after its route below base. Until then,
// and where there is no route, the span has the name of the method.
func (t *tracing) routed(base string) func(r *http.Request, route string) {
	if t == nil {
		return nil
	}
	return func(r *http.Request, route string) {
		span := trace.SpanFromContext(r.Context())
		path, _, _ := strings.Cut(base+route, "?")
		span.SetName(r.Method + " " + base + route)
		span.SetAttributes(semconv.HTTPRoute(path))
	}
}

// transactions makes a span of each transaction of a request. Those of jobs are too many.
func (t *tracing) transactions() func(context.Context) func(tries int, err error) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context) func(int, error) {
		if parent, ok := trace.SpanFromContext(ctx).(sdktrace.ReadOnlySpan); !ok || parent.SpanKind() != trace.SpanKindServer {
			return nil
		}
		_, span := t.tracer.Start(ctx, "transaction", trace.WithSpanKind(trace.SpanKindClient))
		return func(tries int, err error) {
			span.SetAttributes(triesKey.Int(tries), committedKey.Bool(err == nil))
			span.End()
		}
	}
}

// jobs adds to a configuration of jobs that their runs are spans.
func (t *tracing) jobs(c job.Config) job.Config {
	if t != nil {
		c.Wrap = func(h job.Handler) job.Handler { return tracedHandler{h, t.tracer} }
	}
	return c
}

// tracedHandler makes a span of each run of a job. The request that made the job ended long
// ago, maybe on another server: its id is an attribute.
type tracedHandler struct {
	job.Handler
	tracer trace.Tracer
}

// Run implements job.Handler.
func (h tracedHandler) Run(ctx context.Context, run *job.Run) error {
	row := run.Row()
	kind, _, _ := strings.Cut(run.Name(), "-")
	ctx, span := h.tracer.Start(ctx, "job "+kind, trace.WithAttributes(
		jobKey.String(run.Name()), kindKey.String(kind), attemptKey.Int(row.Attempts+1), epochKey.Int64(row.LeaseEpoch),
		phaseKey.String(row.Phase), requestKey.String(row.RequestID)))
	defer span.End() // it records a panic, and lets it go on
	answer := errPanicked
	defer func() {
		outcome, failed := outcomeOf(ctx, answer)
		span.SetAttributes(outcomeKey.String(outcome))
		if failed {
			span.SetStatus(codes.Error, answer.Error())
		}
	}()
	answer = h.Handler.Run(ctx, run)
	return answer
}

var errPanicked = errors.New("the handler panicked")

// outcomes are the ends of a run that are no failure of the attempt.
var outcomes = []struct {
	answer error
	name   string
}{
	{job.ErrEnded, "done"},
	{job.ErrYield, "yielded"},
	{job.ErrPaused, "paused"},
	{job.ErrCancelled, "cancelled"},
	{job.ErrShutdown, "server stopped"},
	{job.ErrLeaseLost, "lease lost"},
}

// outcomeOf names how a run ended, and tells whether the attempt failed.
func outcomeOf(ctx context.Context, answer error) (name string, failed bool) {
	if answer == nil {
		return "done", false
	}
	if errors.Is(answer, context.Canceled) && ctx.Err() != nil {
		answer = context.Cause(ctx)
	}
	for _, o := range outcomes {
		if errors.Is(answer, o.answer) {
			return o.name, false
		}
	}
	return "failed", true
}
