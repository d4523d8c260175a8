package purge

import (
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/pace"
)

// Config of the purges of one server; zero values mean the defaults.
type Config struct {
	BatchSize     int           // 1000 keys a request, at most blob.MaxDelete
	InFlight      int           // 8 batches of one job at once
	RateLimit     float64       // deletes a second and warehouse, 0 is no limit
	ReadBackoff   time.Duration // 50 ms, after a failed read, doubled by each
	MaxLeftovers  int           // 100,000 keys listed after the purge
	MaxOlder      int           // 1,000,000 older metadata files followed
	DeleteOutside bool          // take directories outside of the table's locations that are nobody's, and delete there
	Events        Events
	Pace          *pace.Governor // shares the processors with requests; nil leaves that to the scheduler
	// Step is the seam of crash tests: it is called at every step boundary, with the
	// level and one of the Step names, StepDeleted on a thread of the pool. A test build
	// stops there.
	Step func(level Level, step string)
}

// The step boundaries of a level, in their order.
const (
	StepSave    = "save"    // before the phase is saved
	StepSaved   = "saved"   // after it was committed
	StepDelete  = "delete"  // before the level's first delete
	StepDeleted = "deleted" // after the first answer, before it is counted
	StepSettled = "settled" // everything of the level is settled
	StepFinish  = "finish"  // ROOT only: after the leftovers were counted, before the job ends
)

func (c Config) withDefaults() Config {
	def := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	def(&c.BatchSize, blob.MaxDelete)
	c.BatchSize = min(c.BatchSize, blob.MaxDelete)
	if c.RateLimit > 0 && c.RateLimit < float64(c.BatchSize) {
		// What the rate grants in a second goes in one request, and is no less a batch: what is in
		// flight settles in seconds then, and whoever waits for a yield does not wait for more.
		c.BatchSize = max(int(c.RateLimit), 1)
	}
	def(&c.InFlight, 8)
	def(&c.MaxLeftovers, 100_000)
	def(&c.MaxOlder, 1_000_000)
	if c.ReadBackoff <= 0 {
		c.ReadBackoff = 50 * time.Millisecond
	}
	return c
}

func (c *Config) step(level Level, step string) {
	if c.Step != nil {
		c.Step(level, step)
	}
}
