package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
)

// BenchmarkDelete compares DeleteMany with the barest loop there is: 8,000 files,
// 4 goroutines, 1,000 files a step.
func BenchmarkDelete(b *testing.B) {
	const files, threads = 8_000, 4
	for _, layout := range []struct {
		name string
		dirs int
	}{{"one directory", 1}, {"200 partitions", 200}} {
		dir := b.TempDir()
		bucket := open(b, dir)
		keys := make([]blob.Key, files)
		for i := range keys {
			keys[i] = blob.Key(fmt.Sprintf("ns/table/data/p=%d/%05d-6b2c1d3e-0000-4000-8000-00000000.parquet", i%layout.dirs, i))
		}
		for name, remove := range map[string]func([]blob.Key){
			"os.Remove": func(keys []blob.Key) {
				for _, key := range keys {
					if err := os.Remove(filepath.Join(dir, string(key))); err != nil {
						b.Error(err)
					}
				}
			},
			"DeleteMany": func(keys []blob.Key) {
				for _, r := range bucket.DeleteMany(b.Context(), keys) {
					if r.Outcome != blob.Deleted {
						b.Errorf("%+v", r)
					}
				}
			},
		} {
			b.Run(layout.name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					for _, key := range keys {
						write(b, dir, string(key))
					}
					b.StartTimer()
					var wg sync.WaitGroup
					for w := range threads {
						wg.Go(func() {
							for at := w * blob.MaxDelete; at < files; at += threads * blob.MaxDelete {
								remove(keys[at : at+blob.MaxDelete])
							}
						})
					}
					wg.Wait()
				}
				b.ReportMetric(float64(files)*float64(b.N)/b.Elapsed().Seconds(), "files/s")
			})
		}
	}
}
