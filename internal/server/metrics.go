package server

import "github.com/prometheus/client_golang/prometheus"

// countStatements shows what the database is asked.
func (s *server) countStatements() {
	counter := func(name, help string, count func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(count()) })
	}
	s.registry.MustRegister(
		counter("lethe_db_statements_total", "Statements sent to the database, BEGIN and COMMIT left out.", s.db.Statements),
		counter("lethe_db_tx_retries_total", "Transactions run again after a deadlock, a conflict or a wait for a lock.", s.db.Retries),
	)
}
