package feed

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	events   prometheus.Counter
	failures prometheus.Counter
}

func newMetrics(r prometheus.Registerer) metrics {
	m := metrics{
		events:   prometheus.NewCounter(prometheus.CounterOpts{Name: "lethe_drive_events_total", Help: "Events of drives that were numbered here."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "lethe_drive_fold_failures_total", Help: "Rounds in which usage could not be folded or events not be numbered."}),
	}
	r.MustRegister(m.events, m.failures)
	return m
}
