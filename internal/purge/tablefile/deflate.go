package tablefile

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
)

// deflate is Avro's codec of that name, for one reader. The library's own makes a
// decompressor and a buffer for each block, which is most of the garbage of a purge; this one
// uses them again, as records of a block are read, and copied, before the next block.
type deflate struct {
	in  bytes.Reader
	r   io.ReadCloser // also a flate.Resetter; nil before the first block
	out bytes.Buffer
}

// Name is that in a file's header.
func (*deflate) Name() string { return "deflate" }

// Compress is not needed.
func (*deflate) Compress([]byte) ([]byte, error) {
	return nil, fmt.Errorf("deflate: nothing is written: %w", errors.ErrUnsupported)
}

// Decompress is DecompressBounded within the limit of all blocks.
func (d *deflate) Decompress(src []byte) ([]byte, error) { return d.DecompressBounded(src, maxBlock) }

// DecompressBounded returns a block of at most limit bytes, which holds until the next call.
func (d *deflate) DecompressBounded(src []byte, limit int64) ([]byte, error) {
	d.in.Reset(src)
	if d.r == nil {
		d.r = flate.NewReader(&d.in)
	} else if err := d.r.(flate.Resetter).Reset(&d.in, nil); err != nil {
		return nil, err
	}
	d.out.Reset()
	n, err := d.out.ReadFrom(io.LimitReader(d.r, limit+1))
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, fmt.Errorf("deflate: a block of more than %d bytes", limit)
	}
	return d.out.Bytes(), nil
}

// Close ends nothing.
func (*deflate) Close() error { return nil }
