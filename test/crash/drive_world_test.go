package crash

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/internal/drive/drivetest"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/proc"
)

// quickDrive makes polls and the collector quick, batches and inline files small. Leases
// and writes outlast a busy machine's hiccups: what is counted here is counted once.
var quickDrive = []string{
	"--inline-bytes", "64", "--gc-grace", "500ms", "--write-timeout", "6s",
	"--drive-delete-batch-size", "5", "--drive-delete-poll-interval-ms", "200", "--drive-delete-wait-ms", "5000",
	"--drive-delete-heartbeat-timeout-ms", "6000", "--drive-delete-retry-base-ms", "50",
}

// driveWorld is a world whose drive is used, through one client that outlives servers.
type driveWorld struct {
	*world
	drive client.Drive
	jobs  client.Jobs
	arm   string // file that names the step to stop at
}

// onEachDrive runs a case on every database.
func onEachDrive(t *testing.T, run func(d *driveWorld)) {
	t.Helper()
	for _, db := range sqldbtest.Servers(t) {
		t.Run(string(db.Name), func(t *testing.T) {
			t.Parallel()
			run(newDriveWorld(t, db.URL(t)))
		})
	}
}

func newDriveWorld(t *testing.T, database string) *driveWorld {
	t.Helper()
	w := newWorld(t, database)
	d := &driveWorld{world: w, arm: filepath.Join(filepath.Dir(w.mark), "step")}
	var dialer net.Dialer
	c, err := client.New(client.Options{
		URI: "http://lethe.invalid", Token: token,
		HTTPClient: &http.Client{Timeout: patience, Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) { // the server of the moment
				return dialer.DialContext(ctx, network, strings.TrimPrefix(*w.uri.Load(), "http://"))
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.drive, d.jobs = c.Drive(), c.Jobs()
	return d
}

// start starts a server that stops for ever at the step that is armed.
func (d *driveWorld) start(args ...string) {
	d.t.Helper()
	if d.server != nil {
		d.expire()
	}
	opts := d.options(append(slices.Clone(quickDrive), args...)...)
	opts.Binary = proc.CrashBinary(d.t)
	opts.Env = append(opts.Env, "LETHE_CRASH_STEP="+d.arm, "LETHE_CRASH_MARK="+d.mark)
	d.world.start(opts)
}

// expire lets the leases on deletes run out: whoever held them is dead.
func (d *driveWorld) expire() {
	d.t.Helper()
	db, err := sqldb.Open(d.t.Context(), d.database, sqldb.Config{})
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	err = db.Tx(d.t.Context(), func(tx *sqldb.Tx) error {
		_, err := tx.Exec(d.t.Context(), `UPDATE drive_delete_job SET heartbeat_at = 0 WHERE state = 'RUNNING'`)
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// armed names the step to stop at; "" is none.
func (d *driveWorld) armed(step string) {
	d.t.Helper()
	fresh := d.arm + ".new"
	if err := os.WriteFile(fresh, []byte(step), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(fresh, d.arm); err != nil {
		d.t.Fatal(err)
	}
}

// killed kills the server at the step that is armed, which it has come to or will.
func (d *driveWorld) killed() {
	d.t.Helper()
	d.world.killed()
	d.armed("")
}

// diesAt makes a request, kills the server at the step, and starts it again.
func (d *driveWorld) diesAt(step, method, path string, body any, header ...string) {
	d.t.Helper()
	d.armed(step)
	over := d.sent(method, path, body, header...)
	d.killed()
	<-over
	d.start()
}

// sha is how a drive's file is told in a model.
func sha(body []byte) string { return fmt.Sprintf("%d bytes %x", len(body), sha256.Sum256(body)) }

// bytesOf are n bytes that no other file of a test has.
func bytesOf(name string, n int) []byte {
	return bytes.Repeat([]byte(name+"\n"), n/(len(name)+1)+1)[:n]
}

func (d *driveWorld) put(path string, body []byte) {
	d.t.Helper()
	if _, err := d.drive.Put(d.t.Context(), path, bytes.NewReader(body), client.PutOptions{}); err != nil {
		d.t.Fatalf("put %s: %v", path, err)
	}
}

// read is a file's state: what sha says of its bytes, or "" when there is none.
func (d *driveWorld) read(path string) (string, error) {
	f, err := d.drive.Get(d.t.Context(), path, client.GetOptions{})
	if client.StatusOf(err) == http.StatusNotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	body, err := io.ReadAll(f)
	return sha(body), err
}

// files is every path below one with the state of its file; directories are "dir".
func (d *driveWorld) files(path string) map[string]string {
	d.t.Helper()
	all, err := d.look(path)
	if err != nil {
		d.t.Fatalf("look at %s: %v", path, err)
	}
	return all
}

// look is files for goroutines of a case. What is not there has no files.
func (d *driveWorld) look(path string) (map[string]string, error) {
	all := map[string]string{}
	for e, err := range d.drive.List(d.t.Context(), path) {
		if client.StatusOf(err) == http.StatusNotFound {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		at := strings.TrimSuffix(path, "/") + "/" + e.Name
		if e.IsDir() {
			below, err := d.look(at)
			if err != nil {
				return nil, err
			}
			all[at] = "dir"
			maps.Copy(all, below)
			continue
		}
		if all[at], err = d.read(at); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// wantFiles asserts what is visible in the drive.
func (d *driveWorld) wantFiles(want map[string]string) {
	d.t.Helper()
	if diff := cmp.Diff(want, d.files("/")); diff != "" {
		d.t.Errorf("the visible tree (-want +got):\n%s", diff)
	}
}

// wantSettled waits until all deletes and the collector are through, and asserts that
// every row and object agrees with every other. It stops the server.
func (d *driveWorld) wantSettled() {
	d.t.Helper()
	ctx := d.t.Context()
	for u, err := range d.drive.Uploads(ctx) {
		if err != nil {
			d.t.Fatal(err)
		}
		if err := d.drive.AbortUpload(ctx, u.ID); err != nil {
			d.t.Fatalf("abort an upload: %v", err)
		}
	}
	d.wantJobsDone()
	d.wantCollected()
	report, err := d.drive.Check(ctx)
	if err != nil || !report.OK {
		d.t.Errorf("check: %+v, %v", report, err)
	}
	found, err := d.drive.DryReconcile(ctx)
	if err != nil {
		d.t.Fatalf("reconcile: %v", err)
	}
	for class, n := range found {
		if n != 0 {
			d.t.Errorf("reconcile would repair %d of class %s", n, class)
		}
	}
	d.server.Stop(d.t)
	db, err := sqldb.Open(ctx, d.database, sqldb.Config{})
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var fsID int64
	if err := db.QueryRow(ctx, `SELECT MIN(fs_id) FROM fs_lock`).Scan(&fsID); err != nil {
		d.t.Fatal(err)
	}
	drivetest.Check(d.t, db, fsID)
	if diff := cmp.Diff(d.objectRows(db), d.objects()); diff != "" {
		d.t.Errorf("objects in rows and in the store (-rows +store):\n%s", diff)
	}
}

// wantJobsDone waits for every delete, none of which may fail.
func (d *driveWorld) wantJobsDone() {
	d.t.Helper()
	proc.Eventually(d.t, patience, "all deletes end", func() bool {
		for j, err := range d.jobs.List(d.t.Context(), client.JobFilter{Kind: "delete"}) {
			if err != nil {
				d.t.Fatal(err)
			}
			if j.State == client.Failed || j.State == client.Cancelled {
				d.t.Fatalf("%s of %s is %s: %s", j.Job, j.Object.Path, j.State, j.LastError)
			}
			if j.State != client.Succeeded {
				return false
			}
		}
		return true
	})
}

// wantCollected waits until no object is to be deleted any more. Of an embedded database
// the file is read beside its server, who holds it.
func (d *driveWorld) wantCollected() {
	d.t.Helper()
	ctx := d.t.Context()
	var query func(sqldb.Statement) interface{ Scan(...any) error }
	if path, ok := strings.CutPrefix(d.database, "sqlite:"); ok {
		db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)")
		if err != nil {
			d.t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		query = func(s sqldb.Statement) interface{ Scan(...any) error } { return db.QueryRowContext(ctx, string(s)) }
	} else {
		db, err := sqldb.Open(ctx, d.database, sqldb.Config{})
		if err != nil {
			d.t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		query = func(s sqldb.Statement) interface{ Scan(...any) error } { return db.QueryRow(ctx, s) }
	}
	var left int
	defer func() {
		if left > 0 {
			d.t.Logf("%d objects and parts were left", left)
		}
	}()
	proc.Eventually(d.t, patience, "the collector is through", func() bool {
		if err := query(`SELECT (SELECT COUNT(*) FROM file_gc_tasks) + (SELECT COUNT(*) FROM upload_parts)`).Scan(&left); err != nil {
			d.t.Fatal(err)
		}
		return left == 0
	})
}

// objectRows are the keys that contents name, sorted.
func (d *driveWorld) objectRows(db *sqldb.DB) (keys []string) {
	d.t.Helper()
	rows, err := db.Query(d.t.Context(), `SELECT object_key FROM contents WHERE object_key IS NOT NULL`)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			d.t.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if err := rows.Err(); err != nil {
		d.t.Fatal(err)
	}
	return keys
}

// objects are all files of the drive's store but its marker, sorted: what a killed writer
// had not finished is one too.
func (d *driveWorld) objects() (keys []string) {
	d.t.Helper()
	root := d.dir + "-drive"
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		key, err := filepath.Rel(root, path)
		if key != ".lethe-root" {
			keys = append(keys, filepath.ToSlash(key))
		}
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}
