package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxErrorBody bounds what is read of an error's body, in bytes.
const maxErrorBody = 64 << 10

// Error is an answer of the server that is no success.
type Error struct {
	Status     int           // HTTP status
	Code       string        // the server's word: NoSuchTableException, NoSuchJob, …
	Message    string        // for people
	RequestID  string        // finds the request in the server's log
	RetryAfter time.Duration // what the server asked for, 0 when it asked for nothing
}

// Error returns the message with status, code and request id.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	fmt.Fprintf(&b, " (%d", e.Status)
	if e.Code != "" {
		b.WriteString(" " + e.Code)
	}
	if e.RequestID != "" {
		b.WriteString(", request " + e.RequestID)
	}
	b.WriteString(")")
	return b.String()
}

// StatusOf returns the HTTP status of an *Error in err's chain, or 0.
func StatusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// CodeOf returns the server's word of an *Error in err's chain, or nothing.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// IsNotFound reports whether the server answered that the thing does not exist.
func IsNotFound(err error) bool { return StatusOf(err) == http.StatusNotFound }

// readError turns an answer into an *Error. Both edges of the server are understood:
// the catalog's {message, type, code: number} and the others' {code: word, message}.
func readError(resp *http.Response) *Error {
	e := &Error{
		Status:     resp.StatusCode,
		RequestID:  resp.Header.Get("X-Request-Id"),
		RetryAfter: retryAfter(resp.Header, time.Now()),
	}
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	var body struct {
		Error struct {
			Message   string `json:"message"`
			Type      string `json:"type"`
			Code      any    `json:"code"`
			RequestID string `json:"requestId"`
			Request   string `json:"request-id"` // the catalog's spelling
		} `json:"error"`
	}
	if json.Unmarshal(raw, &body) == nil {
		e.Message, e.Code = body.Error.Message, body.Error.Type
		if word, ok := body.Error.Code.(string); ok {
			e.Code = word
		}
		e.RequestID = cmp.Or(body.Error.RequestID, body.Error.Request, e.RequestID)
	}
	if e.Message == "" {
		e.Message = "the server answered " + resp.Status
	}
	return e
}

// retryAfter reads the header in both of its forms: seconds, and a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		const most = int64(math.MaxInt64 / time.Second)
		return time.Duration(min(max(0, seconds), most)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
