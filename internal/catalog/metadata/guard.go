package metadata

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lethe-project/lethe/internal/fault"
)

// CommitFailed is the code of a commit that met another state than it was built on.
// Surely nothing was applied; the client may rebuild it and try again.
const CommitFailed fault.Code = "CommitFailed"

// Refused is the code of a well-formed request whose outcome would be no valid metadata.
// Java's catalogs throw an IllegalArgumentException there.
const Refused fault.Code = "Refused"

// maxMessage bounds a message, because library errors quote hostile input.
const maxMessage = 1000

// guard turns a panic of the library into an Invalid error. It is deferred by every
// exported function that reaches the library.
func guard(op, what string, err *error) {
	if r := recover(); r != nil {
		*err = fault.Wrap(op, fault.Invalid, "", fmt.Errorf("panic: %s", clip(fmt.Sprint(r))),
			"%s is malformed", what)
	}
}

// invalid classifies an error about the named input. The text of the library speaks of
// the input only and is shown. An error that is classified already stays as it is.
func invalid(op, what string, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	text := strings.ReplaceAll(err.Error(), "invalid argument: ", "")
	if typed, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		// The decoder names Go types, which say nothing to a user.
		field := cmp.Or(typed.Field[strings.LastIndexByte(typed.Field, '.')+1:], "it")
		text = strings.Replace(text, typed.Error(), fmt.Sprintf("%s must not be of type %s", field, typed.Value), 1)
	}
	return invalidf(op, "%s: %s", what, text)
}

func invalidf(op, format string, args ...any) error {
	e := fault.New(op, fault.Invalid, "", format, args...)
	e.Message = clip(e.Message)
	return e
}

// refused is invalid for a request that was decoded and cannot be carried out.
func refused(op, what string, err error) error { return named(invalid(op, what, err)) }

func refusedf(op, format string, args ...any) error { return named(invalidf(op, format, args...)) }

// named gives an Invalid error without a code the code Refused.
func named(err error) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Kind != fault.Invalid || e.Code != "" {
		return err
	}
	again := *e
	again.Code = Refused
	return &again
}

func conflictf(op, format string, args ...any) error {
	e := fault.New(op, fault.Conflict, CommitFailed, format, args...)
	e.Message = clip(e.Message)
	return e
}

func clip(text string) string {
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}
