package purge_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// drop inserts the job of a table, as the catalog's drop does.
func drop(t *testing.T, w *world, db *sqldb.DB, s *purge.Store, name string, table purgetest.Table) job.ID {
	t.Helper()
	j := w.job(table)
	r := request("one", name)
	r.UUID, r.TableLocation, r.MetadataLocation = j.UUID, j.TableLocation, j.MetadataLocation
	return insert(t, db, s, r)
}

func TestHandlerPurges(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, db *sqldb.DB, s *purge.Store) {
		w := newWorld(t)
		b := w.builder("t", purgetest.Options{})
		rich(b)
		before := w.tree()
		table := w.table(b)
		id := drop(t, w, db, s, "t", table)
		jobtest.Start(t, s.Jobs(), purge.NewHandler(s, purge.NewWalker(purge.Config{}, w, w.pool)), "here")
		row := jobtest.AwaitState(t, s.Jobs(), id, job.Succeeded)
		w.want(before, table.Reachable)
		if row.Phase != "ROOT" || !strings.Contains(string(row.Progress), `"failed":0`) {
			t.Errorf("row %+v, progress %s", row, row.Progress)
		}
	})
}

func TestHandlerRetriesAndAcceptsMissing(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, db *sqldb.DB, s *purge.Store) {
		w := newWorld(t)
		table := w.table(w.builder("t", purgetest.Options{}).Append(3).Append(2))
		w.remove(table.Manifests[0])
		id := drop(t, w, db, s, "t", table)
		jobtest.Start(t, s.Jobs(), purge.NewHandler(s, purge.NewWalker(purge.Config{}, w, w.pool)), "here")
		row := jobtest.AwaitState(t, s.Jobs(), id, job.Failed)
		if row.Attempts != 1 || !strings.Contains(row.LastError, "missing") {
			t.Errorf("attempts %d, error %q", row.Attempts, row.LastError)
		}
		if _, err := s.Jobs().Retry(t.Context(), id, job.RetryOptions{}); err != nil {
			t.Fatal(err)
		}
		jobtest.AwaitState(t, s.Jobs(), id, job.Failed)
		if _, err := s.Jobs().Retry(t.Context(), id, job.RetryOptions{AcceptMissing: true}); err != nil {
			t.Fatal(err)
		}
		jobtest.AwaitState(t, s.Jobs(), id, job.Succeeded)
		if j, err := s.Get(t.Context(), db, id); err != nil || !j.AcceptMissing {
			t.Errorf("%+v, %v", j, err)
		}
		if len(w.tree()) != 3 { // the data of the manifest that was lost
			t.Errorf("left: %v", keys(w.tree()))
		}
	})
}

// Failed attempts that make no progress run out; the counts stay in the row.
func TestHandlerEndsFailed(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, db *sqldb.DB, s *purge.Store) {
		w := newWorld(t)
		table := w.table(w.builder("t", purgetest.Options{}).Append(6))
		w.bucket.DenyKeys(func(k blob.Key) bool { return strings.Contains(string(k), "/00002-") })
		id := drop(t, w, db, s, "t", table)
		jobtest.Start(t, s.Jobs(), purge.NewHandler(s, purge.NewWalker(purge.Config{}, w, w.pool)), "here")
		row := jobtest.AwaitState(t, s.Jobs(), id, job.Failed)
		if row.Attempts != 5 || !strings.Contains(string(row.Progress), `"failed":1`) || row.Phase != "DATA" {
			t.Errorf("row %+v, progress %s", row, row.Progress)
		}
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, db *sqldb.DB, s *purge.Store) {
		w := newWorld(t)
		reg := prometheus.NewPedanticRegistry()
		m := purge.NewMetrics(reg, s.Jobs(), nil)
		table := w.table(w.builder("t", purgetest.Options{}).Append(3).Name(w.root() + "/outside"))
		insert(t, db, s, request("one", "pending"))
		if err := w.run(w.job(table), purge.Config{Events: m.Events()}); err != nil {
			t.Fatal(err)
		}
		m.Ended(job.Row{State: job.Succeeded})
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, metric := range f.GetMetric() {
				name := f.GetName()
				for _, l := range metric.GetLabel() {
					name += " " + l.GetValue()
				}
				got[name] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
		delete(got, "lethe_purge_oldest_pending_age_seconds") // depends on the clock
		want := map[string]float64{
			"lethe_purge_completed_total": 1, "lethe_purge_failed_total": 0, "lethe_purge_leftovers_total": 0,
			"lethe_purge_files_deleted_total": float64(len(table.Reachable)), "lethe_purge_files_missing_total": 0,
			"lethe_purge_files_skipped_total": 1, "lethe_purge_files_failed_total": 0,
			"lethe_purge_jobs PENDING": 1, "lethe_purge_jobs RUNNING": 0, "lethe_purge_jobs SUCCEEDED": 0,
			"lethe_purge_jobs FAILED": 0, "lethe_purge_jobs CANCELLED": 0,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
