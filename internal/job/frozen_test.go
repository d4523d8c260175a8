package job_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// frozen runs fn with a job table in a database that can fall silent.
func frozen(t *testing.T, cfg job.Config, fn func(t *testing.T, w *world, g *sqldbtest.Gateway)) {
	t.Helper()
	for _, server := range sqldbtest.Servers(t) {
		if server.Name == sqldb.SQLite {
			continue // it is in this process
		}
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			g := sqldbtest.NewGateway(t, server.URL(t))
			db := server.OpenURL(t, g.URL, sqldb.Config{Timeout: 3 * time.Second, LockWait: time.Second}, jobtest.Migrations)
			w := &world{db: db, ended: make(chan job.Row, 100)}
			w.store = job.NewStore(db, jobtest.Table, cfg, job.Hooks{}, job.Observer{Events: job.Events{
				Ended: func(row job.Row) { w.ended <- row },
			}})
			fn(t, w, g)
		})
	}
}

// A worker whose database says nothing sends no batch once half the timeout is over, gives
// up when it has to save, and the job ends once when the database answers again.
func TestFrozenDatabase(t *testing.T) {
	t.Parallel()
	cfg := jobtest.Config()
	cfg.HeartbeatTimeout = 8 * time.Second
	frozen(t, cfg, func(t *testing.T, w *world, g *sqldbtest.Gateway) {
		refused, thawed := make(chan error, 1), make(chan struct{})
		var runs atomic.Int32
		jobtest.Start(t, w.store, jobtest.Handler(func(ctx context.Context, run *job.Run) error {
			if runs.Add(1) > 1 {
				return run.Save(ctx, job.Point{Cursor: "2"}, nil)
			}
			if err := run.Save(ctx, job.Point{Cursor: "1"}, nil); err != nil {
				return err
			}
			g.Freeze()
			var admitted error
			jobtest.Eventually(t, "no batch is admitted", func() bool {
				admitted = run.Admit(ctx)
				return admitted != nil
			})
			refused <- admitted
			err := run.Save(ctx, job.Point{Cursor: "2"}, nil)
			if err == nil {
				t.Error("saved, and nothing was written")
			}
			g.Thaw()
			close(thawed)
			return err
		}), "a")
		id := w.insert(t)
		w.store.Wake()
		if err := receive(t, "a batch is refused", refused); !errors.Is(err, job.ErrLeaseLost) {
			t.Errorf("refused for %v, want the lease", err)
		}
		receive(t, "a save that does not go through ends", thawed)
		row := jobtest.AwaitState(t, w.store, id, job.Succeeded)
		if row.Cursor != "2" || runs.Load() < 2 {
			t.Errorf("%d runs, %+v", runs.Load(), row)
		}
		if ended := receive(t, "its end is told", w.ended); ended.ID != id || ended.State != job.Succeeded {
			t.Errorf("ended: %+v", ended)
		}
		if len(w.ended) != 0 {
			t.Errorf("ended once more: %+v", <-w.ended)
		}
	})
}

// Stop does not wait for a database that says nothing for longer than it is told to.
func TestStopFrozen(t *testing.T) {
	t.Parallel()
	frozen(t, jobtest.Config(), func(t *testing.T, w *world, g *sqldbtest.Gateway) {
		running := make(chan struct{})
		r := job.NewRunner(w.store, jobtest.Handler(func(ctx context.Context, run *job.Run) error {
			g.Freeze()
			close(running)
			<-ctx.Done()
			return run.Save(ctx, job.Point{Cursor: "1"}, nil)
		}), "a")
		r.Start()
		id := w.insert(t)
		w.store.Wake()
		receive(t, "it runs", running)
		stopped := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Second)
			defer cancel()
			stopped <- r.Stop(ctx)
		}()
		if err := receive(t, "it stops", stopped); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stop: %v, want that the job could not be given back", err)
		}
		g.Thaw()
		if row := jobtest.Get(t, w.store, id); row.State != job.Running {
			t.Errorf("%+v: whose lease runs out", row)
		}
	})
}
