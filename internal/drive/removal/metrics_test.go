package removal_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// TestMetricNames holds to the names that dashboards and alerts know. All of them are there
// before anything happens.
func TestMetricNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sqldbtest.Server{Name: sqldb.SQLite}, removal.Config{})
	reg := prometheus.NewRegistry()
	w.with(func(c *removal.Config) { c.Registerer = reg })
	families, err := reg.Gather()
	must(t, err)
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			got = append(got, name)
		}
	}
	want := []string{"lethe_delete_dir_recursive_batch_seconds", "lethe_delete_jobs_failed_total"}
	for _, name := range []string{"batches", "lift_tx", "nodes_deleted", "orphans", "batch_retries"} {
		want = append(want, "lethe_delete_dir_recursive_"+name+"_total")
	}
	for _, reason := range []string{"lock_wait", "quantum", "cancelled"} {
		want = append(want, "lethe_delete_dir_recursive_incomplete_total reason="+reason)
	}
	for _, mode := range []string{"dry_run", "repair"} {
		for _, class := range []string{"dentry", "inode", "dir_inode", "detached_root"} {
			want = append(want, "lethe_delete_reconcile_orphans_found_total mode="+mode+" type="+class)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
