package blob

import (
	"context"
	"io"
)

// Ranger is a Bucket that reads a part of an object without the rest. A wrapper may be one
// over a bucket that is none: then the answer is NotSupported.
type Ranger interface {
	// OpenRange streams length bytes (more than 0) from offset, fewer where the object
	// ends before.
	OpenRange(ctx context.Context, key Key, offset, length int64) (io.ReadCloser, error)
}

// Multiparter is a Bucket in which an object can be made of parts that are sent in any
// order and at the same time. A wrapper may be one over a bucket that is none: then
// CreateMultipart answers NotSupported. An upload that the store does not know, or no
// longer, is an error of class NotExist.
type Multiparter interface {
	// MinPart is the fewest bytes that a part may have which is not the last.
	MinPart() int64
	// CreateMultipart begins an upload. Nothing shows under the key until it is complete.
	CreateMultipart(ctx context.Context, key Key) (upload string, err error)
	// PutPart sends a part of exactly size bytes, numbered from 1; one that was sent
	// before is replaced. The tag names these bytes to CompleteMultipart.
	PutPart(ctx context.Context, key Key, upload string, number int, body io.Reader, size int64) (tag string, err error)
	// CompleteMultipart makes the object of the parts, which are in ascending order. Once
	// more, it is done already: no error, or one of class NotExist or Exist.
	CompleteMultipart(ctx context.Context, key Key, upload string, parts []PartRef) error
	// AbortMultipart frees the parts of every upload of the key that is not complete. None
	// is no failure.
	AbortMultipart(ctx context.Context, key Key) error
}

// PartRef names a part that was sent.
type PartRef struct {
	Number int
	Tag    string
}
