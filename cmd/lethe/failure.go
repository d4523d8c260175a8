package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/lethe-project/lethe/client"
)

const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// usageError is a command line, or settings, that can never work.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// hintError is an error with the next step.
type hintError struct {
	error
	next string
}

func (e hintError) Unwrap() error { return e.error }

// fail tells the error and its next step, and returns the exit code.
func (c *console) fail(err error) int {
	code := exitFailed
	var usage usageError
	switch {
	case errors.Is(err, errInterrupted):
		c.note("lethe: interrupted")
		code = exitInterrupted
	case errors.As(err, &usage):
		code = exitUsage
		fallthrough
	default:
		c.note("lethe: %s", err)
	}
	if hint := hintOf(err); hint != "" {
		c.note("%s", hint)
	}
	return code
}

// hintOf returns what to do about an error, or nothing.
func hintOf(err error) string {
	if hint, ok := errors.AsType[hintError](err); ok {
		return hint.next
	}
	if _, ok := errors.AsType[ownError](err); ok {
		if unreached(err) {
			return "Is what the settings database and storage name up, and reachable from this machine?"
		}
		return ""
	}
	switch client.StatusOf(err) {
	case http.StatusUnauthorized:
		return "Set LETHE_TOKEN to a token of the server, or --data to its data folder."
	case http.StatusForbidden:
		return "The token may not do this: ask for one with the right."
	case 0:
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			return "Is the server running? Start it with lethe serve, or name another with --uri or LETHE_URI."
		}
	}
	return ""
}

// ownError is one of the server itself, or of what works without one: there is no server
// that could be asked.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

// own marks the error of a command that is no client, if there is one.
func own(err error) error {
	if err == nil {
		return nil
	}
	return ownError{err}
}

// unreached reports whether nobody answered at an address.
func unreached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// missing says where to look for a table or view that is not there.
func missing(err error, kind string, id client.Identifier) error {
	return hintError{err, fmt.Sprintf("See which %[1]ss there are: lethe %[1]s ls %[2]s", kind, shell(id.Namespace.String()))}
}

// noNamespace is the catalog's word for a namespace that is not there.
const noNamespace = "NoSuchNamespaceException"

func missingNamespace(err error) error {
	return hintError{err, "See which namespaces there are: lethe namespace ls"}
}

// jobFailed says that a job ended without having done its work.
func jobFailed(job client.Job) error {
	err := fmt.Errorf("%s ended %s", job.Job, job.State)
	if job.LastError != "" {
		err = fmt.Errorf("%w: %s", err, printable(job.LastError))
	}
	next := fmt.Sprintf("Look at it with lethe job show %[1]s; then lethe job retry %[1]s, or lethe job ack %[1]s to leave its files.", job.Job)
	return hintError{err, next}
}
