package purge

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lethe-project/lethe/internal/job"
)

// Metrics are the lethe_purge_* metrics: counters fed by events, and gauges that a
// scrape reads from the job table by one indexed query.
type Metrics struct {
	completed, failed                      prometheus.Counter
	deleted, missing, skipped, filesFailed prometheus.Counter
	leftovers                              prometheus.Counter
}

// NewMetrics registers the metrics; store may be nil, then there are no gauges.
func NewMetrics(reg prometheus.Registerer, store *job.Store, log *slog.Logger) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "lethe_purge_" + name, Help: help})
		reg.MustRegister(c)
		return c
	}
	m := &Metrics{
		completed:   counter("completed_total", "Purges that ended SUCCEEDED."),
		failed:      counter("failed_total", "Purges that ended FAILED."),
		deleted:     counter("files_deleted_total", "Files deleted by purges."),
		missing:     counter("files_missing_total", "Files that purges found gone."),
		skipped:     counter("files_skipped_total", "Files that purges left alone by a rule."),
		filesFailed: counter("files_failed_total", "Files that purges failed to delete, each attempt counted."),
		leftovers:   counter("leftovers_total", "Files found in the locations of purged tables afterwards."),
	}
	if store != nil {
		reg.MustRegister(&gauges{store: store, log: log})
	}
	return m
}

// Events returns what feeds the file counters.
func (m *Metrics) Events() Events {
	return Events{
		Files: func(t Tally, failed int64) {
			m.deleted.Add(float64(t.Files))
			m.missing.Add(float64(t.Missing))
			for _, n := range t.Skipped {
				m.skipped.Add(float64(n))
			}
			m.filesFailed.Add(float64(failed))
		},
		Completed: func(_ Job, p Progress) { m.leftovers.Add(float64(p.Leftovers)) },
	}
}

// Ended is for job.Events.
func (m *Metrics) Ended(row job.Row) {
	switch row.State {
	case job.Succeeded:
		m.completed.Inc()
	case job.Failed:
		m.failed.Inc()
	case job.Pending, job.Running, job.Cancelled:
	}
}

// gauges reads the job table when it is scraped.
type gauges struct {
	store *job.Store
	log   *slog.Logger
}

var (
	jobsDesc = prometheus.NewDesc("lethe_purge_jobs", "Rows of iceberg_cleanup_job by state.", []string{"state"}, nil)
	ageDesc  = prometheus.NewDesc("lethe_purge_oldest_pending_age_seconds", "How long the oldest pending purge could have run.", nil, nil)
)

const scrapeTimeout = 5 * time.Second

// Describe implements prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	ch <- jobsDesc
	ch <- ageDesc
}

// Collect implements prometheus.Collector. Without a database the gauges are absent,
// and the other metrics still come.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	now, err := g.store.Gauges(ctx)
	if err != nil {
		g.log.WarnContext(ctx, "purge gauges not read", "error", err)
		return
	}
	for state, n := range now.Jobs {
		ch <- prometheus.MustNewConstMetric(jobsDesc, prometheus.GaugeValue, float64(n), string(state))
	}
	ch <- prometheus.MustNewConstMetric(ageDesc, prometheus.GaugeValue, now.OldestPending.Seconds())
}
