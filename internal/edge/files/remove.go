package files

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/tenant"
)

// removedBody says what a delete did. Job is null when none was needed. A file in the trash
// has one, which is PENDING.
type removedBody struct {
	Path         string  `json:"path"`
	Inode        int64   `json:"inode"`
	Job          *string `json:"job"`
	State        string  `json:"state"`
	Nodes        int64   `json:"nodes"`
	Files        int64   `json:"files"`
	Directories  int64   `json:"directories"`
	Bytes        int64   `json:"bytes"`
	Transactions int64   `json:"transactions"`
	ElapsedMS    int64   `json:"elapsedMs"`
	More         bool    `json:"more,omitempty"` // a dry run stopped counting: there are more
}

// jobName is what a delete's job is called outside its table.
func jobName(id int64) string { return "delete-" + strconv.FormatInt(id, 10) }

// maxWait is the longest time that a delete is waited for.
const maxWait = 60 * time.Second

// remove answers DELETE: 200 when all is gone, 202 when the path is and its space is being
// freed.
func (e *edge) remove(c *call) error {
	ctx, p, err := c.allowed(tenant.Delete)
	if err != nil {
		return err
	}
	recursive, err := c.flag("recursive")
	if err != nil {
		return err
	}
	dry, err := c.flag("dry-run")
	if err != nil {
		return err
	}
	if dry && !recursive {
		return invalid("dry-run counts a recursive delete: say recursive=true too")
	}
	if err := c.refuse("If-None-Match"); err != nil {
		return err
	}
	ifMatch := c.ifMatch()
	var res drive.RemoveResult
	if recursive {
		opts := drive.RemoveAllOptions{IfMatch: ifMatch, Actor: c.principal.Name, RequestID: e.RequestID(ctx), DryRun: dry}
		if opts.Wait, opts.Async, err = preference(c.r.Header); err != nil {
			return err
		}
		res, err = e.Drive.RemoveAll(ctx, c.fs, p, opts)
	} else {
		res, err = e.Drive.Remove(ctx, c.fs, p, drive.RemoveOptions{IfMatch: ifMatch, Actor: c.principal.Name, RequestID: e.RequestID(ctx)})
	}
	body := removedBody{
		Path: res.Path, Inode: int64(res.Inode), State: res.State, Nodes: res.Nodes, Files: res.Files, Directories: res.Directories,
		Bytes: res.Bytes, Transactions: res.Transactions, ElapsedMS: res.Elapsed.Milliseconds(), More: res.More,
	}
	name := ""
	if res.Job != 0 {
		name = jobName(res.Job)
		body.Job = &name
	}
	if !dry {
		e.audit(ctx, c, "drive.delete", p, name, err)
	}
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !res.Plain && res.Job != 0 && res.State != "SUCCEEDED" {
		status = http.StatusAccepted
		c.w.Header().Set("Location", "/v1/jobs/"+name)
	}
	e.write(c, status, body)
	return nil
}

// preference reads Prefer (RFC 7240): wait=N in seconds, and respond-async, which with a wait
// means after it. wait is -1 when nothing was said. The first of each counts, and preferences
// that nobody knows are ignored, as the RFC asks.
func preference(h http.Header) (wait time.Duration, async bool, err error) {
	wait = -1
	for item := range strings.SplitSeq(strings.Join(h.Values("Prefer"), ","), ",") {
		item, _, _ = strings.Cut(item, ";")
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "respond-async":
			async = true
		case "wait":
			seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 63)
			if err != nil && !errors.Is(err, strconv.ErrRange) { // which leaves the greatest number
				return 0, false, fmt.Errorf("files: %w", invalid("Prefer: wait=%s is no number of seconds", value))
			}
			if wait < 0 {
				wait = time.Duration(min(seconds, uint64(maxWait/time.Second))) * time.Second
			}
		}
	}
	return wait, async && wait < 0, nil
}
