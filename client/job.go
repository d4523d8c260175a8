package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// JobState is where a job stands.
type JobState string

// The states of a job.
const (
	Pending   JobState = "PENDING"
	Running   JobState = "RUNNING"
	Succeeded JobState = "SUCCEEDED"
	Failed    JobState = "FAILED"
	Cancelled JobState = "CANCELLED"
)

// Ended reports whether no worker will touch the job any more by itself.
func (s JobState) Ended() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Job is one delete that the server owns until it is finished.
type Job struct {
	Job             string          `json:"job"`  // its name, such as purge-42
	Kind            string          `json:"kind"` // purge or delete
	State           JobState        `json:"state"`
	Attempts        int             `json:"attempts"` // failures without progress, in a row
	Phase           string          `json:"phase,omitempty"`
	Progress        json.RawMessage `json:"progress,omitempty"` // counts; see Counts
	LastError       string          `json:"lastError,omitempty"`
	Owner           string          `json:"owner,omitempty"` // the server that works or worked on it
	Paused          bool            `json:"paused"`
	CancelRequested bool            `json:"cancelRequested"`
	Acked           bool            `json:"acked"`
	CreatedBy       string          `json:"createdBy,omitempty"`
	CreatedAt       time.Time       `json:"createdAt"`
	UpdatedAt       time.Time       `json:"updatedAt"`
	AvailableAt     time.Time       `json:"availableAt"` // when a waiting job may be worked on
	Object          JobObject       `json:"object"`
}

// JobObject is what a job deletes.
type JobObject struct {
	Warehouse string    `json:"warehouse"`
	Namespace Namespace `json:"namespace"`
	Name      string    `json:"name"`
	Type      string    `json:"type"` // TABLE or VIEW; TREE or FILE of a drive
	Location  string    `json:"location"`
	Path      string    `json:"path,omitempty"` // in the drive, before it was deleted
}

// Identifier returns the name that the object had.
func (o JobObject) Identifier() Identifier {
	return Identifier{Namespace: o.Namespace, Name: o.Name}
}

// Counts are the numbers of a job's progress. What a server does not tell is 0.
type Counts struct {
	Files     int64            `json:"files"` // deleted
	Bytes     int64            `json:"bytes"`
	Missing   int64            `json:"missing"`   // were not there
	Skipped   map[string]int64 `json:"skipped"`   // by a rule, by reason
	Failed    int64            `json:"failed"`    // not deleted
	Damaged   int64            `json:"damaged"`   // metadata that cannot be read
	Leftovers int64            `json:"leftovers"` // found afterwards, and left alone
	// LeftoversMore says that there are more than were counted, LeftoversUnknown that the
	// location could not be listed.
	LeftoversMore    bool     `json:"leftoversMore"`
	LeftoversUnknown bool     `json:"leftoversUnknown"`
	Accepted         int64    `json:"acceptedMissing"` // metadata that was missing, which a retry accepted
	DirectoriesLeft  int64    `json:"-"`               // of a table: emptied, but the storage would not remove them
	Notes            []string `json:"notes"`           // what a delete in this storage does not remove, such as versions
	// Of a drive's tree.
	Directories  int64 `json:"directories"`
	Transactions int64 `json:"transactions"`
	Size         int64 `json:"size"` // of a file that lies in the trash
}

// SkippedTotal sums the reasons.
func (c Counts) SkippedTotal() (n int64) {
	for _, of := range c.Skipped {
		n += of
	}
	return n
}

// Counts reads the numbers out of Progress, which also holds details and samples.
func (j Job) Counts() Counts {
	var c Counts
	if json.Unmarshal(j.Progress, &c) != nil {
		return Counts{} // a server of another age; the raw text is still in Progress
	}
	if j.Kind == "purge" {
		c.DirectoriesLeft, c.Directories = c.Directories, 0
	}
	return c
}

// JobFilter chooses jobs; zero values choose all.
type JobFilter struct {
	State     JobState
	Kind      string
	Warehouse string
	Namespace Namespace
	Table     string
	PageSize  int // jobs a request, 0 means the server's default
}

// RetryOptions of Jobs.Retry.
type RetryOptions struct {
	// AcceptMissing counts manifests, lists and a root that are missing as settled, in
	// every later attempt. The files only they named are never found then.
	AcceptMissing bool `json:"acceptMissing"`
}

// WaitOptions of Jobs.Wait.
type WaitOptions struct {
	Every  time.Duration // longest time between two looks, 0 means 20 s; at most 60 s
	Update func(Job)     // called after each look, may be nil
}

// Jobs reads and controls jobs.
type Jobs struct{ c *Client }

// Jobs returns the jobs of the server.
func (c *Client) Jobs() Jobs { return Jobs{c} }

// Get returns one job by its name.
func (j Jobs) Get(ctx context.Context, name string) (Job, error) { return j.get(ctx, name, nil) }

func (j Jobs) get(ctx context.Context, name string, query url.Values) (job Job, err error) {
	_, err = j.c.do(ctx, request{method: http.MethodGet, path: "/v1/jobs/" + segment(name), query: query, into: &job})
	return job, err
}

// List walks the jobs that the filter chooses, newest first.
func (j Jobs) List(ctx context.Context, filter JobFilter) iter.Seq2[Job, error] {
	query := url.Values{}
	set(query, "state", string(filter.State))
	set(query, "kind", filter.Kind)
	set(query, "warehouse", filter.Warehouse)
	set(query, "namespace", filter.Namespace.query())
	set(query, "table", filter.Table)
	if filter.PageSize > 0 {
		query.Set("pageSize", strconv.Itoa(filter.PageSize))
	}
	return paged(query, func(query url.Values) ([]Job, string, error) {
		var page struct {
			Jobs []Job  `json:"jobs"`
			Next string `json:"nextPageToken"`
		}
		_, err := j.c.do(ctx, request{method: http.MethodGet, path: "/v1/jobs", query: query, into: &page})
		return page.Jobs, page.Next, err
	})
}

// Wait returns the job when it has ended, whatever its end is: look at its State.
func (j Jobs) Wait(ctx context.Context, name string, opts WaitOptions) (Job, error) {
	every := opts.Every
	if every <= 0 {
		every = 20 * time.Second
	}
	every = min(max(every.Round(time.Second), time.Second), time.Minute)
	query := url.Values{"wait": {strconv.Itoa(int(every / time.Second))}}
	for {
		asked := time.Now()
		job, err := j.get(ctx, name, query)
		if err != nil {
			return Job{}, err
		}
		if opts.Update != nil {
			opts.Update(job)
		}
		if job.State.Ended() {
			return job, nil
		}
		// A server that is stopping answers at once; do not ask it in a tight loop.
		if left := time.Second - time.Since(asked); left > 0 {
			if err := sleep(ctx, left); err != nil {
				return Job{}, err
			}
		}
	}
}

// Cancel asks the job to stop. A running one is CANCELLED only when its owner has
// stopped: until then it is answered with CancelRequested, and Wait tells the end.
func (j Jobs) Cancel(ctx context.Context, name string) (Job, error) {
	return j.control(ctx, name, "cancel", nil)
}

// Retry makes a FAILED or CANCELLED job run again, after the checks of a new delete.
func (j Jobs) Retry(ctx context.Context, name string, opts RetryOptions) (Job, error) {
	return j.control(ctx, name, "retry", opts)
}

// Ack says that a FAILED or CANCELLED job was seen: its locations are free again, its
// files stay, and retention may remove the job.
func (j Jobs) Ack(ctx context.Context, name string) (Job, error) {
	return j.control(ctx, name, "ack", nil)
}

// Pause keeps workers away from the job; a running one stops at its next save.
func (j Jobs) Pause(ctx context.Context, name string) (Job, error) {
	return j.control(ctx, name, "pause", nil)
}

// Resume undoes Pause.
func (j Jobs) Resume(ctx context.Context, name string) (Job, error) {
	return j.control(ctx, name, "resume", nil)
}

func (j Jobs) control(ctx context.Context, name, action string, body any) (job Job, err error) {
	path := "/v1/jobs/" + segment(name) + "/" + action
	_, err = j.c.do(ctx, request{method: http.MethodPost, path: path, body: body, into: &job})
	return job, err
}

// set leaves out what is empty.
func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}
