package purge_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// steps are all step boundaries of a purge.
func steps() (all []string) {
	for _, level := range []purge.Level{purge.Data, purge.Manifests, purge.Lists, purge.Older, purge.Root} {
		for _, step := range []string{purge.StepSave, purge.StepSaved, purge.StepDelete, purge.StepDeleted, purge.StepSettled} {
			all = append(all, level.String()+" "+step)
		}
	}
	return append(all, "ROOT "+purge.StepFinish)
}

// crashAt runs one attempt that dies at the n-th time (from 0) that a step is reached:
// from then on nothing is saved and nothing is sent.
func crashAt(w *world, r *row, cfg purge.Config, step string, n int64) (reached bool) {
	w.t.Helper()
	s := &session{t: w.t, row: r}
	var died atomic.Bool
	var times atomic.Int64
	cfg.Step = func(level purge.Level, name string) {
		if level.String()+" "+name == step && times.Add(1) == n+1 {
			died.Store(true)
			s.lose(job.ErrLeaseLost)
		}
	}
	_ = w.runIn(s, cfg) // whatever it says, the process is gone
	return died.Load()
}

// finish runs attempts until one succeeds.
func finish(w *world, r *row, cfg purge.Config) {
	w.t.Helper()
	var err error
	for range 20 {
		if err = w.run(r, cfg); err == nil {
			return
		}
	}
	w.t.Fatalf("no end: %v", err)
}

func rich(b *purgetest.Builder) {
	b.Append(5).Statistics().PositionDeletes(2).Statistics().DeletionVectors(4).Remove().Rewrite().Append(3).Expire(1, true).Append(1)
}

func TestCrashAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, step := range steps() {
		for store, open := range map[string]func(tb) *world{"mem": newWorld, "local": newLocalWorld} {
			t.Run(step+"/"+store, func(t *testing.T) {
				t.Parallel()
				w := open(t)
				siblings(w, true)
				b := w.builder("t", purgetest.Options{Version: 3, LogMax: 3})
				rich(b)
				table := w.table(b)
				before := w.tree()
				r := w.job(table)
				cfg := purge.Config{BatchSize: 2}
				for range 3 { // it dies at the same step three times in a row
					if !crashAt(w, r, cfg, step, 0) && step != "ROOT "+purge.StepDelete && step != "ROOT "+purge.StepDeleted {
						break
					}
				}
				finish(w, r, cfg)
				w.want(before, table.Reachable)
			})
		}
	}
}

func TestEveryStepIsReached(t *testing.T) {
	t.Parallel()
	for _, step := range steps() {
		w := newWorld(t)
		b := w.builder("t", purgetest.Options{}).Append(1).Statistics()
		if !crashAt(w, w.job(w.table(b)), purge.Config{}, step, 0) {
			t.Errorf("step %q was not reached", step)
		}
	}
}

func TestCrashAtEveryCall(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		w := newWorld(t)
		siblings(w, true)
		b := w.builder("t", purgetest.Options{LogMax: 2})
		rich(b)
		table := w.table(b)
		before := w.tree()
		r := w.job(table)
		cfg := purge.Config{BatchSize: 3}
		died := false
		s := &session{t: t, row: r, due: n%2 == 0, fail: func(call int) error {
			if call != n {
				return nil
			}
			died = true
			return job.ErrLeaseLost
		}}
		err := w.runIn(s, cfg)
		if died && err == nil {
			t.Fatalf("call %d: succeeded without a lease", n)
		}
		finish(w, r, cfg)
		w.want(before, table.Reachable)
		if t.Failed() {
			t.Fatalf("after a crash at call %d", n)
		}
		if !died {
			break
		}
	}
}

// Whatever cause stops a run at whatever save, the next one goes on behind what was settled.
func TestStoppedAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{job.ErrYield, job.ErrPaused, job.ErrShutdown, job.ErrCancelled} {
		t.Run(cause.Error(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := w.builder("t", purgetest.Options{LogMax: 2})
			rich(b)
			table := w.table(b)
			before := w.tree()
			r := w.job(table)
			runs := 0
			for ; ; runs++ {
				s := &session{t: t, row: r, due: true, fail: func(call int) error {
					if call == 8 {
						return cause
					}
					return nil
				}}
				err := w.runIn(s, purge.Config{BatchSize: 1, InFlight: 1})
				if err == nil {
					break
				}
				if err != cause { //nolint:errorlint // the cause must come back as it is
					t.Fatalf("got %v, want %v", err, cause)
				}
				if runs > 500 {
					t.Fatalf("no end at %s %s", r.Phase, r.Cursor)
				}
			}
			if runs < 3 {
				t.Errorf("only %d runs", runs)
			}
			w.want(before, table.Reachable)
		})
	}
}

// A job that yields over and over passes a damaged manifest and gets all the data that
// the others name.
func TestYieldPassesDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.builder("t", purgetest.Options{})
	for range 6 {
		b.Append(4)
	}
	table := w.table(b)
	w.replace(table.Manifests[0], "not avro")
	r := w.job(table)
	var err error
	for range 200 {
		s := &session{t: t, row: r, due: true, fail: func(call int) error {
			if call == 4 {
				return job.ErrYield
			}
			return nil
		}}
		if err = w.runIn(s, purge.Config{BatchSize: 1, InFlight: 1}); err != job.ErrYield { //nolint:errorlint // as it is
			break
		}
	}
	if !isTerminal(err) {
		t.Fatalf("got %v, want a terminal error", err)
	}
	data := dataLeft(w)
	if data != 4 || r.progress.Damaged != 1 {
		t.Errorf("%d data files left, want the 4 of the damaged manifest; damaged %d", data, r.progress.Damaged)
	}
}

// Random tables, random crashes: all that is reachable goes, all else stays byte for byte.
func TestPurgeConverges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		opts := purgetest.Options{
			Version: rapid.IntRange(1, 3).Draw(rt, "version"),
			Gzip:    rapid.Bool().Draw(rt, "gzip"),
			LogMax:  rapid.IntRange(1, 5).Draw(rt, "log"),
			Trim:    rapid.Bool().Draw(rt, "trim"),
			Codec:   rapid.SampledFrom([]string{"null", "deflate", "snappy", "zstandard"}).Draw(rt, "codec"),
		}
		opts.Inline = opts.Version == 1 && rapid.Bool().Draw(rt, "inline")
		siblings(w, true)
		b := w.builder("t", opts)
		for range rapid.IntRange(0, 12).Draw(rt, "commits") {
			n := rapid.IntRange(1, 12).Draw(rt, "n")
			switch rapid.IntRange(0, 8).Draw(rt, "commit") {
			case 0, 1:
				b.Append(n)
			case 2:
				b.PositionDeletes(n)
			case 3:
				b.DeletionVectors(n)
			case 4:
				b.Remove()
			case 5:
				b.Rewrite()
			case 6:
				b.Statistics()
			case 7:
				b.Expire(n%4, rapid.Bool().Draw(rt, "clean"))
			case 8:
				b.Branch(fmt.Sprint(n), "tag")
			}
		}
		table := w.table(b)
		before := w.tree()
		r := w.job(table)
		cfg := purge.Config{BatchSize: rapid.IntRange(1, 7).Draw(rt, "batch"), InFlight: rapid.IntRange(1, 4).Draw(rt, "flight")}
		w.bucket.FailFraction(rapid.SampledFrom([]float64{0, 0.05, 0.2}).Draw(rt, "failing"), rapid.Uint64().Draw(rt, "seed"))
		for range rapid.IntRange(0, 8).Draw(rt, "crashes") {
			at := rapid.IntRange(1, 40).Draw(rt, "call")
			cause := rapid.SampledFrom([]error{job.ErrLeaseLost, job.ErrYield, job.ErrShutdown}).Draw(rt, "cause")
			s := &session{t: rt, row: r, due: rapid.Bool().Draw(rt, "due"), fail: func(call int) error {
				if call == at {
					return cause
				}
				return nil
			}}
			if w.runIn(s, cfg) == nil {
				break
			}
		}
		w.bucket.FailFraction(0, 0)
		finish(w, r, cfg)
		w.want(before, table.Reachable)
		if p := r.progress; p.Failed != 0 || len(p.Skipped) != 0 || p.Damaged != 0 {
			rt.Errorf("progress %+v", p)
		}
	})
}

// Wherever a purge dies, everything that is left is still named by something that is
// left, up to the root, and of the metadata files the newest are left.
func TestWhatRemainsIsReachable(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		w := newWorld(t)
		b := w.builder("t", purgetest.Options{LogMax: 3, Codec: "null"}) // so that paths stand in the files as text
		rich(b)
		b.Statistics().Append(1).Statistics().Append(1)
		table := w.table(b)
		var metadata []string
		for _, uri := range table.Reachable {
			if strings.HasSuffix(uri, ".metadata.json") {
				metadata = append(metadata, uri)
			}
		}
		r := w.job(table)
		died := false
		s := &session{t: t, row: r, fail: func(call int) error {
			if call != n {
				return nil
			}
			died = true
			return job.ErrLeaseLost
		}}
		_ = w.runIn(s, purge.Config{BatchSize: 1 + n%3, InFlight: 1}) // the process is gone
		if !died {
			break
		}
		tree := w.tree()
		for uri := range tree {
			named := uri == table.Metadata
			for other, body := range tree {
				named = named || (other != uri && strings.Contains(body, uri))
			}
			if !named {
				t.Fatalf("call %d: nothing names %s any more", n, uri)
			}
		}
		gap := false
		for _, uri := range slices.Backward(metadata) {
			_, there := tree[uri]
			if there && gap {
				t.Fatalf("call %d: %s is left although a newer one is gone", n, uri)
			}
			gap = gap || !there
		}
	}
}
