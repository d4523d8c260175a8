package drive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"strings"

	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
)

// spool is the longest body that Append keeps in memory, to try again when the file was
// changed meanwhile.
const spool = 64 << 10

// AppendOptions of Append.
type AppendOptions struct {
	Body    io.Reader
	Size    int64  // of the body in bytes, -1 when it is not known
	SHA256  string // expected of the body, in hexadecimal; empty for none
	IfMatch string // value of an If-Match header; empty for none
	Actor   string
}

// Append adds bytes to the end of a file, atomically: it writes old and new bytes as a new
// content and swaps it if the file is still what was read. When it is not, a body of up to
// 64 KiB is tried again; a longer one is fault.Conflict with CodeConcurrentChange.
func (d *Drive) Append(ctx context.Context, fs tree.FS, path string, opts AppendOptions) (e Entry, err error) {
	const op = "drive.Append"
	if _, err := parse(op, path); err != nil {
		return Entry{}, err
	}
	// What can not work is refused before the body is read.
	r, err := d.openFor(ctx, fs, path, opts)
	if err != nil {
		return Entry{}, err
	}
	if opts.SHA256 != "" {
		opts.Body = &summed{r: opts.Body, sum: sha256.New(), want: opts.SHA256}
	}
	head, err := io.ReadAll(io.LimitReader(opts.Body, spool+1))
	if fault.Is(err, content.CodeChecksum) {
		return Entry{}, err
	}
	if err != nil {
		return Entry{}, fault.Wrap(op, fault.Invalid, content.CodeBody, err, "the body ended too soon")
	}
	if len(head) > spool {
		if r, err = d.openFor(ctx, fs, path, opts); err != nil { // it may have come slowly
			return Entry{}, err
		}
		return d.append(ctx, fs, r, io.MultiReader(bytes.NewReader(head), opts.Body), opts)
	}
	if opts.Size >= 0 && opts.Size != int64(len(head)) {
		return Entry{}, fault.New(op, fault.Invalid, content.CodeSize, "the body has %d bytes, %d were announced", len(head), opts.Size)
	}
	opts.Size = int64(len(head))
	var lost error
	err = d.again(ctx, op, func() (err error) {
		if lost != nil { // what was opened is not what is there
			if r, err = d.openFor(ctx, fs, path, opts); err != nil {
				return err
			}
		}
		e, lost = d.append(ctx, fs, r, bytes.NewReader(head), opts)
		if fault.Is(lost, CodeConcurrentChange) || fault.Is(lost, CodeFileChanged) {
			return errors.Join(tree.ErrMoved, lost)
		}
		return lost
	})
	return e, err
}

// openFor opens the file that is to be appended to, if it is the one that is meant.
func (d *Drive) openFor(ctx context.Context, fs tree.FS, path string, opts AppendOptions) (*Reader, error) {
	r, err := d.Open(ctx, fs, path)
	if err == nil && opts.IfMatch != "" && !matches(opts.IfMatch, r.Entry.ETag()) {
		err = unmet("drive.Append", "%s is %s now", r.Entry.Path, r.Entry.ETag())
	}
	return r, err
}

func (d *Drive) append(ctx context.Context, fs tree.FS, r *Reader, body io.Reader, opts AppendOptions) (Entry, error) {
	const op = "drive.Append"
	target, err := parse(op, r.Entry.Path)
	if err != nil {
		return Entry{}, err
	}
	size := int64(-1)
	if opts.Size >= 0 {
		size = r.Entry.Size + opts.Size
	}
	old, err := r.Range(ctx, 0, -1)
	if err != nil {
		return Entry{}, err
	}
	source := &checked{Reader: old}
	written, err := d.write(ctx, op, fs, spot{node: tree.Node{Size: r.Entry.Size}}, io.MultiReader(source, body), size, "")
	if closeErr := old.Close(); err == nil {
		err = closeErr
	}
	if source.err != nil { // it is not the caller's body that is broken
		return Entry{}, source.err
	}
	if err != nil {
		return Entry{}, err
	}
	want := placement{op: op, path: target, ifMatch: r.Entry.ETag(), appended: true, actor: opts.Actor}
	e, _, err := d.place(ctx, fs, want, d.pending(fs, written), nil)
	if err != nil {
		return Entry{}, d.giveUp(ctx, written, err)
	}
	return e, nil
}

// summed fails at its end, instead, if what was read has another checksum.
type summed struct {
	r    io.Reader
	sum  hash.Hash
	want string
}

// Read reads.
func (s *summed) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	_, _ = s.sum.Write(p[:n]) // never fails
	if errors.Is(err, io.EOF) {
		if got := hex.EncodeToString(s.sum.Sum(nil)); !strings.EqualFold(got, s.want) {
			return 0, fault.New("drive.Append", fault.Unprocessable, content.CodeChecksum, "the body has the SHA-256 %s, not %s", got, s.want)
		}
	}
	return n, err
}

// checked remembers the error of a reader that stands before others.
type checked struct {
	io.Reader
	err error
}

// Read reads.
func (c *checked) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}
