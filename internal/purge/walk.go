package purge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/pace"
	"github.com/lethe-project/lethe/internal/purge/tablefile"
)

// Bytes that the exact sets of one pass remember.
const (
	seenFiles     = 4 << 20
	seenManifests = 16 << 20
)

// saveEvery is how many settled batches may pass between two saves. With those on the wire, and
// what settles while the row is written, it is what a killed server sends again.
const saveEvery = 6

// ErrUnsettled is wrapped by the error of a pass that left something.
var ErrUnsettled = errors.New("files are left")

// ErrRootMissing says that the metadata file is gone although no purge deleted it.
var ErrRootMissing = errors.New("the table's metadata file is missing")

// Walker runs purges. It is safe for concurrent use.
type Walker struct {
	cfg  Config
	host Host
	pool Deleter
}

// NewWalker returns a Walker.
func NewWalker(cfg Config, host Host, pool Deleter) *Walker {
	return &Walker{cfg: cfg.withDefaults(), host: host, pool: pool}
}

// walk is one attempt at one job.
type walk struct {
	*Walker
	job      Job
	session  Session
	turn     *pace.Section // at the processors; whatever blocks gives it back
	scope    *scope
	progress *Progress
	level    Level // whose deletes may have begun
	from     cursor
	sink     *sink     // of the pass under way, nil between two
	kept     time.Time // when it was last looked whether to save
	root     *tablefile.Metadata
	held     map[object]Level // what only that level deletes, whatever names it
	pruner   *pruner
	began    time.Time
	back     time.Duration // how long it took to come to the first unit that was not settled
}

// Run works on the job until nothing of the table is unsettled. It returns a
// job.TerminalError for damage, a job.OutageError for trouble of the store as a whole,
// and the session's cause as it is when that is why it stopped.
func (w *Walker) Run(ctx context.Context, j Job, s Session) error {
	turn := w.cfg.Pace.Section()
	defer turn.Pause()
	a := &walk{Walker: w, job: j, turn: turn, session: pausedSession{s, turn}, progress: parseProgress(j.Progress), began: time.Now()}
	w.cfg.Events.started(j)
	err := a.run(ctx)
	if err == nil {
		w.cfg.Events.completed(j, a.progress)
		return nil
	}
	if ctx.Err() == nil && !stopped(err) {
		w.cfg.Events.failed(j, a.progress, err)
	}
	return err
}

// stopped reports whether err is the session's way to end an attempt.
func stopped(err error) bool {
	for _, cause := range []error{job.ErrLeaseLost, job.ErrCancelled, job.ErrPaused, job.ErrYield, job.ErrShutdown} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

func (a *walk) run(ctx context.Context) error {
	level, err := parseLevel(a.job.Phase)
	if err != nil {
		return job.Terminal(err)
	}
	a.level, a.from = level, parseCursor(a.job.Cursor)
	space, err := a.host.Storage(ctx, a.job)
	if err != nil {
		return a.classify(fmt.Errorf("purge: storage: %w", err))
	}
	if a.scope, err = newScope(ctx, pausedHost{a.host, a.turn}, a.job, space, a.cfg.DeleteOutside); err != nil {
		return err
	}
	a.progress.Notes = a.scope.notes(ctx)
	a.pruner = newPruner(a.scope, a.progress)
	switch err := a.readRoot(ctx); {
	case err == nil && a.job.Type == View && !a.root.GCEnabled():
		return a.keepView(ctx)
	case err == nil:
		if err := a.levels(ctx); err != nil {
			return err
		}
	case blob.IsNotExist(err) && a.level == Root:
		// An earlier attempt deleted it; what its directory needed may be left.
		if err := a.pruneRoot(ctx); err != nil {
			return a.classify(err)
		}
	case blob.IsNotExist(err) && a.job.AcceptMissing:
		a.progress.Accepted = max(a.progress.Accepted, 1)
	case blob.IsNotExist(err):
		a.damage(a.job.MetadataLocation, "missing")
		return a.giveUp(ctx, job.Terminal(fmt.Errorf("purge: %w: %w", ErrRootMissing, err)))
	case tablefile.IsUnreadable(err):
		a.damage(a.job.MetadataLocation, "unreadable")
		return a.giveUp(ctx, job.Terminal(err))
	default:
		return a.classify(err)
	}
	if err := a.leftovers(ctx); err != nil {
		return a.classify(err)
	}
	return a.finish(ctx)
}

func (a *walk) finish(ctx context.Context) error {
	a.progress.Notes = a.scope.notes(ctx) // the store may have been away when it began
	a.progress.sum()
	if err := a.save(ctx, a.from); err != nil {
		return err
	}
	a.cfg.step(Root, StepFinish)
	return nil
}

// damage records a root that can not be used; no pass is running.
func (a *walk) damage(uri, why string) {
	a.progress.restart(a.level, false)
	a.progress.Damaged++
	a.progress.sample("damaged", uri, why)
}

// giveUp keeps the counts of a failure in the row.
func (a *walk) giveUp(ctx context.Context, err error) error {
	a.progress.sum()
	if saveErr := a.save(ctx, a.from); saveErr != nil {
		return saveErr
	}
	return err
}

func (a *walk) readRoot(ctx context.Context) error {
	obj, err := a.scope.space.Resolve(a.job.MetadataLocation)
	if err != nil {
		return fmt.Errorf("purge: metadata location: %w", err) // perhaps this server's settings lack its root
	}
	m, err := a.readMetadata(ctx, obj)
	if err != nil {
		return err
	}
	a.root = m
	if a.job.Type == View {
		a.asView()
	}
	at := m.Locations()
	if l, err := blob.ParseLocation(a.job.TableLocation); err == nil {
		at = append(at, l)
	}
	if err := a.scope.adopt(ctx, at); err != nil {
		return err
	}
	a.scope.older = a.olderLocations
	a.held = map[object]Level{}
	for _, s := range m.Snapshots {
		if s.ManifestList != "" {
			a.held[a.object(s.ManifestList)] = Lists
		}
	}
	a.held[objectOf(obj)] = Root
	return nil
}

// levels goes up from where the job stands. A level begins only when everything below
// it is settled, and after its phase was committed under the fence.
func (a *walk) levels(ctx context.Context) error {
	passes := [...]func(context.Context, *sink) error{
		Data: a.data, Manifests: a.manifests, Lists: a.lists, Older: a.older, Root: a.rootFile,
	}
	for level := max(a.level, Data); level <= Root; level++ {
		if level > a.level {
			a.cfg.step(level, StepSave)
			a.level, a.from = level, cursor{}
			a.progress.restart(level, true)
			if err := a.save(ctx, cursor{}); err != nil {
				return err
			}
			a.cfg.step(level, StepSaved)
		} else if a.from.low == a.from.next {
			a.progress.restart(level, a.from.low == position{})
		}
		if err := a.pass(ctx, level, passes[level]); err != nil {
			return err
		}
		a.cfg.step(level, StepSettled)
	}
	return nil
}

// pass runs one level to its end and proves that nothing of it is left.
func (a *walk) pass(ctx context.Context, level Level, do func(context.Context, *sink) error) error {
	s := newSink(ctx, a.cfg, a.pool, a.session, level, a.pruner, a.from)
	s.turn = a.turn
	s.limit = fmt.Sprintf("warehouse-%d", a.job.WarehouseID)
	s.keep = func() error { return a.keep(ctx, s) }
	a.sink, a.kept = s, time.Now()
	defer func() { a.sink = nil }()
	resumed := a.from.low != a.from.next
	err := do(ctx, s)
	if err == nil {
		err = s.drain()
	}
	s.stop()
	t := &s.tracker
	c := cursor{low: t.low(), next: t.low()}
	if resumed {
		c.low = a.from.low // what was passed over is not proven
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case stopped(err):
		return a.leave(context.WithoutCancel(ctx), s, c, err)
	case ctx.Err() != nil:
		return err
	case err == nil && !resumed && s.clean():
		a.from = c
		return nil
	}
	err = a.verdict(level, err)
	if errors.As(err, new(*job.TerminalError)) {
		a.progress.level(level).add(t.behind)
	}
	a.from = cursor{low: c.low, next: c.low}
	return a.giveUp(ctx, err)
}

// leave ends a pass that was told to stop, and saves once more what has settled since,
// together with the place where the next run goes on.
func (a *walk) leave(ctx context.Context, s *sink, c cursor, cause error) error {
	if errors.Is(cause, job.ErrLeaseLost) {
		return cause
	}
	a.progress.level(a.level).add(s.tracker.behind)
	c.next = later(s.tracker.next(), c.low)
	a.from = c
	// One save more, also when the context is over: the database's own limits bound it.
	if err := a.save(ctx, c); errors.Is(err, job.ErrLeaseLost) {
		return err
	}
	return cause
}

// verdict says what kind of failure a pass is. Damage is terminal only when all that
// is readable is gone.
func (a *walk) verdict(level Level, err error) error {
	p := a.progress
	switch {
	case err != nil:
		return a.classify(err)
	case p.Failed == 0 && p.Damaged > 0:
		return job.Terminal(fmt.Errorf("purge: level %s: %d files are missing, unreadable or encrypted: %w", level, p.Damaged, ErrUnsettled))
	default:
		return fmt.Errorf("purge: level %s: %d keys failed, %d files are damaged: %w", level, p.Failed, p.Damaged, ErrUnsettled)
	}
}

// classify marks trouble of the store as a whole.
func (a *walk) classify(err error) error {
	if blob.ClassOf(err).Outage() {
		return job.Outage(err)
	}
	return err
}

// save stores where the job stands; no batch may be settling.
func (a *walk) save(ctx context.Context, c cursor) error {
	a.progress.sum()
	raw, err := json.Marshal(a.progress)
	if err != nil {
		return fmt.Errorf("purge: progress: %w", err)
	}
	return a.session.Save(ctx, job.Point{Phase: a.level.String(), Cursor: c.String()}, json.RawMessage(raw))
}

// keep saves when it is time to. It is called wherever the walk may have waited, and while
// it waits for the store: a save is also how the job hears that it shall stop. Its error,
// that cause included, ends the pass.
func (a *walk) keep(ctx context.Context, s *sink) error {
	a.kept = time.Now()
	s.mu.Lock()
	due := s.batches >= saveEvery
	s.mu.Unlock()
	if !due && !a.session.Due() {
		return nil
	}
	s.mu.Lock()
	s.batches = 0
	low := s.tracker.low()
	if a.from.low != a.from.next {
		low = a.from.low
	}
	s.progress.sum()
	raw, err := json.Marshal(s.progress)
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("purge: progress: %w", err)
	}
	return a.session.Save(ctx, job.Point{Phase: a.level.String(), Cursor: low.String()}, json.RawMessage(raw))
}

// tick saves when it is time to, and yields. The walk calls it between two units; its
// error, the cause to stop included, ends the pass.
func (a *walk) tick(ctx context.Context, s *sink) error {
	if a.back == 0 {
		a.back = time.Since(a.began)
	}
	if err := s.err(); err != nil {
		return err
	}
	if err := a.keep(ctx, s); err != nil {
		return err
	}
	if !a.session.Yield() || time.Since(a.began) < 2*a.back {
		return nil // not before as much was spent ahead as on the way back to here
	}
	if err := s.drain(); err != nil { // or a run shorter than a batch would settle nothing
		return err
	}
	return job.ErrYield
}
