package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
)

const (
	maxBody     = 4 << 10 // bytes of a control's body
	maxDocument = 1 << 20 // bytes of any other
)

// action is what an operator does to a job.
type action struct {
	name string
	run  runner
}

// runner has the shape of a method expression, hence its context comes second.
type runner = func(Control, context.Context, job.ID, job.RetryOptions) (job.Row, error)

var actions = []action{
	{"cancel", plain(Control.Cancel)},
	{"retry", Control.Retry},
	{"ack", plain(Control.Ack)},
	{"pause", plain(Control.Pause)},
	{"resume", plain(Control.Resume)},
}

// plain is an action without options.
func plain(run func(Control, context.Context, job.ID) (job.Row, error)) runner {
	return func(c Control, ctx context.Context, id job.ID, _ job.RetryOptions) (job.Row, error) {
		return run(c, ctx, id)
	}
}

// control answers POST /v1/jobs/{name}/{action} with the job after it: 202 when a
// running job was only asked to stop and its owner has not yet.
func (h *handler) control(a action) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		opts, err := options(w, r, a.name == "retry")
		if err != nil {
			return err
		}
		kind, j, err := h.find(r)
		if err != nil {
			return err
		}
		row, err := a.run(kind.Control, r.Context(), j.Row.ID, opts)
		h.audit(r.Context(), a.name, kind.jobName(j.Row.ID), j.Object, opts, err)
		if err != nil {
			return err
		}
		j.Row = row
		status := http.StatusOK
		if a.name == "cancel" && row.State != job.Cancelled {
			status = http.StatusAccepted
		}
		h.write(w, r, status, kind.encode(j))
		return nil
	}
}

// options reads the body, which only a retry may have. What it does not know it
// refuses: a typo must not change what a delete does.
func options(w http.ResponseWriter, r *http.Request, allowed bool) (opts job.RetryOptions, err error) {
	var body struct {
		AcceptMissing bool `json:"acceptMissing"`
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	switch err := dec.Decode(&body); {
	case errors.Is(err, io.EOF):
		return opts, nil
	case !allowed:
		return opts, invalid("this request takes no body")
	case err != nil:
		return opts, fault.Wrap("admin.options", fault.Invalid, "", err, `the body must be empty or {"acceptMissing":true|false}`)
	case more(dec):
		return opts, invalid("the body holds more than one value")
	}
	return job.RetryOptions{AcceptMissing: body.AcceptMissing}, nil
}

// audit says who did what, refused or not.
func (h *handler) audit(ctx context.Context, action, name string, o Object, opts job.RetryOptions, err error) {
	outcome := "ok"
	if err != nil {
		outcome = fault.KindOf(err).String()
	}
	namespace, _ := json.Marshal(o.Namespace) // strings always can be encoded
	attrs := []slog.Attr{
		slog.String("action", "job."+action),
		slog.String("principal", h.Principal(ctx)),
		slog.String("requestId", h.RequestID(ctx)),
		slog.String("job", name),
		slog.String("warehouse", o.Warehouse),
		slog.String("namespace", string(namespace)),
		slog.String("name", o.Name),
		slog.String("outcome", outcome),
	}
	if action == "retry" {
		attrs = append(attrs, slog.Bool("acceptMissing", opts.AcceptMissing))
	}
	h.Logger.LogAttrs(ctx, slog.LevelInfo, "audit", attrs...)
}

// readBody reads the JSON body of a request. What it does not know it refuses.
func readBody(w http.ResponseWriter, r *http.Request, v any) error {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxDocument))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fault.Wrap("admin.readBody", fault.Invalid, "", err, "the body is not the JSON that this request takes")
	}
	if more(dec) {
		return invalid("the body holds more than one value")
	}
	return nil
}

// more reports whether anything but blanks follows the value that was read.
func more(dec *json.Decoder) bool {
	_, err := dec.Token()
	return !errors.Is(err, io.EOF)
}
