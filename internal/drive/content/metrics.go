package content

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	deleted, missing, failed, named prometheus.Counter
	oldest                          prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "lethe_drive_gc_" + name + "_total", Help: help})
	}
	m := metrics{
		deleted: counter("deleted", "Objects that the collector deleted."),
		missing: counter("missing", "Objects that were not there any more when the collector came."),
		failed:  counter("failed", "Objects that the collector could not delete, at each try."),
		named:   counter("named", "Tasks whose object a content named: a bug to hunt. The object stays."),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lethe_drive_gc_oldest_due_age_seconds",
			Help: "For how long the oldest due task has been waiting for the collector.",
		}),
	}
	if r != nil {
		r.MustRegister(m.deleted, m.missing, m.failed, m.named, m.oldest)
	}
	return m
}
