package iceberg

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

// answer is a status and an exception name of the spec.
type answer struct {
	status int
	name   string
}

// kinds is the one table of statuses (spec: the responses of each operation).
var kinds = map[fault.Kind]answer{
	fault.Internal:        {http.StatusInternalServerError, "InternalServerError"},
	fault.Invalid:         {http.StatusBadRequest, "BadRequestException"},
	fault.Unauthenticated: {http.StatusUnauthorized, "NotAuthorizedException"},
	fault.Denied:          {http.StatusForbidden, "NotAuthorizedException"}, // sic, the spec's example
	fault.NotFound:        {http.StatusNotFound, "NotFoundException"},
	fault.Unsupported:     {http.StatusNotAcceptable, "UnsupportedOperationException"},
	fault.Conflict:        {http.StatusConflict, "AlreadyExistsException"},
	fault.Precondition:    {http.StatusPreconditionFailed, "PreconditionFailedException"},
	fault.Unprocessable:   {http.StatusUnprocessableEntity, "UnprocessableEntityException"},
	fault.Busy:            {http.StatusServiceUnavailable, "SlowDownException"},
	fault.Unknown:         {http.StatusInternalServerError, "CommitStateUnknownException"},
	fault.Full:            {http.StatusInsufficientStorage, "InsufficientStorageException"},
}

// names refine the exception's name where the code says more than the kind.
var names = map[fault.Code]string{
	catalog.CodeNoSuchNamespace:   "NoSuchNamespaceException",
	catalog.CodeNoSuchTable:       "NoSuchTableException",
	catalog.CodeNoSuchView:        "NoSuchViewException",
	catalog.CodeNamespaceNotEmpty: "NamespaceNotEmptyException",
	catalog.CodeCommitFailed:      "CommitFailedException",
	catalog.CodeShared:            "ConflictException",
	metadata.Refused:              "IllegalArgumentException", // Java's client throws it as such
	tenant.CodeNoSuchWarehouse:    "NoSuchWarehouseException",
}

// translate picks the answer. On a commit route 5xx means "unknown" to clients, so
// trouble before COMMIT, classified or not, is 429 there, and every conflict is a
// CommitFailedException.
func translate(err error, commits bool) answer {
	kind := fault.KindOf(err)
	a := kinds[kind]
	if name, ok := names[fault.CodeOf(err)]; ok {
		a.name = name
	}
	if fault.CodeOf(err) == catalog.CodeTwin {
		return answer{http.StatusTooManyRequests, "SlowDownException"}
	}
	if !commits {
		return a
	}
	switch kind {
	case fault.Busy, fault.Internal, fault.Full:
		return answer{http.StatusTooManyRequests, "SlowDownException"}
	case fault.Conflict:
		return answer{http.StatusConflict, "CommitFailedException"}
	case fault.Invalid, fault.Unauthenticated, fault.Denied, fault.NotFound, fault.Unsupported,
		fault.Precondition, fault.Unprocessable, fault.Unknown:
	}
	return a
}

// fail writes the error model (spec: IcebergErrorResponse), with the request id.
func (e *edge) fail(c *call, err error, commits bool) {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = fault.New("iceberg.body", fault.Invalid, "", "the body is larger than %d bytes", tooLarge.Limit)
	}
	a := translate(err, commits)
	ctx := c.r.Context()
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		e.Logger.InfoContext(ctx, "client went away", "requestId", c.id, "path", c.r.URL.Path, "error", err)
	case a.status >= http.StatusInternalServerError || fault.KindOf(err) == fault.Internal:
		e.Logger.ErrorContext(ctx, "request failed", "requestId", c.id, "method", c.r.Method, "path", c.r.URL.Path, "status", a.status, "error", err)
	}
	if a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests {
		after := max(fault.RetryAfter(err), time.Second)
		c.w.Header().Set("Retry-After", strconv.Itoa(int(after.Round(time.Second).Seconds())))
	}
	if a.status == http.StatusUnauthorized {
		c.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	body := map[string]any{"error": map[string]any{
		"message": fault.Public(err), "type": a.name, "code": a.status, "request-id": c.id,
	}}
	if replyErr := e.reply(c, a.status, body); replyErr != nil {
		e.Logger.InfoContext(ctx, "answer not sent", "requestId", c.id, "error", replyErr)
	}
}
