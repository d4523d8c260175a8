// Package soak lets clients change one drive at random through built servers, on
// SQLite through one and on the other databases through two: files, links, copies, uploads,
// renames and recursive deletes of the same few paths. Whatever happens meanwhile, no answer is
// 500, and at rest nothing is found that nothing reaches: no row, no object, no byte of
// the usage.
package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/internal/drive/drivetest"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/proc"
)

var (
	duration = flag.Duration("soak.duration", 10*time.Second, "how long clients work on each database")
	seed     = flag.Uint64("soak.seed", 0, "of what they do; 0 takes one and prints it")
)

const (
	token    = "a-token-for-tests"
	clients  = 8
	patience = 5 * time.Minute // until the deletes of a whole run are through
)

func TestSoak(t *testing.T) {
	t.Parallel()
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	t.Logf("-soak.seed=%d", first)
	for _, db := range sqldbtest.Servers(t) {
		t.Run(string(db.Name), func(t *testing.T) {
			t.Parallel()
			w := start(t, db)
			workers := make([]*worker, clients)
			for n := range workers {
				workers[n] = &worker{w: w, drive: w.drive(n), rnd: rand.New(rand.NewPCG(first, uint64(n))), did: map[string]int{}}
			}
			did := w.work(workers, *duration)
			for began := time.Now(); !shows(did) && !t.Failed() && time.Since(began) < patience; { // on a slow machine
				did = w.work(workers, *duration)
			}
			t.Logf("%v; answers by status: %v", did, w.seen.statuses)
			for _, op := range operations {
				if did[op.name] == 0 && *duration >= time.Minute {
					t.Errorf("no %s succeeded: this test shows little", op.name)
				}
			}
			if !shows(did) {
				t.Error("this test shows nothing")
			}
			w.wantAtRest()
			w.wantEmptied()
			w.wantRows()
		})
	}
}

// shows says whether what was done makes the test one.
func shows(did map[string]int) bool { return did["put"] > 0 && did["remove of a tree"] > 0 }

// work lets the workers work for a while and returns what all of them have done so far.
func (w *world) work(workers []*worker, length time.Duration) map[string]int {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), length)
	defer stop()
	var working sync.WaitGroup
	for _, c := range workers {
		working.Go(func() { c.work(ctx) })
	}
	working.Wait()
	did := map[string]int{}
	for _, c := range workers {
		for op, n := range c.did {
			did[op] += n
		}
	}
	return did
}

// world is a database, a store and the servers on them.
type world struct {
	t        *testing.T
	database string
	servers  []*proc.Server
	clients  []*client.Client // one a server
	seen     *seen
}

func start(t *testing.T, db sqldbtest.Server) *world {
	t.Helper()
	w := &world{t: t, database: db.URL(t), seen: &seen{t: t, statuses: map[int]int{}}}
	storage, n := t.TempDir(), 2
	if db.Name == sqldb.SQLite {
		n = 1
	}
	for range n {
		s := proc.Start(t, proc.Options{
			Database: w.database, Env: []string{"LETHE_ADMIN_TOKEN=" + token},
			Args: []string{
				"--storage", storage + "/tables", "--drive-storage", storage + "/drive", "--inline-bytes", "64", "--gc-grace", "1s",
				"--drive-delete-batch-size", "20", "--drive-delete-poll-interval-ms", "200", "--drive-delete-wait-ms", "200", "--reconcile-interval", "1s",
			},
		})
		c, err := client.New(client.Options{URI: s.URI, Token: token, HTTPClient: &http.Client{Transport: w.seen}})
		if err != nil {
			t.Fatal(err)
		}
		w.servers, w.clients = append(w.servers, s), append(w.clients, c)
	}
	return w
}

func (w *world) drive(n int) client.Drive { return w.clients[n%len(w.clients)].Drive() }

// seen counts answers, and fails the test for every 500.
type seen struct {
	t        *testing.T
	mu       sync.Mutex
	statuses map[int]int
}

// RoundTrip implements http.RoundTripper.
func (s *seen) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses[resp.StatusCode]++
	if resp.StatusCode == http.StatusInternalServerError {
		body, err := io.ReadAll(resp.Body)
		s.t.Errorf("%s %s: 500 %s (%v)", r.Method, r.URL, body, err)
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
	return resp, nil
}

// worker does random things to paths of a few short names.
type worker struct {
	w     *world
	drive client.Drive
	rnd   *rand.Rand
	did   map[string]int
}

func (c *worker) dir() string {
	var b strings.Builder
	for range 1 + c.rnd.IntN(3) {
		b.WriteString("/" + string(rune('a'+c.rnd.IntN(2))))
	}
	return b.String()
}

func (c *worker) file() string { return fmt.Sprintf("%s/f%d", c.dir(), c.rnd.IntN(4)) }

func (c *worker) body() []byte {
	size := 1 + c.rnd.IntN(60) // a row
	if c.rnd.IntN(2) == 0 {
		size = 100 + c.rnd.IntN(20_000) // an object
	}
	return bytes.Repeat([]byte{byte('a' + c.rnd.IntN(26))}, size)
}

var operations = []struct {
	name   string
	weight int
	do     func(c *worker, ctx context.Context) error
}{
	{"put", 30, func(c *worker, ctx context.Context) error {
		_, err := c.drive.Put(ctx, c.file(), bytes.NewReader(c.body()), client.PutOptions{})
		return err
	}},
	{"put of many", 3, func(c *worker, ctx context.Context) error { // more than a fast path takes
		dir := c.dir()
		for n := range 25 {
			if _, err := c.drive.Put(ctx, fmt.Sprintf("%s/g%d", dir, n), bytes.NewReader(c.body()), client.PutOptions{}); err != nil {
				return err
			}
		}
		return nil
	}},
	{"upload", 5, func(c *worker, ctx context.Context) error {
		body := c.body()
		_, err := c.drive.Upload(ctx, c.file(), bytes.NewReader(body), int64(len(body)), client.UploadOptions{PartSize: 5000, Parallel: 2})
		return err
	}},
	{"mkdir", 6, func(c *worker, ctx context.Context) error {
		_, err := c.drive.Mkdir(ctx, c.dir(), client.MkdirOptions{Parents: true})
		return err
	}},
	{"rename", 10, func(c *worker, ctx context.Context) error {
		_, err := c.drive.Rename(ctx, c.file(), c.file(), client.ChangeOptions{})
		return err
	}},
	{"rename of a directory", 10, func(c *worker, ctx context.Context) error {
		_, err := c.drive.Rename(ctx, c.dir(), c.dir(), client.ChangeOptions{})
		return err
	}},
	{"copy", 8, func(c *worker, ctx context.Context) error {
		_, err := c.drive.Copy(ctx, c.file(), c.file(), client.ChangeOptions{})
		return err
	}},
	{"link", 8, func(c *worker, ctx context.Context) error {
		_, err := c.drive.Link(ctx, c.file(), c.file())
		return err
	}},
	{"read", 8, func(c *worker, ctx context.Context) error {
		f, err := c.drive.Get(ctx, c.file(), client.GetOptions{})
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		_, err = io.Copy(io.Discard, f)
		return err
	}},
	{"remove", 6, func(c *worker, ctx context.Context) error {
		_, err := c.drive.Remove(ctx, c.file(), client.ChangeOptions{})
		return err
	}},
	{"remove of a tree", 6, func(c *worker, ctx context.Context) error {
		_, err := c.drive.RemoveAll(ctx, c.dir(), client.RemoveAllOptions{Return: c.rnd.IntN(2) == 0})
		return err
	}},
}

func (c *worker) work(ctx context.Context) {
	total := 0
	for _, op := range operations {
		total += op.weight
	}
	for ctx.Err() == nil && !c.w.t.Failed() {
		n := c.rnd.IntN(total)
		for _, op := range operations {
			if n -= op.weight; n >= 0 {
				continue
			}
			// An operation that has begun is ended, also at the end of the time.
			switch err := op.do(c, c.w.t.Context()); {
			case err == nil:
				c.did[op.name]++
			case client.StatusOf(err) == 0:
				c.w.t.Errorf("%s: %v", op.name, err)
			default:
				c.did[op.name+" refused"]++
			}
			break
		}
	}
}

// wantAtRest waits until all deletes are through and asserts that nothing is found.
func (w *world) wantAtRest() {
	w.t.Helper()
	ctx, drive := w.t.Context(), w.drive(0)
	for u, err := range drive.Uploads(ctx) { // whose directory was removed meanwhile
		if err != nil {
			w.t.Fatal(err)
		}
		if err := drive.AbortUpload(ctx, u.ID); err != nil {
			w.t.Fatal(err)
		}
	}
	jobs := w.clients[0].Jobs()
	proc.Eventually(w.t, patience, "all deletes end", func() bool {
		for _, state := range []client.JobState{client.Pending, client.Running} {
			for _, err := range jobs.List(ctx, client.JobFilter{Kind: "delete", State: state}) {
				if err != nil {
					w.t.Fatal(err)
				}
				return false
			}
		}
		return true
	})
	for _, state := range []client.JobState{client.Failed, client.Cancelled} {
		for j, err := range jobs.List(ctx, client.JobFilter{Kind: "delete", State: state}) {
			w.t.Errorf("%s of %s is %s: %s (%v)", j.Job, j.Object.Path, j.State, j.LastError, err)
		}
	}
	report, err := drive.Check(ctx)
	if err != nil || !report.OK {
		w.t.Errorf("check: %+v, %v", report, err)
	}
	if err := drive.Reconcile(ctx); err != nil {
		w.t.Errorf("reconcile: %v", err)
	}
	found, err := drive.DryReconcile(ctx)
	if err != nil {
		w.t.Errorf("reconcile: %v", err)
	}
	for class, n := range found {
		if n != 0 {
			w.t.Errorf("reconcile finds %d of class %s", n, class)
		}
	}
	w.wantNoOrphans()
}

// wantNoOrphans reads the metric that must stay 0, also of all reconciles under load.
func (w *world) wantNoOrphans() {
	w.t.Helper()
	const metric = "lethe_delete_reconcile_orphans_found_total{"
	for _, s := range w.servers {
		req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, s.URI+"/metrics", http.NoBody)
		if err != nil {
			w.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			w.t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if _ = resp.Body.Close(); err != nil {
			w.t.Fatal(err)
		}
		lines := 0
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, metric) {
				if lines++; !strings.HasSuffix(line, " 0\n") {
					w.t.Errorf("orphans were found: %s", line)
				}
			}
		}
		if lines == 0 {
			w.t.Errorf("%d %s: the metric is not there", resp.StatusCode, s.URI)
		}
	}
}

// wantEmptied deletes all that is left, after which no object and no byte is.
func (w *world) wantEmptied() {
	w.t.Helper()
	ctx, drive := w.t.Context(), w.drive(0)
	for e, err := range drive.List(ctx, "/") {
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := drive.RemoveAll(ctx, "/"+e.Name, client.RemoveAllOptions{}); err != nil {
			w.t.Errorf("remove %s: %v", e.Name, err)
		}
	}
	usage, err := drive.Usage(ctx)
	if err != nil || usage != (client.DriveUsage{}) {
		w.t.Errorf("usage of an empty drive: %+v, %v", usage, err)
	}
	var scrubbed map[string]json.RawMessage
	defer func() { w.t.Logf("the last scrub: %s", maps.Collect(maps.All(scrubbed))) }()
	proc.Eventually(w.t, patience, "the store is empty", func() bool {
		if scrubbed, err = drive.Scrub(ctx, false); err != nil {
			w.t.Fatal(err)
		}
		return string(scrubbed["objects"]) == "0"
	})
	w.wantAtRest()
}

// wantRows stops the servers and looks at the rows themselves.
func (w *world) wantRows() {
	w.t.Helper()
	for _, s := range w.servers {
		s.Stop(w.t)
	}
	db, err := sqldb.Open(w.t.Context(), w.database, sqldb.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var fs int64
	if err := db.QueryRow(w.t.Context(), `SELECT MIN(fs_id) FROM fs_lock`).Scan(&fs); err != nil {
		w.t.Fatal(err)
	}
	drivetest.Check(w.t, db, fs)
	for table, query := range map[string]sqldb.Statement{
		"file_nodes": `SELECT COUNT(*) FROM file_nodes`, "contents": `SELECT COUNT(*) FROM contents`,
		"inodes":        `SELECT COUNT(*) FROM inodes WHERE inode_id > 2`,
		"file_gc_tasks": `SELECT COUNT(*) FROM file_gc_tasks`, "upload_parts": `SELECT COUNT(*) FROM upload_parts`,
	} {
		var left int
		if err := db.QueryRow(w.t.Context(), query).Scan(&left); err != nil {
			w.t.Fatal(err)
		}
		if left > 0 {
			w.t.Errorf("%d rows are left in %s", left, table)
		}
	}
}
