package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

const (
	defaultPartSize = 16 << 20
	defaultParallel = 4
	maxParts        = 10_000
)

// UploadInfo is an upload as the server knows it.
type UploadInfo struct {
	ID      string       `json:"id"`
	Path    string       `json:"path"`
	State   string       `json:"state"` // OPEN, COMPLETED or ABORTED
	Size    int64        `json:"size"`  // announced, in bytes
	Created time.Time    `json:"created"`
	Expires time.Time    `json:"expires"`
	Parts   []UploadPart `json:"parts,omitempty"` // that have arrived; empty in lists
}

// UploadPart is one part that has arrived.
type UploadPart struct {
	Number int    `json:"number"`
	Size   int64  `json:"size,omitempty"` // bytes
	SHA256 string `json:"sha256,omitempty"`
}

// UploadOptions of Upload; zero values mean the defaults.
type UploadOptions struct {
	PartSize int64 // bytes of a part, 16 MiB; more where the file would have over 10,000
	Parallel int   // parts under way at once, 4
	// Resume is the id of an upload that was begun before. Parts that have arrived, and
	// are what the reader brings, are not sent again.
	Resume    string
	IfMatch   string // an ETag that the file must have
	NoReplace bool   // the file must be new
	// Progress is told how many bytes have arrived, after each part; may be nil. It is
	// never called twice at once.
	Progress func(arrived int64)
}

// UploadError is an upload that has begun and could not be completed. The server keeps
// its parts until it expires: Upload with Resume goes on, AbortUpload gives it up.
type UploadError struct {
	ID  string
	Err error
}

// Error says what happened, and to which upload.
func (e *UploadError) Error() string { return fmt.Sprintf("upload %s: %v", e.ID, e.Err) }

// Unwrap returns what happened.
func (e *UploadError) Unwrap() error { return e.Err }

// Upload writes a whole file of size bytes in parts, several at once. The file is visible
// when all of them have arrived, not before. Each part is tried again like any request
// that may be; after the upload has begun, an error is an *UploadError.
func (d Drive) Upload(ctx context.Context, path string, body io.ReaderAt, size int64, opts UploadOptions) (Entry, error) {
	if err := absolute(path); err != nil {
		return Entry{}, err
	}
	if opts.PartSize <= 0 {
		opts.PartSize = defaultPartSize
	}
	opts.PartSize = max(opts.PartSize, (size+maxParts-1)/maxParts)
	if opts.Parallel <= 0 {
		opts.Parallel = defaultParallel
	}
	info, err := d.begin(ctx, path, size, opts.Resume)
	if err != nil {
		return Entry{}, err
	}
	u := &upload{d: d, info: info, body: body, size: size, opts: opts}
	e, err := u.run(ctx)
	if err != nil {
		return Entry{}, &UploadError{info.ID, err}
	}
	return e, nil
}

// begin announces an upload, or finds the one that is to go on.
func (d Drive) begin(ctx context.Context, path string, size int64, resume string) (info UploadInfo, err error) {
	if resume == "" {
		body := map[string]any{"path": path, "size": size}
		_, err = d.c.do(ctx, request{method: http.MethodPost, path: uploadsPath, body: body, into: &info})
		return info, err
	}
	if info, err = d.UploadInfo(ctx, resume); err != nil {
		return info, err
	}
	switch {
	case info.State != "OPEN":
		err = fmt.Errorf("client: upload %s is %s: it cannot go on", resume, info.State)
	case info.Path != path || info.Size != size:
		err = fmt.Errorf("client: upload %s is of %d bytes to %s", resume, info.Size, info.Path)
	}
	return info, err
}

const uploadsPath = "/v1/uploads"

func uploadPath(id string) string { return uploadsPath + "/" + segment(id) }

// UploadInfo returns one upload with the parts that have arrived.
func (d Drive) UploadInfo(ctx context.Context, id string) (info UploadInfo, err error) {
	_, err = d.c.do(ctx, request{method: http.MethodGet, path: uploadPath(id), into: &info})
	return info, err
}

// Uploads walks the uploads that are open.
func (d Drive) Uploads(ctx context.Context) iter.Seq2[UploadInfo, error] {
	return cursored(url.Values{}, func(query url.Values) ([]UploadInfo, string, error) {
		var page struct {
			Uploads    []UploadInfo `json:"uploads"`
			NextCursor string       `json:"nextCursor"`
		}
		_, err := d.c.do(ctx, request{method: http.MethodGet, path: uploadsPath, query: query, into: &page})
		return page.Uploads, page.NextCursor, err
	})
}

// AbortUpload gives an upload up: its parts go, and what it had reserved is free again.
func (d Drive) AbortUpload(ctx context.Context, id string) error {
	_, lost, err := d.c.tell(ctx, request{method: http.MethodDelete, path: uploadPath(id)})
	if lost && IsNotFound(err) { // the try whose answer was lost did it
		return nil
	}
	return err
}

// upload is one Upload at work.
type upload struct {
	d    Drive
	info UploadInfo
	body io.ReaderAt
	size int64
	opts UploadOptions

	mu      sync.Mutex
	arrived int64
	parts   []UploadPart // by number, from 1
	err     error        // the first
}

func (u *upload) run(ctx context.Context) (Entry, error) {
	count := max(1, int((u.size+u.opts.PartSize-1)/u.opts.PartSize))
	u.parts = make([]UploadPart, count)
	known := make(map[int]UploadPart, len(u.info.Parts))
	for _, p := range u.info.Parts {
		known[p.Number] = p
	}
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range min(u.opts.Parallel, count) {
		workers.Go(func() {
			for n := range numbers {
				if err := u.part(working, n, known[n]); err != nil {
					u.fail(err)
					cancel(err)
				}
			}
		})
	}
	for n := 1; n <= count && working.Err() == nil; n++ {
		select {
		case numbers <- n:
		case <-working.Done():
		}
	}
	close(numbers)
	workers.Wait()
	if ctx.Err() != nil {
		return Entry{}, context.Cause(ctx)
	}
	if u.err != nil {
		return Entry{}, u.err
	}
	return u.complete(ctx)
}

func (u *upload) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil {
		u.err = err
	}
}

// part sends part n, unless what has arrived of it is the same.
func (u *upload) part(ctx context.Context, n int, known UploadPart) error {
	start := int64(n-1) * u.opts.PartSize
	size := min(u.opts.PartSize, u.size-start)
	section := io.NewSectionReader(u.body, start, size)
	if known.Number == n && known.Size == size && known.SHA256 != "" {
		sum, err := digest(section)
		if err != nil {
			return err
		}
		if sum == known.SHA256 {
			u.count(known)
			return nil
		}
		section = io.NewSectionReader(u.body, start, size)
	}
	got := UploadPart{}
	r := request{
		method: http.MethodPut, path: uploadPath(u.info.ID) + "/parts/" + strconv.Itoa(n), header: map[string]string{}, into: &got, again: true,
	}
	sum, err := u.d.c.stream(ctx, r, section, size)
	switch {
	case err != nil:
		return err
	case got.Size != size, got.SHA256 != "" && sum != "" && got.SHA256 != sum:
		return fmt.Errorf("%w: part %d", ErrChecksum, n)
	}
	u.count(got)
	return nil
}

func (u *upload) count(p UploadPart) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.parts[p.Number-1] = p
	u.arrived += p.Size
	if u.opts.Progress != nil {
		u.opts.Progress(u.arrived)
	}
}

// complete makes the file. When an answer was lost and the server says that it was
// completed before, it was this one that did it.
func (u *upload) complete(ctx context.Context) (e Entry, err error) {
	_, lost, err := u.d.c.tell(ctx, request{
		method: http.MethodPost, path: uploadPath(u.info.ID) + "/complete", header: ChangeOptions{u.opts.IfMatch, u.opts.NoReplace}.header(),
		body: map[string]any{"parts": u.parts}, into: &e, again: true,
	})
	if answer, ok := errors.AsType[*Error](err); ok && lost && answer.Code == "UploadCompleted" {
		return u.d.Stat(ctx, u.info.Path)
	}
	return e, err
}
