package crash

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// postgres returns a new database of the PostgreSQL server under test.
func postgres(t *testing.T) string {
	t.Helper()
	for _, db := range sqldbtest.Servers(t) {
		if db.Name == sqldb.Postgres {
			return db.URL(t)
		}
	}
	t.Skipf("%s is not set", sqldbtest.EnvPostgres)
	return ""
}

// pid is how a job's owner names the process of a server.
func (w *world) pid() string { return fmt.Sprintf("/%d/", w.server.PID()) }

// second is the place of another server on the same database and store.
func (w *world) second() *world {
	w.t.Helper()
	return &world{t: w.t, database: w.database, data: filepath.Join(w.t.TempDir(), "data"), dir: w.dir, space: w.space}
}

// Two servers on one database and one store, of which always the one that owns the purge
// is killed. The other takes over, each time.
func TestTakenOverAgainAndAgain(t *testing.T) {
	t.Parallel()
	// A minute of deletes, of which the turns need a part.
	slowly := []string{"--async-purge-rate-limit", "50", "--async-purge-delete-batch-size", "10"}
	a := newWorld(t, postgres(t))
	b := a.second()
	a.up(slowly...)
	a.namespace()
	a.neighbours()
	victim := a.bigTable("victim", 3000)
	before := a.tree(victim)
	job := a.drop("victim")
	b.up(slowly...)
	var owner, other *world
	const turns = 4
	for turn := range turns {
		from := a.until(job, "is there", func(client.Job) bool { return true }).Counts().Files
		j := a.until(job, "has come further", func(j client.Job) bool { return j.Counts().Files > from })
		if owner, other = a, b; strings.Contains(j.Owner, b.pid()) {
			owner, other = b, a
		}
		owner.server.Kill(t)
		other.until(job, "is taken over", func(j client.Job) bool { return strings.Contains(j.Owner, other.pid()) })
		if turn < turns-1 {
			owner.up(slowly...)
		}
	}
	if left := countFiles(a.dirOf("victim")); left == 0 {
		t.Error("the purge was over before the last turn: this test shows little")
	}
	owner.up()
	other.server.Kill(t)
	if j := owner.ends(job, client.Succeeded); !strings.Contains(j.Owner, owner.pid()) {
		t.Errorf("%s was finished by %s, want %s", job, j.Owner, owner.pid())
	}
	owner.wantPurged(victim, "victim", before)
	owner.wantOneRow("victim", client.Succeeded)
}

// Two servers on one database and one store. The owner of a purge is frozen until the
// other one has taken it over and finished it, and until a new table lies at the very
// same keys. When the frozen one goes on, it must not send what it still had to delete.
func TestFrozenOwnerSendsNothing(t *testing.T) {
	t.Parallel()
	const batch = 20 // of slow
	lasting := []string{"--async-purge-heartbeat-timeout-ms", "5000"}
	a := newWorld(t, postgres(t))
	b := a.second()
	a.up(slices.Concat(slow, lasting, []string{"--async-purge-rate-limit", "100"})...)
	b.up(lasting...)
	a.namespace()
	a.neighbours()
	victim := a.bigTable("victim", 1000)
	before := a.tree(victim)
	b.signal(syscall.SIGSTOP) // so that the first server gets it
	defer b.signal(syscall.SIGCONT)
	job := a.drop("victim")
	a.deletedFrom(a.dirOf("victim"), 960)
	b.signal(syscall.SIGCONT)
	j := b.until(job, "is owned by the first server", func(j client.Job) bool { return strings.Contains(j.Owner, a.pid()) })
	if j.State != client.Running {
		t.Fatalf("%s is %s", job, j.State)
	}
	a.signal(syscall.SIGSTOP)
	defer a.signal(syscall.SIGCONT)
	if j = b.ends(job, client.Succeeded); !strings.Contains(j.Owner, b.pid()) {
		t.Errorf("%s was finished by %s, want the second server %s", job, j.Owner, b.pid())
	}
	b.wantPurged(victim, "victim", before)

	// The same keys live again.
	b.bigTable("victim", 1000)
	all := b.tree()
	a.signal(syscall.SIGCONT)
	a.logs("job lease lost", 1)
	// A request on the wire cannot be recalled: it is one batch with one delete thread.
	lost := len(added(b.tree(), all))
	if lost > batch {
		t.Errorf("the first server deleted %d files after it had lost its lease", lost)
	}
	if lost > 0 {
		t.Logf("a request on the wire deleted %d files", lost)
	}
	a.load("victim")
	if j, _ := b.job(job); j.State != client.Succeeded || !strings.Contains(j.Owner, b.pid()) {
		t.Errorf("the first server changed the row: %+v", j)
	}
	// Both go on to serve.
	second := a.drop("victim")
	b.ends(second, client.Succeeded)
	b.wantPurged(victim, "victim", before)
}

// own makes a whole PostgreSQL database, so that its connections can be told apart.
func ownDatabase(t *testing.T) (database string, terminate func()) {
	t.Helper()
	base, err := url.Parse(postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	admin, err := sql.Open("pgx", base.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close() })
	name := "crash" + strings.ReplaceAll(uuid.NewString(), "-", "")
	exec := func(ctx context.Context, text string, args ...any) {
		t.Helper()
		if _, err := admin.ExecContext(ctx, text, args...); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	exec(t.Context(), "CREATE DATABASE "+name)
	t.Cleanup(func() { exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)") })
	base.Path, base.RawQuery = "/"+name, ""
	return base.String(), func() {
		t.Helper()
		exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
	}
}

func TestConnectionsTerminated(t *testing.T) {
	t.Parallel()
	database, terminate := ownDatabase(t)
	w := newWorld(t, database)
	w.up("--async-purge-rate-limit", "1000", "--async-purge-delete-batch-size", "20")
	w.namespace()
	w.neighbours()
	victim := w.bigTable("victim", 3000)
	before := w.tree(victim)
	table := asTable(w.created("written", map[string]string{"n": "0"}))
	written := w.write("written")
	job := w.drop("victim")
	for left := 2700; left > 0; left -= 300 {
		w.deletedFrom(w.dirOf("victim"), left)
		terminate()
	}
	w.ends(job, client.Succeeded)
	written.check()
	w.wantPurged(victim, "victim", before, table)
	w.wantOneRow("victim", client.Succeeded)
}
