// Package chaos runs several servers on one database and one S3 store, takes from them
// whatever a machine and a network can take, and asserts that nothing of it shows:
//
//   - Every accepted drop ends: the table's prefix is empty, its one job SUCCEEDED. So does
//     every recursive delete in the drive: its tree is gone from rows and bucket.
//   - What was not dropped stays byte for byte, also what others wrote beside a tree that
//     went; and they are not refused but by their own server's trouble, see answers.
//   - A server that lost a lease deletes nothing more under it. The store's own log shows
//     this: each delete names its lease, see check.
//
// A run is a schedule, drawn from a seed before it begins: drops through any server, while
// servers are killed and started again, stopped (SIGSTOP) for longer than a lease lasts and
// continued, lose the database or find it slow, and the store fails, throttles, stalls and
// loses answers. At its end all heals, and only then is anything asserted about the end.
// The same seed gives the same schedule; what the processes make of it is theirs.
//
//	go test ./test/chaos -run TestChaos -args -chaos.duration=10m
//	LETHE_CHAOS_SEED=7 go test ./test/chaos -run TestTreeChaos
//
// The parts: world (servers and gateways), store and database (the gateways, which do the
// harm), schedule, tables (what is dropped), check (the rules of the store's log), machine
// (when it stood still, which is no server's doing); for the drive (its settings, rows and
// objects), trees (what is deleted), siblings (who writes meanwhile), answers (the rules of
// what clients are told), treefaults (that its checks find what they look for).
package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/leaks"
)

// Environment of a run; the flag wins.
const (
	envSeed     = "LETHE_CHAOS_SEED"
	envDuration = "LETHE_CHAOS"
)

const (
	defaultDuration = time.Minute      // both databases together
	longestRound    = 30 * time.Second // then a new world begins: there would be nothing left to drop
	dropsOfARound   = 60
	moreRounds      = 3 // beyond its time, of a run that shows nothing yet
)

var duration = flag.Duration("chaos.duration", 0, "of the chaos, all databases together; LETHE_CHAOS, or one minute")

func TestMain(m *testing.M) { leaks.Main(m) }

func TestChaos(t *testing.T) {
	total, seed := settings(t)
	onServers(t, func(t *testing.T, db sqldbtest.Server) {
		takeovers := 0
		rounds(t, total/2, seed, func(t *testing.T, length time.Duration, seed uint64) { takeovers += runRound(t, db, length, seed) }, func() string {
			if takeovers == 0 {
				return "no lease passed on"
			}
			return ""
		})
	})
}

// rounds runs rounds until their time is over. Where the draw, or a slow machine, had it
// that they have not met what they are for, some more follow; missed says what that is.
func rounds(t *testing.T, total time.Duration, seed uint64, run func(t *testing.T, length time.Duration, seed uint64), missed func() string) {
	t.Helper()
	ran, more := false, 0
	for left := total; ; seed++ {
		length := min(total, longestRound)
		if left > 0 {
			length = min(left, longestRound)
			left -= length
		} else {
			what := missed()
			if what == "" || !ran || t.Failed() {
				return
			}
			if more++; more > moreRounds {
				t.Errorf("%s: this run shows nothing", what)
				return
			}
			t.Logf("%s: another round", what)
		}
		t.Run(fmt.Sprintf("%s=%d", envSeed, seed), func(t *testing.T) {
			ran = true // -run may leave it out
			run(t, length, seed)
		})
	}
}

func TestRoundsGoOnUntilTheyShow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		total time.Duration
		shows int // the round after which nothing is missed
		want  []time.Duration
	}{
		{"at once", longestRound, 1, []time.Duration{longestRound}},
		{"as long as it lasts", longestRound + time.Second, 1, []time.Duration{longestRound, time.Second}},
		{"late", longestRound + time.Second, 2, []time.Duration{longestRound, time.Second}},
		{"after its time", time.Second, 3, []time.Duration{time.Second, time.Second, time.Second}},
		{"long after its time", longestRound + time.Second, 4, []time.Duration{longestRound, time.Second, longestRound, longestRound}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var lengths []time.Duration
			rounds(t, tt.total, 7, func(t *testing.T, length time.Duration, seed uint64) {
				t.Helper()
				if lengths = append(lengths, length); seed != uint64(6+len(lengths)) {
					t.Errorf("round %d has the seed %d", len(lengths), seed)
				}
			}, func() string {
				if len(lengths) < tt.shows {
					return "something"
				}
				return ""
			})
			if diff := cmp.Diff(tt.want, lengths); diff != "" {
				t.Errorf("lengths (-want +got):\n%s", diff)
			}
		})
	}
}

// settings reads how long to run, and the seed: each round has the next one, so that it
// can be run again as the only one.
func settings(t *testing.T) (total time.Duration, seed uint64) {
	t.Helper()
	total = *duration
	if text := os.Getenv(envDuration); total == 0 && text != "" {
		var err error
		if total, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", envDuration, err)
		}
	}
	if total == 0 {
		total = defaultDuration
	}
	text := os.Getenv(envSeed)
	if text == "" {
		return total, rand.Uint64N(1_000_000)
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", envSeed, err)
	}
	return total, seed
}

func runRound(t *testing.T, db sqldbtest.Server, length time.Duration, seed uint64) (takeovers int) {
	t.Helper()
	w := newWorld(t, db, config{latency: 100 * time.Millisecond, batch: 10})
	plan := plan{nodes: len(w.nodes), drops: dropsOfARound, length: length, timeout: w.cfg.timeout}
	events := plan.schedule(seed)
	w.namespaceAndSiblings()
	victims := w.victims(dropsOfARound)
	t.Logf("%s=%d, %s, %d events, %d objects to delete", envSeed, seed, length, len(events), w.objects()-len(w.before))
	for _, e := range events {
		t.Log(e)
	}

	ctx, cancel := context.WithTimeout(t.Context(), length+2*patience)
	defer cancel()
	drops := &dropping{}
	start := time.Now()
	for _, e := range events {
		w.pause(start.Add(e.at))
		if e.what == drop {
			drops.begin(ctx, w, victims[e.number], e.node, e.sync)
			continue
		}
		w.apply(e)
	}
	w.pause(start.Add(length))
	open := len(w.unsettled())
	w.calm()
	calm := time.Now()
	if err := drops.group.Wait(); err != nil {
		t.Fatal(err)
	}
	w.settle(length + patience) // outages are asked about as often as they are old
	t.Logf("%d drops asked %d times, %d times without an answer; %d jobs were open at the end of the chaos, none %s later",
		dropsOfARound, drops.asked, drops.doubts, open, time.Since(calm).Round(time.Millisecond))

	w.wantOneJobEach(victims)
	w.wantUntouched()
	w.wantCatalog(victims)
	v := w.wantFenced()
	revived := 0
	for _, n := range w.nodes {
		revived += n.revived
	}
	t.Logf("%d deletes at the store, %d leases passed on, %d late requests; harm: %s; %d servers ended by themselves",
		len(w.store.requests()), v.takeovers, v.late, w.store.harm(), revived)
	return v.takeovers
}

// apply lets one harm begin or end.
func (w *world) apply(e event) {
	w.t.Helper()
	defer w.noted(e, time.Now())
	n := w.nodes[e.node]
	switch e.what {
	case drop, revive: // the caller's
	case kill:
		w.kill(n)
	case restart:
		w.restart(n)
	case stop:
		w.stop(n)
	case proceed:
		w.proceed(n)
	case cutDB:
		n.database.cut()
	case downDB:
		n.database.down()
	case stallDB:
		n.database.stall()
	case slowDB:
		n.database.slow(e.delay)
	case healDB:
		n.database.heal()
	case hurtDisk:
		w.store.trouble.Store(&e.trouble)
	case healDisk:
		w.store.calm()
	}
}
