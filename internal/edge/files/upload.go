package files

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

type uploadBody struct {
	ID      string     `json:"id"`
	Path    string     `json:"path"`
	State   string     `json:"state"`
	Size    int64      `json:"size"`
	Created time.Time  `json:"created"`
	Expires time.Time  `json:"expires"`
	Parts   []partBody `json:"parts,omitempty"`
}

type partBody struct {
	Number int    `json:"number"`
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

func encodeUpload(u drive.Upload) uploadBody {
	b := uploadBody{ID: u.ID, Path: u.Path, State: u.State, Size: u.Size, Created: u.Created.UTC(), Expires: u.Expires.UTC()}
	for _, p := range u.Parts {
		b.Parts = append(b.Parts, partBody(p))
	}
	return b
}

// initiate answers POST /v1/uploads with {"path","size"}: the declared size is reserved
// against the quota. Conditions are those of its complete.
func (e *edge) initiate(c *call) error {
	var body struct {
		Path string `json:"path"`
		Size int64  `json:"size"`
	}
	if err := e.decode(c, &body); err != nil {
		return err
	}
	if body.Size < 0 {
		return invalid(`"size" is the number of bytes that will come, or 0 when it is not known`)
	}
	p, err := parsePath(body.Path)
	if err != nil {
		return err
	}
	ctx, err := c.may(p.String(), tenant.Write)
	if err != nil {
		return err
	}
	upload, err := e.Drive.InitiateUpload(ctx, c.fs, p.String(), drive.UploadOptions{Size: body.Size, Actor: c.principal.Name})
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", "/v1/uploads/"+upload.ID)
	e.write(c, http.StatusCreated, encodeUpload(upload))
	return nil
}

// upload returns the upload that the path names, as read reads it. One outside the token's
// grants is not there.
func (e *edge) upload(c *call, read func(context.Context, tree.FS, string) (drive.Upload, error)) (drive.Upload, error) {
	u, err := read(c.ctx(), c.fs, c.vars[0])
	if err != nil {
		return u, err
	}
	if !c.principal.MayDrive(tenant.Write, u.Path) {
		return drive.Upload{}, fault.New("files.upload", fault.NotFound, "NoSuchUpload", "upload %s does not exist", c.vars[0])
	}
	return u, nil
}

func (e *edge) showUpload(c *call) error {
	u, err := e.upload(c, e.Drive.Upload)
	if err != nil {
		return err
	}
	e.write(c, http.StatusOK, encodeUpload(u))
	return nil
}

// listUploads answers GET /v1/uploads with the open ones that the token covers.
func (e *edge) listUploads(c *call) error {
	limit, err := c.number("limit", 1, maxPage, defaultPage)
	if err != nil {
		return err
	}
	body := struct {
		Uploads    []uploadBody `json:"uploads"`
		NextCursor *string      `json:"nextCursor"`
	}{Uploads: []uploadBody{}}
	uploads, err := e.Drive.Uploads(c.ctx(), c.fs, c.query.Get("cursor"), limit)
	if err != nil {
		return err
	}
	for _, u := range uploads {
		if c.principal.MayDrive(tenant.Write, u.Path) {
			body.Uploads = append(body.Uploads, encodeUpload(u))
		}
	}
	if len(uploads) == limit {
		body.NextCursor = &uploads[limit-1].ID
	}
	e.write(c, http.StatusOK, body)
	return nil
}

const maxParts = 10_000

func (e *edge) putPart(c *call) error {
	number, err := strconv.Atoi(c.vars[1])
	if err != nil || number < 1 || number > maxParts {
		return invalid("a part's number is 1 to %d", maxParts)
	}
	opts := drive.PartOptions{Body: e.body(c), Size: c.r.ContentLength}
	if opts.SHA256, err = checksum(c.r.Header); err != nil {
		return err
	}
	if _, err := e.upload(c, e.Drive.UploadHead); err != nil {
		return err
	}
	part, err := e.Drive.PutPart(c.ctx(), c.fs, c.vars[0], number, opts)
	if err != nil {
		return err
	}
	e.write(c, http.StatusOK, partBody(part))
	return nil
}

// completeUpload answers POST /v1/uploads/{id}/complete: the file, which is visible from
// now on.
func (e *edge) completeUpload(c *call) error {
	var body struct {
		Parts  []partBody `json:"parts"`
		SHA256 string     `json:"sha256"`
	}
	if err := e.decode(c, &body); err != nil {
		return err
	}
	u, err := e.upload(c, e.Drive.UploadHead)
	if err != nil {
		return err
	}
	ctx, err := c.may(u.Path, tenant.Write)
	if err != nil {
		return err
	}
	opts := drive.CompleteOptions{SHA256: body.SHA256, IfMatch: c.ifMatch(), Actor: c.principal.Name}
	if opts.IfNoneMatchAny, err = c.noneMatch(); err != nil {
		return err
	}
	if body.Parts != nil { // none is another thing than no list
		opts.Parts = []drive.Part{}
	}
	for _, p := range body.Parts {
		opts.Parts = append(opts.Parts, drive.Part(p))
	}
	entry, created, err := e.Drive.CompleteUpload(ctx, c.fs, c.vars[0], opts)
	if err != nil {
		return err
	}
	e.changed(c, entry, created)
	return nil
}

func (e *edge) abortUpload(c *call) error {
	u, err := e.upload(c, e.Drive.UploadHead)
	if err != nil {
		return err
	}
	if err := e.Drive.AbortUpload(c.ctx(), c.fs, u.ID); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}
