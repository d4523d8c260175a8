package purge

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/deletepool"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/pace"
)

// item is one key on its way to being deleted.
type item struct {
	key  blob.Key
	top  blob.Key // highest directory that may go with it; empty: none
	uri  string
	size int64
	unit *unit
}

// sink gathers keys into batches per bucket, keeps a bounded number of them in flight
// and settles every key by its answer. The walk alone calls add, begin, end and drain;
// the pool's threads call done.
type sink struct {
	cfg      Config
	ctx      context.Context //nolint:containedctx // of the level that the sink lives for
	pool     Deleter
	session  Session
	level    Level
	limit    string
	turn     *pace.Section // of the walk; given back before it waits
	keep     func() error  // saves when it is time to; called while the walk waits
	pruner   *pruner
	buffers  map[blob.Bucket][]item
	slots    chan struct{}
	flying   sync.WaitGroup
	began    sync.Once
	finished sync.Once

	mu       sync.Mutex
	tracker  tracker
	progress *Progress
	batches  int   // settled since the last save
	fatal    error // why the walk must stop
}

func newSink(ctx context.Context, cfg Config, pool Deleter, session Session, level Level, p *pruner, from cursor) *sink {
	return &sink{
		cfg: cfg, ctx: ctx, pool: pool, session: session, level: level, pruner: p, progress: p.progress,
		buffers: map[blob.Bucket][]item{},
		slots:   make(chan struct{}, cfg.InFlight),
		tracker: tracker{reach: from.next, into: p.progress.level(level)},
	}
}

// begin opens a unit at a position.
func (s *sink) begin(at position) *unit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tracker.begin(at)
}

// end says that the walk adds nothing more to u and goes on at next.
func (s *sink) end(u *unit, next position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.open--
	u.end = next
	s.tracker.fold()
}

// skip counts a file that a rule leaves alone.
func (s *sink) skip(u *unit, why Reason, uri string, n int64) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u.tally.Skipped = addReasons(u.tally.Skipped, map[Reason]int64{why: n})
	if why != GCDisabled {
		s.progress.sample("skipped", uri, string(why))
	}
	s.cfg.Events.files(Tally{Skipped: map[Reason]int64{why: n}}, 0)
}

// missing counts a file that was found gone.
func (s *sink) missing(u *unit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.tally.Missing++
	s.cfg.Events.files(Tally{Missing: 1}, 0)
}

// damaged marks u as never to be settled until somebody repairs the file.
func (s *sink) damaged(u *unit, uri, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u.bad = true
	s.progress.Damaged++
	s.progress.sample("damaged", uri, why)
}

// failed marks u as unsettled in this pass.
func (s *sink) failed(u *unit, uri string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failedLocked(u, uri, err)
}

func (s *sink) failedLocked(u *unit, uri string, err error) {
	u.bad = true
	class := blob.ClassOf(err)
	if class.Outage() && s.fatal == nil {
		s.fatal = err // the other keys would fare no better
	}
	s.progress.Failed++
	s.progress.sample("failed", uri, class.String())
	s.cfg.Events.files(Tally{}, 1)
}

// accepted counts a missing file that the operator declared settled; a list is met
// again above DATA.
func (s *sink) accepted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.level == Data {
		s.progress.Accepted++
	}
}

// add queues one key and may wait until a batch in flight is done.
func (s *sink) add(bucket blob.Bucket, it item) error {
	s.mu.Lock()
	it.unit.open++
	s.mu.Unlock()
	buf := append(s.buffers[bucket], it)
	if len(buf) < s.cfg.BatchSize {
		s.buffers[bucket] = buf
		return nil
	}
	s.buffers[bucket] = make([]item, 0, s.cfg.BatchSize) // where one is full the next will be
	return s.send(bucket, buf)
}

func (s *sink) send(bucket blob.Bucket, items []item) error {
	if err := s.err(); err != nil {
		return err
	}
	s.turn.Pause()
	if err := s.slot(); err != nil {
		return err
	}
	s.began.Do(func() { s.cfg.step(s.level, StepDelete) })
	keys := make([]blob.Key, len(items))
	for i, it := range items {
		keys[i] = it.key
	}
	s.flying.Add(1)
	handed := make(chan struct{})
	s.flying.Go(func() { // a pool that is full works in here, for as long as the store takes
		defer close(handed)
		s.pool.Submit(s.ctx, deletepool.Batch{
			Bucket: bucket, Keys: keys, Admit: s.session.Admit, Limit: s.limit, PerSecond: s.cfg.RateLimit,
			Done: func(results []blob.Result, err error) {
				defer s.flying.Done()
				defer func() { <-s.slots }()
				s.done(bucket, items, results, err)
			},
		})
	})
	look := time.NewTicker(keepEvery)
	defer look.Stop()
	for {
		select {
		case <-handed:
			return nil
		case <-look.C:
			if err := s.keep(); err != nil {
				return err
			}
		}
	}
}

// keepEvery is how often a walk that waits for the store looks whether it is time to save.
const keepEvery = 250 * time.Millisecond

// slot waits for room for one more batch in flight.
func (s *sink) slot() error {
	look := time.NewTicker(keepEvery)
	defer look.Stop()
	for {
		select {
		case s.slots <- struct{}{}:
			return nil
		case <-look.C:
			if err := s.keep(); err != nil {
				return err
			}
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

// landed waits until nothing is in flight: whoever has all slots is alone.
func (s *sink) landed() (err error) {
	held := 0
	for ; held < cap(s.slots) && err == nil; held++ {
		err = s.slot()
	}
	if err != nil {
		held--
	}
	for range held {
		<-s.slots
	}
	if err == nil {
		s.flying.Wait()
	}
	return err
}

// drain sends what is buffered and waits for everything in flight.
func (s *sink) drain() error {
	var err error
	for bucket, items := range s.buffers {
		if err == nil && len(items) > 0 {
			err = s.send(bucket, items)
		}
		delete(s.buffers, bucket)
	}
	s.turn.Pause()
	waited := s.landed()
	switch e := s.err(); {
	case e != nil:
		return e
	case err != nil:
		return err
	}
	return waited
}

// stop gives up what is buffered and waits for what is on the wire.
func (s *sink) stop() {
	s.turn.Pause()
	s.flying.Wait()
	clear(s.buffers)
}

func (s *sink) err() error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fatal
}

// done settles a batch that the pool has tried to the end. With an error keys were left
// untried, and at the end of the context nobody knows why one failed: what is proven
// counts, the units of the others stay open.
func (s *sink) done(bucket blob.Bucket, items []item, results []blob.Result, err error) {
	s.finished.Do(func() { s.cfg.step(s.level, StepDeleted) })
	refused, pruneErr := s.prune(bucket, items) // before the keys count as settled, or a crash could leave directories
	if errors.Is(err, deletepool.ErrClosed) {
		err = job.ErrShutdown
	}
	stopping := s.ctx.Err() != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pruner.refused(bucket, refused)
	var event Tally
	for i, it := range items {
		res := results[i]
		switch {
		case res.Outcome == blob.Deleted:
			t := Tally{Files: 1, Bytes: it.size}
			s.tracker.into.add(t)
			event.add(t)
		case res.Outcome == blob.Missing:
			it.unit.tally.Missing++
			event.Missing++
		case blob.ClassOf(res.Err) == blob.Invalid:
			t := Tally{Skipped: map[Reason]int64{Invalid: 1}}
			it.unit.tally.add(t)
			event.add(t)
			s.progress.sample("skipped", it.uri, string(Invalid))
		case err != nil, stopping:
			continue // nothing is known of it
		default:
			s.failedLocked(it.unit, it.uri, res.Err)
		}
		switch {
		case pruneErr != nil && stopping:
			continue // the next run meets it again, and its directories
		case pruneErr != nil:
			it.unit.bad = true
		}
		it.unit.open--
	}
	if err != nil && s.fatal == nil {
		s.fatal = err
	}
	if pruneErr != nil && !stopping {
		s.failedLocked(items[0].unit, items[0].uri, pruneErr)
	}
	s.batches++
	s.tracker.fold()
	s.cfg.Events.files(event, 0)
}

// prune removes the directories that the batch emptied, before its keys count as settled.
func (s *sink) prune(bucket blob.Bucket, items []item) (refused []*blob.Error, err error) {
	dirs, ok := bucket.(blob.DirPruner)
	if !ok {
		return nil, nil
	}
	tops := map[blob.Key][]blob.Key{}
	for _, it := range items {
		if it.top != "" {
			tops[it.top] = append(tops[it.top], it.key)
		}
	}
	for top, keys := range tops {
		more, err := prune(s.ctx, dirs, keys, top)
		refused = append(refused, more...)
		if err != nil {
			return refused, err
		}
	}
	return refused, nil
}

// trouble puts a unit into the pass that mark makes bad.
func (s *sink) trouble(at, next position, mark func(u *unit)) {
	u := s.begin(at)
	mark(u)
	s.end(u, next)
}

// clean reports whether everything that was added so far is settled. It is asked after drain.
func (s *sink) clean() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.tracker.stuck && len(s.tracker.units) == 0
}

// settledSoFar reports whether no unit of the pass was found bad yet.
func (s *sink) settledSoFar() bool { return s.bad() == 0 }

// bad counts what will stay unsettled in this pass, as far as it is known.
func (s *sink) bad() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress.Failed + s.progress.Damaged
}
