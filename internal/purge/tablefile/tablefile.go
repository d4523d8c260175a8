// Package tablefile reads what leads to a table's files: metadata, manifest lists and
// manifests. It is lenient, because what a strict parser refuses must still be
// purgeable: any format version, unknown fields, missing optional ones, other names
// under known field ids.
//
// Failure model: an UnreadableError means that the bytes came and can not be decoded; a
// panic of a decoder is one too. A failed read is the store's error, wrapped, whatever
// the decoder made of it. An error of the caller's func comes back as it is.
//
// The package knows no job and no database, so that fuzzing it builds in seconds.
package tablefile

import (
	"errors"
	"fmt"
	"io"
)

// UnreadableError says that a file was read and can not be decoded: truncated, alien,
// hostile or of a kind nobody knows. It is never used for trouble of the store, which
// another try may mend.
type UnreadableError struct {
	What string // metadata, manifest list or manifest
	Err  error
}

// Error returns the text for logs.
func (e *UnreadableError) Error() string {
	return "tablefile: unreadable " + e.What + ": " + e.Err.Error()
}

// Unwrap returns the decoder's error.
func (e *UnreadableError) Unwrap() error { return e.Err }

// IsUnreadable reports whether err says that content can not be decoded.
func IsUnreadable(err error) bool {
	var e *UnreadableError
	return errors.As(err, &e)
}

// source keeps the store's own error apart from a decoder's: decoders wrap what they
// get and often turn it into "unexpected EOF".
type source struct {
	r   io.Reader
	n   int64
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// blame decides whose fault a failed decode is: the store's, if a read failed, else the content's.
func (s *source) blame(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case s.err != nil:
		return fmt.Errorf("tablefile: read %s: %w", what, s.err)
	case IsUnreadable(err):
		return err
	default:
		return &UnreadableError{What: what, Err: err}
	}
}

// stopError carries a consumer's error out of a decoder unchanged.
type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }
func (e *stopError) Unwrap() error { return e.err }

// guarded runs decode, turns a panic inside it into an error, and blames.
func guarded(what string, s *source, decode func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = s.blame(what, fmt.Errorf("the decoder panicked: %v", p))
		}
	}()
	err = decode()
	if stop, ok := errors.AsType[*stopError](err); ok {
		return stop.err
	}
	return s.blame(what, err)
}
