package crash

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/client"
)

var driveRounds = flag.Int("drive.rounds", 4, "rounds of random kills of a drive's server on each database")

const (
	driveClients = 4
	driveKills   = 3 // of a round
)

// TestDriveKilledAtRandom kills the server again and again while clients write, rename,
// copy, upload and delete, each in a directory of its own. What was acknowledged is there,
// everything else happened whole or not at all, and nothing is left over.
func TestDriveKilledAtRandom(t *testing.T) {
	t.Parallel()
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	t.Logf("-seed=%d", first)
	onEachDrive(t, func(d *driveWorld) {
		d.start()
		clients := make([]*driveClient, driveClients)
		for n := range clients {
			clients[n] = &driveClient{
				d: d, home: fmt.Sprintf("/c%d", n), rnd: rand.New(rand.NewPCG(first, uint64(n))),
				files: map[string]string{}, did: map[string]int{},
			}
		}
		rnd := rand.New(rand.NewPCG(first, driveClients))
		for round := range *driveRounds {
			stop := make(chan struct{})
			var working sync.WaitGroup
			for _, c := range clients {
				working.Go(func() { c.work(stop) })
			}
			for range driveKills {
				<-time.After(50*time.Millisecond + time.Duration(rnd.Int64N(int64(700*time.Millisecond))))
				d.server.Kill(d.t)
				d.start()
			}
			close(stop)
			working.Wait()
			want := map[string]string{}
			for _, c := range clients {
				maps.Copy(want, c.files)
				if len(c.files) > 0 || c.made {
					want[c.home] = "dir"
				}
			}
			d.wantFiles(want)
			d.wantSettled()
			if d.t.Failed() {
				d.t.Fatalf("so in round %d", round)
			}
			d.start()
		}
		acknowledged := 0
		for _, c := range clients {
			d.t.Logf("%s did %v", c.home, c.did)
			acknowledged += c.did["acknowledged"]
		}
		if acknowledged == 0 {
			d.t.Error("nothing was acknowledged: this test shows nothing")
		}
	})
}

// driveClient changes its directory and knows what is in it: whatever fails is read back.
type driveClient struct {
	d     *driveWorld
	home  string
	rnd   *rand.Rand
	made  bool              // home is there
	files map[string]string // below home, as driveWorld.files tells them
	n     int
	did   map[string]int
}

func (c *driveClient) work(stop <-chan struct{}) {
	for !c.d.t.Failed() {
		select {
		case <-stop:
			return
		default:
		}
		op, after, do := c.choose()
		if do == nil {
			continue
		}
		err := do()
		c.did[op]++
		if err == nil {
			c.did["acknowledged"]++
			c.files, c.made = after, true
			continue
		}
		if status := client.StatusOf(err); status != 0 && status < 500 || status == 500 || status == 501 {
			c.d.t.Errorf("%s in %s: %v", op, c.home, err)
		}
		c.readBack(op, after, err)
	}
}

// readBack finds out what became of a change that was not acknowledged: all or nothing.
func (c *driveClient) readBack(op string, after map[string]string, cause error) {
	over := time.After(patience)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		now, err := c.d.look(c.home)
		switch {
		case err == nil && cmp.Equal(now, after):
			c.did["happened"]++
			c.files, c.made = after, true
			return
		case err == nil && cmp.Equal(now, c.files):
			c.did["did not happen"]++
			if !c.made && len(now) == 0 {
				_, err := c.d.drive.Mkdir(c.d.t.Context(), c.home, client.MkdirOptions{Parents: true})
				c.made = err == nil
				if err != nil {
					continue
				}
			}
			return
		case err == nil:
			c.d.t.Errorf("half of a %s in %s, which failed with: %v\n(-before +now)\n%s(-after +now)\n%s", op, c.home, cause, cmp.Diff(c.files, now), cmp.Diff(after, now))
			return
		}
		select {
		case <-again.C:
		case <-over:
			c.d.t.Errorf("%s can not be read back: %v", c.home, err)
			return
		}
	}
}

// path is a file that may or may not be there.
func (c *driveClient) path() string {
	return fmt.Sprintf("%s/d%d/f%d", c.home, c.rnd.IntN(3), c.rnd.IntN(8))
}

// existing is a path of c.files that is a directory, or none; "" when there is none.
func (c *driveClient) existing(dir bool) string {
	var all []string
	for path, state := range c.files {
		if (state == "dir") == dir {
			all = append(all, path)
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return all[c.rnd.IntN(len(all))]
}

// with is c.files and one more file.
func (c *driveClient) with(path, state string) map[string]string {
	after := maps.Clone(c.files)
	after[path], after[path[:strings.LastIndex(path, "/")]] = state, "dir"
	return after
}

// choose picks a change and says what is there after it. do is nil when it makes no sense.
func (c *driveClient) choose() (op string, after map[string]string, do func() error) {
	ctx, drive := c.d.t.Context(), c.d.drive
	c.n++
	switch n := c.rnd.IntN(100); {
	case n < 45:
		path, size := c.path(), inlineSize
		if c.rnd.IntN(2) == 0 {
			size = objectSize * (1 + c.rnd.IntN(20))
		}
		body := bytesOf(fmt.Sprint(path, c.n), size)
		return "put", c.with(path, sha(body)), func() error {
			_, err := drive.Put(ctx, path, bytes.NewReader(body), client.PutOptions{})
			return err
		}
	case n < 55:
		path, body := c.path(), bytesOf(fmt.Sprint(c.home, c.n), objectSize)
		return "upload", c.with(path, sha(body)), func() error {
			_, err := drive.Upload(ctx, path, bytes.NewReader(body), int64(len(body)), client.UploadOptions{PartSize: objectSize / 3, Parallel: 2})
			return err
		}
	case n < 75:
		from, to := c.existing(false), c.path()
		dir := to[:strings.LastIndex(to, "/")]
		if from == "" || from == to || c.files[dir] == "" {
			return "", nil, nil
		}
		after = c.with(to, c.files[from])
		if c.rnd.IntN(3) == 0 {
			return "copy", after, func() error { _, err := drive.Copy(ctx, from, to, client.ChangeOptions{}); return err }
		}
		delete(after, from)
		return "rename", after, func() error { _, err := drive.Rename(ctx, from, to, client.ChangeOptions{}); return err }
	case n < 80:
		from, to := c.existing(true), fmt.Sprintf("%s/d%d", c.home, c.rnd.IntN(3))
		if from == "" || c.files[to] != "" {
			return "", nil, nil
		}
		after = map[string]string{}
		for path, state := range c.files {
			if below, ok := strings.CutPrefix(path, from); ok {
				path = to + below
			}
			after[path] = state
		}
		return "rename of a directory", after, func() error { _, err := drive.Rename(ctx, from, to, client.ChangeOptions{}); return err }
	case n < 90:
		path := c.existing(false)
		if path == "" {
			return "", nil, nil
		}
		after = maps.Clone(c.files)
		delete(after, path)
		return "remove", after, func() error { _, err := drive.Remove(ctx, path, client.ChangeOptions{}); return err }
	default:
		path := c.existing(true)
		if path == "" {
			return "", nil, nil
		}
		after = maps.Clone(c.files)
		maps.DeleteFunc(after, func(p, _ string) bool { return p == path || strings.HasPrefix(p, path+"/") })
		wait := c.rnd.IntN(2) == 0
		return "remove of a tree", after, func() error {
			_, err := drive.RemoveAll(ctx, path, client.RemoveAllOptions{Return: !wait})
			return err
		}
	}
}
