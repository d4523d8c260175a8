package server

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// The span of a run says how it ended, and a panic goes on to the runner.
func TestRunsAreSpans(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		run     jobtest.Handler
		state   job.State
		outcome string
		status  codes.Code
	}{
		"done":     {func(context.Context, *job.Run) error { return nil }, job.Succeeded, "done", codes.Unset},
		"terminal": {func(context.Context, *job.Run) error { return job.Terminal(errors.New("no")) }, job.Failed, "failed", codes.Error},
		"panic":    {func(context.Context, *job.Run) error { panic("boom") }, job.Failed, "failed", codes.Error},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := tracetest.NewSpanRecorder()
			tr := &tracing{tracer: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(seen)).Tracer("test")}
			cfg := jobtest.Config()
			cfg.MaxAttempts = 1
			db := sqldbtest.Server{Name: sqldb.SQLite}.Open(t, sqldb.Config{}, jobtest.Migrations)
			store := job.NewStore(db, jobtest.Table, tr.jobs(cfg), job.Hooks{}, job.Observer{})
			jobtest.Start(t, store, tt.run, "me")
			id := jobtest.Insert(t, db, store, job.New{RequestID: "r"})
			store.Wake()
			row := jobtest.AwaitState(t, store, id, tt.state)
			if name == "panic" && row.LastError != "panic: boom" {
				t.Errorf("last error %q", row.LastError)
			}
			spans := seen.Ended()
			if len(spans) != 1 || spans[0].Name() != "job test" || spans[0].Status().Code != tt.status {
				t.Fatalf("spans %v", spans)
			}
			for _, a := range spans[0].Attributes() {
				if a.Key == outcomeKey && a.Value.AsString() != tt.outcome {
					t.Errorf("outcome %s, want %s", a.Value.AsString(), tt.outcome)
				}
			}
		})
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	lost, lose := context.WithCancelCause(t.Context())
	lose(job.ErrLeaseLost)
	for _, tt := range []struct {
		ctx    context.Context
		answer error
		name   string
		failed bool
	}{
		{t.Context(), nil, "done", false},
		{t.Context(), job.ErrEnded, "done", false},
		{t.Context(), fmt.Errorf("sweep: %w", job.ErrYield), "yielded", false},
		{t.Context(), job.ErrPaused, "paused", false},
		{t.Context(), job.ErrCancelled, "cancelled", false},
		{t.Context(), job.ErrShutdown, "server stopped", false},
		{lost, fmt.Errorf("read: %w", context.Canceled), "lease lost", false},
		{t.Context(), context.Canceled, "failed", true},
		{t.Context(), job.Outage(errors.New("the store is down")), "failed", true},
	} {
		if name, failed := outcomeOf(tt.ctx, tt.answer); name != tt.name || failed != tt.failed {
			t.Errorf("%v: %q, %t, want %q, %t", tt.answer, name, failed, tt.name, tt.failed)
		}
	}
}
