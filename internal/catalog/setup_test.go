package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/catalog/metadata"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/internal/tenant"
)

const rootURI = "s3://lake/wh"

// bench is one catalog on one database and a store in memory.
type bench struct {
	t      *testing.T
	db     *sqldb.DB
	bucket *mem.Bucket
	cat    *catalog.Catalog
	jobs   *purge.Store
	w      *tenant.Warehouse
	owns   *catalog.Ownership
}

// hold stops transactions whose context asks for it, right before or right after COMMIT.
type hold struct{}

type holdKey struct{}

// stop is what happens to one held transaction.
type stop struct {
	reached chan struct{}
	release chan struct{}
	after   error // the answer in place of the commit's
	// between runs once, after the commit and before its answer, which is lost then.
	between func()
}

// downAfter lets one transaction commit, loses its answer, and refuses all that follow.
type downAfter struct{ used bool }

type downKey struct{}

func (hold) before(ctx context.Context) error {
	if d, ok := ctx.Value(downKey{}).(*downAfter); ok && d.used {
		return errLost
	}
	s, ok := ctx.Value(holdKey{}).(*stop)
	if !ok || s.reached == nil {
		return nil
	}
	select {
	case <-s.reached: // only its first transaction is held
	default:
		close(s.reached)
		<-s.release
	}
	return nil
}

func (hold) after(ctx context.Context) error {
	if d, ok := ctx.Value(downKey{}).(*downAfter); ok {
		d.used = true
		return errLost
	}
	if s, ok := ctx.Value(holdKey{}).(*stop); ok {
		if f := s.between; f != nil {
			s.between = nil
			f()
			return errLost
		}
		return s.after
	}
	return nil
}

func each(t *testing.T, fn func(b *bench)) {
	t.Helper()
	eachWaiting(t, 20*time.Second, fn)
}

// eachWaiting is each with a bound on waits for locks, and on looks for a lost answer.
func eachWaiting(t *testing.T, lockWait time.Duration, fn func(b *bench)) {
	t.Helper()
	for _, server := range sqldbtest.Servers(t) {
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			fn(newBench(t, server, lockWait))
		})
	}
}

func newBench(t *testing.T, server sqldbtest.Server, lockWait time.Duration) *bench {
	t.Helper()
	b := &bench{t: t, bucket: mem.New()}
	b.db = server.Open(t, sqldb.Config{LockWait: lockWait, Hooks: sqldb.Hooks{BeforeCommit: hold{}.before, AfterCommit: hold{}.after}},
		tenant.Migrations, purge.Migrations, catalog.Migrations)
	root, err := blob.ParseLocation(rootURI)
	b.must(err)
	space, err := blob.NewSpace(blob.Mount{Root: root, Bucket: b.bucket})
	b.must(err)
	tenants, err := tenant.Open(t.Context(), b.db, tenant.Config{Default: tenant.Storage{RootURI: rootURI, Space: space}})
	b.must(err)
	b.w, err = tenants.Warehouse(t.Context(), tenants.Tenant(), tenant.Default)
	b.must(err)
	ownership := catalog.NewOwnership(b.db, tenants)
	b.jobs = purge.NewStore(b.db, job.Config{}, ownership.Hooks(), job.Observer{})
	ownership.Bind(b.jobs)
	b.owns = ownership
	b.cat = catalog.New(catalog.Config{DB: b.db, Jobs: b.jobs})
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) call() catalog.Call {
	return catalog.Call{Warehouse: b.w, Principal: "ann", RequestID: uuid.NewString()}
}

func (b *bench) namespace(levels ...string) catalog.Namespace {
	b.t.Helper()
	b.must(b.cat.CreateNamespace(b.t.Context(), b.call(), levels, nil))
	return levels
}

func ident(n catalog.Namespace, name string) catalog.Identifier {
	return catalog.Identifier{Namespace: n, Name: name}
}

const schema = `{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"id","required":true,"type":"long"},{"id":2,"name":"data","required":false,"type":"string"}]}`

// request is a create request; extra is more JSON, such as `"location":"…"`.
func (b *bench) request(name string, extra ...string) *metadata.CreateRequest {
	b.t.Helper()
	body := fmt.Sprintf(`{"name":%q,"schema":%s%s}`, name, schema, strings.Join(append([]string{""}, extra...), ","))
	req, err := metadata.DecodeCreate([]byte(body), metadata.Limits{})
	b.must(err)
	return req
}

func (b *bench) create(id catalog.Identifier, extra ...string) *catalog.Loaded {
	b.t.Helper()
	loaded, err := b.cat.CreateTable(b.t.Context(), b.call(), id.Namespace, b.request(id.Name, extra...))
	b.must(err)
	return loaded
}

func (b *bench) commit(requirements, updates string) *metadata.Commit {
	b.t.Helper()
	c, err := metadata.DecodeCommit([]byte(fmt.Sprintf(`{"requirements":[%s],"updates":[%s]}`, requirements, updates)), metadata.Limits{})
	b.must(err)
	return c
}

func (b *bench) set(key, value string) *metadata.Commit {
	b.t.Helper()
	return b.commit("", fmt.Sprintf(`{"action":"set-properties","updates":{%q:%q}}`, key, value))
}

// stagedCommit is the commit that makes a table which was created staged.
func (b *bench) stagedCommit(staged *catalog.Loaded) *metadata.Commit {
	b.t.Helper()
	return b.commit(`{"type":"assert-create"}`, fmt.Sprintf(`{"action":"assign-uuid","uuid":%q},
		{"action":"upgrade-format-version","format-version":2},
		{"action":"add-schema","schema":%s},{"action":"set-current-schema","schema-id":-1},
		{"action":"add-spec","spec":{"spec-id":0,"fields":[]}},{"action":"set-default-spec","spec-id":-1},
		{"action":"add-sort-order","sort-order":{"order-id":0,"fields":[]}},{"action":"set-default-sort-order","sort-order-id":-1},
		{"action":"set-location","location":%q}`, staged.Table.UUID(), schema, staged.Table.Location()))
}

func (b *bench) drop(id catalog.Identifier, purge bool) (job.ID, error) {
	return b.cat.Drop(b.t.Context(), b.call(), catalog.KindTable, id, catalog.DropOptions{Purge: purge})
}

// settle ends a PENDING job as a worker would.
func (b *bench) settle(id job.ID, answer error) {
	b.t.Helper()
	row, ok, err := b.jobs.Jobs().ClaimID(b.t.Context(), "test", id)
	b.must(err)
	if !ok {
		b.t.Fatalf("job %d is not claimable", id)
	}
	_, err = b.jobs.Jobs().Finish(b.t.Context(), row.Lease(), answer)
	b.must(err)
}

// keys returns what the bucket holds.
func (b *bench) keys() []string {
	b.t.Helper()
	var out []string
	b.must(b.bucket.List(b.t.Context(), "", func(i blob.Info) error {
		out = append(out, string(i.Key))
		return nil
	}))
	slices.Sort(out)
	return out
}

func (b *bench) wantCode(err error, kind fault.Kind, code fault.Code) {
	b.t.Helper()
	if fault.KindOf(err) != kind || fault.CodeOf(err) != code || err == nil {
		b.t.Fatalf("error %v (%s, %s), want %s, %s", err, fault.KindOf(err), fault.CodeOf(err), kind, code)
	}
}

// race runs first up to the moment before its COMMIT, starts second, lets second come
// as far as it can, and lets first go on.
func (b *bench) race(first, second func(ctx context.Context) error) (err1, err2 error) {
	b.t.Helper()
	s := &stop{reached: make(chan struct{}), release: make(chan struct{})}
	done1, done2 := make(chan error, 1), make(chan error, 1)
	go func() { done1 <- first(context.WithValue(b.t.Context(), holdKey{}, s)) }()
	select {
	case <-s.reached:
	case err := <-done1:
		b.t.Fatalf("the first ended before its commit: %v", err)
	}
	go func() { done2 <- second(b.t.Context()) }()
	sqldbtest.Blocked(b.t, b.db, 0, func() bool { return len(done2) > 0 })
	close(s.release)
	err1, err2 = <-done1, <-done2
	b.invariants()
	return err1, err2
}

// invariants reads the tables and checks what must hold at rest.
func (b *bench) invariants() {
	b.t.Helper()
	type held struct {
		location string
		kind, id int64
	}
	var rows []held
	b.read("SELECT location, owner_kind, owner_id FROM tabular_locations", func(scan func(...any) error) error {
		var h held
		err := scan(&h.location, &h.kind, &h.id)
		rows = append(rows, h)
		return err
	})
	keys := map[int64]string{} // of entries: who shares a uuid may share a place
	b.read("SELECT id, uuid_key FROM tabulars", func(scan func(...any) error) error {
		var id int64
		var key string
		err := scan(&id, &key)
		keys[id] = key
		return err
	})
	entries := map[int64]bool{}
	for i, x := range rows {
		if x.kind == 2 {
			entries[x.id] = true
			if _, ok := keys[x.id]; !ok {
				b.t.Errorf("location %s belongs to entry %d, which is gone", x.location, x.id)
			}
		}
		for _, y := range rows[i+1:] {
			if (x.kind == y.kind && x.id == y.id) || (x.kind == 1 && y.kind == 1) {
				continue
			}
			if x.kind == 2 && y.kind == 2 && keys[x.id] == keys[y.id] {
				continue
			}
			ns, tab := x, y
			if y.kind == 1 {
				ns, tab = y, x
			}
			if ns.kind == 1 && strings.HasPrefix(tab.location, ns.location) && tab.location != ns.location {
				continue
			}
			if strings.HasPrefix(x.location, y.location) || strings.HasPrefix(y.location, x.location) {
				b.t.Errorf("%+v and %+v overlap", x, y)
			}
		}
	}
	for id := range keys {
		if !entries[id] {
			b.t.Errorf("entry %d has no location", id)
		}
	}
	b.read(`SELECT t.name, j.id FROM tabulars t JOIN namespaces n ON n.id = t.namespace_id JOIN iceberg_cleanup_job j
		ON j.namespace = n.name AND j.table_name = t.name WHERE j.state IN ('PENDING', 'RUNNING')`, func(scan func(...any) error) error {
		var name string
		var id int64
		err := scan(&name, &id)
		b.t.Errorf("table %s lives beside job %d of its name", name, id)
		return err
	})
	b.read(`SELECT t.name, j.id FROM tabulars t JOIN iceberg_cleanup_job j ON j.uuid_key = t.uuid_key OR j.metadata_hash = t.metadata_hash
		WHERE j.state IN ('PENDING', 'RUNNING') OR (j.state = 'FAILED' AND j.acked_at IS NULL)`, func(scan func(...any) error) error {
		var name string
		var id int64
		err := scan(&name, &id)
		b.t.Errorf("table %s has the metadata that job %d deletes", name, id)
		return err
	})
}

func (b *bench) read(s sqldb.Statement, each func(scan func(...any) error) error) {
	b.t.Helper()
	rows, err := b.db.Query(context.WithoutCancel(b.t.Context()), s)
	b.must(err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		b.must(each(rows.Scan))
	}
	b.must(rows.Err())
}

func (b *bench) count(s sqldb.Statement, args ...any) (n int) {
	b.t.Helper()
	b.must(b.db.QueryRow(b.t.Context(), s, args...).Scan(&n))
	return n
}

var errLost = errors.New("the connection broke")

func TestMain(m *testing.M) { os.Exit(m.Run()) }
