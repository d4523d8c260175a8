package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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
	// More says that a dry run stopped counting: there is more than that.
	More bool `json:"more,omitempty"`
	// InTrash says that what was deleted lies in the trash, as Job, and can be restored.
	InTrash bool `json:"inTrash,omitempty"`
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
	switch CodeOf(err) {
	case "DirectoryNotEmpty":
		return fmt.Errorf("%w: %w", ErrDirectoryNotEmpty, err)
	case "DeleteIncomplete":
		return fmt.Errorf("%w: %w", ErrDeleteIncomplete, err)
	}
	return err
}

// Remove deletes a file, a symbolic link or an empty directory. With IfMatch, a try whose
// answer was lost is sent again; without, it is not, because it could take what was made
// there since.
func (d Drive) Remove(ctx context.Context, path string, opts ChangeOptions) (r Removed, err error) {
	if err := absolute(path); err != nil {
		return r, err
	}
	return d.delete(ctx, path, opts.IfMatch, request{into: &r, wary: opts.IfMatch == ""}, &r)
}

// meant is the ETag of what a path names now; of a directory, which inode it is.
func (d Drive) meant(ctx context.Context, path string) (etag string, err error) {
	e, err := d.Lstat(ctx, path)
	if err == nil && e.IsDir() {
		return `"` + strconv.FormatInt(e.Inode, 10) + `"`, nil
	}
	return e.ETag, err
}

// delete sends a DELETE of what has an ETag.
func (d Drive) delete(ctx context.Context, path, etag string, req request, r *Removed) (Removed, error) {
	req.method, req.path = http.MethodDelete, fsPath(path)
	if req.header == nil {
		req.header = map[string]string{}
	}
	if etag != "" {
		req.header["If-Match"] = etag
	}
	_, lost, err := d.c.tell(ctx, req)
	if status := StatusOf(err); lost && (status == http.StatusNotFound || status == http.StatusPreconditionFailed) {
		// The try whose answer was lost did it: what was meant is not there any more.
		return d.lost(ctx, path, etag)
	}
	switch waits := err == nil && r.Job != "" && r.State == Pending; {
	case waits && !req.query.Has("recursive"):
		r.InTrash = true // no other plain delete has a job
	case waits:
		err = d.trashed(ctx, r)
	}
	return *r, removeError(err)
}

// lost finds out what a delete did whose answer did not come.
func (d Drive) lost(ctx context.Context, path, etag string) (Removed, error) {
	r := Removed{Path: path, State: Succeeded}
	digits, _, _ := strings.Cut(strings.Trim(etag, `"`), "-")
	r.Inode, _ = strconv.ParseInt(digits, 10, 64) // 0 when it is no ETag of this server
	var page struct {
		Jobs []Job `json:"jobs"`
	}
	query := url.Values{"kind": {"delete"}, "pageSize": {strconv.Itoa(recentJobs)}}
	if _, err := d.c.do(ctx, request{method: http.MethodGet, path: "/v1/jobs", query: query, into: &page}); err != nil {
		return r, err
	}
	for _, job := range page.Jobs {
		if job.Object.Path == path {
			r.Job, r.State = job.Job, job.State
			r.InTrash = job.inTrash()
			break
		}
	}
	return r, nil
}

// recentJobs is how many jobs are looked through, in one request, for one whose name did not
// arrive.
const recentJobs = 100

// trashed marks a delete whose job waits for the end of the trash's retention.
func (d Drive) trashed(ctx context.Context, r *Removed) error {
	job, err := d.c.Jobs().Get(ctx, r.Job)
	if err == nil {
		r.InTrash = job.inTrash()
	}
	return err
}

// inTrash reports that the job waits since it was made, not for another try.
func (j Job) inTrash() bool {
	return j.State == Pending && j.Attempts == 0 && j.Owner == "" && j.LastError == "" && j.AvailableAt.After(j.UpdatedAt.Add(time.Second))
}

// RemoveAllOptions of RemoveAll.
type RemoveAllOptions struct {
	// IfMatch is the ETag of what is meant. Empty: what the path names when RemoveAll begins,
	// so that no retry takes what was made there since.
	IfMatch string
	// Return gives the job back instead of following it to its end.
	Return bool
	// DryRun counts what there is, and the bytes that would be freed, and deletes nothing.
	DryRun bool
	// Progress is told how a job that is followed stands, about once a second; may be nil.
	Progress func(Job)
}

// RemoveAll deletes whatever a path names with everything below it. When it returns
// without an error, all of it is gone, its space included; with Return, at least the path
// is, and where the server keeps a trash it lies there (InTrash). An error that comes after
// the path is gone comes with the Job that goes on. A path that does not exist is an
// *Error of status 404.
func (d Drive) RemoveAll(ctx context.Context, path string, opts RemoveAllOptions) (r Removed, err error) {
	if err := absolute(path); err != nil {
		return r, err
	}
	if opts.IfMatch == "" {
		if opts.IfMatch, err = d.meant(ctx, path); err != nil {
			return r, err
		}
	}
	req := request{query: url.Values{"recursive": {"true"}}, header: map[string]string{}, into: &r}
	if opts.DryRun {
		req.query.Set("dry-run", "true")
	}
	if opts.Return {
		req.header["Prefer"] = "respond-async"
	}
	r, err = d.delete(ctx, path, opts.IfMatch, req, &r)
	if err != nil || r.Job == "" || r.State == Succeeded || r.InTrash || opts.Return || opts.DryRun {
		return r, err
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
	r.State, r.Files, r.Directories, r.Bytes, r.Transactions = j.State, counts.Files, counts.Directories, counts.Bytes, counts.Transactions
	r.Nodes = r.Files + r.Directories
	if j.State != Succeeded {
		return r, &JobFailedError{j}
	}
	return r, nil
}
