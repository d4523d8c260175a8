package chaos

import (
	"flag"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/proc"
)

var bigFiles = flag.Int("chaos.files", 4000, "of each large purge in the test of fairness; at least 1,000")

// Both workers of a server are at work on large purges when a small one arrives. It does
// not wait for their end.
func TestSmallPurgeAmongLargeOnes(t *testing.T) {
	const quantum = 3 * time.Second
	onServers(t, func(t *testing.T, db sqldbtest.Server) {
		w := newWorld(t, db, config{
			nodes: 1, timeout: 30 * time.Second, latency: 100 * time.Millisecond,
			batch: min(*bigFiles/400, 1000), // a large purge alone takes ten seconds and more
			args:  []string{"--async-purge-quantum", quantum.String()},
		})
		w.namespaceAndSiblings()
		n := w.nodes[0]
		// The store takes as long for files that are not there.
		large := purgetest.Synthetic{Files: *bigFiles, PerManifest: max(*bigFiles/40, 1)}
		all := []*table{w.victim("v01", large), w.victim("v02", large), w.victim("v03", purgetest.Synthetic{Files: 10, Exist: true})}
		for _, t := range all[:2] {
			w.mustDrop(n, t.name)
		}
		proc.Eventually(t, patience, "both workers are at work", func() bool {
			return w.job("v01").state == job.Running && w.job("v02").state == job.Running
		})
		began := time.Now()
		w.mustDrop(n, "v03")
		proc.Eventually(t, patience, "the small purge ends", func() bool { return w.job("v03").state == job.Succeeded })
		took := time.Since(began)
		t.Logf("ten files took %s beside two purges of %d files, with a quantum of %s", took.Round(time.Millisecond), *bigFiles, quantum)
		if took-w.watch.seen().within(began, time.Now()) > 3*quantum {
			t.Errorf("ten files took %s, want at most three quanta of %s", took, quantum)
		}
		for _, name := range []string{"v01", "v02"} {
			if j := w.job(name); j.state.Ended() || j.attempts != 0 {
				t.Errorf("%+v: the small purge waited for it, or a yield was counted", j)
			}
		}
		w.settle(5 * time.Minute)
		w.wantOneJobEach(all)
		w.wantUntouched()
		w.wantFenced()
	})
}
