package s3

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/lethe-project/lethe/internal/blob"
)

var (
	errTaken    = errors.New("object exists")
	errStalled  = errors.New("the store went silent")
	errNoAnswer = errors.New("the store did not answer in time")
)

// codes are the error codes of S3 and of the stores that speak it.
var codes = map[string]blob.Class{
	"NoSuchKey":    blob.NotExist,
	"NoSuchUpload": blob.NotExist, // of parts: complete, aborted, or never begun

	"PreconditionFailed":         blob.Exist, // the only condition that is ever sent is "not there"
	"ConditionalRequestConflict": blob.Exist, // somebody else is writing this key

	"AccessDenied": blob.Denied,

	"KeyTooLongError":           blob.Invalid,
	"InvalidURI":                blob.Invalid,
	"InvalidObjectName":         blob.Invalid,
	"XMinioInvalidObjectName":   blob.Invalid,
	"XMinioInvalidResourceName": blob.Invalid,

	"SlowDown":                 blob.Throttled,
	"SlowDownRead":             blob.Throttled,
	"SlowDownWrite":            blob.Throttled,
	"ServiceUnavailable":       blob.Throttled,
	"Throttling":               blob.Throttled,
	"ThrottlingException":      blob.Throttled,
	"TooManyRequests":          blob.Throttled,
	"TooManyRequestsException": blob.Throttled,
	"RequestLimitExceeded":     blob.Throttled,
	"BandwidthLimitExceeded":   blob.Throttled,

	// A bucket that is gone is no proof that the objects are: it may be a wrong name, a
	// wrong region, a store that was restored without it.
	"NoSuchBucket":          blob.Unavailable,
	"InternalError":         blob.Unavailable,
	"RequestTimeout":        blob.Unavailable,
	"RequestExpired":        blob.Unavailable,
	"RequestTimeTooSkewed":  blob.Unavailable,
	"ExpiredToken":          blob.Unavailable,
	"ExpiredTokenException": blob.Unavailable,
	"TokenRefreshRequired":  blob.Unavailable,
	"InvalidToken":          blob.Unavailable,
	"InvalidAccessKeyId":    blob.Unavailable,
	"AccountProblem":        blob.Unavailable,
	"AllAccessDisabled":     blob.Unavailable,

	"NotImplemented":    blob.NotSupported,
	"MethodNotAllowed":  blob.NotSupported,
	"MissingContentMD5": blob.NotSupported,
	"MalformedXML":      blob.NotSupported,
	"XNotImplemented":   blob.NotSupported,
}

// classOf sorts an error of the SDK by code, then by status. Without an answer of the
// store it is the store as a whole, not this key.
func classOf(err error) blob.Class {
	if ofCredentials(err) {
		return blob.Unavailable
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		if class, known := codes[api.ErrorCode()]; known {
			return class
		}
	}
	status := 0
	if answer, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		status = answer.HTTPStatusCode()
	}
	switch {
	case status == http.StatusPreconditionFailed:
		return blob.Exist
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return blob.Denied
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return blob.Throttled
	case status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		return blob.NotSupported
	case status >= 300 && status < 500:
		return blob.Other // 404 without a code included: a proxy may have said so
	}
	if _, ok := errors.AsType[*smithy.SerializationError](err); ok {
		return blob.Other // it was not sent
	}
	return blob.Unavailable
}

// ofCredentials reports whether the error is that of another service: the chain asks
// STS or SSO for credentials, and what these deny is not the key that was asked for.
func ofCredentials(err error) bool {
	for {
		op, ok := errors.AsType[*smithy.OperationError](err)
		if !ok {
			return false
		}
		if op.ServiceID != "S3" {
			return true
		}
		err = op.Err
	}
}

// fail makes a *blob.Error of what a call of the SDK returned under ctx, the caller's.
func fail(ctx context.Context, op string, key blob.Key, err error) *blob.Error {
	e := &blob.Error{Op: op, Key: key, Class: classOf(err), Err: err}
	switch {
	case ctx.Err() != nil:
		e.Class, e.Err = blob.Other, context.Cause(ctx)
	case op == "stat" && isNotFound(err):
		e.Class = blob.NotExist // answers to HEAD have no body, and so no code
	case errors.Is(err, context.DeadlineExceeded):
		e.Err = errNoAnswer
	case e.Class == blob.Invalid && op != "put" && op != "delete":
		e.Class = blob.NotExist // what cannot be is not there
	}
	return e
}

func isNotFound(err error) bool {
	_, ok := errors.AsType[*types.NotFound](err)
	return ok
}

// failed is fail for an error of our own.
func failed(op string, key blob.Key, class blob.Class, err error) *blob.Error {
	return &blob.Error{Op: op, Key: key, Class: class, Err: err}
}
