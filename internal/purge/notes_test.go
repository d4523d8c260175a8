package purge_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// keeper is a bucket in which deletes leave something, which it tells from the n-th question on.
type keeper struct {
	blob.Bucket
	from  int
	asked int
}

func (k *keeper) Notes(context.Context) []string {
	if k.asked++; k.asked < k.from {
		return nil
	}
	return []string{"deleted files stay as versions"}
}

// What a delete leaves in the storage is said in the row, however the purge ends.
func TestNotesAreInTheResult(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		from  int
		spoil func(w *world, table purgetest.Table)
	}{
		"success":                      {},
		"success, the store was away":  {from: 2},
		"damage":                       {spoil: func(w *world, table purgetest.Table) { w.replace(table.Manifests[0], "no Avro") }},
		"the metadata file is missing": {spoil: func(w *world, table purgetest.Table) { w.remove(table.Metadata) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			k := &keeper{Bucket: w.bucket, from: tt.from}
			var err error
			if w.space, err = blob.NewSpace(blob.Mount{Root: w.space.Root(), Bucket: k}); err != nil {
				t.Fatal(err)
			}
			table := w.table(w.builder("t", purgetest.Options{}).Append(3))
			if tt.spoil != nil {
				tt.spoil(w, table)
			}
			r := w.job(table)
			if err := w.run(r, purge.Config{}); isTerminal(err) != (tt.spoil != nil) || (err != nil && tt.spoil == nil) {
				t.Fatalf("ended with %v", err)
			}
			if diff := cmp.Diff([]string{"deleted files stay as versions"}, r.progress.Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}
