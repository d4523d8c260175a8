package job

import (
	"time"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Texts of statements whose plans are tested.
func (s *Store) Texts() map[string]sqldb.Statement {
	return map[string]sqldb.Statement{
		"claimable": s.text[claimable], "anyWaiting": s.text[anyWaiting], "gauges": s.text[gauges],
		"pruneSucceeded": s.text[pruneSucceeded], "findRequest": s.text[findRequest],
	}
}

// SetJitter takes the chance out of pauses.
func (s *Store) SetJitter(f func(time.Duration) time.Duration) { s.jitter = f }

// Clip is clip.
func Clip(s string) string { return clip(s) }

// Ceiling is Config.ceiling with the defaults filled in.
func (c Config) Ceiling(n int) time.Duration { return c.withDefaults().ceiling(n) }

// NewRun is a run without a runner: nothing keeps its lease alive.
func NewRun(s *Store, h Handler, row Row) *Run {
	return newRun(s, h.Further, row, time.Now(), func(error) {})
}
