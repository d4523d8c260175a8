package purge_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// pruning is a bucket whose directories answer as a test says.
type pruning struct {
	blob.Bucket
	prune func(ctx context.Context, keys []blob.Key, top blob.Key) error
}

func (p *pruning) PruneDirs(ctx context.Context, keys []blob.Key, top blob.Key) error {
	return p.prune(ctx, keys, top)
}

func refuse(dir blob.Key, class blob.Class) error {
	return &blob.Error{Op: "prune", Key: dir, Class: class, Err: errors.New("refused")}
}

// Whether a directory can go says nothing about the files: those are gone.
func TestDirectoriesThatStay(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer func() error
		want   []purge.Sample
		failed bool
		outage bool
	}{
		"one, of every batch": {
			answer: func() error { return refuse("t", blob.Denied) },
			want:   []purge.Sample{{Location: root + "/t", Why: "denied"}},
		},
		"several": {
			answer: func() error {
				return errors.Join(refuse("t/data", blob.Denied), refuse("t/metadata", blob.Other))
			},
			want: []purge.Sample{{Location: root + "/t/data", Why: "denied"}, {Location: root + "/t/metadata", Why: "other"}},
		},
		"the store is in trouble": {answer: func() error { return refuse("t", blob.Unavailable) }, outage: true},
		"one refused and trouble": {
			answer: func() error { return errors.Join(refuse("t/data", blob.Denied), refuse("t", blob.Throttled)) },
			outage: true,
		},
		"an error that no store has classified": {answer: func() error { return errors.New("who knows") }, failed: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trouble := true
			var mu sync.Mutex
			w := makeWorld(t, &pruning{Bucket: mem.New(), prune: func(context.Context, []blob.Key, blob.Key) error {
				mu.Lock()
				defer mu.Unlock()
				if trouble {
					return tt.answer()
				}
				return nil
			}}, root)
			r := w.job(w.table(w.builder("t", purgetest.Options{}).Append(7)))
			cfg := purge.Config{BatchSize: 2}
			err := w.run(r, cfg)
			if (err != nil) != (tt.failed || tt.outage) || isOutage(err) != tt.outage {
				t.Fatalf("got %v", err)
			}
			if err != nil { // nothing above went, and the next attempt finishes
				if r.Phase != "DATA" {
					t.Errorf("phase %s", r.Phase)
				}
				mu.Lock()
				trouble = false
				mu.Unlock()
				if err := w.run(r, cfg); err != nil {
					t.Fatal(err)
				}
			}
			if left := keys(w.tree()); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
			if err != nil {
				return
			}
			p := r.progress
			if diff := cmp.Diff(tt.want, p.Samples["directory"]); diff != "" || int(p.Directories) != len(tt.want) || p.Failed != 0 {
				t.Errorf("%d directories, %d failed, samples (-want +got):\n%s", p.Directories, p.Failed, diff)
			}
		})
	}
}

// The root is gone since an earlier attempt, and its directory can not be removed.
func TestRootsDirectoryStays(t *testing.T) {
	t.Parallel()
	w := makeWorld(t, &pruning{Bucket: mem.New(), prune: func(context.Context, []blob.Key, blob.Key) error {
		return refuse("t", blob.Denied)
	}}, root)
	table := w.table(w.builder("t", purgetest.Options{}))
	w.remove(table.Metadata)
	r := w.job(table)
	r.Phase = "ROOT"
	if err := w.run(r, purge.Config{}); err != nil || r.progress.Directories != 1 {
		t.Errorf("got %v, progress %+v", err, r.progress)
	}
}

// A stop between a delete's answer and the look at its directories costs no attempt:
// the look is still taken, and what it leaves open the next run meets again.
func TestStopBeforeDirectoriesAreLookedAt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cause  error
		answer error // of the look
		looks  bool
	}{
		"shutdown":                     {cause: job.ErrShutdown, looks: true},
		"shutdown, the look fails too": {cause: job.ErrShutdown, answer: refuse("t", blob.Unavailable), looks: true},
		"lease lost":                   {cause: job.ErrLeaseLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			stopping, looked := false, false
			w := makeWorld(t, &pruning{Bucket: mem.New(), prune: func(ctx context.Context, _ []blob.Key, _ blob.Key) error {
				mu.Lock()
				defer mu.Unlock()
				if !stopping {
					return ctx.Err()
				}
				looked = true
				if ctx.Err() != nil {
					t.Error("the look was given a context that is over")
				}
				return tt.answer
			}}, root)
			b := w.builder("t", purgetest.Options{})
			for range 4 {
				b.Append(3)
			}
			r := w.job(w.table(b))
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			cfg := purge.Config{BatchSize: 2, InFlight: 1, Step: func(l purge.Level, step string) {
				if l == purge.Data && step == purge.StepDeleted {
					mu.Lock()
					defer mu.Unlock()
					stopping = true
					cancel(tt.cause)
				}
			}}
			err := purge.NewWalker(cfg, w, w.pool).Run(ctx, r.Job, &session{t: t, row: r})
			if !errors.Is(err, tt.cause) {
				t.Errorf("got %v, want %v", err, tt.cause)
			}
			if looked != tt.looks {
				t.Errorf("looked at directories: %v", looked)
			}
			if r.progress.Failed != 0 {
				t.Errorf("%d keys failed: %v", r.progress.Failed, r.progress.Samples)
			}
			stopping = false
			if err := w.run(r, purge.Config{BatchSize: 2, InFlight: 1}); err != nil {
				t.Errorf("the run after it: %v at %s", err, r.Cursor)
			}
			if left := keys(w.tree()); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}
