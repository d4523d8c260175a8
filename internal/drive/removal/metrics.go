package removal

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
)

// metrics are the lethe_delete_* metrics.
type metrics struct {
	batches, lifts, nodes, orphans, retries prometheus.Counter
	incomplete                              *prometheus.CounterVec // by reason
	seconds                                 prometheus.Histogram
	found                                   *prometheus.CounterVec // by type and mode
	failed                                  prometheus.Counter
}

// What a delete waits for, or was stopped by.
var incompleteReasons = []string{"lock_wait", "quantum", "cancelled"}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	const dir = "lethe_delete_dir_recursive_"
	m := &metrics{
		batches: counter(dir+"batches_total", "Transactions of sweeps that removed files."),
		lifts:   counter(dir+"lift_tx_total", "Transactions of sweeps that removed emptied directories."),
		nodes:   counter(dir+"nodes_deleted_total", "Names removed by recursive deletes and from the trash."),
		orphans: counter(dir+"orphans_total", "Names swept after the first pass of their tree: what came late, and what it held up."),
		retries: counter(dir+"batch_retries_total", "Transactions of sweeps that ran again."),
		incomplete: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: dir + "incomplete_total", Help: "Deletes that had to stop or to be detached before they were done, by reason.",
		}, []string{"reason"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: dir + "batch_seconds", Help: "How long a transaction of a sweep took, its tries included.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
		found: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lethe_delete_reconcile_orphans_found_total", Help: "Rows that nothing reaches, found by reconciles. Any is a bug to hunt.",
		}, []string{"type", "mode"}),
		failed: counter("lethe_delete_jobs_failed_total", "Recursive deletes that ended FAILED."),
	}
	reg.MustRegister(m.incomplete, m.seconds, m.found)
	for _, reason := range incompleteReasons {
		m.incomplete.WithLabelValues(reason)
	}
	for _, class := range classes {
		m.found.WithLabelValues(string(class), modeDryRun)
		m.found.WithLabelValues(string(class), modeRepair)
	}
	return m
}

// ended is for job.Events.
func (m *Removal) ended(row job.Row) {
	if row.State == job.Failed {
		m.metrics.failed.Inc()
	}
}

// Log writes the line of a delete that a request made, recursive or plain. A sweep that the
// request waited for writes its own.
func (m *Removal) Log(ctx context.Context, req Request, res Result, err error) {
	outcome := "ok"
	switch {
	case fault.Is(err, CodeNotEmpty):
		outcome = "not_empty"
	case fault.Is(err, CodeDeleteIncomplete):
		outcome = "incomplete"
	case err != nil, res.State == job.Failed:
		outcome = "error"
	case res.Job != 0 && res.State == job.Succeeded:
		return
	case res.State != job.Succeeded && m.cfg.TrashRetention <= 0: // into the trash is all that was asked for
		outcome = "incomplete"
	}
	args := []any{
		"outcome", outcome, "fs", int64(req.FS), "path", req.Path.String(), "inode", int64(res.Inode), "nodes", res.Counts.Nodes(), "bytes", res.Counts.Bytes,
		"elapsed", res.Elapsed.Round(time.Microsecond), "principal", req.Actor, "requestId", req.RequestID,
	}
	if res.Job != 0 {
		args = append(args, "job", m.jobs.Name(res.Job))
	}
	if err != nil {
		args = append(args, "error", err)
	}
	m.log.InfoContext(ctx, "delete", args...)
}
