// Package crash runs the built server as a process and takes away from it what a process
// can lose: its life at every step of a drop, of a purge and of the drive's operations, and
// at random moments; its lease, its database connections, the store, the disk. What must hold after each of them
// is asserted on what a user sees: files on disk, answers of the API, rows of the database.
//
//   - Every accepted drop ends: the table's directory is gone, its one job SUCCEEDED.
//   - What was not dropped stays byte for byte.
//   - An acknowledged write is never lost; one without an answer happened whole or not at all.
//   - SUCCEEDED never leaves a file of the table behind.
//   - In the drive, whatever had not been acknowledged happened whole or not at all, and no
//     object stays that no row names.
//
// Every case runs on every database, with directories, servers and schemas of its own.
package crash

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/proc"
)

const (
	token = "a-token-for-tests"
	// A dead server's lease runs out after this; it is long beside a busy machine's hiccups.
	heartbeat = 2 * time.Second
	patience  = 3 * time.Minute // for what happens sooner or later, on a slow machine too
)

// The cases wait for processes and leases most of the time: more of them at once than
// there are cores.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "6"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// onEach runs a case on every database.
func onEach(t *testing.T, run func(w *world)) {
	t.Helper()
	for _, db := range sqldbtest.Servers(t) {
		t.Run(string(db.Name), func(t *testing.T) {
			t.Parallel()
			run(newWorld(t, db.URL(t)))
		})
	}
}

// world is a warehouse and a database, and the server that runs on them now.
type world struct {
	t        *testing.T
	database string
	data     string // data folder
	dir      string // storage root
	space    *blob.Space
	server   *proc.Server
	uri      atomic.Pointer[string] // of the server, for goroutines of a case
	mark     string                 // written when the crash step is reached
}

func newWorld(t *testing.T, database string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{
		t: t, database: database, data: filepath.Join(dir, "data"),
		dir: filepath.Join(dir, "warehouse"), mark: filepath.Join(dir, "mark"),
	}
	w.space = openSpace(t, w.dir)
	return w
}

// options of a server on this world. Retries, polls and leases are quick.
func (w *world) options(args ...string) proc.Options {
	quick := []string{
		"--storage", w.dir, "--log-format", "json",
		"--async-purge-retry-base-ms", "100",
		"--async-purge-poll-interval-ms", "200",
		"--async-purge-heartbeat-timeout-ms", fmt.Sprint(heartbeat.Milliseconds()),
	}
	return proc.Options{
		Data: w.data, Database: w.database,
		Args: append(quick, args...), // the last one of a flag counts
		Env:  []string{"LETHE_ADMIN_TOKEN=" + token},
	}
}

// up starts the server.
func (w *world) up(args ...string) {
	w.t.Helper()
	w.start(w.options(args...))
}

// upTo starts a server that stops for ever when it comes to the step.
func (w *world) upTo(step string, args ...string) {
	w.t.Helper()
	opts := w.options(args...)
	opts.Binary = proc.CrashBinary(w.t)
	opts.Env = append(opts.Env, "LETHE_CRASH_STEP="+step, "LETHE_CRASH_MARK="+w.mark)
	w.start(opts)
}

func (w *world) start(opts proc.Options) {
	w.t.Helper()
	w.server = proc.Start(w.t, opts)
	w.uri.Store(&w.server.URI)
}

// refused starts the server, which must end by itself and say why.
func (w *world) refused(why string) {
	w.t.Helper()
	w.server.Launch(w.t)
	select {
	case <-w.server.Done():
	case <-time.After(patience):
		w.server.Kill(w.t)
		w.t.Fatal("the server started")
	}
	if log := w.server.Log(); !strings.Contains(log, why) {
		w.t.Fatalf("the server ended without %q:\n%s", why, log)
	}
}

// killed waits until the step is reached and kills the server there.
func (w *world) killed() {
	w.t.Helper()
	w.reached()
	w.server.Kill(w.t)
	if err := os.Remove(w.mark); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) reached() {
	w.t.Helper()
	proc.Eventually(w.t, patience, "the step is reached", func() bool {
		_, err := os.Stat(w.mark)
		return err == nil
	})
}

// answer is an HTTP answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// http has no connections that outlive a killed server.
var httpClient = &http.Client{Timeout: 2 * patience, Transport: &http.Transport{DisableKeepAlives: true}}

// send makes one request, with a body of bytes or JSON. An error means that there was no
// whole answer.
func (w *world) send(method, path string, body any, header ...string) (answer, error) {
	var in io.Reader = http.NoBody
	if raw, ok := body.([]byte); ok {
		in = bytes.NewReader(raw)
	} else if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, *w.uri.Load()+path, in)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, out}, err
}

// call is send of a request that must be answered with the status.
func (w *world) call(status int, method, path string, body any, header ...string) answer {
	w.t.Helper()
	a, err := w.send(method, path, body, header...)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	if a.status != status {
		w.t.Fatalf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.body)
	}
	return a
}

const (
	catalogPath = "/iceberg/v1/default/namespaces"
	tablesPath  = catalogPath + "/crash/tables"
)

func (w *world) namespace() {
	w.t.Helper()
	w.call(http.StatusOK, http.MethodPost, catalogPath, map[string]any{"namespace": []string{"crash"}})
}

// loaded is what the catalog answers for a table.
type loaded struct {
	MetadataLocation string `json:"metadata-location"`
	Metadata         struct {
		Location   string            `json:"location"`
		Properties map[string]string `json:"properties"`
	} `json:"metadata"`
}

func (w *world) load(name string) (out loaded) {
	w.t.Helper()
	a := w.call(http.StatusOK, http.MethodGet, tablesPath+"/"+name, nil)
	if err := json.Unmarshal(a.body, &out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func setProperty(key, value string) map[string]any {
	return map[string]any{
		"requirements": []any{},
		"updates":      []any{map[string]any{"action": "set-properties", "updates": map[string]string{key: value}}},
	}
}

const (
	purgeQuery  = "?purgeRequested=true"
	asyncHeader = "X-Gravitino-Async-Purge"
)

// drop drops a table with an asynchronous purge and returns the job's name.
func (w *world) drop(name string) string {
	w.t.Helper()
	a := w.call(http.StatusNoContent, http.MethodDelete, tablesPath+"/"+name+purgeQuery, nil, asyncHeader, "true")
	return a.header.Get("X-Lethe-Job")
}

// job reads a job; ok is false when the server does not answer.
func (w *world) job(name string) (j client.Job, ok bool) {
	w.t.Helper()
	a, err := w.send(http.MethodGet, "/v1/jobs/"+name, nil)
	if err != nil || a.status >= http.StatusInternalServerError {
		return j, false
	}
	if a.status != http.StatusOK {
		w.t.Fatalf("job %s: status %d: %s", name, a.status, a.body)
	}
	if err := json.Unmarshal(a.body, &j); err != nil {
		w.t.Fatal(err)
	}
	return j, true
}

// until polls a job.
func (w *world) until(name, what string, ok func(client.Job) bool) (j client.Job) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			w.t.Logf("%s as last seen: %s, phase %s, %d attempts, owner %s, last error %q, progress %s", name, j.State, j.Phase, j.Attempts, j.Owner, j.LastError, j.Progress)
		}
	}()
	proc.Eventually(w.t, patience, name+" "+what, func() bool {
		now, answered := w.job(name)
		if answered {
			j = now
		}
		return answered && ok(now)
	})
	return j
}

// ends waits for a job's end, which must be the state.
func (w *world) ends(name string, state client.JobState) client.Job {
	w.t.Helper()
	j := w.until(name, "ends", func(j client.Job) bool { return j.State.Ended() })
	if j.State != state {
		w.t.Fatalf("%s ended %s, want %s: %s %s", name, j.State, state, j.LastError, j.Progress)
	}
	return j
}

// jobsOf lists the jobs of a table.
func (w *world) jobsOf(table string) []client.Job {
	w.t.Helper()
	var page struct{ Jobs []client.Job }
	a := w.call(http.StatusOK, http.MethodGet, "/v1/jobs?table="+table, nil)
	if err := json.Unmarshal(a.body, &page); err != nil {
		w.t.Fatal(err)
	}
	return page.Jobs
}

// tree is every file of the warehouse with its bytes, but those of the given tables.
func (w *world) tree(without ...purgetest.Table) map[string]string {
	w.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == filepath.Join(w.dir, ".lethe-root"): // the store's own marker
			return nil
		case d.IsDir():
			if slices.ContainsFunc(without, func(t purgetest.Table) bool { return t.Location == "file://"+path }) {
				return filepath.SkipDir
			}
			return nil
		}
		body, err := os.ReadFile(path)
		all["file://"+path] = string(body)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// wantPurged asserts that a table is gone with its directory, and that everything else,
// but the tables to ignore, is as it was.
func (w *world) wantPurged(table purgetest.Table, name string, before map[string]string, ignore ...purgetest.Table) {
	w.t.Helper()
	w.call(http.StatusNotFound, http.MethodGet, tablesPath+"/"+name, nil)
	dir := strings.TrimPrefix(table.Location, "file://")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		w.t.Errorf("%d files of the purged table are left (%v)", countFiles(dir), err)
	}
	if diff := cmp.Diff(before, w.tree(ignore...)); diff != "" {
		w.t.Errorf("what was not dropped changed (-before +after):\n%s", diff)
	}
}

// wantOneRow stops the server and asserts, in the database itself, that the drop of a
// table made exactly one job.
func (w *world) wantOneRow(table string, state client.JobState) {
	w.t.Helper()
	w.server.Stop(w.t)
	db, err := sqldb.Open(w.t.Context(), w.database, sqldb.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var all, as int
	const count sqldb.Statement = `SELECT COUNT(*), COALESCE(SUM(CASE WHEN state = ? THEN 1 ELSE 0 END), 0) FROM iceberg_cleanup_job WHERE table_name = ?`
	if err := db.QueryRow(w.t.Context(), count, string(state), table).Scan(&all, &as); err != nil {
		w.t.Fatal(err)
	}
	if all != 1 || as != 1 {
		w.t.Errorf("%d rows for table %s, %d of them %s; want exactly one", all, table, as, state)
	}
}

func countFiles(dir string) (n int) {
	// Files vanish while this walks: that is no error here.
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return nil
	})
	return n
}
