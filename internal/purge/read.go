package purge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/purge/tablefile"
)

// maxBuffered is the size up to which an object is read whole before it is decoded: no
// connection then waits for deletes, and a broken read can be repeated.
const maxBuffered = 16 << 20

const readTries = 4

// open reads an object: small ones at once, large ones as a stream.
func (a *walk) open(ctx context.Context, obj blob.Object) (io.ReadCloser, error) {
	for try := 1; ; try++ {
		body, err := a.openOnce(ctx, obj)
		class := blob.ClassOf(err)
		if err == nil || try == readTries || (class != blob.Other && !class.Outage()) {
			return body, err
		}
		d := a.cfg.ReadBackoff << (try - 1)
		t := time.NewTimer(d/2 + rand.N(d/2+1))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

func (a *walk) openOnce(ctx context.Context, obj blob.Object) (io.ReadCloser, error) {
	body, info, err := obj.Bucket.Open(ctx, obj.Key)
	if err != nil {
		return nil, err
	}
	var head bytes.Buffer
	if info.Size > 0 && info.Size <= maxBuffered {
		head.Grow(int(info.Size) + bytes.MinRead)
	}
	n, err := io.Copy(&head, io.LimitReader(body, maxBuffered))
	switch {
	case err == nil && n < maxBuffered && n < info.Size:
		err = fmt.Errorf("%d bytes of %d came: %w", n, info.Size, io.ErrUnexpectedEOF)
	case err == nil && n == maxBuffered:
		return struct {
			io.Reader
			io.Closer
		}{io.MultiReader(&head, pausedReader{body, a.turn}), body}, nil
	}
	if closeErr := body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("purge: read %q: %w", string(obj.Key), err)
	}
	return io.NopCloser(&head), nil
}

// read opens an object and decodes it, with a turn. The error of a save that fell due is
// an abortError.
func (a *walk) read(ctx context.Context, obj blob.Object, decode func(io.Reader) error) (err error) {
	if a.sink != nil && time.Since(a.kept) >= keepEvery {
		if err := a.sink.keep(); err != nil {
			return abort(err)
		}
	}
	a.turn.Pause()
	body, err := a.open(ctx, obj)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // all that was needed of it was read
	a.turn.Step()
	return decode(body)
}

func (a *walk) readMetadata(ctx context.Context, obj blob.Object) (m *tablefile.Metadata, err error) {
	err = a.read(ctx, obj, func(r io.Reader) error {
		m, err = tablefile.ReadMetadata(r)
		return err
	})
	return m, err
}
