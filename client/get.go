package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// ErrChecksum says that the bytes that came are not those that were stored, or those that
// were stored not those that were sent.
var ErrChecksum = errors.New("client: the checksum does not match")

// GetOptions of Get; the zero value means the whole file.
type GetOptions struct {
	Offset  int64  // bytes to leave out at the beginning
	Length  int64  // bytes to read, 0 means to the end
	IfMatch string // an ETag that the file must have
}

// File is an opened file. It must be closed. A whole file is checked against the server's
// checksum at its end; when the connection breaks in between, reading goes on where it
// broke, as long as the file is the same, five requests in all.
type File struct {
	Size   int64 // bytes that Read will bring in all
	ETag   string
	SHA256 string // of the whole file, in hexadecimal; may be empty

	ctx   context.Context //nolint:containedctx // of the Get, for requests that go on
	d     Drive
	path  string
	at    int64 // offset in the file of the next byte
	left  int64
	tries int
	body  io.ReadCloser
	sum   hash.Hash // nil for a part of a file
}

// Get opens a file.
func (d Drive) Get(ctx context.Context, path string, opts GetOptions) (*File, error) {
	if err := absolute(path); err != nil {
		return nil, err
	}
	if opts.Offset < 0 || opts.Length < 0 {
		return nil, fmt.Errorf("client: no file has %d bytes from %d", opts.Length, opts.Offset)
	}
	f := &File{ctx: ctx, d: d, path: path, at: opts.Offset, ETag: opts.IfMatch}
	resp, err := f.request(opts.Length) //nolint:bodyclose // File.Close does
	if err != nil {
		return nil, err
	}
	f.body, f.ETag, f.SHA256 = resp.Body, resp.Header.Get("ETag"), resp.Header.Get("X-Lethe-Sha256")
	f.Size, f.left = resp.ContentLength, resp.ContentLength
	if opts.Offset == 0 && opts.Length == 0 && f.SHA256 != "" {
		f.sum = sha256.New()
	}
	return f, nil
}

// request asks for what is left, or for n bytes, or for all when n is 0.
func (f *File) request(n int64) (*http.Response, error) {
	// Bytes that a proxy has packed would be counted and hashed otherwise.
	r := request{method: http.MethodGet, path: fsPath(f.path), header: map[string]string{"Accept-Encoding": "identity"}}
	ranged := f.at > 0 || n > 0
	if ranged {
		r.header["Range"] = "bytes=" + strconv.FormatInt(f.at, 10) + "-"
		if n > 0 {
			r.header["Range"] += strconv.FormatInt(f.at+n-1, 10)
		}
	}
	if f.ETag != "" {
		r.header["If-Match"] = f.ETag
	}
	for {
		f.tries++
		resp, err := f.once(r)
		if err == nil {
			err = f.expected(resp, ranged)
			if err == nil {
				return resp, nil
			}
			_ = resp.Body.Close() // a whole file may follow
			return nil, err
		}
		if f.ctx.Err() != nil {
			return nil, fmt.Errorf("client: GET %s: %w", f.path, context.Cause(f.ctx))
		}
		if f.tries >= maxRequests || !transient(err) {
			return nil, err
		}
		if err := sleep(f.ctx, pause(f.tries, err)); err != nil {
			return nil, fmt.Errorf("client: GET %s: %w", f.path, err)
		}
	}
}

func (f *File) once(r request) (*http.Response, error) {
	req, err := f.d.c.build(f.ctx, r, nil)
	if err != nil {
		return nil, err
	}
	return f.d.c.send(req)
}

// expected refuses an answer that would put bytes into the wrong place.
func (f *File) expected(resp *http.Response, ranged bool) error {
	switch {
	case resp.ContentLength < 0:
		return fmt.Errorf("client: GET %s: the answer does not say how long it is", f.path)
	case f.at == 0 && resp.StatusCode == http.StatusOK && resp.ContentLength == 0: // an empty file has no range
	case ranged && resp.StatusCode != http.StatusPartialContent,
		ranged && !strings.HasPrefix(resp.Header.Get("Content-Range"), "bytes "+strconv.FormatInt(f.at, 10)+"-"):
		return fmt.Errorf("client: GET %s: asked for a range, the server answered %s with another", f.path, resp.Status)
	case f.body != nil && resp.ContentLength != f.left:
		return fmt.Errorf("client: GET %s: %d bytes are left, the server sends %d", f.path, f.left, resp.ContentLength)
	}
	return nil
}

// Read reads on. A checksum that is not the server's is ErrChecksum, at the end.
func (f *File) Read(b []byte) (int, error) {
	for {
		if f.left == 0 {
			if f.sum != nil && hex.EncodeToString(f.sum.Sum(nil)) != f.SHA256 {
				return 0, fmt.Errorf("%w: %s", ErrChecksum, f.path)
			}
			return 0, io.EOF
		}
		n, err := f.body.Read(b[:min(int64(len(b)), f.left)])
		f.at += int64(n)
		f.left -= int64(n)
		if f.sum != nil {
			f.sum.Write(b[:n])
		}
		if n > 0 || err == nil {
			return n, nil
		}
		if f.ctx.Err() != nil {
			return 0, context.Cause(f.ctx)
		}
		if f.tries >= maxRequests {
			return 0, fmt.Errorf("client: GET %s broke off: %w", f.path, err)
		}
		_ = f.body.Close()
		if err := sleep(f.ctx, pause(f.tries, nil)); err != nil {
			return 0, err
		}
		resp, err := f.request(f.left) //nolint:bodyclose // File.Close does
		if err != nil {
			return 0, err
		}
		f.body = resp.Body
	}
}

// Close ends reading.
func (f *File) Close() error { return f.body.Close() }
