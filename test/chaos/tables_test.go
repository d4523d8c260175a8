package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// Tables are the half of deletes that is dropped through the catalog: this file makes
// them, drops them through whichever server answers, and says what must remain.

const (
	namespace   = "chaos"
	asyncHeader = "X-Gravitino-Async-Purge"
)

// table is one that will be dropped.
type table struct {
	name string
	made purgetest.Table // zero for one that the catalog made
}

func (w *world) location(name string) string { return w.root + "/" + namespace + "/" + name }

func tablePath(name string) string { return namespaces + "/" + namespace + "/tables/" + name }

func dropPath(name string) string { return tablePath(name) + "?purgeRequested=true" }

// shapes are what tables look like: formats, codecs, levels, sizes. Every kind of file
// that a purge knows is in one of them.
var shapes = []struct {
	name string
	make func(ctx context.Context, w *world, location string) (purgetest.Table, error)
}{
	{"large", synthetic(purgetest.Synthetic{Files: 500, PerManifest: 50, Exist: true})},
	{"many manifests", synthetic(purgetest.Synthetic{Files: 200, PerManifest: 5, Exist: true})},
	{"files that are gone", synthetic(purgetest.Synthetic{Files: 400, PerManifest: 100})},
	{"medium", synthetic(purgetest.Synthetic{Files: 150, Exist: true})},
	{"rich", built(purgetest.Options{LogMax: 3}, rich)},
	{"rich, version 1 without lists", built(purgetest.Options{Version: 1, Inline: true, Codec: "snappy"}, func(b *purgetest.Builder) { b.Append(9).Append(3).Remove().Append(1) })},
	{"rich, compressed", built(purgetest.Options{Codec: "zstandard", Gzip: true, LogMax: 2}, rich)},
	{"deletes of all kinds", built(purgetest.Options{Codec: "null"}, func(b *purgetest.Builder) {
		b.Append(12).EqualityDeletes(3).DeletionVectors(4).PositionDeletes(2).Branch("audit", "branch").Rewrite().Branch("v1", "tag")
	})},
	{"long history", built(purgetest.Options{LogMax: 4, Trim: true}, func(b *purgetest.Builder) {
		for range 8 {
			b.Append(2).Statistics()
		}
		b.Expire(3, true)
	})},
	{"empty", built(purgetest.Options{}, func(*purgetest.Builder) {})},
	{"odd names", func(ctx context.Context, w *world, location string) (purgetest.Table, error) {
		odd := purgetest.Options{Properties: map[string]string{"write.data.path": location + "/d a#t+a/50%2F?x='{}'"}}
		return built(odd, func(b *purgetest.Builder) { b.Append(20).Append(5) })(ctx, w, location)
	}},
	{"made by the catalog", nil},
}

func rich(b *purgetest.Builder) {
	b.Append(15).Statistics().PositionDeletes(4).Statistics().Remove().Rewrite().Append(6).Expire(1, true).Append(2)
}

func built(opts purgetest.Options, play func(*purgetest.Builder)) func(context.Context, *world, string) (purgetest.Table, error) {
	return func(ctx context.Context, w *world, location string) (purgetest.Table, error) {
		b := purgetest.New(ctx, w.space, location, opts)
		play(b)
		made, err := b.Table()
		if err != nil {
			return made, err
		}
		return made, purgetest.Complete(ctx, w.space, made.Metadata)
	}
}

func synthetic(s purgetest.Synthetic) func(context.Context, *world, string) (purgetest.Table, error) {
	return func(ctx context.Context, w *world, location string) (purgetest.Table, error) {
		s := s
		s.UUID = uuidOf(location)
		return s.Write(ctx, w.space, location)
	}
}

// uuidOf makes a UUID of a location's last bytes: no two tables of a world share one.
func uuidOf(location string) string {
	end := fmt.Sprintf("%024x", location[max(len(location)-12, 0):])
	return fmt.Sprintf("00000000-%s-4%s-8%s-%s", end[:4], end[4:7], end[7:10], end[12:24])
}

// namespaceAndSiblings makes what must survive: tables of every shape, with names that
// the dropped ones' begin or continue, and objects that belong to nobody.
func (w *world) namespaceAndSiblings() {
	w.t.Helper()
	ctx := w.t.Context()
	if _, err := w.nodes[0].must(ctx, http.MethodPost, namespaces, object{"namespace": []string{namespace}}, http.StatusOK); err != nil {
		w.t.Fatal(err)
	}
	w.tables("s", "v", "v0", "v00x", "v1-", "w", "sibling")
	for _, uri := range []string{w.location("v00") + ".parquet", w.location("stray.parquet"), w.root + "/elsewhere/v00/data.parquet"} {
		if err := purgetest.Write(ctx, w.space, uri, []byte("PAR1")); err != nil {
			w.t.Fatal(err)
		}
	}
	w.before = w.tree()
}

// victims makes n tables of mixed shapes.
func (w *world) victims(n int) []*table {
	w.t.Helper()
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("v%02d", i)
	}
	return w.tables(names...)
}

// tables makes tables, each of the next shape, and registers them.
func (w *world) tables(names ...string) []*table {
	w.t.Helper()
	all := make([]*table, len(names))
	group, ctx := errgroup.WithContext(w.t.Context())
	group.SetLimit(6)
	for i, name := range names {
		all[i] = &table{name: name}
		group.Go(func() error {
			if err := w.make(ctx, all[i], i); err != nil {
				return fmt.Errorf("table %s: %w", name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *world) make(ctx context.Context, t *table, number int) (err error) {
	shape := shapes[number%len(shapes)]
	if shape.make == nil {
		return w.create(ctx, t.name)
	}
	if t.made, err = shape.make(ctx, w, w.location(t.name)); err != nil {
		return err
	}
	return w.register(ctx, t)
}

func (w *world) register(ctx context.Context, t *table) error {
	_, err := w.nodes[0].must(ctx, http.MethodPost, namespaces+"/"+namespace+"/register",
		object{"name": t.name, "metadata-location": t.made.Metadata}, http.StatusOK)
	return err
}

// create makes a table by the catalog alone, with a few commits.
func (w *world) create(ctx context.Context, name string) error {
	schema := object{"type": "struct", "fields": []any{object{"id": 1, "name": "id", "type": "long", "required": false}}}
	n := w.nodes[0]
	if _, err := n.must(ctx, http.MethodPost, namespaces+"/"+namespace+"/tables", object{"name": name, "schema": schema}, http.StatusOK); err != nil {
		return err
	}
	for i := range 4 {
		change := object{"requirements": []any{}, "updates": []any{object{"action": "set-properties", "updates": object{"n": fmt.Sprint(i)}}}}
		if _, err := n.must(ctx, http.MethodPost, tablePath(name), change, http.StatusOK); err != nil {
			return err
		}
	}
	return nil
}

// dropping is the drops that clients have begun.
type dropping struct {
	group errgroup.Group

	mu     sync.Mutex
	asked  int // requests
	doubts int // of these, without a clear answer
}

// begin drops a table, first through the server first and then through any, until the
// answer is clear. A 404 is, when a request before it may have been carried out.
func (d *dropping) begin(ctx context.Context, w *world, t *table, first int, sync bool) {
	d.group.Go(func() error {
		doubt := false
		pause := time.NewTicker(100 * time.Millisecond)
		defer pause.Stop()
		for i := first; ; i++ {
			a, err := w.drop(ctx, w.nodes[i%len(w.nodes)], t.name, sync)
			d.count(err != nil || a.status >= 500)
			switch {
			case err != nil, a.status >= 500:
				doubt = true
			case a.status == http.StatusNoContent, a.status == http.StatusNotFound && doubt:
				return nil
			case a.status == http.StatusTooManyRequests:
			default:
				return fmt.Errorf("drop of %s: status %d: %s", t.name, a.status, a.body)
			}
			select {
			case <-pause.C:
			case <-ctx.Done():
				return fmt.Errorf("drop of %s: %w", t.name, errors.Join(context.Cause(ctx), err))
			}
		}
	})
}

func (d *dropping) count(doubt bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if doubt {
		d.doubts++
	}
}

// drop asks one server once.
func (w *world) drop(ctx context.Context, n *node, name string, sync bool) (answer, error) {
	return n.send(ctx, http.MethodDelete, dropPath(name), nil, asyncHeader, fmt.Sprint(!sync))
}

// wantOneJobEach asserts that each drop made exactly one job, in its own table's place.
func (w *world) wantOneJobEach(dropped []*table) {
	w.t.Helper()
	jobs := map[string][]row{}
	for _, r := range w.jobs() {
		jobs[r.table] = append(jobs[r.table], r)
	}
	for _, t := range dropped {
		of := jobs[t.name]
		if len(of) != 1 {
			w.t.Errorf("table %s has %d jobs: %+v", t.name, len(of), of)
			continue
		}
		if t.made.Location != "" && of[0].location != t.made.Location {
			w.t.Errorf("the job of %s is in %s, not in %s", t.name, of[0].location, t.made.Location)
		}
		delete(jobs, t.name)
	}
	if len(jobs) > 0 {
		w.t.Errorf("jobs of tables that nobody dropped: %+v", jobs)
	}
}

// wantCatalog asserts what every server says: the dropped tables are not there, the
// others are listed and can be loaded.
func (w *world) wantCatalog(dropped []*table) {
	w.t.Helper()
	ctx := w.t.Context()
	for _, n := range w.nodes {
		for _, t := range dropped {
			if _, err := n.must(ctx, http.MethodGet, tablePath(t.name), nil, http.StatusNotFound); err != nil {
				w.t.Error(err)
			}
		}
		a, err := n.must(ctx, http.MethodGet, namespaces+"/"+namespace+"/tables", nil, http.StatusOK)
		if err != nil {
			w.t.Fatal(err)
		}
		var listed struct{ Identifiers []struct{ Name string } }
		if err := json.Unmarshal(a.body, &listed); err != nil {
			w.t.Fatal(err)
		}
		var names []string
		for _, l := range listed.Identifiers {
			names = append(names, l.Name)
			if _, err := n.must(ctx, http.MethodGet, tablePath(l.Name), nil, http.StatusOK); err != nil {
				w.t.Error(err)
			}
		}
		if got := strings.Join(names, " "); len(names) != 7 {
			w.t.Errorf("server %d lists %q, want the seven siblings", n.number, got)
		}
	}
}
