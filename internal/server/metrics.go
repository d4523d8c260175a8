package server

import (
	"database/sql"

	"github.com/prometheus/client_golang/prometheus"
)

// watchDatabase shows what the database is asked, and whether its connections suffice.
func (s *server) watchDatabase() {
	counter := func(name, help string, count func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(count()) })
	}
	connections := func(state string, count func(sql.DBStats) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lethe_db_connections", Help: "Connections to the database: in_use, idle, and max, which the setting allows.",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(count(s.db.Stats())) })
	}
	s.registry.MustRegister(
		connections("in_use", func(d sql.DBStats) int { return d.InUse }),
		connections("idle", func(d sql.DBStats) int { return d.Idle }),
		connections("max", func(d sql.DBStats) int { return d.MaxOpenConnections }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "lethe_db_connection_wait_seconds_total", Help: "How long statements and transactions waited for a free connection, all together.",
		}, func() float64 { return s.db.Stats().WaitDuration.Seconds() }),
		counter("lethe_db_statements_total", "Statements sent to the database, BEGIN and COMMIT left out.", s.db.Statements),
		counter("lethe_db_tx_retries_total", "Transactions run again after a deadlock, a conflict or a wait for a lock.", s.db.Retries),
	)
}
