package removal_test

import (
	"testing"

	"github.com/lethe-project/lethe/internal/drive/removal"
)

// A dry run counts the bytes that the delete then frees: a file with a name elsewhere frees
// none, one with all its names in the tree its size once.
func TestDryRunCountsBytes(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 7}, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.start()
		for _, name := range names("f", 20) {
			w.put("/t/" + name)
		}
		w.put("/t/d/x", "/t/d/e/y", "/t/outside", "/t/inside", "/copied")
		w.link("/t/outside", "/kept")
		w.link("/t/inside", "/t/d/again")
		w.copy("/copied", "/t/copy")
		req := w.request("/t")
		req.DryRun = true
		counted, err := w.removal.RemoveAll(ctx, req)
		must(t, err)
		if counted.More || counted.Counts.Bytes == 0 || counted.Counts.Files != 26 || counted.Counts.Directories != 3 {
			t.Errorf("counted %+v", counted)
		}
		kept, err := w.removal.RemoveAll(ctx, removal.Request{FS: w.fs, Path: w.request("/kept").Path, DryRun: true})
		must(t, err)
		if kept.Counts.Bytes != 0 || kept.Counts.Files != 1 {
			t.Errorf("one of two names frees %+v", kept.Counts)
		}
		gone := w.removeAll("/t")
		if gone.Counts.Bytes != counted.Counts.Bytes || gone.Counts.Nodes() != counted.Counts.Nodes() {
			t.Errorf("counted %+v, deleted %+v", counted.Counts, gone.Counts)
		}
		w.wantPaths("/copied", "/kept")
		w.check()
	})
}
