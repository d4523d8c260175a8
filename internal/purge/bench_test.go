package purge_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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

// BenchmarkPurgeLocal deletes real files, beside a bare loop over the same ones.
func BenchmarkPurgeLocal(b *testing.B) {
	const files = 20_000
	fill := func(b *testing.B) (*world, *row) {
		b.Helper()
		w := newLocalWorld(b)
		r := synthetic(b, w, files, 1000)
		for day := range 100 {
			dir := filepath.Join(w.dir, "t", "data", fmt.Sprintf("day=%02d", day))
			if err := os.MkdirAll(dir, 0o700); err != nil {
				b.Fatal(err)
			}
			for i := day; i < files; i += 100 {
				name := fmt.Sprintf("%08d-00000-4c1f8f2e-7a55-4b1e-9d3e-0a9f6b1c2d3e-00001.parquet", i)
				if err := os.WriteFile(filepath.Join(dir, name), []byte("PAR1"), 0o600); err != nil {
					b.Fatal(err)
				}
			}
		}
		return w, r
	}
	rate := func(b *testing.B) {
		b.Helper()
		b.ReportMetric(float64(files)*float64(b.N)/b.Elapsed().Seconds(), "files/s")
	}
	b.Run("purge", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			w, r := fill(b)
			b.StartTimer()
			if err := w.run(r, purge.Config{}); err != nil {
				b.Fatal(err)
			}
			if r.progress.Files != files+int64(files/1000)+2 || r.progress.Leftovers != 0 {
				b.Fatalf("progress %+v", r.progress)
			}
		}
		rate(b)
	})
	b.Run("bare removal", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			w, _ := fill(b)
			b.StartTimer()
			if err := os.RemoveAll(filepath.Join(w.dir, "t")); err != nil {
				b.Fatal(err)
			}
		}
		rate(b)
	})
}
