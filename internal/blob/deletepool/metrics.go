package deletepool

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/lethe-project/lethe/internal/blob"
)

type metrics struct {
	batches   *prometheus.CounterVec // by where: pool, inline
	keys      *prometheus.CounterVec // by outcome, once a key
	retries   prometheus.Counter
	throttled prometheus.Counter
	seconds   prometheus.Histogram
}

// newMetrics registers the pool's metrics. A nil registerer keeps them to themselves.
func newMetrics(r prometheus.Registerer, depth func() int) *metrics {
	f := promauto.With(r)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "lethe_delete_pool_batches", Help: "Batches in the pool: queued, on the wire or waiting for a retry.",
	}, func() float64 { return float64(depth()) })
	return &metrics{
		batches: f.NewCounterVec(prometheus.CounterOpts{
			Name: "lethe_delete_pool_submitted_total", Help: "Batches submitted, by who works on them.",
		}, []string{"by"}),
		keys: f.NewCounterVec(prometheus.CounterOpts{
			Name: "lethe_delete_pool_keys_total", Help: "Keys of finished batches, by outcome.",
		}, []string{"outcome"}),
		retries: f.NewCounter(prometheus.CounterOpts{
			Name: "lethe_delete_pool_retried_keys_total", Help: "Keys that were sent again.",
		}),
		throttled: f.NewCounter(prometheus.CounterOpts{
			Name: "lethe_delete_pool_slowdowns_total", Help: "Times an endpoint's rate was lowered.",
		}),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "lethe_delete_pool_request_seconds", Help: "Duration of requests to the store.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
		}),
	}
}

func (m *metrics) settled(results []blob.Result) {
	var n [3]int
	for _, r := range results {
		n[r.Outcome]++
	}
	m.keys.WithLabelValues("failed").Add(float64(n[blob.Failed]))
	m.keys.WithLabelValues("deleted").Add(float64(n[blob.Deleted]))
	m.keys.WithLabelValues("missing").Add(float64(n[blob.Missing]))
}
