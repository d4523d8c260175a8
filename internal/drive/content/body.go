package content

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"strings"

	"github.com/lethe-project/lethe/internal/fault"
)

// body reads a source once and measures it. What is wrong with it comes as an error
// instead of its end, so that nobody takes it for whole. It remembers that error: stores
// return it in one of their own.
type body struct {
	source io.Reader
	opts   WriteOptions
	exact  bool // the end is where ExpectSize says, and is not waited for
	sum    hash.Hash
	size   int64
	err    error
}

func newBody(source io.Reader, opts WriteOptions) *body {
	return &body{source: source, opts: opts, sum: sha256.New()}
}

// Read reads on.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.source.Read(p)
	b.size += int64(n)
	_, _ = b.sum.Write(p[:n]) // never fails
	switch {
	case b.opts.MaxSize > 0 && b.size > b.opts.MaxSize:
		err = fault.New("content.Write", fault.Invalid, CodeTooLarge, "the content is longer than %d bytes", b.opts.MaxSize)
	case b.opts.ExpectSize != nil && b.size > *b.opts.ExpectSize:
		err = wrongSize(*b.opts.ExpectSize)
	case errors.Is(err, io.EOF), err == nil && b.exact && b.size == *b.opts.ExpectSize:
		wrong := b.whole()
		if wrong == nil {
			return n, err
		}
		err = wrong
	case err == nil:
		return n, nil
	default:
		if fault.KindOf(err) == fault.Internal {
			err = fault.Wrap("content.Write", fault.Invalid, CodeBody, err, "the body could not be read to its end")
		}
	}
	b.err = err
	return 0, err // what was read last never arrives, so the store has no whole object
}

// whole checks a body that was read to its end.
func (b *body) whole() error {
	if b.opts.ExpectSize != nil && b.size != *b.opts.ExpectSize {
		return wrongSize(*b.opts.ExpectSize)
	}
	if want := b.opts.ExpectSHA256; want != "" && !strings.EqualFold(want, b.sha256()) {
		return fault.New("content.Write", fault.Unprocessable, CodeChecksum, "the body has the SHA-256 %s, not %s", b.sha256(), want)
	}
	return nil
}

func wrongSize(want int64) error {
	return fault.New("content.Write", fault.Invalid, CodeSize, "the body has not the announced %d bytes", want)
}

// sha256 returns the checksum of what was read so far.
func (b *body) sha256() string { return hex.EncodeToString(b.sum.Sum(nil)) }
