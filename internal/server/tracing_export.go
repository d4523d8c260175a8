package server

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// quiet keeps OpenTelemetry, whose errors and log belong to the process, from writing to
// standard error. Its own log quotes variables that it cannot read, and headers hold
// secrets: it is dropped.
func quiet(log *slog.Logger) {
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("tracing", "error", err) }))
}

// complainEvery is how often the log says that spans are lost.
const complainEvery = time.Minute

// exporter stands before the one that sends: it turns errors into a rare line of the log,
// and what is on the wire can be given up.
type exporter struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	life context.Context // ends when the server waits no longer
	end  context.CancelFunc
	done chan struct{} // closed by Shutdown, which comes after the last export

	mu    sync.Mutex
	lost  int       // since the log said so,
	why   string    // the last of them
	after time.Time // when it may say so again
}

func newExporter(to sdktrace.SpanExporter, log *slog.Logger) *exporter {
	e := &exporter{SpanExporter: to, log: log, done: make(chan struct{})}
	e.life, e.end = context.WithCancel(context.Background())
	return e
}

// ExportSpans implements sdktrace.SpanExporter. It never fails.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.life, cancel)() //nolint:contextcheck // either ends it
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.complain(err, len(spans))
	}
	return nil
}

func (e *exporter) complain(err error, lost int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// What a collector answers may repeat the request, and with it the headers' secrets.
	text, _, _ := strings.Cut(err.Error(), "body:")
	e.lost, e.why = e.lost+lost, strings.TrimRight(text, " (:")
	if !time.Now().Before(e.after) {
		e.say()
	}
}

func (e *exporter) say() {
	e.log.Warn("traces were not sent", "spans", e.lost, "error", e.why)
	e.lost, e.after = 0, time.Now().Add(complainEvery)
}

// Shutdown implements sdktrace.SpanExporter.
func (e *exporter) Shutdown(ctx context.Context) error {
	defer close(e.done)
	return e.SpanExporter.Shutdown(ctx)
}

// giveUp ends what is on the wire, waits for it, and says what else was lost.
func (e *exporter) giveUp() {
	e.end()
	<-e.done
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lost > 0 {
		e.say()
	}
}

// traced adds the trace to the lines that are logged while one is under way.
type traced struct{ slog.Handler }

// Handle implements slog.Handler.
func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		r.AddAttrs(slog.String("trace", span.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (h traced) WithGroup(name string) slog.Handler { return traced{h.Handler.WithGroup(name)} }
