package job_test

import (
	"flag"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/leaks"
)

func TestMain(m *testing.M) {
	// Longer histories than rapid's own; the command line may still say otherwise.
	if err := flag.Set("rapid.steps", "60"); err != nil {
		panic(err)
	}
	leaks.Main(m)
}

// world is one database with a store on it.
type world struct {
	db    *sqldb.DB
	store *job.Store
	ended chan job.Row // what Events.Ended was told
}

func (w *world) insert(t *testing.T) job.ID {
	t.Helper()
	return jobtest.Insert(t, w.db, w.store, job.New{RequestID: "r", CreatedBy: "me"})
}

func (w *world) set(t *testing.T, id job.ID, column string, value any) {
	t.Helper()
	jobtest.Set(t, w.db, jobtest.Table, id, column, value)
}

func (w *world) get(t *testing.T, id job.ID) job.Row {
	t.Helper()
	return jobtest.Get(t, w.store, id)
}

// claimID claims a job that must be claimable.
func (w *world) claimID(t *testing.T, id job.ID) job.Row {
	t.Helper()
	row, ok, err := w.store.ClaimID(t.Context(), "me", id)
	if err != nil || !ok {
		t.Fatalf("claim of %d: %v, %v", id, ok, err)
	}
	return row
}

// stale makes a RUNNING job's lease run out.
func (w *world) stale(t *testing.T, id job.ID) {
	t.Helper()
	jobtest.Age(t, w.db, jobtest.Table, id, w.store.Config().HeartbeatTimeout+time.Second)
}

// each runs fn on every engine, with pauses that are always as long as they may be.
func each(t *testing.T, cfg job.Config, hooks job.Hooks, fn func(t *testing.T, w *world)) {
	t.Helper()
	sqldbtest.Each(t, []sqldb.Migrations{jobtest.Migrations}, func(t *testing.T, db *sqldb.DB) {
		w := &world{db: db, ended: make(chan job.Row, 1000)}
		w.store = job.NewStore(db, jobtest.Table, cfg, hooks, job.Observer{Events: job.Events{Ended: func(r job.Row) { w.ended <- r }}})
		w.store.SetJitter(func(d time.Duration) time.Duration { return d })
		fn(t, w)
	})
}

func TestParseName(t *testing.T) {
	t.Parallel()
	s := job.NewStore(nil, job.Table{Name: "x", Prefix: "purge"}, job.Config{}, job.Hooks{}, job.Observer{})
	for name, want := range map[string]job.ID{
		"purge-42": 42, "purge-9223372036854775807": 9223372036854775807,
		"purge-": 0, "purge-0": 0, "purge--1": 0, "purge-042": 0, "purge-+4": 0, "purge-4x": 0, "delete-4": 0, "42": 0, "": 0,
		"purge-9223372036854775808": 0, "PURGE-4": 0, "purge-4 ": 0,
	} {
		got, ok := s.ParseName(name)
		if got != want || ok != (want != 0) {
			t.Errorf("ParseName(%q) = %d, %v, want %d", name, got, ok, want)
		}
		if ok && s.Name(got) != name {
			t.Errorf("Name(%d) = %q, want %q", got, s.Name(got), name)
		}
	}
}

func TestCeiling(t *testing.T) {
	t.Parallel()
	var c job.Config
	want := []time.Duration{
		10 * time.Second, 10 * time.Second, 40 * time.Second, 160 * time.Second, 640 * time.Second, 30 * time.Minute, 30 * time.Minute,
	}
	for n, d := range want {
		if got := c.Ceiling(n); got != d {
			t.Errorf("after attempt %d: at most %s, want %s", n, got, d)
		}
	}
	if got := c.Ceiling(1 << 30); got != 30*time.Minute {
		t.Errorf("after very many: %s", got)
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ in, want string }{
		"short":        {"no such key", "no such key"},
		"exact":        {strings.Repeat("x", 2048), strings.Repeat("x", 2048)},
		"ascii":        {strings.Repeat("x", 2049), strings.Repeat("x", 2048)},
		"inside rune":  {strings.Repeat("x", 2047) + "é", strings.Repeat("x", 2047)},
		"at rune":      {strings.Repeat("x", 2046) + "é!", strings.Repeat("x", 2046) + "é"},
		"NUL, invalid": {"a\x00b\xffc", "a\uFFFDb\uFFFDc"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := job.Clip(tc.in)
			if got != tc.want || !utf8.ValidString(got) {
				t.Errorf("got %d bytes …%q, want %d bytes", len(got), got[max(0, len(got)-8):], len(tc.want))
			}
		})
	}
}
