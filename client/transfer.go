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
	"net/url"
	"strconv"
	"strings"
)

// ErrChecksum says that the bytes that came are not those that were stored.
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
	f := &File{ctx: ctx, d: d, path: path, at: opts.Offset, ETag: opts.IfMatch}
	want := opts.Length
	resp, err := f.request(want)
	if err != nil {
		return nil, err
	}
	f.body, f.ETag, f.SHA256 = resp.Body, resp.Header.Get("ETag"), resp.Header.Get("X-Lethe-Sha256")
	f.Size, f.left = resp.ContentLength, resp.ContentLength
	if opts.Offset == 0 && want == 0 && f.SHA256 != "" {
		f.sum = sha256.New()
	}
	return f, nil
}

// request asks for what is left, or for n bytes, or for all when n is 0.
func (f *File) request(n int64) (*http.Response, error) {
	header := map[string]string{}
	if f.at > 0 || n > 0 {
		header["Range"] = "bytes=" + strconv.FormatInt(f.at, 10) + "-"
		if n > 0 {
			header["Range"] += strconv.FormatInt(f.at+n-1, 10)
		}
	}
	if f.ETag != "" {
		header["If-Match"] = f.ETag
	}
	for {
		f.tries++
		resp, err := f.d.c.raw(f.ctx, request{method: http.MethodGet, path: fsPath(f.path), header: header}, nil, 0)
		if err == nil {
			return resp, nil
		}
		if f.ctx.Err() != nil || f.tries >= maxRequests || !(request{method: http.MethodGet}).repeatable(err) {
			return nil, err
		}
		if err := sleep(f.ctx, pause(f.tries, err)); err != nil {
			return nil, fmt.Errorf("client: GET %s: %w", f.path, err)
		}
	}
}

// Read reads on.
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
		_ = f.body.Close()
		if f.tries >= maxRequests {
			return 0, fmt.Errorf("client: GET %s broke off: %w", f.path, err)
		}
		resp, again := f.request(f.left)
		if again != nil {
			return 0, again
		}
		f.body = resp.Body
	}
}

// Close ends reading.
func (f *File) Close() error { return f.body.Close() }

// PutOptions of Put; the zero value has no conditions.
type PutOptions struct {
	Size      int64  // bytes of the body; 0 when it is not known, or empty
	SHA256    string // of the body in hexadecimal, which the server checks; may be empty
	IfMatch   string // an ETag that the file must have
	NoReplace bool   // the file must be new
	Mode      uint32 // permission bits of a new file, 0 means 0644
}

// Put writes a whole file, atomically, and makes the directories above it. It is sent
// again after a failure only if body is an io.Seeker.
func (d Drive) Put(ctx context.Context, path string, body io.Reader, opts PutOptions) (Entry, error) {
	r := request{method: http.MethodPut, path: fsPath(path), header: ChangeOptions{opts.IfMatch, opts.NoReplace}.header()}
	if opts.SHA256 != "" {
		r.header["X-Lethe-Sha256"] = opts.SHA256
	}
	if opts.Mode != 0 {
		r.query = url.Values{"mode": {strconv.FormatUint(uint64(opts.Mode), 8)}}
	}
	var e Entry
	r.into = &e
	// A Put with a condition may have been applied when its answer was lost: sent again it
	// would be refused by what it wrote itself.
	return e, d.c.stream(ctx, r, body, opts.Size, opts.IfMatch == "" && !opts.NoReplace)
}

// Append adds bytes to the end of a file. It is never sent again.
func (d Drive) Append(ctx context.Context, path string, body io.Reader, opts ChangeOptions) (e Entry, err error) {
	r := request{method: http.MethodPost, path: fsPath(path), query: url.Values{"op": {"append"}}, header: opts.header(), into: &e}
	return e, d.c.stream(ctx, r, body, 0, false)
}

// stream sends a request with a body that is not held in memory.
func (c *Client) stream(ctx context.Context, r request, body io.Reader, size int64, again bool) error {
	seeker, ok := body.(io.Seeker)
	var start int64
	if ok {
		var err error
		if start, err = seeker.Seek(0, io.SeekCurrent); err != nil {
			ok = false // a pipe that calls itself a file
		}
	}
	for try := 1; ; try++ {
		resp, err := c.raw(ctx, r, body, size)
		if err == nil {
			return finish(resp, r)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("client: %s %s: %w", r.method, r.path, context.Cause(ctx))
		}
		if !again || !ok || try == maxRequests || !(request{method: http.MethodGet}).repeatable(err) {
			return err
		}
		if err := sleep(ctx, pause(try, err)); err != nil {
			return fmt.Errorf("client: %s %s: %w", r.method, r.path, err)
		}
		if _, err := seeker.Seek(start, io.SeekStart); err != nil {
			return fmt.Errorf("client: %s %s: begin anew: %w", r.method, r.path, err)
		}
	}
}

// raw sends one request and returns its answer, whose body the caller closes; an answer
// that is no success is an *Error.
func (c *Client) raw(ctx context.Context, r request, body io.Reader, size int64) (*http.Response, error) {
	target := c.base.String() + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	if body != nil {
		body = io.NopCloser(body) // the transport would close what is the caller's
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if body != nil {
		req.ContentLength = size
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	req.Header.Set("User-Agent", c.opts.UserAgent)
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	resp, err := c.opts.HTTPClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer closeAnswer(resp)
		return nil, readError(resp)
	}
	return resp, nil
}

// absolute refuses a path that the server would not take for one of the drive.
func absolute(path string) error {
	if !strings.HasPrefix(path, "/") {
		return fmt.Errorf("client: %q is no absolute path of the drive", path)
	}
	return nil
}
