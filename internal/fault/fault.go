// Package fault is the one error shape that crosses rooms: a kind (what an edge
// answers), a code (the domain's word for it) and a message that is safe to show.
//
// Each edge maps kinds and codes to its own statuses in exactly one table. An error
// without a kind is Internal: its text stays inside and the caller sees only a
// request id. Errors keep their cause, so errors.Is and errors.As work through them.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what sort of trouble an error is; it decides the status an edge answers.
type Kind uint8

// The kinds. Everything that nobody classified is Internal.
const (
	Internal        Kind = iota // a fault of ours: the text stays inside
	Invalid                     // the request can never work as it stands
	Unauthenticated             // nobody we know
	Denied                      // known, and not allowed
	NotFound                    // the named thing is not there
	Unsupported                 // understood, and not offered
	Conflict                    // the state forbids it; surely nothing was applied
	Precondition                // a condition the caller named does not hold
	Unprocessable               // well formed, contradicts itself or an earlier request
	Busy                        // passing trouble; surely nothing was applied, try again
	Unknown                     // it may or may not have been applied
	Full                        // no room: quota or disk
)

var kindNames = [...]string{
	"internal", "invalid", "unauthenticated", "denied", "not found", "unsupported",
	"conflict", "precondition", "unprocessable", "busy", "unknown", "full",
}

// String returns the kind's name for logs.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "internal"
}

// Code is the domain's word for an error, such as NoSuchTable. Edges may map it to a
// name of their protocol.
type Code string

// Error is a classified error. Message may be shown to the caller; Err may not.
type Error struct {
	Op         string        // package.Function, for logs
	Kind       Kind          // decides the status
	Code       Code          // the domain's word, may be empty
	Message    string        // safe to show; empty means that Err's text is
	RetryAfter time.Duration // hint for Busy, 0 means the edge's default
	Err        error         // the cause, may be nil
}

// Error returns the whole chain, for logs.
func (e *Error) Error() string {
	text := e.Message
	if e.Err != nil {
		if text == "" {
			text = e.Err.Error()
		} else {
			text += ": " + e.Err.Error()
		}
	}
	if text == "" {
		text = e.Kind.String()
	}
	if e.Op == "" {
		return text
	}
	return e.Op + ": " + text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// E classifies err. It returns nil for a nil err, and leaves an error alone that
// already has a kind: the room that knew more has spoken.
func E(op string, kind Kind, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	return &Error{Op: op, Kind: kind, Err: err}
}

// New returns an error of the domain with a message that is safe to show.
func New(op string, kind Kind, code Code, format string, args ...any) *Error {
	return &Error{Op: op, Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap is New with a cause that stays inside.
func Wrap(op string, kind Kind, code Code, cause error, format string, args ...any) *Error {
	e := New(op, kind, code, format, args...)
	e.Err = cause
	return e
}

// KindOf returns the kind of the outermost classified error in err's chain.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// CodeOf returns the code of the outermost classified error in err's chain.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Is reports whether err carries the code.
func Is(err error, code Code) bool { return err != nil && CodeOf(err) == code }

// Public returns the text that the caller may see: the message, the cause's text
// for a classified error without one, and a fixed text for anything Internal.
func Public(err error) string {
	var e *Error
	if !errors.As(err, &e) || e.Kind == Internal {
		return "internal error"
	}
	if e.Message != "" {
		return e.Message
	}
	if e.Err != nil {
		return e.Err.Error()
	}
	return e.Kind.String()
}

// RetryAfter returns the hint for a Busy error, or 0.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}
