package purge_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/lethe-project/lethe/internal/blob/deletepool"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// synthetic makes a table whose data files do not exist.
func synthetic(t tb, w *world, files, perManifest int) *row {
	t.Helper()
	table, err := purgetest.Synthetic{Files: files, PerManifest: perManifest}.Write(context.Background(), w.space, w.root()+"/t")
	if err != nil {
		t.Fatal(err)
	}
	return w.job(table)
}

// heapWatch is a pool that looks at the live heap now and then.
type heapWatch struct {
	purge.Deleter
	mu      sync.Mutex
	batches int
	peak    uint64
}

func (h *heapWatch) Submit(ctx context.Context, b deletepool.Batch) {
	h.mu.Lock()
	if h.batches++; h.batches%20 == 0 {
		h.peak = max(h.peak, liveHeap())
	}
	h.mu.Unlock()
	h.Deleter.Submit(ctx, b)
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The heap a purge needs does not grow with the number of files, in one manifest or in many.
func TestMemoryIsFlat(t *testing.T) { //nolint:paralleltest // it looks at the heap of the process
	if testing.Short() {
		t.Skip("reads 200,000 entries")
	}
	for name, perManifest := range map[string]int{"one manifest": 0, "thousands of manifests": 40} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := synthetic(t, w, 100_000, perManifest)
			watch := &heapWatch{Deleter: w.pool}
			before := liveHeap()
			s := &session{t: t, row: r}
			if err := purge.NewWalker(purge.Config{}, w, watch).Run(t.Context(), r.Job, s); err != nil {
				t.Fatal(err)
			}
			if r.progress.Missing != 100_000 {
				t.Errorf("progress %+v", r.progress)
			}
			// Two generations of 8 MiB of paths, a manifest of at most 16 MiB, a few batches.
			const limit = 40 << 20
			if watch.peak > before+limit || watch.peak == 0 {
				t.Errorf("the live heap grew by %d KiB", (watch.peak-before)>>10)
			}
			t.Logf("the live heap grew by %d KiB", (watch.peak-before)>>10)
		})
	}
}

func BenchmarkPurge(b *testing.B) {
	for _, files := range []int{50_000, 500_000} {
		for _, perManifest := range []int{0, 100} {
			b.Run(fmt.Sprintf("files=%d/manifest=%d", files, perManifest), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					w := newWorld(b)
					r := synthetic(b, w, files, perManifest)
					b.StartTimer()
					if err := w.run(r, purge.Config{}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(files)*float64(b.N)/b.Elapsed().Seconds(), "files/s")
			})
		}
	}
}
