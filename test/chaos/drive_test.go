package chaos

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/s3"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// The drive of a world: its settings, how it is asked, and what stands in its rows and in
// its part of the bucket, read past all gateways.

const (
	sweepBatch  = 10 // nodes a transaction
	inlineBytes = 64
)

// driveSettings make leases, polls and the collector quick, batches and inline files small.
// Reconciles run all the time, so that one that repairs what lives would show.
var driveSettings = []string{
	"--lock-wait", "5s",
	"--inline-bytes", strconv.Itoa(inlineBytes), "--gc-grace", "500ms", "--write-timeout", "8s", "--reconcile-interval", "3s",
	"--drive-delete-batch-size", strconv.Itoa(sweepBatch), "--drive-delete-poll-interval-ms", "200", "--drive-delete-retry-base-ms", "100",
}

// driveSide is what a world has more for its drive.
type driveSide struct {
	bucket blob.Bucket
	keys   func(context.Context) ([]string, error)

	mu  sync.Mutex
	log []exchange
}

// openDrive adds the drive's settings to those of the servers, and its part of the bucket
// to what the test sees.
func (w *world) openDrive(endpoint string) {
	w.t.Helper()
	name, _, _ := strings.Cut(strings.TrimPrefix(w.root, "s3://"), "/")
	bucket, err := s3.Open(w.t.Context(), s3.Config{Bucket: name, Prefix: "drive", Endpoint: endpoint})
	if err != nil {
		w.t.Fatal(err)
	}
	list := func(ctx context.Context) (keys []string, err error) {
		err = bucket.List(ctx, "", func(info blob.Info) error { keys = append(keys, string(info.Key)); return nil })
		slices.Sort(keys)
		return keys, err
	}
	w.drive = &driveSide{bucket: bucket, keys: list}
	w.t.Cleanup(func() { // before the bucket is removed
		ctx := context.Background()
		left, _ := list(ctx)
		for part := range slices.Chunk(left, blob.MaxDelete) {
			keys := make([]blob.Key, len(part))
			for i, k := range part {
				keys[i] = blob.Key(k)
			}
			bucket.DeleteMany(ctx, keys)
		}
		_ = bucket.Close()
	})
	place := "s3://" + name + "/drive?path-style=true&endpoint=" + url.QueryEscape(w.store.URL)
	w.cfg.args = slices.Concat(driveSettings, []string{
		"--drive-storage", place, "--drive-delete-heartbeat-timeout-ms", fmt.Sprint(w.cfg.timeout.Milliseconds()),
	}, w.cfg.args) // the last one of a flag counts
}

// Nobody gives a request up that a stopped server has: carried out late, it would undo what
// its client did since through another one.
var patientClient = &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}

// ask makes one request about the drive, and logs what came of it.
func (w *world) ask(ctx context.Context, n *node, kind exchangeKind, method, target, body string, header ...string) exchange {
	x := exchange{kind: kind, node: n.number, what: method + " " + target, began: time.Now()}
	x.status, x.body, x.err = func() (int, string, error) {
		req, err := http.NewRequestWithContext(ctx, method, n.uri+target, strings.NewReader(body))
		if err != nil {
			return 0, "", err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := patientClient.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = resp.Body.Close() }()
		x.retryAfter = resp.Header.Get("Retry-After") != ""
		out, err := io.ReadAll(resp.Body)
		if err != nil {
			return 0, "", err
		}
		return resp.StatusCode, string(out), nil
	}()
	x.ended = time.Now()
	w.drive.mu.Lock()
	defer w.drive.mu.Unlock()
	w.drive.log = append(w.drive.log, x)
	return x
}

// persist asks one server after the other until the answer is clear. doubt says that a
// request before it may have been carried out.
func (w *world) persist(ctx context.Context, first int, kind exchangeKind, method, target, body string, header ...string) (x exchange, doubt bool, err error) {
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for i := first; ; i++ {
		x = w.ask(ctx, w.nodes[i%len(w.nodes)], kind, method, target, body, header...)
		if x.status != 0 && x.status < 500 {
			return x, doubt, nil
		}
		doubt = true
		select {
		case <-pause.C:
		case <-ctx.Done():
			return x, doubt, fmt.Errorf("%s: no clear answer, %d %s %w, in the end: %w", x.what, x.status, x.body, x.err, context.Cause(ctx))
		}
	}
}

func fsTarget(path, query string) string {
	target := "/v1/fs" + (&url.URL{Path: path}).EscapedPath()
	if query != "" {
		target += "?" + query
	}
	return target
}

func toBody(path string) string { return fmt.Sprintf(`{"to":%q}`, path) }

// at is the drive as one server serves it, for a calm world.
func (w *world) at(n *node) client.Drive {
	w.t.Helper()
	c, err := client.New(client.Options{URI: n.uri, Token: token, HTTPClient: patientClient})
	if err != nil {
		w.t.Fatal(err)
	}
	return c.Drive()
}

// visible is what a server shows of the drive: files with their bytes, directories with a
// slash at their end.
func (w *world) visible(n *node) map[string]string {
	w.t.Helper()
	all := map[string]string{}
	var mu sync.Mutex
	d := w.at(n)
	group, ctx := errgroup.WithContext(w.t.Context())
	group.SetLimit(8)
	for todo := []string{""}; len(todo) > 0; {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for e, err := range d.List(ctx, cmp.Or(dir, "/")) {
			if err != nil {
				w.t.Fatal(err, group.Wait())
			}
			path := dir + "/" + e.Name
			if e.IsDir() {
				mu.Lock()
				all[path+"/"] = ""
				mu.Unlock()
				todo = append(todo, path)
				continue
			}
			group.Go(func() error {
				body, err := read(ctx, d, path)
				if err != nil {
					body = err.Error() // which nobody has written
				}
				mu.Lock()
				defer mu.Unlock()
				all[path] = body
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		w.t.Fatal(err)
	}
	return all
}

func read(ctx context.Context, d client.Drive, path string) (string, error) {
	f, err := d.Get(ctx, path, client.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("get %s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	body, err := io.ReadAll(f)
	return string(body), err
}

// treeRow is a row of drive_delete_job.
type treeRow struct {
	id       int64
	root     int64 // inode
	path     string
	state    job.State
	attempts int
	epoch    int64
	problem  string
}

const treeJobs sqldb.Statement = `SELECT id, root_inode, path, state, attempts, lease_epoch, last_error FROM drive_delete_job ORDER BY id`

func (w *world) treeJobs() (all []treeRow) {
	w.t.Helper()
	rows, err := w.sql.Query(w.t.Context(), treeJobs)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var r treeRow
		if err := rows.Scan(&r.id, &r.root, &r.path, &r.state, &r.attempts, &r.epoch, &r.problem); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *world) count(s sqldb.Statement) (n int64) {
	w.t.Helper()
	if err := w.sql.QueryRow(w.t.Context(), s).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", s, err)
	}
	return n
}

// objectRows are the keys that contents name, sorted.
func (w *world) objectRows() (keys []string) {
	w.t.Helper()
	rows, err := w.sql.Query(w.t.Context(), `SELECT object_key FROM contents WHERE object_key IS NOT NULL`)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			w.t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

var orphanMetric = regexp.MustCompile(`(?m)^lethe_delete_reconcile_orphans_found_total\{.*\} (\S+)$`)

// orphansFound adds up what the running servers say that their reconciles have found, and
// counts the lines about it in the logs of all that ever ran.
func (w *world) orphansFound() (metric float64, lines int) {
	w.t.Helper()
	for _, n := range w.nodes {
		a, err := n.must(w.t.Context(), http.MethodGet, "/metrics", nil, http.StatusOK)
		if err != nil {
			w.t.Fatal(err)
		}
		all := orphanMetric.FindAllSubmatch(a.body, -1)
		if len(all) == 0 {
			w.t.Fatal("the metric of orphans is not there")
		}
		for _, m := range all {
			value, err := strconv.ParseFloat(string(m[1]), 64)
			if err != nil {
				w.t.Fatal(err)
			}
			metric += value
		}
		lines += strings.Count(n.server.Log(), "reconcile found rows that nothing reaches")
	}
	return metric, lines
}
