package job

import "time"

// Config of a job table's engine; zero values mean the defaults.
type Config struct {
	Workers          int           // 2
	PollInterval     time.Duration // 5 s
	HeartbeatTimeout time.Duration // 300 s
	MaxAttempts      int           // 5
	RetryBase        time.Duration // 10 s
	OutageGrace      time.Duration // 1 h
	Quantum          time.Duration // 30 s
	Retention        time.Duration // 720 h, SUCCEEDED and acknowledged rows
	FailedRetention  time.Duration // 0: FAILED and CANCELLED rows with files left stay for ever

	Wrap func(Handler) Handler // around each run of a handler, to watch it; nil leaves it bare
}

const (
	maxBackoff      = 30 * time.Minute
	maxStaleReclaim = 5 // leases that ran out without progress, then FAILED
	maxError        = 2048
	saveEvery       = time.Second
	saveWait        = 10 * time.Second // for the database, beyond its own waits for locks
	pruneFirst      = time.Minute
	pruneEvery      = time.Hour
)

func (c Config) withDefaults() Config {
	setDefault(&c.Workers, 2)
	setDefault(&c.PollInterval, 5*time.Second)
	setDefault(&c.HeartbeatTimeout, 300*time.Second)
	setDefault(&c.MaxAttempts, 5)
	setDefault(&c.RetryBase, 10*time.Second)
	setDefault(&c.OutageGrace, time.Hour)
	setDefault(&c.Quantum, 30*time.Second)
	setDefault(&c.Retention, 720*time.Hour)
	return c
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// ceiling is the longest pause after the attempt that raised attempts to n: base × 4ⁿ⁻¹,
// at most 30 minutes. The pause itself is drawn between nothing and this.
func (c Config) ceiling(n int) time.Duration {
	d := c.RetryBase
	for i := 1; i < n && d < maxBackoff; i++ {
		d *= 4
	}
	return min(d, maxBackoff)
}
