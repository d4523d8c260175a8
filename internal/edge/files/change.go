package files

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/tenant"
)

// put answers PUT: the whole file, atomically; 201 when it is new.
func (e *edge) put(c *call) error {
	ctx, p, err := c.allowed(tenant.Write)
	if err != nil {
		return err
	}
	if c.r.Header.Get("Content-Range") != "" { // RFC 9110 section 14.5
		return invalid("a PUT writes the whole file: send parts through /v1/uploads")
	}
	opts := drive.PutOptions{Body: e.body(c), Size: c.r.ContentLength, IfMatch: c.ifMatch(), Actor: c.principal.Name}
	if opts.SHA256, err = checksum(c.r.Header); err != nil {
		return err
	}
	if opts.IfNoneMatchAny, err = c.noneMatch(); err != nil {
		return err
	}
	if opts.Mode, err = mode(c.query.Get("mode")); err != nil {
		return err
	}
	entry, created, err := e.Drive.Put(ctx, c.fs, p, opts)
	if err != nil {
		return err
	}
	e.changed(c, entry, created)
	return nil
}

// changed answers with the entry after a change.
func (e *edge) changed(c *call, entry drive.Entry, created bool) {
	c.w.Header().Set("ETag", entry.ETag())
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	e.write(c, status, encode(entry, true))
}

// operations are what POST ?op= can do.
var operations = map[string]func(*edge, *call) error{
	"append":  (*edge).appendTo,
	"chmod":   (*edge).chmod,
	"copy":    (*edge).copyTo,
	"link":    (*edge).link,
	"mkdir":   (*edge).mkdir,
	"rename":  (*edge).rename,
	"symlink": (*edge).symlink,
	"tag":     (*edge).tag,
}

// untaken are conditions that mean nothing to an operation: what is made is new, and what is
// changed is there.
var untaken = map[string][]string{
	"append":  {"If-None-Match"},
	"chmod":   {"If-None-Match"},
	"mkdir":   {"If-Match"},
	"symlink": {"If-Match"},
	"tag":     {"If-None-Match"},
}

func operationNames() string {
	names := make([]string, 0, len(operations))
	for name := range operations {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, "|")
}

func (e *edge) operate(c *call) error {
	op := c.query.Get("op")
	do, ok := operations[op]
	if !ok {
		return invalid("op %q is none of %s", op, operationNames())
	}
	if err := c.refuse(untaken[op]...); err != nil {
		return err
	}
	return do(e, c)
}

func (e *edge) change(c *call) drive.Change {
	return drive.Change{IfMatch: c.ifMatch(), Actor: c.principal.Name}
}

// appendTo adds the request's body to the end of a file.
func (e *edge) appendTo(c *call) error {
	ctx, p, err := c.allowed(tenant.Write)
	if err != nil {
		return err
	}
	opts := drive.AppendOptions{Body: e.body(c), Size: c.r.ContentLength, IfMatch: c.ifMatch(), Actor: c.principal.Name}
	if opts.SHA256, err = checksum(c.r.Header); err != nil {
		return err
	}
	entry, err := e.Drive.Append(ctx, c.fs, p, opts)
	if err != nil {
		return err
	}
	e.changed(c, entry, false)
	return nil
}

func (e *edge) mkdir(c *call) error {
	ctx, p, err := c.allowed(tenant.Write)
	if err != nil {
		return err
	}
	var body struct {
		Parents bool   `json:"parents"`
		Mode    string `json:"mode"`
	}
	if err := e.decode(c, &body); err != nil {
		return err
	}
	opts := drive.MkdirOptions{Parents: body.Parents, Actor: c.principal.Name}
	if opts.Mode, err = mode(body.Mode); err != nil {
		return err
	}
	mustBeNew, err := c.noneMatch()
	if err != nil {
		return err
	}
	entry, created, err := e.Drive.Mkdir(ctx, c.fs, p, opts)
	switch {
	case err != nil:
		return replaced(mustBeNew, err)
	case mustBeNew && !created:
		return fault.New("files.mkdir", fault.Precondition, "", "the directory is there already")
	}
	e.changed(c, entry, created)
	return nil
}

func (e *edge) symlink(c *call) error {
	ctx, p, err := c.allowed(tenant.Write)
	if err != nil {
		return err
	}
	var body struct {
		Target string `json:"target"`
	}
	if err := e.decode(c, &body); err != nil {
		return err
	}
	mustBeNew, err := c.noneMatch()
	if err != nil {
		return err
	}
	entry, err := e.Drive.Symlink(ctx, c.fs, p, body.Target, e.change(c))
	if err != nil {
		return replaced(mustBeNew, err)
	}
	e.changed(c, entry, true)
	return nil
}

// to reads {"to"}: the other path of an operation on two, which the token must cover too.
func (e *edge) to(c *call, here, there []tenant.Action) (ctx context.Context, from, to string, err error) {
	if from, err = c.path(); err != nil {
		return nil, "", "", err
	}
	checkFrom, checkTo := c.moving(here, there)
	if err = checkFrom(from); err != nil {
		return nil, "", "", err
	}
	var body struct {
		To string `json:"to"`
	}
	if err := e.decode(c, &body); err != nil {
		return nil, "", "", err
	}
	p, err := parsePath(body.To)
	if err != nil {
		return nil, "", "", err
	}
	ctx = drive.WithTargetScope(drive.WithScope(c.ctx(), checkFrom), checkTo)
	return ctx, from, p.String(), checkTo(p.String())
}

// rename takes a name away and gives another. To whom the old place may not be written
// and deleted in, it may not be renamed from.
func (e *edge) rename(c *call) error {
	ctx, from, to, err := e.to(c, []tenant.Action{tenant.Write, tenant.Delete}, []tenant.Action{tenant.Write})
	if err != nil {
		return err
	}
	noReplace, err := c.noneMatch()
	if err != nil {
		return err
	}
	entry, err := e.Drive.Rename(ctx, c.fs, from, to, drive.RenameOptions{IfMatch: c.ifMatch(), NoReplace: noReplace, Actor: c.principal.Name})
	if err != nil {
		return replaced(noReplace, err)
	}
	e.changed(c, entry, false)
	return nil
}

func (e *edge) copyTo(c *call) error {
	ctx, from, to, err := e.to(c, []tenant.Action{tenant.Read}, []tenant.Action{tenant.Write})
	if err != nil {
		return err
	}
	noReplace, err := c.noneMatch()
	if err != nil {
		return err
	}
	entry, created, err := e.Drive.Copy(ctx, c.fs, from, to, drive.CopyOptions{IfMatch: c.ifMatch(), NoReplace: noReplace, Actor: c.principal.Name})
	if err != nil {
		return replaced(noReplace, err)
	}
	e.changed(c, entry, created)
	return nil
}

// link gives a file a second name, through which it is read and written.
func (e *edge) link(c *call) error {
	ctx, from, to, err := e.to(c, []tenant.Action{tenant.Read, tenant.Write}, []tenant.Action{tenant.Write})
	if err != nil {
		return err
	}
	noReplace, err := c.noneMatch()
	if err != nil {
		return err
	}
	entry, err := e.Drive.Link(ctx, c.fs, from, to, e.change(c))
	if err != nil {
		return replaced(noReplace, err)
	}
	e.changed(c, entry, true)
	return nil
}

func (e *edge) chmod(c *call) error {
	ctx, p, err := c.allowed(tenant.Write)
	if err != nil {
		return err
	}
	var body struct {
		Mode string `json:"mode"`
	}
	if err := e.decode(c, &body); err != nil {
		return err
	}
	if body.Mode == "" {
		return invalid(`chmod takes {"mode":"0644"}`)
	}
	bits, err := mode(body.Mode)
	if err != nil {
		return err
	}
	entry, err := e.Drive.Chmod(ctx, c.fs, p, bits, e.change(c))
	if err != nil {
		return err
	}
	e.changed(c, entry, false)
	return nil
}

func (e *edge) tag(c *call) error {
	ctx, p, err := c.allowed(tenant.Write)
	if err != nil {
		return err
	}
	var body struct {
		Set    map[string]string `json:"set"`
		Remove []string          `json:"remove"`
	}
	if err := e.decode(c, &body); err != nil {
		return err
	}
	tags, err := e.Drive.Tag(ctx, c.fs, p, drive.TagOptions{Set: body.Set, Remove: body.Remove, IfMatch: c.ifMatch(), Actor: c.principal.Name})
	if err != nil {
		return err
	}
	e.write(c, http.StatusOK, tagsBody(tags))
	return nil
}
