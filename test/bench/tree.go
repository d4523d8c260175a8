package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// batch is how many files go together, as in the server's bulk delete.
const batch = 1000

// dataFiles returns the paths of a table's data files, in the order of its manifests.
func (e *endpoint) dataFiles(table purgetest.Synthetic, name string) []string {
	paths := make([]string, table.Files)
	for i := range paths {
		paths[i] = strings.TrimPrefix(table.DataFile(e.location(name), i), "file://")
	}
	return paths
}

// fill makes small files.
func fill(paths []string) error {
	made := map[string]bool{}
	for _, path := range paths {
		if dir := filepath.Dir(path); !made[dir] {
			if err := os.MkdirAll(dir, 0o750); err != nil {
				return err
			}
			made[dir] = true
		}
		if err := os.WriteFile(path, []byte("PAR1"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// removeBare is the ceiling: it knows all paths before it begins, asks nothing, proves
// nothing and keeps no record. The threads take a batch of paths each, and the emptied
// directories go at the end.
func removeBare(paths []string, threads int) error {
	var next atomic.Int64
	errs := make([]error, threads)
	var wg sync.WaitGroup
	for t := range threads {
		wg.Go(func() {
			for {
				first := int(next.Add(batch)) - batch
				if first >= len(paths) {
					return
				}
				for _, path := range paths[first:min(first+batch, len(paths))] {
					if err := os.Remove(path); err != nil {
						errs[t] = err
						return
					}
				}
			}
		})
	}
	wg.Wait()
	gone := map[string]bool{}
	for _, path := range paths {
		if dir := filepath.Dir(path); !gone[dir] {
			gone[dir] = true
			errs = append(errs, os.Remove(dir))
		}
	}
	return errors.Join(errs...)
}
