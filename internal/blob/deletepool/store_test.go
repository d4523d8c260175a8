package deletepool_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/deletepool"
	"github.com/lethe-project/lethe/internal/blob/faulty"
)

func TestOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := setup(t, 30, deletepool.Config{})
		defer f.pool.Close()
		requests := func() int { return f.store.Counts().Calls[faulty.Delete] }

		// A short one is ridden out.
		f.store.SetOutage(blob.Unavailable)
		done := f.submit(t.Context(), f.keys[:10], nil)
		time.Sleep(time.Second)
		f.store.SetOutage(blob.Other)
		if a := <-done; a.err != nil || a.count(blob.Deleted) != 10 {
			t.Errorf("short outage: %+v", a)
		}

		// A long one takes all tries of one batch, and one try of each after that.
		f.store.SetOutage(blob.Unavailable)
		before := requests()
		a := <-f.submit(t.Context(), f.keys[10:20], nil)
		if a.err != nil || a.count(blob.Failed) != 10 || blob.ClassOf(a.results[0].Err) != blob.Unavailable {
			t.Errorf("long outage: %+v", a)
		}
		if got := requests() - before; got != 8 {
			t.Errorf("%d tries, want 8", got)
		}
		before = requests()
		start := time.Now()
		if a := <-f.submit(t.Context(), f.keys[10:20], nil); a.count(blob.Failed) != 10 || time.Since(start) != 0 {
			t.Errorf("while down: %+v after %s", a, time.Since(start))
		}
		if got := requests() - before; got != 1 {
			t.Errorf("%d tries while down, want 1", got)
		}

		// The first answer ends it, and the tries are back.
		f.store.SetOutage(blob.Other)
		if a := <-f.submit(t.Context(), f.keys[10:20], nil); a.count(blob.Deleted) != 10 {
			t.Errorf("after the outage: %+v", a)
		}
		f.store.FailCall(faulty.Delete, 1, blob.Unavailable)
		if a := <-f.submit(t.Context(), f.keys[20:], nil); a.count(blob.Deleted) != 10 {
			t.Errorf("a single failure after the outage: %+v", a)
		}
	})
}

func TestLostAnswerIsSettledByTheRetry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := setup(t, 10, deletepool.Config{})
		defer f.pool.Close()
		f.store.LoseAnswer(faulty.Delete, 1, blob.Unavailable)
		if a := <-f.submit(t.Context(), f.keys, nil); a.err != nil || a.count(blob.Missing) != 10 {
			t.Errorf("%+v", a)
		}
	})
}

func TestNoBulkDelete(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := setup(t, 20, deletepool.Config{})
		defer f.pool.Close()
		f.store.NoBulk(true)
		f.store.DenyKeys(func(key blob.Key) bool { return key == f.keys[4] })
		a := <-f.submit(t.Context(), f.keys[:10], nil)
		if a.err != nil || a.count(blob.Deleted) != 9 || a.count(blob.Failed) != 1 {
			t.Errorf("%+v", a)
		}
		before := f.store.Counts().Calls[faulty.Delete]
		if a := <-f.submit(t.Context(), f.keys[10:], nil); a.count(blob.Deleted) != 10 {
			t.Errorf("%+v", a)
		}
		if got := f.store.Counts().Calls[faulty.Delete] - before; got != 10 {
			t.Errorf("%d requests for 10 keys, want 10: no bulk delete is tried again", got)
		}
	})
}

func TestSingleDeletesStopInAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := setup(t, 100, deletepool.Config{Tries: 2})
		defer f.pool.Close()
		f.store.NoBulk(true)
		if a := <-f.submit(t.Context(), f.keys[:2], nil); a.count(blob.Deleted) != 2 {
			t.Fatalf("%+v", a)
		}
		f.store.SetOutage(blob.Unavailable)
		before := f.store.Counts().Calls[faulty.Delete]
		a := <-f.submit(t.Context(), f.keys[2:], nil)
		if got := f.store.Counts().Calls[faulty.Delete] - before; got != 2 {
			t.Errorf("%d requests, want one for each try", got)
		}
		for _, r := range a.results {
			if r.Outcome != blob.Failed || blob.ClassOf(r.Err) != blob.Unavailable {
				t.Fatalf("%q: %+v, want it failed as unavailable", r.Key, r)
			}
		}
	})
}

func TestSlowDownLowersTheRateAndRecovers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := setup(t, 3000, deletepool.Config{})
		defer f.pool.Close()
		f.store.FailCall(faulty.Delete, 1, blob.Throttled)
		start := time.Now()
		a := <-f.submit(t.Context(), f.keys[:1000], nil)
		slow := time.Since(start)
		if a.err != nil || a.count(blob.Deleted) != 1000 {
			t.Fatalf("deleted %d, %v", a.count(blob.Deleted), a.err)
		}
		if slow < 2*time.Second || slow > 30*time.Second {
			t.Errorf("1,000 keys after SlowDown took %s, want a lowered rate", slow)
		}
		if a := <-f.submit(t.Context(), f.keys[1000:2000], nil); a.count(blob.Deleted) != 1000 {
			t.Fatalf("deleted %d, %v", a.count(blob.Deleted), a.err)
		}
		start = time.Now()
		<-f.submit(t.Context(), f.keys[2000:], nil)
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("1,000 keys long after SlowDown took %s, want full speed", took)
		}
	})
}

func TestRateLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := setup(t, 1000, deletepool.Config{})
		defer f.pool.Close()
		done := make(chan answer, 2)
		start := time.Now()
		for i := range 2 {
			f.pool.Submit(t.Context(), deletepool.Batch{
				Bucket: f.store, Keys: f.keys[i*500 : (i+1)*500], Limit: "warehouse", PerSecond: 100,
				Done: func(results []blob.Result, err error) { done <- answer{results, err} },
			})
		}
		<-done
		<-done
		if took := time.Since(start); took < 8*time.Second || took > 12*time.Second {
			t.Errorf("1,000 keys at 100 a second took %s", took)
		}
		if f.mem.Len() != 0 {
			t.Errorf("%d objects left", f.mem.Len())
		}
	})
}

// A rate beyond all others is none: requests are as large as they may be.
func TestLargestRate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := setup(t, 1000, deletepool.Config{})
		defer f.pool.Close()
		done := make(chan answer, 1)
		f.pool.Submit(t.Context(), deletepool.Batch{
			Bucket: f.store, Keys: f.keys, Limit: "warehouse", PerSecond: math.MaxInt64,
			Done: func(results []blob.Result, err error) { done <- answer{results, err} },
		})
		<-done
		if n := f.store.Counts().Calls[faulty.Delete]; n != 1 || f.mem.Len() != 0 {
			t.Errorf("%d requests, %d objects left; want one request", n, f.mem.Len())
		}
	})
}

func TestPanicIsAFailedRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := setup(t, 5, deletepool.Config{Tries: 2})
		defer f.pool.Close()
		f.store.PanicCall(faulty.Delete, 1)
		f.store.PanicCall(faulty.Delete, 2)
		if a := <-f.submit(t.Context(), f.keys, nil); a.err != nil || a.count(blob.Failed) != 5 {
			t.Errorf("%+v", a)
		}
		if a := <-f.submit(t.Context(), f.keys, nil); a.count(blob.Deleted) != 5 {
			t.Errorf("after the panics: %+v", a)
		}
	})
}

// shortAnswers is a bucket that forgets the last answer and mixes up the first.
type shortAnswers struct{ *faulty.Bucket }

func (s shortAnswers) DeleteMany(ctx context.Context, keys []blob.Key) []blob.Result {
	results := s.Bucket.DeleteMany(ctx, keys)
	results[0].Key = "other"
	return results[:len(results)-1]
}

func TestMissingAnswersAreFailures(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := setup(t, 3, deletepool.Config{Tries: 1})
		defer f.pool.Close()
		done := make(chan answer, 1)
		f.pool.Submit(t.Context(), deletepool.Batch{
			Bucket: shortAnswers{f.store}, Keys: f.keys,
			Done: func(results []blob.Result, err error) { done <- answer{results, err} },
		})
		if a := <-done; a.count(blob.Failed) != 2 || a.count(blob.Deleted) != 1 {
			t.Errorf("%+v, want only the middle key settled", a)
		}
	})
}

func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		f := setup(t, 10, deletepool.Config{Registerer: registry, Tries: 2})
		defer f.pool.Close()
		f.store.DenyKeys(func(key blob.Key) bool { return key == f.keys[0] })
		<-f.submit(t.Context(), append(f.keys, "missing"), nil)
		synctest.Wait()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				name := family.GetName()
				for _, label := range m.GetLabel() {
					name += " " + label.GetValue()
				}
				got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		want := map[string]float64{
			"lethe_delete_pool_batches":              0,
			"lethe_delete_pool_submitted_total pool": 1,
			"lethe_delete_pool_keys_total deleted":   9,
			"lethe_delete_pool_keys_total failed":    1,
			"lethe_delete_pool_keys_total missing":   1,
			"lethe_delete_pool_retried_keys_total":   1,
			"lethe_delete_pool_slowdowns_total":      0,
			"lethe_delete_pool_request_seconds":      2,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
	})
}
