package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// pass is the step in which time passes, for one job at a time: longer than a lease,
// than every pause, and than half the grace of an outage. The time a check really takes
// is nothing beside it.
const (
	pass          = 31 * time.Minute
	modelGrace    = time.Hour
	modelRetained = 2 * time.Hour
)

var modelConfig = job.Config{
	HeartbeatTimeout: 10 * time.Minute, RetryBase: 20 * time.Minute, OutageGrace: modelGrace, Retention: modelRetained,
}

// modelJob is a job as the design describes it, in its own words: a count stands until
// the job gets further than it was when the count was last raised.
type modelJob struct {
	state                    job.State
	epoch                    int64
	point                    job.Point
	failures                 count // attempts
	crashes                  count // stale reclaims
	outageAge                time.Duration
	outageAt                 *job.Point // where the first failure of the outage left the job
	due, stale               bool
	paused, cancelled, acked bool
	updated                  time.Duration // ago
}

type count struct {
	n  int
	at job.Point
}

func (c count) now(p job.Point) int {
	if jobtest.Further(c.at, p) {
		return 0
	}
	return c.n
}

func (c *count) raise(p job.Point) { *c = count{n: c.now(p) + 1, at: p} }

func (j *modelJob) outage() bool { return j.outageAt != nil && !jobtest.Further(*j.outageAt, j.point) }

func (j *modelJob) end(s job.State) { j.state, j.paused = s, false }

func (j *modelJob) fail(s job.State) {
	j.failures.raise(j.point)
	j.state, j.due = s, false
	if s == job.Pending && j.failures.n >= 5 {
		j.state = job.Failed
	}
}

// finish is the end of a run by its owner.
func (j *modelJob) finish(answer error) {
	j.updated = 0
	var terminal *job.TerminalError
	var outage *job.OutageError
	switch {
	case answer == nil:
		j.end(job.Succeeded)
		j.outageAt = nil
		return
	case errors.Is(answer, job.ErrCancelled) && j.cancelled:
	case errors.Is(answer, job.ErrYield), errors.Is(answer, job.ErrPaused), errors.Is(answer, job.ErrShutdown):
		j.state = job.Pending
	case errors.Is(answer, job.ErrLeaseLost):
		j.state, j.due = job.Pending, false
	case errors.As(answer, &terminal):
		j.fail(job.Failed)
	case errors.As(answer, &outage):
		if !j.outage() {
			at := j.point
			j.outageAt, j.outageAge = &at, 0
		}
		if j.outageAge < modelGrace {
			j.failures = count{n: j.failures.now(j.point), at: j.point}
			j.state, j.due = job.Pending, false
			break
		}
		j.fail(job.Pending)
	default:
		j.fail(job.Pending)
	}
	if j.cancelled {
		j.state = job.Cancelled
	}
	if j.state.Ended() {
		j.end(j.state)
	}
}

// reclaim is what a claimer does with a stale lease; true: it runs the job.
func (j *modelJob) reclaim() bool {
	j.crashes.raise(j.point)
	j.updated = 0
	switch {
	case j.cancelled:
		j.end(job.Cancelled)
	case j.crashes.n >= 5:
		j.end(job.Failed)
	case j.paused:
		j.state = job.Pending
	default:
		j.epoch++
		j.stale = false
		return true
	}
	return false
}

// runs reports whether a claim of the job now would run it.
func (j *modelJob) runs() bool {
	return j.state == job.Pending && j.due && !j.paused ||
		j.state == job.Running && j.stale && !j.paused && !j.cancelled && j.crashes.now(j.point) < 4
}

// rests reports whether a claim now would put the job to rest.
func (j *modelJob) rests() bool { return j.state == job.Running && j.stale && !j.runs() }

// face is what the model and the row must agree on.
type face struct {
	State                            job.State
	Epoch                            int64
	Point                            job.Point
	Attempts, Reclaims               int
	Outage, Paused, Cancelled, Acked bool
	Beating                          bool
}

func (j *modelJob) face() face {
	return face{
		j.state, j.epoch, j.point, j.failures.now(j.point), j.crashes.now(j.point),
		j.outage(), j.paused, j.cancelled, j.acked, j.state == job.Running,
	}
}

func faceOf(r job.Row) face {
	return face{
		r.State, r.LeaseEpoch, r.Point(), r.Attempts, r.StaleReclaims,
		r.OutageSince != 0, r.Paused, r.CancelRequestedAt != 0, r.AckedAt != 0, r.HeartbeatAt != 0 || r.State == job.Running,
	}
}

// modelRun is an owner that may be long dead and does not know it.
type modelRun struct {
	run   *job.Run
	lease job.Lease
	cause error // what it was told
}

type machine struct {
	ctx   context.Context //nolint:containedctx // of one check
	db    *sqldb.DB
	store *job.Store
	jobs  map[job.ID]*modelJob
	order []job.ID
	runs  []*modelRun
}

func TestModel(t *testing.T) {
	t.Parallel()
	each(t, modelConfig, job.Hooks{}, func(t *testing.T, w *world) {
		store := job.NewStore(w.db, jobtest.Table, modelConfig, job.Hooks{}, job.Observer{})
		store.SetJitter(func(d time.Duration) time.Duration { return d })
		rapid.Check(t, func(rt *rapid.T) {
			m := &machine{ctx: t.Context(), db: w.db, store: store, jobs: map[job.ID]*modelJob{}}
			if _, err := w.db.Exec(m.ctx, "DELETE FROM test_job"); err != nil {
				rt.Fatal(err)
			}
			rt.Repeat(map[string]func(*rapid.T){
				"": m.check, "insert": m.insert, "claim": m.claim, "claim one": m.claimID, "heartbeat": m.heartbeat, "save": m.save, "save more": m.save,
				"finish": m.finish, "cancel": m.cancel, "retry": m.retry, "ack": m.ack, "pause": m.pause, "resume": m.resume,
				"time passes": m.pass, "restart": m.restart, "prune": m.prune, "attempt": m.attempt, "one more attempt": m.attempt, "die": m.die, "die again": m.die,
			})
		})
	})
}

// check compares every row with the model: no job is lost, none appears.
func (m *machine) check(rt *rapid.T) {
	rows, _, err := m.store.List(m.ctx, job.Filter{}, job.Page{})
	if err != nil {
		rt.Fatal(err)
	}
	got, want := map[job.ID]face{}, map[job.ID]face{}
	for _, r := range rows {
		got[r.ID] = faceOf(r)
	}
	for id, j := range m.jobs {
		want[id] = j.face()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		rt.Fatalf("rows (-model +table):\n%s", diff)
	}
}

// pick draws a job; it skips the action when there is none.
func (m *machine) pick(rt *rapid.T) (job.ID, *modelJob) {
	if len(m.order) == 0 {
		rt.Skip("no jobs")
	}
	id := rapid.SampledFrom(m.order).Draw(rt, "job")
	return id, m.jobs[id]
}

// owner draws somebody who once won a lease.
func (m *machine) owner(rt *rapid.T) *modelRun {
	if len(m.runs) == 0 {
		rt.Skip("no owners")
	}
	r := rapid.SampledFrom(m.runs).Draw(rt, "owner")
	if rapid.Bool().Draw(rt, "latest") { // else most owners are long dead
		r = m.runs[len(m.runs)-1]
	}
	return r
}

func (m *machine) holds(r *modelRun) (*modelJob, bool) {
	j := m.jobs[r.lease.ID]
	return j, j != nil && j.state == job.Running && j.epoch == r.lease.Epoch
}

func (m *machine) insert(rt *rapid.T) {
	if len(m.order) == 4 { // a window of 8 shows them all, and each of them gets far
		rt.Skip("enough")
	}
	later := rapid.IntRange(0, 4).Draw(rt, "later") == 0
	n := job.New{Extra: []job.Extra{{Column: "kind", Value: "m"}}}
	if later {
		n.Delay = pass - time.Minute
	}
	var id job.ID
	err := m.db.Tx(m.ctx, func(tx *sqldb.Tx) (err error) {
		id, err = m.store.Insert(m.ctx, tx, n)
		return err
	})
	if err != nil {
		rt.Fatal(err)
	}
	m.jobs[id] = &modelJob{state: job.Pending, due: !later}
	m.order = append(m.order, id)
}

func (m *machine) won(rt *rapid.T, row job.Row) {
	for _, r := range m.runs {
		if r.lease == row.Lease() {
			rt.Fatalf("%+v has two owners", r.lease)
		}
	}
	j := m.jobs[row.ID]
	switch {
	case j == nil || !j.runs():
		rt.Fatalf("claimed a job that may not run: %+v", row)
	case j.state == job.Pending:
		j.state, j.stale, j.updated = job.Running, false, 0
		j.epoch++
	default:
		j.reclaim()
	}
	if diff := cmp.Diff(j.face(), faceOf(row)); diff != "" {
		rt.Fatalf("claimed row (-model +table):\n%s", diff)
	}
	m.runs = append(m.runs, &modelRun{run: job.NewRun(m.store, jobtest.Handler(nil), row), lease: row.Lease()})
}

func (m *machine) claim(rt *rapid.T) {
	before, _, err := m.store.List(m.ctx, job.Filter{}, job.Page{})
	if err != nil {
		rt.Fatal(err)
	}
	slices.SortFunc(before, func(a, b job.Row) int { return int(a.AvailableAt - b.AvailableAt) })
	row, ok, err := m.store.Claim(m.ctx, "model")
	if err != nil {
		rt.Fatal(err)
	}
	for _, b := range before {
		j := m.jobs[b.ID]
		switch {
		case ok && b.AvailableAt >= row.AvailableAt && b.ID != row.ID && j.rests():
			// It came later in the queue, or at the same time: either is right.
			after, err := m.store.Get(m.ctx, b.ID)
			if err != nil {
				rt.Fatal(err)
			}
			if after.State == job.Running {
				continue
			}
			j.reclaim()
		case j.rests():
			j.reclaim()
		case j.runs() && !ok:
			rt.Fatalf("nothing was claimed beside %+v", b)
		case j.runs() && b.AvailableAt < row.AvailableAt:
			rt.Fatalf("claimed %+v before %+v", row, b)
		}
	}
	if ok {
		m.won(rt, row)
	}
}

func (m *machine) claimID(rt *rapid.T) {
	id, _ := m.pick(rt)
	m.claimJob(rt, id)
}

// attempt is a run from its claim to its end; the same steps apart rarely meet.
func (m *machine) attempt(rt *rapid.T) {
	if r := m.begin(rt); r != nil {
		m.finishRun(rt, r)
	}
}

// die is a run that nobody ends.
func (m *machine) die(rt *rapid.T) { m.begin(rt) }

func (m *machine) begin(rt *rapid.T) *modelRun {
	id, _ := m.pick(rt)
	m.passJob(rt, id)
	if !m.claimJob(rt, id) {
		return nil
	}
	r := m.runs[len(m.runs)-1]
	if rapid.IntRange(0, 3).Draw(rt, "saves") == 0 {
		m.saveRun(rt, r)
	}
	return r
}

func (m *machine) claimJob(rt *rapid.T, id job.ID) bool {
	j := m.jobs[id]
	row, ok, err := m.store.ClaimID(m.ctx, "model", id)
	switch {
	case err != nil || ok != j.runs():
		rt.Fatalf("claimed %v, %v, model %v", ok, err, j.runs())
	case ok:
		m.won(rt, row)
	case j.rests():
		j.reclaim()
	}
	return ok
}

func (m *machine) heartbeat(rt *rapid.T) {
	r := m.owner(rt)
	j, holds := m.holds(r)
	err := m.store.Heartbeat(m.ctx, r.lease)
	if holds != (err == nil) || !holds && !errors.Is(err, job.ErrLeaseLost) {
		rt.Fatalf("heartbeat: %v, holds %v", err, holds)
	}
	if holds {
		j.stale = false
	}
}

func (m *machine) save(rt *rapid.T) { m.saveRun(rt, m.owner(rt)) }

func (m *machine) saveRun(rt *rapid.T, r *modelRun) {
	j, holds := m.holds(r)
	to := job.Point{}
	if j != nil {
		to = j.point
	}
	switch rapid.SampledFrom([]string{"same", "cursor", "cursor", "phase"}).Draw(rt, "step") {
	case "cursor":
		n, _ := strconv.Atoi(to.Cursor)
		to.Cursor = strconv.Itoa(n + 1)
	case "phase":
		to = job.Point{Phase: to.Phase + "x"}
	}
	err := r.run.Save(m.ctx, to, json.RawMessage(`{"files":1}`))
	if !holds {
		if !errors.Is(err, job.ErrLeaseLost) && (j == nil || j.state != job.Cancelled || !errors.Is(err, job.ErrCancelled)) && (r.cause == nil || !errors.Is(err, r.cause)) {
			rt.Fatalf("save without the lease: %v", err)
		}
		return
	}
	switch { // what a run was told first stays its reason
	case r.cause != nil:
	case j.cancelled:
		r.cause = job.ErrCancelled
	case j.paused:
		r.cause = job.ErrPaused
	}
	if !errors.Is(err, r.cause) {
		rt.Fatalf("save: %v, want %v", err, r.cause)
	}
	j.point, j.stale, j.updated = to, false, 0
	if !j.outage() {
		j.outageAt = nil
	}
}

func (m *machine) finish(rt *rapid.T) { m.finishRun(rt, m.owner(rt)) }

func (m *machine) finishRun(rt *rapid.T, r *modelRun) {
	j, holds := m.holds(r)
	boom := errors.New("boom")
	answers := map[string]error{
		"done": nil, "failed": boom, "failed too": boom, "terminal": fmt.Errorf("x: %w", job.Terminal(boom)), "outage": job.Outage(boom), "outage too": job.Outage(boom),
		"yield": job.ErrYield, "paused": job.ErrPaused, "cancelled": job.ErrCancelled, "shutdown": job.ErrShutdown, "in doubt": job.ErrLeaseLost,
	}
	names := make([]string, 0, len(answers))
	for name := range answers {
		names = append(names, name)
	}
	slices.Sort(names)
	answer := answers[rapid.SampledFrom(names).Draw(rt, "answer")]
	after, err := m.store.Finish(m.ctx, r.lease, answer)
	if holds != (err == nil) || !holds && !errors.Is(err, job.ErrLeaseLost) && fault.KindOf(err) != fault.NotFound {
		rt.Fatalf("finish: %v, holds %v", err, holds)
	}
	if holds {
		j.finish(answer)
		if diff := cmp.Diff(j.face(), faceOf(after)); diff != "" {
			rt.Fatalf("answer (-model +got):\n%s", diff)
		}
	}
}

// control runs one and checks whether the state allowed it.
func (m *machine) control(rt *rapid.T, f func(context.Context, job.ID) (job.Row, error), allowed func(*modelJob) bool, then func(*modelJob)) {
	id, j := m.pick(rt)
	row, err := f(m.ctx, id)
	if !allowed(j) {
		if fault.KindOf(err) != fault.Conflict {
			rt.Fatalf("of a %s job: %v", j.state, err)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	then(j)
	if diff := cmp.Diff(j.face(), faceOf(row)); diff != "" {
		rt.Fatalf("answer (-model +got):\n%s", diff)
	}
}

func (m *machine) cancel(rt *rapid.T) {
	m.control(rt, m.store.Cancel, func(j *modelJob) bool { return j.state != job.Succeeded && j.state != job.Failed }, func(j *modelJob) {
		if j.state == job.Cancelled || j.cancelled {
			return
		}
		j.cancelled, j.updated = true, 0
		if j.state == job.Pending {
			j.end(job.Cancelled)
		}
	})
}

func (m *machine) retry(rt *rapid.T) {
	retry := func(ctx context.Context, id job.ID) (job.Row, error) {
		return m.store.Retry(ctx, id, job.RetryOptions{})
	}
	m.control(rt, retry, func(j *modelJob) bool { return j.state == job.Failed || j.state == job.Cancelled }, func(j *modelJob) {
		*j = modelJob{state: job.Pending, epoch: j.epoch, due: true, point: job.Point{Phase: j.point.Phase}}
		j.failures.at, j.crashes.at = j.point, j.point
	})
}

func (m *machine) ack(rt *rapid.T) {
	m.control(rt, m.store.Ack, func(j *modelJob) bool { return j.state == job.Failed || j.state == job.Cancelled }, func(j *modelJob) {
		if !j.acked {
			j.acked, j.updated = true, 0
		}
	})
}

func (m *machine) pause(rt *rapid.T) {
	m.control(rt, m.store.Pause, func(j *modelJob) bool { return !j.state.Ended() }, func(j *modelJob) { j.paused, j.updated = true, 0 })
}

func (m *machine) resume(rt *rapid.T) {
	m.control(rt, m.store.Resume, func(j *modelJob) bool { return !j.state.Ended() }, func(j *modelJob) { j.paused, j.updated = false, 0 })
}

// pass also is how an owner crashes: it does nothing for longer than its lease.
func (m *machine) pass(rt *rapid.T) {
	id, _ := m.pick(rt)
	m.passJob(rt, id)
}

func (m *machine) passJob(rt *rapid.T, id job.ID) {
	j := m.jobs[id]
	ms := pass.Milliseconds()
	_, err := m.db.Exec(m.ctx, `UPDATE test_job SET heartbeat_at = heartbeat_at - ?, available_at = available_at - ?, outage_since = outage_since - ?, updated_at = updated_at - ? WHERE id = ?`,
		ms, ms, ms, ms, int64(id))
	if err != nil {
		rt.Fatal(err)
	}
	j.due, j.stale = true, true
	j.outageAge += pass
	j.updated += pass
}

func (m *machine) restart(rt *rapid.T) {
	if _, err := m.store.ReclaimAll(m.ctx); err != nil {
		rt.Fatal(err)
	}
	for _, j := range m.jobs {
		if j.state == job.Running {
			j.stale = true
		}
	}
}

func (m *machine) prune(rt *rapid.T) {
	n, err := m.store.Prune(m.ctx)
	if err != nil {
		rt.Fatal(err)
	}
	var want int64
	m.order = slices.DeleteFunc(m.order, func(id job.ID) bool {
		j := m.jobs[id]
		if j.updated < modelRetained || j.state != job.Succeeded && !j.acked {
			return false
		}
		want++
		delete(m.jobs, id)
		return true
	})
	if n != want {
		rt.Fatalf("pruned %d, want %d", n, want)
	}
}
