// Package blob is the object store: buckets of keys, deleted in bulk with an answer
// for every key.
//
// A Bucket is rooted at one storage root: its keys are relative to that root and are
// used byte for byte on object stores (no percent-decoding, no cut at '?' or '#',
// '//' kept); only the local directory cleans them. Location is the URI form that
// Iceberg metadata carries, Space maps locations to buckets and refuses whatever
// lies outside its roots.
//
// Failure model: every error of a store is a *Error with a Class. A class says
// whether the store as a whole is in trouble (Unavailable, Throttled) or one key is
// (Denied, Other); callers branch on the class, never on text.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Key names one object inside a Bucket, relative to the bucket's root.
type Key string

// MaxDelete is the most keys that one DeleteMany takes.
const MaxDelete = 1000

// Info describes one stored object.
type Info struct {
	Key     Key
	Size    int64     // bytes
	ModTime time.Time // zero where the store does not tell
}

// Outcome is what became of one key of a bulk delete.
type Outcome uint8

// The outcomes. Everything but Failed settles the key.
const (
	Failed  Outcome = iota // still there, or not known; Result.Err says why
	Deleted                // gone; on stores that do not tell missing apart also for those
	Missing                // was not there
)

// Result is the answer for one key.
type Result struct {
	Key     Key
	Outcome Outcome
	Err     error // a *Error when Outcome is Failed
}

// Bucket is one storage root. All methods are safe for concurrent use.
type Bucket interface {
	// Open streams an object. A missing one is an error of class NotExist.
	Open(ctx context.Context, key Key) (io.ReadCloser, Info, error)
	// Put creates an object, atomically and never over an existing one: that is an
	// error of class Exist and leaves the old bytes.
	Put(ctx context.Context, key Key, body io.Reader) error
	// Stat describes an object without reading it.
	Stat(ctx context.Context, key Key) (Info, error)
	// List calls fn for every object whose key begins with prefix, in the byte order
	// of keys on object stores and in a stable order on the local directory, until fn
	// returns an error (returned as it is; ErrStop ends without one).
	List(ctx context.Context, prefix Key, fn func(Info) error) error
	// DeleteMany deletes 1 to MaxDelete keys in one request where the store can, and
	// returns one result per key, in the order of keys. A missing key is no failure.
	DeleteMany(ctx context.Context, keys []Key) []Result
}

// DirPruner is a Bucket with real directories, which empty ones may be removed from.
type DirPruner interface {
	// PruneDirs removes the directories that hold the keys, and their parents, as long
	// as they are empty, up to and including top, never above it.
	PruneDirs(ctx context.Context, keys []Key, top Key) error
}

// Marked is a Bucket that can be mistaken for an empty one: a directory whose disk is
// not there. Its marker tells.
type Marked interface {
	// Marker returns the root's mark; an error of class NotExist when it has none.
	Marker(ctx context.Context) (string, error)
	// MakeMarker marks the root, once, and returns the mark.
	MakeMarker(ctx context.Context) (string, error)
}

// Noter is a Bucket in which a delete leaves something that no key shows.
type Noter interface {
	// Notes says so, in sentences for people that hold no secret. Empty when nothing is left,
	// or nothing is known of it. It may ask the store.
	Notes(ctx context.Context) []string
}

// ErrStop ends a List early without an error.
var ErrStop = errors.New("blob: stop listing")

// Class sorts the errors of a store.
type Class uint8

// The classes.
const (
	Other        Class = iota // anything else, about this key
	NotExist                  // no such object
	Exist                     // there is one already
	Denied                    // not allowed: an ordinary failure, it may be granted later
	Invalid                   // the key can not exist in this store
	Throttled                 // slow down: the store as a whole
	Unavailable               // connect, timeout, 5xx, expired credentials: the store as a whole
	NotSupported              // the store does not offer this request
)

var classNames = [...]string{"other", "not exist", "exist", "denied", "invalid", "throttled", "unavailable", "not supported"}

// String returns the class's name for logs.
func (c Class) String() string { return classNames[c] }

// Outage reports whether the class is trouble of the store as a whole.
func (c Class) Outage() bool { return c == Throttled || c == Unavailable }

// Error is an error of a store.
type Error struct {
	Op    string // open, put, stat, list, delete
	Key   Key
	Class Class
	Err   error
}

// Error returns the text for logs.
func (e *Error) Error() string {
	return fmt.Sprintf("blob: %s %q: %s: %v", e.Op, string(e.Key), e.Class, e.Err)
}

// Unwrap returns the store's own error.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of err: Other for an error that no store classified.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Other
}

// IsNotExist reports whether err says that the object is not there.
func IsNotExist(err error) bool { return err != nil && ClassOf(err) == NotExist }
