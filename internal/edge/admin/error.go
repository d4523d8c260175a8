package admin

import (
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
	fault.Precondition:    {http.StatusPreconditionFailed, "Precondition"},
	fault.Unprocessable:   {http.StatusUnprocessableEntity, "Unprocessable"},
	fault.Busy:            {http.StatusServiceUnavailable, "Busy"},
	fault.Unknown:         {http.StatusInternalServerError, "Unknown"},
	fault.Full:            {http.StatusInsufficientStorage, "Full"},
}

const defaultRetryAfter = time.Second

type errorBody struct {
	Error struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		RequestID string `json:"requestId"`
	} `json:"error"`
}

func (h *handler) body(r *http.Request, code, message string) errorBody {
	var b errorBody
	b.Error.Code, b.Error.Message, b.Error.RequestID = code, message, h.RequestID(r.Context())
	return b
}

// fail answers err, and logs what its public text does not tell.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		// Whoever still listens must not take silence for success: net/http would answer 200.
		panic(http.ErrAbortHandler)
	}
	kind := fault.KindOf(err)
	entry, ok := statuses[kind]
	if !ok {
		entry = statuses[fault.Internal]
	}
	code := entry.code
	if word := fault.CodeOf(err); word != "" {
		code = string(word)
	}
	switch entry.status {
	case http.StatusInternalServerError:
		h.Logger.ErrorContext(r.Context(), "request failed",
			"method", r.Method, "path", r.URL.Path, "requestId", h.RequestID(r.Context()), "error", err)
	case http.StatusServiceUnavailable:
		after := fault.RetryAfter(err)
		if after <= 0 {
			after = defaultRetryAfter
		}
		seconds := int64((after + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	h.write(w, r, entry.status, h.body(r, code, fault.Public(err)))
}

// write sends a body that always can be encoded.
func (h *handler) write(w http.ResponseWriter, r *http.Request, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		h.Logger.ErrorContext(r.Context(), "answer not encoded", "path", r.URL.Path, "error", err)
		status, text = http.StatusInternalServerError, []byte(`{"error":{"code":"Internal","message":"internal error","requestId":""}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that hung up is no error of ours
}
