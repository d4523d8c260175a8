package files

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
)

// statuses is the one mapping of this edge: what a kind of fault answers, and the code
// that stands for it where the domain has no word of its own.
var statuses = map[fault.Kind]struct {
	status int
	code   string
}{
	fault.Internal:        {http.StatusInternalServerError, "Internal"},
	fault.Invalid:         {http.StatusBadRequest, "Invalid"},
	fault.Unauthenticated: {http.StatusUnauthorized, "Unauthenticated"},
	fault.Denied:          {http.StatusForbidden, "Denied"},
	fault.NotFound:        {http.StatusNotFound, "NotFound"},
	fault.Unsupported:     {http.StatusNotImplemented, "Unsupported"},
	fault.Conflict:        {http.StatusConflict, "Conflict"},
	fault.Precondition:    {http.StatusPreconditionFailed, "PreconditionFailed"},
	fault.Unprocessable:   {http.StatusUnprocessableEntity, "Unprocessable"},
	fault.Busy:            {http.StatusServiceUnavailable, "Busy"},
	fault.Unknown:         {http.StatusInternalServerError, "Unknown"},
	fault.Full:            {http.StatusInsufficientStorage, "Full"},
}

var (
	// errMethod is answered 405 and errRange 416: no kind of fault means just that.
	errMethod = fault.New("files", fault.Invalid, "MethodNotAllowed", "this path does not answer that method")
	errRange  = fault.New("files", fault.Invalid, "RangeNotSatisfiable", "the file has no such bytes")
)

const defaultRetryAfter = time.Second

// Error is the body of every answer that is no success.
type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	RequestID string `json:"requestId"`
}

// fail answers err, and logs what its public text does not tell.
func (e *edge) fail(c *call, err error) {
	if c.ctx().Err() != nil {
		// Whoever still listens must not take silence for success: net/http would answer 200.
		panic(http.ErrAbortHandler)
	}
	entry, ok := statuses[fault.KindOf(err)]
	if !ok {
		entry = statuses[fault.Internal]
	}
	status, code := entry.status, entry.code
	if word := fault.CodeOf(err); word != "" {
		code = string(word)
	}
	switch code {
	case string(errMethod.Code):
		status = http.StatusMethodNotAllowed
	case string(errRange.Code):
		status = http.StatusRequestedRangeNotSatisfiable
	}
	switch status {
	case http.StatusInternalServerError:
		e.Logger.ErrorContext(c.ctx(), "request failed",
			"method", c.r.Method, "path", c.r.URL.Path, "requestId", e.RequestID(c.ctx()), "error", err)
	case http.StatusServiceUnavailable:
		after := fault.RetryAfter(err)
		if after <= 0 {
			after = defaultRetryAfter
		}
		c.w.Header().Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
	for _, name := range []string{"ETag", "Last-Modified", "Accept-Ranges", "Content-Length", "Content-Disposition"} {
		c.w.Header().Del(name) // of the file that is not sent
	}
	// What is left of a body is not read: the connection ends with this answer.
	if c.r.ContentLength != 0 && c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		c.w.Header().Set("Connection", "close")
	}
	e.write(c, status, errorBody{errorDetail{code, fault.Public(err), e.RequestID(c.ctx())}})
}

// recovered is deferred: it answers for a handler that panicked.
func (e *edge) recovered(c *call) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // the sentinel is compared by net/http the same way
		panic(p)
	}
	e.Logger.ErrorContext(c.ctx(), "panic in a handler", "requestId", e.RequestID(c.ctx()), "panic", p, "path", c.r.URL.Path)
	if w, ok := c.w.(*begun); ok && w.yes {
		panic(http.ErrAbortHandler) // the status is sent; only a broken connection tells the client
	}
	e.fail(c, fault.New("files", fault.Internal, "", "internal error"))
}

// begun knows whether an answer has begun: then it cannot become another one.
type begun struct {
	http.ResponseWriter
	yes bool
}

// WriteHeader begins the answer.
func (b *begun) WriteHeader(status int) {
	b.yes = true
	b.ResponseWriter.WriteHeader(status)
}

// Write begins the answer, unless it has begun.
func (b *begun) Write(p []byte) (int, error) {
	b.yes = true
	return b.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (b *begun) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// write sends a JSON body.
func (e *edge) write(c *call, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		e.Logger.ErrorContext(c.ctx(), "answer not encoded", "path", c.r.URL.Path, "error", err)
		status, text = http.StatusInternalServerError, []byte(`{"error":{"code":"Internal","message":"internal error","requestId":""}}`)
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(text)+1))
	c.w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		_, _ = c.w.Write(append(text, '\n')) // a client that hung up is no error of ours
	}
}

// audit says who deleted or took back what, refused or not.
func (e *edge) audit(ctx context.Context, c *call, action, path, job string, err error) {
	outcome := "ok"
	if err != nil {
		outcome = fault.KindOf(err).String()
	}
	e.Logger.InfoContext(ctx, "audit", "action", action, "principal", c.principal.Name, "tenant", c.principal.TenantName,
		"requestId", e.RequestID(ctx), "path", path, "job", job, "outcome", outcome)
}
