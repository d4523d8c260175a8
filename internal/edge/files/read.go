package files

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

// entryBody is a file, directory or symbolic link in JSON.
type entryBody struct {
	Name     string    `json:"name"`
	Path     string    `json:"path,omitempty"`
	Type     string    `json:"type"`
	Size     int64     `json:"size"`
	Inode    int64     `json:"inode"`
	Revision int64     `json:"revision"`
	MTime    time.Time `json:"mtime"`
	NLink    int64     `json:"nlink"`
	Mode     string    `json:"mode"`
	ETag     string    `json:"etag"`
	Target   string    `json:"target,omitempty"`
	SHA256   string    `json:"sha256,omitempty"`
	CTime    time.Time `json:"ctime"`
	Created  time.Time `json:"created"`
}

func encode(e drive.Entry, withPath bool) entryBody {
	b := entryBody{
		Name: e.Name, Type: string(e.Kind), Size: e.Size, Inode: int64(e.Inode), Revision: e.Revision,
		MTime: e.Modified.UTC(), NLink: e.NLink, Mode: "0" + strconv.FormatUint(uint64(e.Mode), 8), ETag: e.ETag(),
		Target: e.Target, SHA256: e.SHA256, CTime: e.Changed.UTC(), Created: e.Created.UTC(),
	}
	if withPath {
		b.Path = e.Path
	}
	return b
}

// stat answers GET ?stat. follow=false describes a symbolic link itself.
func (e *edge) stat(c *call) error {
	ctx, p, err := c.allowed(tenant.Read)
	if err != nil {
		return err
	}
	follow := true
	if c.query.Has("follow") {
		if follow, err = c.flag("follow"); err != nil {
			return err
		}
	}
	entry, err := e.Drive.Stat(ctx, c.fs, p, follow)
	if err != nil {
		return err
	}
	c.w.Header().Set("ETag", entry.ETag())
	e.write(c, http.StatusOK, encode(entry, true))
	return nil
}

const (
	defaultPage = 1000
	maxPage     = 10_000
)

// list answers GET ?list&limit&cursor. A cursor belongs to its directory's path.
func (e *edge) list(c *call) error {
	ctx, p, err := c.allowed(tenant.Read)
	if err != nil {
		return err
	}
	limit, err := c.number("limit", 1, maxPage, defaultPage)
	if err != nil {
		return err
	}
	after, err := openCursor(p, c.query.Get("cursor"))
	if err != nil {
		return err
	}
	entries, next, err := e.Drive.List(ctx, c.fs, p, drive.ListOptions{Limit: limit, After: after})
	if err != nil {
		return err
	}
	body := struct {
		Entries    []entryBody `json:"entries"`
		NextCursor *string     `json:"nextCursor"`
	}{Entries: make([]entryBody, len(entries))}
	for i, entry := range entries {
		body.Entries[i] = encode(entry, false)
	}
	if next != "" {
		cursor := makeCursor(p, next)
		body.NextCursor = &cursor
	}
	e.write(c, http.StatusOK, body)
	return nil
}

const seal = 6 // bytes of the path's hash that begin a cursor

func makeCursor(dir, after string) string {
	sum := sha256.Sum256([]byte(dir))
	return base64.RawURLEncoding.EncodeToString(append(sum[:seal], after...))
}

func openCursor(dir, cursor string) (after string, err error) {
	if cursor == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	sum := sha256.Sum256([]byte(dir))
	if err != nil || len(raw) <= seal || string(raw[:seal]) != string(sum[:seal]) || unstorable(string(raw[seal:])) {
		return "", fault.New("files.list", fault.Invalid, "InvalidCursor", "the cursor is none that a list of this directory gave out")
	}
	return string(raw[seal:]), nil
}

// tags answers GET ?tags.
func (e *edge) tags(c *call) error {
	ctx, p, err := c.allowed(tenant.Read)
	if err != nil {
		return err
	}
	tags, err := e.Drive.Tags(ctx, c.fs, p)
	if err != nil {
		return err
	}
	e.write(c, http.StatusOK, tagsBody(tags))
	return nil
}

func tagsBody(tags map[string]string) any {
	if tags == nil {
		tags = map[string]string{}
	}
	return map[string]any{"tags": tags}
}

// head answers HEAD for anything that a path names.
func (e *edge) head(c *call) error {
	ctx, p, err := c.allowed(tenant.Read)
	if err != nil {
		return err
	}
	entry, err := e.Drive.Head(ctx, c.fs, p)
	if err != nil {
		return err
	}
	status := conditions(c.r.Header, entry)
	switch status {
	case http.StatusPreconditionFailed:
		return errOther
	case http.StatusNotModified:
		entry.SHA256 = "" // GET would not have read it
	default:
		status = http.StatusOK
		if entry.Kind == drive.File {
			c.w.Header().Set("Content-Length", strconv.FormatInt(entry.Size, 10))
		}
	}
	e.describe(c, entry)
	c.w.WriteHeader(status)
	return nil
}

var errOther = fault.New("files.get", fault.Precondition, "", "what the path names is another now")

// describe sets the headers of an entry. What users stored is shown by browsers, if at
// all, without scripts.
func (e *edge) describe(c *call, entry drive.Entry) {
	h := c.w.Header()
	h.Set("ETag", entry.ETag())
	h.Set("Last-Modified", entry.Modified.UTC().Format(http.TimeFormat))
	h.Set("X-Lethe-Type", string(entry.Kind))
	h.Set("X-Lethe-Inode", strconv.FormatInt(int64(entry.Inode), 10))
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
	if entry.Kind != drive.File {
		return
	}
	h.Set("Accept-Ranges", "bytes")
	if entry.SHA256 != "" {
		h.Set("X-Lethe-Sha256", entry.SHA256)
	}
	kind := mime.TypeByExtension(path.Ext(entry.Name))
	if kind == "" {
		kind = "application/octet-stream"
	}
	h.Set("Content-Type", kind)
}

// maxReopens is how often a read follows a file that is written all the time.
const maxReopens = 5

// get answers GET of a file, whole or one range of it.
func (e *edge) get(c *call) error {
	ctx, p, err := c.allowed(tenant.Read)
	if err != nil {
		return err
	}
	file, err := e.Drive.Open(ctx, c.fs, p)
	if err != nil {
		return err
	}
	// The server's limit for reading a request would end a long answer.
	rc := http.NewResponseController(c.w)
	_ = rc.SetReadDeadline(time.Time{}) // a recorder in a test has no deadlines
	var entry drive.Entry
	var span extent
	var body io.ReadCloser
	for try := 1; ; try++ {
		entry = file.Entry
		switch conditions(c.r.Header, entry) {
		case http.StatusPreconditionFailed:
			return errOther
		case http.StatusNotModified:
			e.describe(c, entry)
			c.w.WriteHeader(http.StatusNotModified)
			return nil
		}
		if span, err = wanted(c.r.Header, entry); err != nil {
			c.w.Header().Set("Content-Range", "bytes */"+strconv.FormatInt(entry.Size, 10))
			return err
		}
		if body, err = file.Range(ctx, span.off, span.n); err == nil {
			entry.SHA256 = file.Entry.SHA256 // which is known from now on
			break
		}
		// It was written anew since it was opened: the new one is asked about.
		if !fault.Is(err, drive.CodeFileChanged) || try == maxReopens {
			return err
		}
	}
	defer body.Close()
	e.describe(c, entry)
	h := c.w.Header()
	status := http.StatusOK
	if span.partial {
		status = http.StatusPartialContent
		h.Set("Content-Range", "bytes "+strconv.FormatInt(span.off, 10)+"-"+strconv.FormatInt(span.off+span.n-1, 10)+"/"+strconv.FormatInt(entry.Size, 10))
	}
	h.Set("Content-Length", strconv.FormatInt(span.n, 10))
	c.w.WriteHeader(status)
	n, err := io.Copy(&deadlined{c.w, rc, e.Idle}, io.LimitReader(body, span.n))
	if err == nil {
		_, err = body.Read(make([]byte, 1)) // the checksum speaks at the end
		if errors.Is(err, io.EOF) || span.partial {
			err = nil
		}
	}
	if err == nil && n == span.n {
		return nil
	}
	if ctx.Err() == nil {
		e.Logger.ErrorContext(ctx, "file not sent whole", "path", p, "requestId", e.RequestID(ctx), "sent", n, "of", span.n, "error", err)
	}
	panic(http.ErrAbortHandler) // the status is sent; only a broken connection tells the client
}

// deadlined gives a reader time as long as it takes something.
type deadlined struct {
	w    io.Writer
	rc   *http.ResponseController
	idle time.Duration
}

// Write sends b.
func (d *deadlined) Write(b []byte) (int, error) {
	_ = d.rc.SetWriteDeadline(time.Now().Add(d.idle)) // a recorder in a test has no deadlines
	return d.w.Write(b)
}

// extent is what of a file is sent.
type extent struct {
	off, n  int64
	partial bool
}

// wanted reads Range and If-Range (RFC 9110 section 14.2, 13.1.5). Several ranges, other
// units and what cannot be read mean the whole file, as the RFC allows; so does any range of
// an empty file: whoever asks for no more than some bytes of whatever there is gets them.
func wanted(h http.Header, entry drive.Entry) (extent, error) {
	whole := extent{0, entry.Size, false}
	unit, spec, _ := strings.Cut(h.Get("Range"), "=")
	if !strings.EqualFold(unit, "bytes") || strings.Contains(spec, ",") || entry.Size == 0 {
		return whole, nil
	}
	if v := h.Get("If-Range"); v != "" && v != entry.ETag() {
		return whole, nil
	}
	from, to, ok := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok {
		return whole, nil
	}
	if from == "" { // the last n bytes
		n, err := strconv.ParseUint(to, 10, 63)
		if err != nil {
			return whole, nil //nolint:nilerr // what cannot be read is ignored
		}
		if n == 0 {
			return whole, errRange
		}
		n = min(n, uint64(entry.Size))
		return extent{entry.Size - int64(n), int64(n), true}, nil
	}
	first, err := strconv.ParseUint(from, 10, 63)
	if err != nil {
		return whole, nil //nolint:nilerr // what cannot be read is ignored
	}
	last := uint64(entry.Size - 1)
	if to != "" {
		given, err := strconv.ParseUint(to, 10, 63)
		if err != nil || given < first {
			return whole, nil //nolint:nilerr // what cannot be read is ignored
		}
		last = min(last, given)
	}
	if first >= uint64(entry.Size) {
		return whole, errRange
	}
	return extent{int64(first), int64(last - first + 1), true}, nil
}
