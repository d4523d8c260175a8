package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/test/proc"
)

var (
	rounds = flag.Int("rounds", 2, "rounds of random kills on each database")
	seed   = flag.Uint64("seed", 0, "of the random kills; 0 takes one and prints it")
)

const (
	filesOfARound = 5000
	killsOfARound = 4 // five leases lost in a row without progress would be FAILED, rightly
)

// TestKilledAtRandom purges a table of 5,000 files under a server that is killed again
// and again, while a client goes on writing to another table.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	t.Logf("-seed=%d", first)
	for round := range *rounds {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			t.Parallel()
			onEach(t, func(w *world) { killedAtRandom(w, rand.New(rand.NewPCG(first, uint64(round)))) })
		})
	}
}

func killedAtRandom(w *world, rnd *rand.Rand) {
	// About a second of deleting, so that there is a middle to be killed in.
	args := []string{"--async-purge-rate-limit", "5000", "--async-purge-delete-batch-size", "50"}
	w.up(args...)
	w.namespace()
	w.neighbours()
	victim := w.bigTable("victim", filesOfARound)
	before := w.tree(victim)
	table := asTable(w.created("written", map[string]string{"n": "0"}))
	written := w.write("written")

	job := w.drop("victim") // acknowledged: from here on it must end, come what may
	dir := strings.TrimPrefix(victim.Location, "file://")
	midway := 0
	for range killsOfARound {
		left := countFiles(dir)
		if left > 0 && rnd.IntN(4) > 0 { // when the purge has come so and so far
			goal := rnd.IntN(left)
			proc.Eventually(w.t, patience, fmt.Sprintf("%d files are left", goal), func() bool { return countFiles(dir) <= goal })
		} else { // at any time after the start
			<-time.After(time.Duration(rnd.Int64N(int64(300 * time.Millisecond))))
		}
		w.server.Kill(w.t)
		if left := countFiles(dir); left > 0 && left < filesOfARound {
			midway++
		}
		w.up(args...)
	}
	w.t.Logf("%d of %d kills were in the middle of the purge", midway, killsOfARound)
	w.ends(job, client.Succeeded)
	written.check()
	w.ends(w.drop("written"), client.Succeeded)
	w.wantPurged(victim, "victim", before, table) // a killed commit leaves its file: see TestKilledBetweenMetadataAndPointer
	w.load("sibling")
	w.load("victim2")
	w.wantOneRow("victim", client.Succeeded)
}

// writes is a client that commits one value after the other and knows which of them were
// acknowledged.
type writes struct {
	w            *world
	name         string
	stop, done   chan struct{}
	tried, acked atomic.Int64
}

// write starts such a client.
func (w *world) write(name string) *writes {
	c := &writes{w: w, name: name, stop: make(chan struct{}), done: make(chan struct{})}
	go c.run()
	return c
}

func (c *writes) run() {
	defer close(c.done)
	pause := time.NewTicker(10 * time.Millisecond) // between two writes, and while the server is away
	defer pause.Stop()
	for n := int64(1); ; n++ {
		select {
		case <-c.stop:
			return
		case <-c.w.t.Context().Done():
			return
		case <-pause.C:
		}
		c.tried.Store(n)
		a, err := c.w.send(http.MethodPost, tablesPath+"/"+c.name, setProperty("n", fmt.Sprint(n)))
		switch {
		case err != nil: // killed: it happened or not
		case a.status == http.StatusOK:
			c.acked.Store(n)
		case a.status < http.StatusInternalServerError && a.status != http.StatusTooManyRequests:
			c.w.t.Errorf("write %d: status %d: %s", n, a.status, a.body)
		}
	}
}

// check ends the client and looks for its last acknowledged write.
func (c *writes) check() {
	c.w.t.Helper()
	// One more write is acknowledged by the last server, so that all kills are behind it.
	from := c.acked.Load()
	proc.Eventually(c.w.t, patience, "a write is acknowledged", func() bool { return c.acked.Load() > from })
	close(c.stop)
	<-c.done
	acked, tried := c.acked.Load(), c.tried.Load()
	got, err := strconv.ParseInt(c.w.load(c.name).Metadata.Properties["n"], 10, 64)
	if err != nil || got < acked || got > tried {
		c.w.t.Errorf("the table holds write %d (%v), want one from %d, acknowledged, to %d, the last tried", got, err, acked, tried)
	}
	c.w.t.Logf("%d writes, the last one acknowledged is %d", tried, acked)
}
