package job

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lethe-project/lethe/internal/sqldb"
)

// Gauges is the table at one moment.
type Gauges struct {
	Jobs          map[State]int64 // every state is there
	OldestPending time.Duration   // how long the oldest PENDING job could have run; 0 when none could
}

const (
	// What operators watch is counted exactly: it is little, or the reason to watch.
	gauges sqldb.Statement = `SELECT state, COUNT(*), MIN(available_at), {now} FROM {table_name}
	WHERE state IN ('PENDING', 'RUNNING', 'FAILED') GROUP BY state`

	// gaugesEnded counts what grows for as long as retention lets it.
	gaugesEnded sqldb.Statement = `SELECT state, COUNT(*), 0, 0 FROM {table_name}
	WHERE state IN ('SUCCEEDED', 'CANCELLED') GROUP BY state`
)

const (
	endedFresh = time.Minute // how long a count of many ended jobs is good enough
	endedFew   = 10_000      // so few are counted each time
)

// endedCount is the last count of SUCCEEDED and CANCELLED jobs.
type endedCount struct {
	mu   sync.Mutex // one count at a time
	at   time.Time
	jobs map[State]int64
}

// Gauges counts the jobs, from the index (state, available_at). SUCCEEDED and CANCELLED
// may be a minute old where there are many.
func (s *Store) Gauges(ctx context.Context) (g Gauges, err error) {
	g.Jobs = map[State]int64{Pending: 0, Running: 0, Failed: 0}
	g.OldestPending, err = s.count(ctx, gauges, g.Jobs)
	if err != nil {
		return g, err
	}
	g.Jobs[Succeeded], g.Jobs[Cancelled], err = s.countEnded(ctx)
	return g, err
}

func (s *Store) countEnded(ctx context.Context) (succeeded, cancelled int64, err error) {
	c := &s.endedCount
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jobs[Succeeded]+c.jobs[Cancelled] <= endedFew || time.Since(c.at) > endedFresh {
		jobs := map[State]int64{}
		if _, err := s.count(ctx, gaugesEnded, jobs); err != nil {
			return 0, 0, err
		}
		c.jobs, c.at = jobs, time.Now()
	}
	return c.jobs[Succeeded], c.jobs[Cancelled], nil
}

// count adds up one statement's states and returns the age of the oldest PENDING job.
func (s *Store) count(ctx context.Context, text sqldb.Statement, jobs map[State]int64) (age time.Duration, err error) {
	rows, err := s.db.Query(ctx, s.text[text])
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var state State
		var n, oldest, now int64
		if err := rows.Scan(&state, &n, &oldest, &now); err != nil {
			return 0, err
		}
		jobs[state] = n
		if state == Pending {
			age = time.Duration(max(0, now-oldest)) * time.Millisecond
		}
	}
	return age, rows.Err()
}
