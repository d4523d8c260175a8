package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const (
	token      = "a-token-for-tests"
	impatience = 5 * time.Second // of clients, while harm is done
	namespaces = "/iceberg/v1/default/namespaces"
)

type object = map[string]any

// answer is an HTTP answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// Clients have no connections that outlive a killed server.
var httpClient = &http.Client{Timeout: impatience, Transport: &http.Transport{DisableKeepAlives: true}}

// send makes one request to a server. An error means that there was no whole answer.
func (n *node) send(ctx context.Context, method, path string, body any, header ...string) (answer, error) {
	return n.sendBy(ctx, httpClient, method, path, body, header...)
}

func (n *node) sendBy(ctx context.Context, client *http.Client, method, path string, body any, header ...string) (answer, error) {
	var in io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, n.uri+path, in)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, out}, err
}

// must makes a request in a calm world, where an answer may take its time.
func (n *node) must(ctx context.Context, method, path string, body any, want int, header ...string) (answer, error) {
	a, err := n.sendBy(ctx, patientClient, method, path, body, header...)
	if err == nil && a.status != want {
		err = fmt.Errorf("%s %s: status %d, want %d: %s", method, path, a.status, want, a.body)
	}
	return a, err
}

// row is a job as it stands in the database.
type row struct {
	id             int64
	table          string
	state          job.State
	attempts       int
	reclaims       int
	epoch          int64
	owner          string
	phase, problem string
	location       string
}

func (r row) name() string { return fmt.Sprintf("purge-%d", r.id) }

const allJobs sqldb.Statement = `SELECT id, table_name, state, attempts, stale_reclaims, lease_epoch, owner, phase, last_error, table_location FROM iceberg_cleanup_job ORDER BY id`

// jobs reads all job rows.
func (w *world) jobs() []row {
	w.t.Helper()
	rows, err := w.sql.Query(w.t.Context(), allJobs)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var all []row
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.id, &r.table, &r.state, &r.attempts, &r.reclaims, &r.epoch, &r.owner, &r.phase, &r.problem, &r.location); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return all
}

// job reads the job of a table.
func (w *world) job(table string) row {
	w.t.Helper()
	for _, r := range w.jobs() {
		if r.table == table {
			return r
		}
	}
	w.t.Fatalf("table %s has no job", table)
	return row{}
}

// settle waits until no job is on its way, and fails the test for one that did not
// succeed.
func (w *world) settle(limit time.Duration) {
	w.t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(limit); ; {
		open := 0
		var last row
		for _, r := range w.jobs() {
			switch {
			case r.state == job.Succeeded:
			case r.state.Ended():
				w.t.Fatalf("%+v", r)
			default:
				open, last = open+1, r
			}
		}
		if open == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-over:
			w.t.Fatalf("%d jobs are not over after %s of calm, such as %+v", open, limit, last)
		}
	}
}

// unsettled lists the jobs that are on their way.
func (w *world) unsettled() (open []row) {
	w.t.Helper()
	for _, r := range w.jobs() {
		if !r.state.Ended() {
			open = append(open, r)
		}
	}
	return open
}
