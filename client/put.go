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
	"sync"
)

// PutOptions of Put; the zero value has no conditions.
type PutOptions struct {
	Size      int64  // bytes of the body; 0 when it is not known, or empty
	SHA256    string // of the body in hexadecimal, which the server checks; may be empty
	IfMatch   string // an ETag that the file must have
	NoReplace bool   // the file must be new
	Mode      uint32 // permission bits of a new file, 0 means 0644
}

// Put writes a whole file, atomically, and makes the directories above it. What the
// server has stored is compared with what was sent: ErrChecksum if it is not the same.
// A Put is sent again after a failure only if body is an io.Seeker, and if it has no
// condition: sent again, it would be refused by what it wrote itself.
func (d Drive) Put(ctx context.Context, path string, body io.Reader, opts PutOptions) (e Entry, err error) {
	if err := absolute(path); err != nil {
		return e, err
	}
	r := request{method: http.MethodPut, path: fsPath(path), header: ChangeOptions{opts.IfMatch, opts.NoReplace}.header(), into: &e}
	if opts.SHA256 != "" {
		r.header["X-Lethe-Sha256"] = opts.SHA256
	}
	if opts.Mode != 0 {
		r.query = url.Values{"mode": {strconv.FormatUint(uint64(opts.Mode), 8)}}
	}
	r.again = opts.IfMatch == "" && !opts.NoReplace
	sum, err := d.c.stream(ctx, r, body, opts.Size)
	if err == nil && e.SHA256 != "" && sum != "" && e.SHA256 != sum {
		err = fmt.Errorf("%w: %s", ErrChecksum, path)
	}
	return e, err
}

// Append adds bytes to the end of a file. It is never sent again.
func (d Drive) Append(ctx context.Context, path string, body io.Reader, opts ChangeOptions) (e Entry, err error) {
	if err := absolute(path); err != nil {
		return e, err
	}
	r := request{method: http.MethodPost, path: fsPath(path), query: url.Values{"op": {"append"}}, header: opts.header(), into: &e}
	_, err = d.c.stream(ctx, r, body, 0)
	return e, err
}

// patience is the size of a body in bytes from which on the server is asked first whether
// it wants it.
const patience = 1 << 20

// stream sends a request with a body that is not held in memory, and returns the SHA-256
// of what was sent.
func (c *Client) stream(ctx context.Context, r request, body io.Reader, size int64) (string, error) {
	seeker, seekable := body.(io.Seeker)
	var start int64
	if seekable {
		var err error
		if start, err = seeker.Seek(0, io.SeekCurrent); err != nil {
			seekable = false // a pipe that calls itself a file
		}
	}
	empty := false
	if seekable && size == 0 {
		if end, err := seeker.Seek(0, io.SeekEnd); err == nil {
			size, empty = max(end-start, 0), end <= start
		}
		if _, err := seeker.Seek(start, io.SeekStart); err != nil {
			return "", fmt.Errorf("client: %s %s: %w", r.method, r.path, err)
		}
	}
	if !empty && (size == 0 || size >= patience) {
		r.header["Expect"] = "100-continue"
	}
	for try := 1; ; try++ {
		sent := &sentBody{r: body, sum: sha256.New(), empty: empty, stop: func() {}}
		if !seekable {
			sent.detach()
		}
		release := context.AfterFunc(ctx, sent.stop)
		err := c.streamOnce(ctx, r, sent, size)
		release()
		if err == nil {
			return sent.digest(), nil
		}
		if cause := sent.failure(); cause != nil {
			return "", fmt.Errorf("client: %s %s: read what is to be sent: %w", r.method, r.path, cause)
		}
		if ctx.Err() != nil {
			return "", fmt.Errorf("client: %s %s: %w", r.method, r.path, context.Cause(ctx))
		}
		if !seekable || try == maxRequests || !r.repeatable(err) {
			return "", err
		}
		if err := sleep(ctx, pause(try, err)); err != nil {
			return "", fmt.Errorf("client: %s %s: %w", r.method, r.path, err)
		}
		if _, err := seeker.Seek(start, io.SeekStart); err != nil {
			return "", fmt.Errorf("client: %s %s: begin anew: %w", r.method, r.path, err)
		}
	}
}

func (c *Client) streamOnce(ctx context.Context, r request, body *sentBody, size int64) error {
	var from io.Reader = body
	if body.empty {
		from = http.NoBody
	}
	req, err := c.build(ctx, r, from)
	if err != nil {
		return err
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := c.send(req) //nolint:bodyclose // finish does
	if err != nil {
		return err
	}
	return finish(resp, r)
}

// errTaken ends a transport's reading of a body that its owner has taken back.
var errTaken = errors.New("client: the body was taken back")

// sentBody is one try's view of a body. A transport may go on reading after it has
// answered; the try that comes next must have the reader for itself. It does not close
// what is the caller's.
type sentBody struct {
	mu    sync.Mutex
	r     io.Reader
	sum   hash.Hash
	err   error // of reading, other than its end
	taken bool
	empty bool
	stop  func() // ends a Read that waits
}

// detach puts a pipe before a reader that may bring nothing for ever: a transport whose
// request is cancelled waits for the Read that is under way.
func (b *sentBody) detach() {
	r, w := io.Pipe()
	from := b.r
	go func() { // until the caller's reader comes back
		_, err := io.Copy(w, from)
		_ = w.CloseWithError(err) // never fails
	}()
	b.r, b.stop = r, func() { _ = r.Close() } // never fails
}

// Read reads for the transport.
func (b *sentBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken {
		return 0, errTaken
	}
	n, err := b.r.Read(p)
	b.sum.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) { // which stop causes
		b.err = err
	}
	return n, err
}

// digest is the SHA-256 of what was read; nothing while it is still read, because the
// server answered early.
func (b *sentBody) digest() string {
	if !b.mu.TryLock() {
		return ""
	}
	defer b.mu.Unlock()
	b.taken = true
	return hex.EncodeToString(b.sum.Sum(nil))
}

// Close implements io.Closer.
func (b *sentBody) Close() error {
	b.stop()
	return nil
}

// failure takes the body back and returns what reading it failed with.
func (b *sentBody) failure() error {
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = true
	return b.err
}

// absolute refuses a path that the server would not take for one of the drive.
func absolute(path string) error {
	if !strings.HasPrefix(path, "/") {
		return fmt.Errorf("client: %q is no absolute path of the drive", path)
	}
	return nil
}

// digest is the SHA-256 of all that r brings.
func digest(r io.Reader) (string, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, r); err != nil {
		return "", fmt.Errorf("client: read what is to be sent: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
