package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
)

const (
	defaultPage = 100
	maxPage     = 1000
	maxWait     = 60 * time.Second
	firstLook   = 100 * time.Millisecond // a wait looks at the row that often at first
	lastLook    = time.Second            // and in the end
)

// jobBody is a job in JSON.
type jobBody struct {
	Job             string          `json:"job"`
	Kind            string          `json:"kind"`
	State           job.State       `json:"state"`
	Attempts        int             `json:"attempts"`
	Phase           string          `json:"phase"`
	Progress        json.RawMessage `json:"progress"`
	LastError       string          `json:"lastError"`
	Owner           string          `json:"owner"`
	Paused          bool            `json:"paused"`
	CancelRequested bool            `json:"cancelRequested"`
	Acked           bool            `json:"acked"`
	CreatedBy       string          `json:"createdBy"`
	CreatedAt       time.Time       `json:"createdAt"`
	UpdatedAt       time.Time       `json:"updatedAt"`
	AvailableAt     time.Time       `json:"availableAt"`
	Object          objectBody      `json:"object"`
}

type objectBody struct {
	Warehouse string   `json:"warehouse"`
	Namespace []string `json:"namespace"`
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Location  string   `json:"location"`
	Path      string   `json:"path,omitempty"`
}

func (k Kind) jobName(id job.ID) string { return k.Name + "-" + strconv.FormatInt(int64(id), 10) }

func (k Kind) encode(j Job) jobBody {
	progress := j.Row.Progress
	if !json.Valid(progress) {
		progress = json.RawMessage("{}")
	}
	namespace := j.Object.Namespace
	if namespace == nil {
		namespace = []string{}
	}
	return jobBody{
		Job: k.jobName(j.Row.ID), Kind: k.Name, State: j.Row.State, Attempts: j.Row.Attempts,
		Phase: j.Row.Phase, Progress: progress, LastError: j.Row.LastError, Owner: j.Row.Owner,
		Paused: j.Row.Paused, CancelRequested: j.Row.CancelRequestedAt != 0, Acked: j.Row.AckedAt != 0,
		CreatedBy: j.Row.CreatedBy, CreatedAt: moment(j.Row.CreatedAt),
		UpdatedAt: moment(j.Row.UpdatedAt), AvailableAt: moment(j.Row.AvailableAt),
		Object: objectBody{j.Object.Warehouse, namespace, j.Object.Name, j.Object.Type, j.Object.Location, j.Object.Path},
	}
}

// moment is a row's time; time.Time encodes as RFC 3339.
func moment(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// list answers GET /v1/jobs. The kinds follow one another in the order of Config, each
// newest first; a page token is the name of the last job of the page before.
func (h *handler) list(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	filter := Filter{Warehouse: query.Get("warehouse"), Table: query.Get("table")}
	if levels := query.Get("namespace"); levels != "" {
		filter.Namespace = strings.Split(levels, "\x1f")
	}
	if word := query.Get("state"); word != "" {
		state, err := job.ParseState(word)
		if err != nil {
			return invalid("state %q is none of PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLED", word)
		}
		filter.State = state
	}
	limit, err := number(query.Get("pageSize"), "pageSize", 1, defaultPage)
	if err != nil {
		return err
	}
	kinds, before, err := h.start(query.Get("kind"), query.Get("pageToken"))
	if err != nil {
		return err
	}
	var body struct {
		Jobs          []jobBody `json:"jobs"`
		NextPageToken *string   `json:"nextPageToken"`
	}
	body.Jobs = []jobBody{}
	limit = min(limit, maxPage)
	for _, kind := range kinds {
		if len(body.Jobs) == limit { // full at the very end of a kind: the next one may have more
			body.NextPageToken = &body.Jobs[limit-1].Job
			break
		}
		jobs, next, err := kind.Reader.Jobs(r.Context(), filter, job.Page{Before: before, Limit: limit - len(body.Jobs)})
		if err != nil {
			return err
		}
		for _, j := range jobs {
			body.Jobs = append(body.Jobs, kind.encode(j))
		}
		if next.Before != 0 {
			token := kind.jobName(next.Before)
			body.NextPageToken = &token
			break
		}
		before = 0
	}
	h.write(w, r, http.StatusOK, body)
	return nil
}

// start returns the kinds that a list still has to walk, and where in the first of them
// it goes on.
func (h *handler) start(only, token string) (kinds []Kind, before job.ID, err error) {
	for _, kind := range h.Kinds {
		if only == "" || only == kind.Name {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return nil, 0, invalid("there are no jobs of kind %q", only)
	}
	if token == "" {
		return kinds, 0, nil
	}
	for i, kind := range kinds {
		if id, ok := kind.parse(token); ok {
			return kinds[i:], id, nil
		}
	}
	return nil, 0, invalid("pageToken is none that this list has given out")
}

// parse returns the id in a job's name. There is one name a job: no purge-007.
func (k Kind) parse(name string) (job.ID, bool) {
	digits, ok := strings.CutPrefix(name, k.Name+"-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return job.ID(n), err == nil && n > 0 && k.jobName(job.ID(n)) == name
}

// find returns the job that the path names, as the caller may see it.
func (h *handler) find(r *http.Request) (Kind, Job, error) {
	name := r.PathValue("name")
	for _, kind := range h.Kinds {
		if id, ok := kind.parse(name); ok {
			j, err := kind.Reader.Job(r.Context(), id)
			return kind, j, err
		}
	}
	return Kind{}, Job{}, fault.New("admin.find", fault.NotFound, job.CodeNoSuchJob, "job %s does not exist", name)
}

// show answers GET /v1/jobs/{name}. With wait=SECONDS it answers when the job has ended,
// at the latest after that time.
func (h *handler) show(w http.ResponseWriter, r *http.Request) error {
	seconds, err := number(r.URL.Query().Get("wait"), "wait", 0, 0)
	if err != nil {
		return err
	}
	kind, j, err := h.find(r)
	if err != nil {
		return err
	}
	if seconds > 0 {
		wait := min(time.Duration(min(seconds, 3600))*time.Second, maxWait)
		if j, err = h.wait(r.Context(), kind, j, wait); err != nil {
			return err
		}
	}
	h.write(w, r, http.StatusOK, kind.encode(j))
	return nil
}

// wait polls the row, which another server may own, until the job has ended.
func (h *handler) wait(ctx context.Context, kind Kind, j Job, limit time.Duration) (Job, error) {
	over := time.NewTimer(limit)
	defer over.Stop()
	pause := firstLook
	for !j.Row.State.Ended() {
		look := time.NewTimer(pause)
		select {
		case <-look.C:
		case <-over.C:
			look.Stop()
			return j, nil
		case <-h.Stopping:
			look.Stop()
			return j, nil
		case <-ctx.Done():
			look.Stop()
			return j, context.Cause(ctx)
		}
		pause = min(pause*3/2, lastLook)
		var err error
		if j, err = kind.Reader.Job(ctx, j.Row.ID); err != nil {
			return j, err
		}
	}
	return j, nil
}

func number(text, name string, least, absent int) (int, error) {
	if text == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, invalid("%s %q is no whole number of at least %d", name, text, least)
	}
	return n, nil
}

func invalid(format string, args ...any) error {
	return fault.New("admin", fault.Invalid, "", format, args...)
}
