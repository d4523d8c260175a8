package job

import (
	"time"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Texts of statements whose plans are tested.
func (s *Store) Texts() map[string]sqldb.Statement {
	return map[string]sqldb.Statement{
		"claimable": s.text[claimable], "anyWaiting": s.text[anyWaiting], "gauges": s.text[gauges], "gaugesEnded": s.text[gaugesEnded],
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

// Listing is the SELECT of a page.
func (s *Store) Listing(f Filter, p Page) (sqldb.Statement, []any) { return s.listing(f, p) }

// Unsaved is the error of a save that the database did not take.
func Unsaved(err error) error { return &unsavedError{err: err} }

// EndedFew is how many ended jobs are counted at every look.
const EndedFew = endedFew

// AgeGauges lets time pass for the count of ended jobs.
func (s *Store) AgeGauges(d time.Duration) { s.endedCount.at = s.endedCount.at.Add(-d) }

// PruneAfter sets when the first prune comes.
func (r *Runner) PruneAfter(d time.Duration) { r.pruneFirst = d }
