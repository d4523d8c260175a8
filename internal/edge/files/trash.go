package files

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/tenant"
)

// trashBody is a deleted tree or file that is still there, wholly or, if partial, in part.
// Size is that of a file in bytes; null of a tree, which nobody counted. Until is when it
// goes; null without a date.
type trashBody struct {
	ID         string     `json:"id"`
	Kind       string     `json:"kind"`
	Path       string     `json:"path"`
	Inode      int64      `json:"inode"`
	State      job.State  `json:"state"`
	Restorable bool       `json:"restorable"`
	Partial    bool       `json:"partial"`
	Size       *int64     `json:"size"`
	DeletedBy  string     `json:"deletedBy"`
	DeletedAt  time.Time  `json:"deletedAt"`
	Until      *time.Time `json:"until"`
}

func encodeTrash(j removal.Job) trashBody {
	b := trashBody{
		ID: jobName(int64(j.ID)), Kind: string(j.Kind), Path: j.Path, Inode: int64(j.Root), State: j.State, Restorable: j.Restorable(), Partial: j.Partial(),
		DeletedBy: j.CreatedBy, DeletedAt: time.UnixMilli(j.CreatedAt).UTC(),
	}
	if j.Size >= 0 {
		b.Size = &j.Size
	}
	if j.State == job.Pending {
		until := time.UnixMilli(j.AvailableAt).UTC()
		b.Until = &until
	}
	return b
}

// listTrash answers GET /v1/trash, newest first: what the token may read of it.
func (e *edge) listTrash(c *call) error {
	limit, err := c.number("limit", 1, maxPage, defaultPage)
	if err != nil {
		return err
	}
	before := job.ID(0)
	if cursor := c.query.Get("cursor"); cursor != "" {
		if before, err = trashID(cursor); err != nil {
			return fault.New("files.trash", fault.Invalid, "InvalidCursor", "the cursor is none that this list gave out")
		}
	}
	body := struct {
		Trash      []trashBody `json:"trash"`
		NextCursor *string     `json:"nextCursor"`
	}{Trash: []trashBody{}}
	list, next, err := e.Removal.Trash(c.ctx(), c.fs, before, limit)
	if err != nil {
		return err
	}
	for _, j := range list {
		if c.principal.MayDrive(tenant.Read, j.Path) {
			body.Trash = append(body.Trash, encodeTrash(j))
		}
	}
	if next != 0 {
		cursor := jobName(int64(next))
		body.NextCursor = &cursor
	}
	e.write(c, http.StatusOK, body)
	return nil
}

func trashID(name string) (job.ID, error) {
	digits, ok := strings.CutPrefix(name, "delete-")
	id, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || id <= 0 || jobName(id) != name {
		return 0, fault.New("files.trash", fault.NotFound, job.CodeNoSuchJob, "%s is not in the trash", name)
	}
	return job.ID(id), nil
}

// trashed is the job that the path names, if the token lets its holder do a to what it
// deleted. To whom may not even read it, it is not there.
func (e *edge) trashed(c *call, a tenant.Action) (removal.Job, error) {
	id, err := trashID(c.vars[0])
	if err != nil {
		return removal.Job{}, err
	}
	j, err := e.Removal.Job(c.ctx(), c.fs, id)
	switch {
	case err != nil:
		return j, err
	case c.principal.MayDrive(a, j.Path):
		return j, nil
	case c.principal.MayDrive(tenant.Read, j.Path):
		return j, tenant.Denied("files.trash", a, j.Path)
	}
	return removal.Job{}, fault.New("files.trash", fault.NotFound, job.CodeNoSuchJob, "%s is not in the trash", c.vars[0])
}

// restore answers POST /v1/trash/{id}/restore with {"to"}, the path to restore to when it
// is not the old one.
func (e *edge) restore(c *call) error {
	var body struct {
		To string `json:"to"`
	}
	if err := e.decode(c, &body); err != nil {
		return err
	}
	j, err := e.trashed(c, tenant.Write)
	if err != nil {
		return err
	}
	to, err := e.home(c, j, body.To)
	if err != nil {
		return err
	}
	back, err := e.Removal.Restore(c.ctx(), c.fs, j.ID, to, c.principal.Name)
	e.audit(c.ctx(), c, "drive.restore", j.Path, c.vars[0], err)
	if err != nil {
		return err
	}
	e.write(c, http.StatusOK, map[string]any{"path": back.Path.String(), "inode": int64(back.Inode), "job": c.vars[0]})
	return nil
}

// home is the path that a restore goes to, which the token must cover; nil, for those who may
// do everything, lets the drive find the old one. Since the delete the directory that it was
// in may have been moved to where the token reaches nothing, so where it is now is asked
// about, and held to.
func (e *edge) home(c *call, j removal.Job, text string) (*tree.Path, error) {
	checkFrom, checkTo := c.moving([]tenant.Action{tenant.Write}, []tenant.Action{tenant.Write})
	if err := checkFrom(j.Path); err != nil {
		return nil, err
	}
	if text != "" {
		p, err := parsePath(text)
		if err == nil {
			err = checkTo(p.String())
		}
		if err == nil && !p.IsRoot() {
			p, err = e.behindLinks(drive.WithScope(c.ctx(), checkTo), c, p)
		}
		return &p, err
	}
	if c.principal.Admin() {
		return nil, nil
	}
	dir, visible, err := e.Drive.PathOf(c.ctx(), c.fs, j.OriginParent)
	if err != nil {
		return nil, err
	}
	if !visible { // a path that comes back before the restore does would be one that nobody asked about
		return nil, fault.New("files.home", fault.NotFound, removal.CodeNoSuchPath, "the directory that %s was in is gone: say where to restore it", j.Path)
	}
	p, err := dir.Join(j.OriginName)
	if err != nil {
		return nil, err
	}
	return &p, checkTo(p.String())
}

// behindLinks is where a path leads whose last name is to be new: links on the way are
// followed as everywhere. A way that is not there is the restore's to tell.
func (e *edge) behindLinks(ctx context.Context, c *call, p tree.Path) (tree.Path, error) {
	dir, err := e.Drive.Stat(ctx, c.fs, p.Parent().String(), true)
	if fault.KindOf(err) == fault.NotFound {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	at, err := tree.ParsePath(dir.Path)
	if err != nil {
		return p, err
	}
	return at.Join(p.Base())
}

// emptyOne answers DELETE /v1/trash/{id}: it goes now, and cannot be restored any more.
func (e *edge) emptyOne(c *call) error {
	j, err := e.trashed(c, tenant.Delete)
	if err != nil {
		return err
	}
	after, err := e.Removal.Empty(c.ctx(), c.fs, j.ID)
	e.audit(c.ctx(), c, "trash.empty", j.Path, c.vars[0], err)
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", "/v1/jobs/"+c.vars[0])
	e.write(c, http.StatusAccepted, encodeTrash(after))
	return nil
}

// emptyTrash answers DELETE /v1/trash: everything in it that the token may delete goes now.
func (e *edge) emptyTrash(c *call) error {
	n, err := e.emptyAll(c)
	e.audit(c.ctx(), c, "trash.empty", "/", "", err)
	if err != nil {
		return err
	}
	e.write(c, http.StatusAccepted, map[string]int{"emptied": n})
	return nil
}

func (e *edge) emptyAll(c *call) (int, error) {
	may := func(path string) bool { return c.principal.MayDrive(tenant.Delete, path) }
	if may("/") {
		may = nil
	}
	return e.Removal.EmptyAll(c.ctx(), c.fs, may)
}
