package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// stepClock times the transactions of a sweep that remove files, by the steps that it
// passes; there is one sweep at a time.
type stepClock struct {
	mu            sync.Mutex
	begun, locked time.Time
	batch, hold   []float64 // ms
}

func (c *stepClock) step(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch name {
	case "sweep.gathered":
		c.begun = now
	case "sweep.locked": // again when the transaction is
		c.locked = now
	case "sweep.between":
		if !c.locked.IsZero() {
			c.batch = append(c.batch, millis(now.Sub(c.begun)))
			c.hold = append(c.hold, millis(now.Sub(c.locked)))
		}
		c.locked = time.Time{}
	}
}

// taken returns what was timed and begins anew.
func (c *stepClock) taken() (batch, hold []float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch, hold = c.batch, c.hold
	c.batch, c.hold = nil, nil
	return batch, hold
}

// sweeps removes trees of one shape by the product and by the raw statements, in turn.
func (b *bench) sweeps(ctx context.Context, rooms *driveRooms, clock *stepClock, s shape, sizes rmSizes, f *shapeFigures, r *rmReport) (err error) {
	if r.Ceiling, err = ceilingStatements(rooms.db); err != nil {
		return err
	}
	var rates, seconds, batch, hold, cpu []float64
	ceilings, ratios, rawCPU := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	var statements int64
	for run := range sizes.Runs {
		b.note("%s, run %d of %d", s.Name, run+1, sizes.Runs)
		var swept time.Duration
		raw := map[string]time.Duration{}
		turns := []func() error{func() error {
			p, err := rooms.planted(ctx, "sweep", s)
			if err != nil {
				return err
			}
			clock.taken()
			before, spent := rooms.db.Statements(), processorTime()
			var result removal.Result
			swept, err = b.profiled(sizes, fmt.Sprintf("%s-%d", s.Name, run), func() (err error) {
				result, err = rooms.removed(ctx, p)
				return err
			})
			if err != nil {
				return err
			}
			statements += rooms.db.Statements() - before
			cpu = append(cpu, micros(processorTime()-spent, s))
			f.Transactions = max(f.Transactions, result.Counts.Transactions)
			b, h := clock.taken()
			batch, hold = append(batch, b...), append(hold, h...)
			return rooms.queued(ctx, s.files())
		}}
		for _, form := range sizes.Ceilings {
			turns = append(turns, func() (err error) {
				p, err := rooms.planted(ctx, "raw", s)
				if err != nil {
					return err
				}
				spent := processorTime()
				if raw[form], err = ceiling(ctx, rooms.db, p, form); err != nil {
					return fmt.Errorf("ceiling by %s: %w", form, err)
				}
				rawCPU[form] = append(rawCPU[form], micros(processorTime()-spent, s))
				return rooms.queued(ctx, s.files())
			})
		}
		if run%2 == 1 { // whoever comes first leaves work behind for the engine
			slices.Reverse(turns)
		}
		for _, turn := range turns {
			if err := turn(); err != nil {
				return err
			}
		}
		nodes := float64(s.nodes())
		rates, seconds = append(rates, nodes/swept.Seconds()), append(seconds, swept.Seconds())
		for form, took := range raw {
			ceilings[form] = append(ceilings[form], nodes/took.Seconds())
			ratios[form] = append(ratios[form], ratio(took.Seconds(), swept.Seconds()))
		}
	}
	f.PerSecond, f.Seconds, f.CPU = spreadOf(rates), spreadOf(seconds), spreadOf(cpu)
	for _, form := range sizes.Ceilings {
		f.Ceilings = append(f.Ceilings, ceilingFigures{Form: form, PerSecond: spreadOf(ceilings[form]), Ratio: spreadOf(ratios[form]), CPU: spreadOf(rawCPU[form])})
	}
	f.Batch, f.Hold = spreadOf(batch), spreadOf(hold)
	f.Statements = float64(statements) / float64(sizes.Runs*s.nodes())
	return nil
}

// processorTime is what this process used so far. With SQLite the engine is in it; of a
// server it is the client's part only. On a busy machine it tells more than the clock.
func processorTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func micros(d time.Duration, s shape) float64 {
	return float64(d) / float64(time.Microsecond) / float64(s.nodes())
}

// profiled times work, under a CPU profile if these are wanted.
func (b *bench) profiled(sizes rmSizes, name string, work func() error) (took time.Duration, err error) {
	timed := func() error {
		began := time.Now()
		err := work()
		took = time.Since(began)
		return err
	}
	if sizes.Profiles == "" {
		return took, timed()
	}
	err = underProfile(filepath.Join(sizes.Profiles, "rm-"+name+".pprof"), timed)
	return took, err
}

// planted fills a tree in and lets the engine come to rest.
func (r *driveRooms) planted(ctx context.Context, name string, s shape) (planted, error) {
	p, err := plant(ctx, r.db, driveFS, name, s)
	if err == nil {
		err = settled(ctx, r.db)
	}
	return p, err
}

// removed deletes a planted tree as a request does that waits to the end.
func (r *driveRooms) removed(ctx context.Context, p planted) (removal.Result, error) {
	path, err := tree.ParsePath("/" + p.name)
	if err != nil {
		return removal.Result{}, err
	}
	result, err := r.removal.RemoveAll(ctx, removal.Request{FS: driveFS, Path: path, Wait: 24 * time.Hour, Actor: "bench"})
	switch {
	case err != nil:
		return result, err
	case result.State != job.Succeeded, result.Counts.Nodes() != int64(p.nodes()):
		return result, fmt.Errorf("the delete ended %s with %d of %d nodes removed", result.State, result.Counts.Nodes(), p.nodes())
	case result.Job == 0:
		return result, errors.New("the tree is small enough for the fast path: nothing is swept")
	}
	return result, nil
}

const (
	countTasks sqldb.Statement = "SELECT COUNT(*) FROM file_gc_tasks"
	clearTasks sqldb.Statement = "{on sqlite}DELETE FROM file_gc_tasks{else}TRUNCATE TABLE file_gc_tasks{end}"
)

// queued fails unless every object is queued for the collector, and empties the queue.
func (r *driveRooms) queued(ctx context.Context, want int) error {
	var n int
	if err := r.db.QueryRow(ctx, countTasks).Scan(&n); err != nil {
		return err
	}
	if n != want {
		return fmt.Errorf("%d objects are queued, want %d", n, want)
	}
	_, err := r.db.Exec(ctx, clearTasks)
	return err
}

// writePace is the pause between two writes of the sibling: it is a user, not a load.
const writePace = 5 * time.Millisecond

// besideSweep writes small files to another directory, alone and while a tree is swept.
func (b *bench) besideSweep(ctx context.Context, rooms *driveRooms, clock *stepClock, s shape, sizes rmSizes) (*beside, error) {
	b.note("%s, beside a writer", s.Name)
	p, err := rooms.planted(ctx, "beside", s)
	if err != nil {
		return nil, err
	}
	if _, err := rooms.do(ctx, http.MethodPost, "/v1/fs/siblings?op=mkdir", ""); err != nil {
		return nil, err
	}
	idle, err := rooms.write(ctx, "idle", sizes.Writes, nil)
	if err != nil {
		return nil, err
	}
	clock.taken()
	gone := make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		defer close(gone)
		_, err := rooms.removed(ctx, p)
		failed <- err
	}()
	busy, err := rooms.write(ctx, "busy", 1<<30, gone)
	<-gone
	if err := errors.Join(err, <-failed); err != nil {
		return nil, err
	}
	batch, _ := clock.taken()
	return &beside{Idle: spreadOf(idle), Sweep: spreadOf(busy), Batch: spreadOf(batch)}, rooms.queued(ctx, s.files())
}

// write makes up to n small files, until done, and returns how long each took.
func (r *driveRooms) write(ctx context.Context, name string, n int, done <-chan struct{}) (took []float64, err error) {
	body := strings.Repeat("x", smallBody)
	pace := time.NewTicker(writePace)
	defer pace.Stop()
	for i := range n {
		began := time.Now()
		if _, err := r.do(ctx, http.MethodPut, fmt.Sprintf("/v1/fs/siblings/%s-%d", name, i), body); err != nil {
			return nil, err
		}
		took = append(took, millis(time.Since(began)))
		select {
		case <-done:
			return took, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-pace.C:
		}
	}
	return took, nil
}
