package drive

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// Upload is a file that is sent in parts.
type Upload struct {
	ID      string
	Path    string
	State   string // OPEN, COMPLETED, ABORTED
	Size    int64  // declared, reserved against the quota; 0 when unknown
	Actor   string
	Created time.Time
	Expires time.Time
	Parts   []Part // by number; only of Upload
}

// Part of an upload.
type Part struct {
	Number int // 1 to 10,000
	Size   int64
	SHA256 string
}

// MaxUpload is the most bytes that an upload may declare: as many as its parts can have.
// What is reserved is summed, so a size that nobody can send must not be.
const MaxUpload = content.MaxParts * content.MaxPartSize

// UploadOptions of InitiateUpload.
type UploadOptions struct {
	Size  int64 // declared bytes, 0 when unknown
	Actor string
}

// InitiateUpload begins an upload to path, bound to the deepest directory of it that
// exists now, and reserves its declared size.
func (d *Drive) InitiateUpload(ctx context.Context, fs tree.FS, path string, opts UploadOptions) (u Upload, err error) {
	const op = "drive.InitiateUpload"
	if opts.Size < 0 || opts.Size > MaxUpload {
		return Upload{}, fault.New(op, fault.Invalid, "InvalidSize", "a declared size is 0 (unknown) to %d bytes", int64(MaxUpload))
	}
	target, err := parse(op, path)
	if err != nil {
		return Upload{}, err
	}
	want := placement{op: op, path: target}
	var draft content.Draft
	prepared := false
	err = d.again(ctx, op, func() error {
		at, err := d.target(ctx, fs, want)
		if err != nil {
			return err
		}
		if err := d.declared(ctx, fs, opts.Size); err != nil {
			return err
		}
		reserve := feed.Delta{Reserved: opts.Size}
		if err := d.feed.CheckQuota(ctx, d.db, int64(fs), feed.Delta{Reserved: opts.Size, Files: growth(at, 0).Files}); err != nil {
			return err
		}
		if !prepared { // one that is not used in the end is collected
			if draft, err = d.content.Prepare(ctx, int64(fs)); err != nil {
				return err
			}
			prepared = true
		}
		rest := at.missing
		if at.found() {
			rest = []string{at.path.Base()}
		}
		bound := content.NewUpload{Base: int64(at.dir), Rest: strings.Join(rest, "/"), Path: at.path.String(), Size: opts.Size, Actor: opts.Actor}
		return d.tx(ctx, op, func(tx *sqldb.Tx) error {
			if err := d.after(d.tree.LockShared(ctx, tx, fs, at.dir), op, "locked"); err != nil {
				return err
			}
			made, err := d.content.Initiate(ctx, tx, int64(fs), draft, bound)
			if err != nil {
				return err
			}
			u = uploadOf(made)
			return d.after(d.feed.Add(ctx, tx, int64(fs), reserve), op, "counted")
		})
	})
	return u, err
}

// declared refuses an upload of unknown size where bytes are bounded: many of them could
// hold many times what is free.
func (d *Drive) declared(ctx context.Context, fs tree.FS, size int64) error {
	if size > 0 {
		return nil
	}
	u, err := d.feed.Usage(ctx, d.db, int64(fs))
	if err == nil && u.QuotaBytes > 0 {
		return fault.New("drive.InitiateUpload", fault.Invalid, "SizeRequired", "the drive has a quota: an upload declares its size")
	}
	return err
}

func uploadOf(u content.Upload) Upload {
	return Upload{
		ID: u.ID, Path: u.Path, State: string(u.State), Size: u.Size, Actor: u.Actor,
		Created: time.UnixMilli(u.Created), Expires: time.UnixMilli(u.Expires),
	}
}

// PartOptions of PutPart.
type PartOptions struct {
	Body   io.Reader
	Size   int64  // of the body in bytes; it must be known
	SHA256 string // expected, in hexadecimal; empty for none
}

// PutPart stores one part, in any order and beside others; sent again, it replaces itself.
func (d *Drive) PutPart(ctx context.Context, fs tree.FS, id string, number int, opts PartOptions) (Part, error) {
	if err := d.room(ctx, fs, id, number, opts.Size); err != nil {
		return Part{}, err
	}
	p, err := d.content.PutPart(ctx, int64(fs), id, number, opts.Body, opts.Size, opts.SHA256)
	return Part{Number: p.Number, Size: p.Size, SHA256: p.SHA256}, err
}

// room refuses a part for which the quota has no room: what an upload sends beyond the
// size that it declared, and so reserved, is no part of the usage yet.
func (d *Drive) room(ctx context.Context, fs tree.FS, id string, number int, size int64) error {
	usage, err := d.feed.Usage(ctx, d.db, int64(fs))
	if err != nil || usage.QuotaBytes == 0 {
		return err
	}
	u, err := d.content.Upload(ctx, d.db, int64(fs), id)
	if err != nil {
		return err
	}
	sent, err := d.content.Sent(ctx, d.db, int64(fs), id, number)
	if err != nil {
		return err
	}
	return d.feed.CheckQuota(ctx, d.db, int64(fs), feed.Delta{Bytes: max(sent+max(size, 0)-u.Size, 0)})
}

// UploadHead returns one upload without its parts.
func (d *Drive) UploadHead(ctx context.Context, fs tree.FS, id string) (Upload, error) {
	found, err := d.content.Upload(ctx, d.db, int64(fs), id)
	if err != nil {
		return Upload{}, err
	}
	return uploadOf(found), nil
}

// Upload returns one upload with the parts that arrived.
func (d *Drive) Upload(ctx context.Context, fs tree.FS, id string) (Upload, error) {
	found, err := d.content.Upload(ctx, d.db, int64(fs), id)
	if err != nil {
		return Upload{}, err
	}
	parts, err := d.content.Parts(ctx, d.db, int64(fs), id)
	if err != nil {
		return Upload{}, err
	}
	u := uploadOf(found)
	u.Parts = make([]Part, len(parts))
	for i, p := range parts {
		u.Parts[i] = Part{Number: p.Number, Size: p.Size, SHA256: p.SHA256}
	}
	return u, nil
}

// Uploads returns the open uploads after an id, in the order of ids.
func (d *Drive) Uploads(ctx context.Context, fs tree.FS, after string, limit int) ([]Upload, error) {
	if limit <= 0 || limit > MaxList {
		limit = defaultList
	}
	found, err := d.content.Uploads(ctx, d.db, int64(fs), after, limit)
	if err != nil {
		return nil, err
	}
	uploads := make([]Upload, len(found))
	for i, u := range found {
		uploads[i] = uploadOf(u)
	}
	return uploads, nil
}

// CompleteOptions of CompleteUpload.
type CompleteOptions struct {
	Parts          []Part // that make the file, in order, by Number, proved by Size and SHA256 where given; nil: all that arrived
	SHA256         string // expected of the whole, in hexadecimal; empty for none
	IfMatch        string
	IfNoneMatchAny bool
	Mode           uint32 // permission bits of a new file, 0 means 0644
	Actor          string
}

// CompleteUpload makes the file. The directory that the upload is bound to must be alive
// and visible, else it is fault.Conflict: an upload never resurrects a tree. An upload
// that could not be completed stays open. One that was completed before is that, whatever
// the condition: who lost the answer asks again, and the file that is there now is its own.
func (d *Drive) CompleteUpload(ctx context.Context, fs tree.FS, id string, opts CompleteOptions) (e Entry, created bool, err error) {
	e, created, err = d.completeUpload(ctx, fs, id, opts)
	if fault.KindOf(err) != fault.Precondition {
		return e, created, err
	}
	if u, lookErr := d.content.Upload(ctx, d.db, int64(fs), id); lookErr == nil && u.Ended() != nil {
		err = u.Ended()
	}
	return Entry{}, false, err
}

func (d *Drive) completeUpload(ctx context.Context, fs tree.FS, id string, opts CompleteOptions) (e Entry, created bool, err error) {
	const op = "drive.CompleteUpload"
	u, err := d.content.Upload(ctx, d.db, int64(fs), id)
	if err == nil {
		err = u.Ended()
	}
	if err != nil {
		return Entry{}, false, err
	}
	want := placement{op: op, ifMatch: opts.IfMatch, ifNoneMatchAny: opts.IfNoneMatchAny, mode: opts.Mode, actor: opts.Actor, base: tree.Inode(u.Base)}
	if want.rest, err = parse(op, u.Rest); err != nil {
		return Entry{}, false, err
	}
	if want.path, err = parse(op, u.Path); err != nil {
		return Entry{}, false, err
	}
	// What can not work is refused before the parts are put together.
	var at spot
	err = d.again(ctx, op, func() (err error) {
		at, err = d.target(ctx, fs, want)
		return err
	})
	if err != nil {
		return Entry{}, false, err
	}
	numbers, err := d.chosen(ctx, op, fs, id, opts.Parts)
	if err != nil {
		return Entry{}, false, err
	}
	written, _, err := d.content.Complete(ctx, int64(fs), id, content.CompleteOptions{Parts: numbers, ExpectSHA256: opts.SHA256})
	if err != nil {
		return Entry{}, false, err
	}
	grown := growth(at, written.Size)
	grown.Reserved = -written.Reserved
	if err = d.feed.CheckQuota(ctx, d.db, int64(fs), grown); err == nil {
		e, created, err = d.place(ctx, fs, want, d.pending(fs, written), nil)
	}
	if err != nil {
		return Entry{}, false, d.giveUp(ctx, written, err)
	}
	return e, created, nil
}

// chosen compares the parts that a client names with those that arrived.
func (d *Drive) chosen(ctx context.Context, op string, fs tree.FS, id string, named []Part) ([]int, error) {
	if named == nil {
		return nil, nil
	}
	arrived, err := d.content.Parts(ctx, d.db, int64(fs), id)
	if err != nil {
		return nil, err
	}
	byNumber := make(map[int]content.Part, len(arrived))
	for _, p := range arrived {
		byNumber[p.Number] = p
	}
	numbers := make([]int, len(named))
	for i, want := range named {
		got := byNumber[want.Number] // a missing one is content's to tell
		if got.Number != 0 && (want.Size != 0 && want.Size != got.Size || want.SHA256 != "" && !strings.EqualFold(want.SHA256, got.SHA256)) {
			return nil, fault.New(op, fault.Invalid, content.CodeInvalidPart, "part %d arrived with %d bytes and the checksum %s", want.Number, got.Size, got.SHA256)
		}
		numbers[i] = want.Number
	}
	return numbers, nil
}

// uploadTarget is the path that an upload leads to now.
func (d *Drive) uploadTarget(ctx context.Context, fs tree.FS, want placement) (tree.Path, error) {
	path, visible, err := d.tree.PathOf(ctx, d.db, fs, want.base)
	if err != nil {
		return tree.Path{}, err
	}
	if !visible {
		return tree.Path{}, fault.New(want.op, fault.Conflict, CodeUploadBaseGone, "the directory that this upload was begun in was removed")
	}
	for _, name := range want.rest.Names() {
		if path, err = path.Join(name); err != nil {
			return tree.Path{}, err
		}
	}
	return path, inScope(ctx, path) // the directory may have been moved since
}

// AbortUpload ends an upload; its parts go to the collector, its reservation is given
// back. Twice is once.
func (d *Drive) AbortUpload(ctx context.Context, fs tree.FS, id string) error {
	return d.idempotent(ctx, func(tx *sqldb.Tx) error {
		reserved, err := d.content.Abort(ctx, tx, int64(fs), id)
		if err != nil {
			return err
		}
		return d.feed.Add(ctx, tx, int64(fs), feed.Delta{Reserved: -reserved})
	})
}
