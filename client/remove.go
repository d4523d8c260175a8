package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Removed is what a delete did. Job is empty when none was needed.
type Removed struct {
	Path         string   `json:"path"`
	Inode        int64    `json:"inode"`
	Job          string   `json:"job"`
	State        JobState `json:"state"`
	Nodes        int64    `json:"nodes"`
	Files        int64    `json:"files"`
	Directories  int64    `json:"directories"`
	Bytes        int64    `json:"bytes"`
	Transactions int64    `json:"transactions"`
	ElapsedMS    int64    `json:"elapsedMs"`
}

// ErrDirectoryNotEmpty is the plain delete of a directory that has entries.
var ErrDirectoryNotEmpty = errors.New("the directory is not empty")

// ErrDeleteIncomplete says that a delete met contention that outlasted all tries: nothing
// changed.
var ErrDeleteIncomplete = errors.New("the tree is too busy to be deleted now")

// JobFailedError says that a delete which was followed ended otherwise than SUCCEEDED.
type JobFailedError struct{ Job Job }

// Error says how it ended.
func (e *JobFailedError) Error() string {
	text := fmt.Sprintf("job %s ended %s", e.Job.Job, e.Job.State)
	if e.Job.LastError != "" {
		text += ": " + e.Job.LastError
	}
	return text
}

// removeError puts the sentinel of a code in front of the server's answer.
func removeError(err error) error {
	var answer *Error
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.Code {
	case "DirectoryNotEmpty":
		return fmt.Errorf("%w: %w", ErrDirectoryNotEmpty, err)
	case "DeleteIncomplete":
		return fmt.Errorf("%w: %w", ErrDeleteIncomplete, err)
	}
	return err
}

// Remove deletes a file, a symbolic link or an empty directory.
func (d Drive) Remove(ctx context.Context, path string, opts ChangeOptions) (r Removed, err error) {
	_, err = d.c.do(ctx, request{method: http.MethodDelete, path: fsPath(path), header: opts.header(), into: &r})
	return r, removeError(err)
}

// RemoveAllOptions of RemoveAll.
type RemoveAllOptions struct {
	// IfMatch is the ETag of what is meant. Empty: what the path names when RemoveAll begins,
	// so that no retry takes what was made there since.
	IfMatch string
	// Return gives the job back instead of following it to its end.
	Return bool
	// DryRun counts, and deletes nothing.
	DryRun bool
	// Progress is told how a job that is followed stands, about once a second; may be nil.
	Progress func(Job)
}

// RemoveAll deletes whatever a path names with everything below it. When it returns
// without an error, all of it is gone, its space included; with Return, at least the path
// is. A path that does not exist is an *Error of status 404.
func (d Drive) RemoveAll(ctx context.Context, path string, opts RemoveAllOptions) (r Removed, err error) {
	if err := absolute(path); err != nil {
		return r, err
	}
	if opts.IfMatch == "" {
		e, err := d.Lstat(ctx, path)
		if err != nil {
			return r, err
		}
		if opts.IfMatch = e.ETag; e.IsDir() {
			opts.IfMatch = `"` + strconv.FormatInt(e.Inode, 10) + `"`
		}
		r.Inode = e.Inode
	}
	req := request{
		method: http.MethodDelete, path: fsPath(path), query: url.Values{"recursive": {"true"}},
		header: map[string]string{"If-Match": opts.IfMatch}, into: &r,
	}
	if opts.DryRun {
		req.query.Set("dry-run", "true")
	}
	if opts.Return {
		req.header["Prefer"] = "respond-async"
	}
	meant := r.Inode
	_, tries, err := d.c.counted(ctx, req)
	if status := StatusOf(err); tries > 1 && meant != 0 && (status == http.StatusNotFound || status == http.StatusPreconditionFailed) {
		// An earlier try was applied and its answer lost: what was meant is gone.
		return Removed{Path: path, Inode: meant}, nil
	}
	if err != nil || r.Job == "" || r.State == Succeeded || opts.Return || opts.DryRun {
		return r, removeError(err)
	}
	return d.follow(ctx, r, opts.Progress)
}

// follow waits until the job of a delete has ended.
func (d Drive) follow(ctx context.Context, r Removed, progress func(Job)) (Removed, error) {
	j, err := d.c.Jobs().Wait(ctx, r.Job, WaitOptions{Every: time.Second, Update: progress})
	if err != nil {
		return r, err
	}
	counts := j.Counts()
	r.State, r.Files, r.Bytes = j.State, counts.Files, counts.Bytes
	if j.State != Succeeded {
		return r, &JobFailedError{j}
	}
	return r, nil
}
