package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/local"
	"github.com/lethe-project/lethe/internal/blob/s3"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/proc"
)

const (
	envStore = "LETHE_TEST_S3"
	threads  = 4 // delete-threads
)

// config of a world; zero values are those of the chaos run.
type config struct {
	nodes   int           // 3
	timeout time.Duration // heartbeat, 3 s
	batch   int           // keys a delete, 20
	latency time.Duration // of deletes at the store
	args    []string      // more settings of each server
	local   bool          // tables lie in a directory, not in the store
	drive   bool          // files and directories are used: see drive_test.go
}

// world is one database and one bucket, and the servers on them. Each server reaches the
// database through a gateway of its own; all reach the store through one.
type world struct {
	t      *testing.T
	cfg    config
	sql    *sqldb.DB // of the test, past the gateways
	root   string    // s3://bucket/prefix, or file:///directory
	space  *blob.Space
	store  *store
	nodes  []*node
	watch  *machine
	wakes  map[int][]time.Time
	before map[string]string // what nobody drops: URI → bytes
	drive  *driveSide        // nil without a drive
	notes  []note            // of the harm that was done
}

// node is the place of one server, which has one process after the other.
type node struct {
	number   int
	uri      string
	database *database
	server   *proc.Server
	absent   bool // it was killed and shall stay away
	asleep   bool
	revived  int // times that it ended by itself and was started again
}

// onServers runs a case on PostgreSQL and on MariaDB, one after the other: the machine is
// to give each case what it has.
func onServers(t *testing.T, run func(t *testing.T, db sqldbtest.Server)) {
	t.Helper()
	ran := false
	for _, db := range sqldbtest.Servers(t) {
		if db.Name == sqldb.SQLite {
			continue // one server only
		}
		ran = true
		t.Run(db.String(), func(t *testing.T) { run(t, db) })
	}
	if !ran {
		t.Skip("no database of many servers")
	}
}

func newWorld(t *testing.T, db sqldbtest.Server, cfg config) *world {
	t.Helper()
	if cfg.nodes == 0 {
		cfg.nodes = 3
	}
	if cfg.timeout == 0 {
		cfg.timeout = 3 * time.Second
	}
	if cfg.batch == 0 {
		cfg.batch = 20
	}
	w := &world{t: t, cfg: cfg, wakes: map[int][]time.Time{}, watch: newMachine(t)}
	if cfg.local {
		w.openDirectory()
	} else {
		endpoint := os.Getenv(envStore)
		if endpoint == "" {
			t.Skipf("%s names no gateway", envStore)
		}
		w.openBucket(endpoint)
		w.store = newStore(t, endpoint, cfg.latency)
		if cfg.drive {
			w.openDrive(endpoint)
		}
	}
	database := db.URL(t)
	var err error
	if w.sql, err = sqldb.Open(t.Context(), database, sqldb.Config{MaxConns: 4}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.sql.Close() })
	for i := range cfg.nodes {
		w.nodes = append(w.nodes, w.newNode(i, database))
	}
	return w
}

// openBucket makes a bucket, and removes it with the test.
func (w *world) openBucket(endpoint string) {
	w.t.Helper()
	name := "chaos-" + strings.ToLower(rand.Text())
	client := awss3.New(awss3.Options{
		BaseEndpoint: &endpoint, UsePathStyle: true, Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), ""),
	})
	if _, err := client.CreateBucket(w.t.Context(), &awss3.CreateBucketInput{Bucket: &name}); err != nil {
		w.t.Fatal(err)
	}
	w.root = "s3://" + name + "/wh"
	bucket, err := s3.Open(w.t.Context(), s3.Config{Bucket: name, Prefix: "wh", Endpoint: endpoint})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		ctx := context.Background()
		var keys []blob.Key
		err := bucket.List(ctx, "", func(info blob.Info) error {
			keys = append(keys, info.Key)
			return nil
		})
		for len(keys) > 0 {
			n := min(len(keys), blob.MaxDelete)
			bucket.DeleteMany(ctx, keys[:n])
			keys = keys[n:]
		}
		_, removed := client.DeleteBucket(ctx, &awss3.DeleteBucketInput{Bucket: &name})
		if err := errors.Join(err, removed, bucket.Close()); err != nil {
			w.t.Logf("the bucket stays: %v", err)
		}
	})
	w.mount(bucket)
}

func (w *world) openDirectory() {
	w.t.Helper()
	dir := w.t.TempDir()
	bucket, err := local.Open(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = bucket.Close() })
	w.root = "file://" + dir
	w.mount(bucket)
}

func (w *world) mount(bucket blob.Bucket) {
	w.t.Helper()
	root, err := blob.ParseLocation(w.root)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.space, err = blob.NewSpace(blob.Mount{Root: root, Bucket: bucket}); err != nil {
		w.t.Fatal(err)
	}
}

// storage is the root as a setting of a server.
func (w *world) storage() string {
	if w.store == nil {
		return w.root
	}
	return w.root + "?path-style=true&endpoint=" + url.QueryEscape(w.store.URL)
}

func (w *world) newNode(number int, database string) *node {
	w.t.Helper()
	n := &node{number: number, database: newDatabase(w.t, database)}
	listen := proc.FreeAddress(w.t) // also over restarts
	n.uri = "http://" + listen
	args := append([]string{
		"--storage", w.storage(),
		"--log-format", "json",
		"--async-purge-delete-threads", fmt.Sprint(threads),
		"--async-purge-delete-batch-size", fmt.Sprint(w.cfg.batch),
		"--async-purge-heartbeat-timeout-ms", fmt.Sprint(w.cfg.timeout.Milliseconds()),
		"--async-purge-retry-base-ms", "100",
		"--async-purge-poll-interval-ms", "200",
		"--async-purge-purge-wait-ms", "2000",
	}, w.cfg.args...)
	n.server = proc.Start(w.t, proc.Options{
		Database: n.database.URL, Listen: listen, Args: args, Env: []string{"LETHE_ADMIN_TOKEN=" + token},
	})
	w.t.Cleanup(func() { // before the server is stopped by its own
		n.database.heal()
		n.server.Signal(w.t, syscall.SIGCONT)
	})
	return n
}

// kill ends a server at once. It stays away until restart.
func (w *world) kill(n *node) {
	w.t.Helper()
	n.absent = true
	n.server.Kill(w.t)
}

func (w *world) restart(n *node) {
	w.t.Helper()
	n.absent = false
	if !n.server.Alive() {
		n.server.Launch(w.t)
	}
}

// stop freezes a server (SIGSTOP).
func (w *world) stop(n *node) {
	w.t.Helper()
	n.asleep = true
	n.server.Signal(w.t, syscall.SIGSTOP)
}

// proceed lets it go on (SIGCONT), and notes when.
func (w *world) proceed(n *node) {
	w.t.Helper()
	n.asleep = false
	pid := n.server.PID()
	w.wakes[pid] = append(w.wakes[pid], time.Now())
	n.server.Signal(w.t, syscall.SIGCONT)
}

// supervise starts servers again that ended by themselves: those that came up while the
// database was away, for instance.
func (w *world) supervise() {
	w.t.Helper()
	for _, n := range w.nodes {
		if !n.absent && !n.server.Alive() {
			n.revived++
			n.server.Launch(w.t)
			w.noted(event{what: revive, node: n.number}, time.Now())
		}
	}
}

// calm ends all harm and waits until every server answers.
func (w *world) calm() {
	w.t.Helper()
	if w.store != nil {
		w.store.calm()
	}
	for _, n := range w.nodes {
		n.database.heal()
		if n.asleep {
			w.proceed(n)
		}
		n.absent = false
	}
	proc.Eventually(w.t, patience, "every server is ready", func() bool {
		w.supervise()
		for _, n := range w.nodes {
			if a, err := n.send(w.t.Context(), "GET", "/readyz", nil); err != nil || a.status != 200 {
				return false
			}
		}
		return true
	})
}

// pause waits, and supervises meanwhile.
func (w *world) pause(until time.Time) {
	w.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(time.Until(until)); ; {
		select {
		case <-over:
			return
		case <-tick.C:
			w.supervise()
		case <-w.t.Context().Done():
			w.t.Fatal(context.Cause(w.t.Context()))
		}
	}
}

// tree is every object of the storage root with its bytes.
func (w *world) tree() map[string]string {
	w.t.Helper()
	all, err := purgetest.Tree(w.t.Context(), w.space)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// objects counts the objects of the storage root.
func (w *world) objects() (n int) {
	w.t.Helper()
	for _, m := range w.space.Mounts() {
		if err := m.Bucket.List(w.t.Context(), "", func(blob.Info) error { n++; return nil }); err != nil {
			w.t.Fatal(err)
		}
	}
	return n
}

// wantUntouched asserts that the storage root holds what nobody dropped, byte for byte,
// and nothing else: every dropped table's prefix is empty.
func (w *world) wantUntouched() {
	w.t.Helper()
	if diff := cmp.Diff(w.before, w.tree()); diff != "" {
		w.t.Errorf("the bucket is not as it was without the dropped tables (-want +got):\n%s", diff)
	}
}

// wantFenced asserts that the deletes which the store saw came under leases that held.
func (w *world) wantFenced() verdict {
	w.t.Helper()
	places := map[string]string{}
	for _, j := range w.jobs() {
		places[j.name()] = strings.TrimPrefix(j.location, "s3://") + "/"
	}
	v := history{requests: w.store.requests(), wakes: w.wakes, halts: w.watch.seen(), threads: threads, places: places}.check()
	for i, text := range v.violations {
		if i == 20 {
			w.t.Errorf("and %d more", len(v.violations)-i)
			break
		}
		w.t.Error(text)
	}
	return v
}
