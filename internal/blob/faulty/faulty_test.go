package faulty_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/blobtest"
	"github.com/lethe-project/lethe/internal/blob/faulty"
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func setup(t *testing.T, n int) (*faulty.Bucket, []blob.Key) {
	t.Helper()
	b := faulty.New(mem.New())
	var keys []blob.Key
	for i := range n {
		keys = append(keys, blob.Key(fmt.Sprintf("k%03d", i)))
		if err := b.Put(t.Context(), keys[i], strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	return b, keys
}

func outcomes(results []blob.Result) (o []blob.Outcome) {
	for _, r := range results {
		o = append(o, r.Outcome)
	}
	return o
}

func TestWithoutFaultsNothingChanges(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(*testing.T) blob.Bucket { return faulty.New(mem.New()) },
		blobtest.Caps{ByteKeys: true, TellsMissing: true, ByteOrder: true})
}

func TestPlannedCalls(t *testing.T) {
	t.Parallel()
	b, _ := setup(t, 0)
	put := func(key blob.Key) blob.Class {
		err := b.Put(t.Context(), key, strings.NewReader("x"))
		if err != nil && !errors.Is(err, faulty.ErrInjected) {
			t.Errorf("Put(%q) = %v", key, err)
		}
		return blob.ClassOf(err)
	}
	stored := func(key blob.Key) bool {
		_, err := b.Inner().Stat(t.Context(), key)
		return err == nil
	}
	put("warm")
	b.FailCall(faulty.Put, 2, blob.Denied)
	b.LoseAnswer(faulty.Put, 3, blob.Unavailable)
	if put("1") != blob.Other || !stored("1") {
		t.Error("the first call was hit")
	}
	if put("2") != blob.Denied || stored("2") {
		t.Error("the second call did not fail, or took effect")
	}
	if put("3") != blob.Unavailable || !stored("3") {
		t.Error("the third call's answer was not lost, or it had no effect")
	}
	if put("4") != blob.Other || !stored("4") {
		t.Error("the fourth call was hit")
	}
	b.PanicCall(faulty.Stat, 1)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_, _ = b.Stat(t.Context(), "1")
	}()
	if got := b.Counts().Calls; got[faulty.Put] != 5 || got[faulty.Stat] != 1 {
		t.Errorf("counts %v", got)
	}
}

func TestDeleteFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		plan func(*faulty.Bucket)
		want []blob.Outcome
		left int
	}{
		{"cut", func(b *faulty.Bucket) { b.CutDelete(1, 1, blob.Throttled) }, []blob.Outcome{blob.Deleted, blob.Failed, blob.Failed}, 2},
		{"cut to nothing", func(b *faulty.Bucket) { b.CutDelete(1, 0, blob.Throttled) }, []blob.Outcome{blob.Failed, blob.Failed, blob.Failed}, 3},
		{"answer lost", func(b *faulty.Bucket) { b.LoseAnswer(faulty.Delete, 1, blob.Unavailable) }, []blob.Outcome{blob.Failed, blob.Failed, blob.Failed}, 0},
		{"denied", func(b *faulty.Bucket) { b.DenyKeys(func(k blob.Key) bool { return k == "k001" }) }, []blob.Outcome{blob.Deleted, blob.Failed, blob.Deleted}, 1},
		{"outage", func(b *faulty.Bucket) { b.SetOutage(blob.Unavailable) }, []blob.Outcome{blob.Failed, blob.Failed, blob.Failed}, 3},
		{"no bulk", func(b *faulty.Bucket) { b.NoBulk(true) }, []blob.Outcome{blob.Failed, blob.Failed, blob.Failed}, 3},
		{"over", func(b *faulty.Bucket) {
			b.SetOutage(blob.Unavailable)
			b.SetOutage(blob.Other)
			b.DenyKeys(func(blob.Key) bool { return true })
			b.DenyKeys(nil)
		}, []blob.Outcome{blob.Deleted, blob.Deleted, blob.Deleted}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b, keys := setup(t, 3)
			test.plan(b)
			got := b.DeleteMany(t.Context(), keys)
			if diff := cmp.Diff(test.want, outcomes(got)); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			for i, r := range got {
				if r.Key != keys[i] || (r.Outcome == blob.Failed) != errors.Is(r.Err, faulty.ErrInjected) {
					t.Errorf("%+v", r)
				}
			}
			left := 0
			if err := b.Inner().List(t.Context(), "", func(blob.Info) error { left++; return nil }); err != nil || left != test.left {
				t.Errorf("%d left, %v, want %d", left, err, test.left)
			}
		})
	}
}

func TestFractionIsReproducible(t *testing.T) {
	t.Parallel()
	run := func() []blob.Outcome {
		b, keys := setup(t, 500)
		b.FailFraction(0.2, 42)
		return outcomes(b.DeleteMany(t.Context(), keys))
	}
	first, second := run(), run()
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("two runs with one seed differ:\n%s", diff)
	}
	failed := 0
	for _, o := range first {
		if o == blob.Failed {
			failed++
		}
	}
	if failed < 60 || failed > 140 {
		t.Errorf("%d of 500 failed, want about 100", failed)
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, keys := setup(t, 3)
		gate := b.Hold(faulty.Delete)
		done := make(chan blob.Outcome, 3)
		for _, key := range keys {
			go func() { done <- b.DeleteMany(t.Context(), []blob.Key{key})[0].Outcome }()
		}
		synctest.Wait()
		if len(gate.Entered()) != 3 || len(done) != 0 {
			t.Errorf("%d at the gate, %d through", len(gate.Entered()), len(done))
		}
		gate.Pass()
		synctest.Wait()
		if len(done) != 1 {
			t.Errorf("%d through after Pass, want 1", len(done))
		}
		gate.Open()
		synctest.Wait()
		if len(done) != 3 || b.Counts().MaxDeletes != 3 {
			t.Errorf("%d through after Open, %d at once", len(done), b.Counts().MaxDeletes)
		}
		// A held call ends with its context.
		b.Hold(faulty.Stat)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := b.Stat(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Stat at a closed gate: %v", err)
		}
	})
}

func TestDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, keys := setup(t, 2)
		for i, delay := range []time.Duration{3 * time.Second, 0} {
			b.Delay(faulty.Delete, delay)
			start := time.Now()
			b.DeleteMany(t.Context(), keys[i:i+1])
			if took := time.Since(start); took != delay {
				t.Errorf("took %s, want %s", took, delay)
			}
		}
	})
}
