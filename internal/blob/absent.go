package blob

import (
	"context"
	"io"
)

// Absent returns a bucket that cannot be opened now, for what has to go on without its
// objects: every call fails with class Unavailable and the reason.
func Absent(reason error) Bucket { return absent{reason} }

type absent struct{ reason error }

func (a absent) fail(op string, key Key) error {
	return &Error{Op: op, Key: key, Class: Unavailable, Err: a.reason}
}

func (a absent) Open(_ context.Context, key Key) (io.ReadCloser, Info, error) {
	return nil, Info{}, a.fail("open", key)
}

func (a absent) Put(_ context.Context, key Key, _ io.Reader) error { return a.fail("put", key) }

func (a absent) Stat(_ context.Context, key Key) (Info, error) { return Info{}, a.fail("stat", key) }

func (a absent) List(_ context.Context, prefix Key, _ func(Info) error) error {
	return a.fail("list", prefix)
}

func (a absent) DeleteMany(_ context.Context, keys []Key) []Result {
	results := make([]Result, len(keys))
	for i, key := range keys {
		results[i] = Result{Key: key, Outcome: Failed, Err: a.fail("delete", key)}
	}
	return results
}
