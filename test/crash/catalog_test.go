package crash

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/client"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// sent makes a request that nobody will answer; the channel closes when it is over.
func (w *world) sent(method, path string, body any, header ...string) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		if a, err := w.send(method, path, body, header...); err == nil {
			w.t.Errorf("%s %s was answered %d by a server that should have been killed", method, path, a.status)
		}
	}()
	return over
}

// dies makes a request, kills the server when that has come to the step, and starts it again.
func (w *world) dies(method, path string, body any, header ...string) {
	w.t.Helper()
	over := w.sent(method, path, body, header...)
	w.killed()
	<-over
	w.up()
}

func TestKilledInADrop(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, async string }{{"async", "true"}, {"sync", "false"}} {
		t.Run("before its transaction/"+c.name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(w *world) {
				w.upTo("drop.begin")
				w.namespace()
				w.neighbours()
				victim := w.table("victim")
				before := w.tree()
				w.dies(http.MethodDelete, tablesPath+"/victim"+purgeQuery, nil, asyncHeader, c.async)
				// Nothing happened.
				if got := w.load("victim").MetadataLocation; got != victim.Metadata {
					w.t.Errorf("metadata is %s, want %s", got, victim.Metadata)
				}
				if jobs := w.jobsOf("victim"); len(jobs) != 0 {
					w.t.Errorf("there are jobs: %+v", jobs)
				}
				if diff := cmp.Diff(before, w.tree()); diff != "" {
					w.t.Errorf("files changed (-before +after):\n%s", diff)
				}
				// And it can happen now.
				before = w.tree(victim)
				w.ends(w.drop("victim"), client.Succeeded)
				w.wantPurged(victim, "victim", before)
				w.wantOneRow("victim", client.Succeeded)
			})
		})
		t.Run("after its commit/"+c.name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(w *world) {
				w.upTo("drop.committed", "--async-purge-poll-interval-ms", "60000") // nobody else finds the job before the end
				w.namespace()
				w.neighbours()
				victim := w.table("victim")
				before := w.tree(victim)
				w.dies(http.MethodDelete, tablesPath+"/victim"+purgeQuery, nil, asyncHeader, c.async)
				jobs := w.jobsOf("victim")
				if len(jobs) != 1 {
					w.t.Fatalf("%d jobs, want one: %+v", len(jobs), jobs)
				}
				w.ends(jobs[0].Job, client.Succeeded)
				// The client, which got no answer, asks again.
				w.call(http.StatusNotFound, http.MethodDelete, tablesPath+"/victim"+purgeQuery, nil, asyncHeader, c.async)
				w.wantPurged(victim, "victim", before)
				w.wantOneRow("victim", client.Succeeded)
			})
		})
	}
}

// schema is that of a table made by the catalog.
var schema = map[string]any{"type": "struct", "schema-id": 0, "fields": []any{
	map[string]any{"id": 1, "name": "id", "required": false, "type": "long"},
}}

// created makes a table through the catalog.
func (w *world) created(name string, properties map[string]string) loaded {
	w.t.Helper()
	w.call(http.StatusOK, http.MethodPost, tablesPath, map[string]any{"name": name, "schema": schema, "properties": properties})
	return w.load(name)
}

// asTable is what wantPurged must know of it.
func asTable(l loaded) purgetest.Table { return purgetest.Table{Location: l.Metadata.Location} }

// leftovers are counted by the purge of a table, and sampled; they are never deleted.
func (w *world) leftovers(job string) (n int64, samples []string) {
	w.t.Helper()
	j := w.ends(job, client.Succeeded)
	var progress struct {
		Samples struct {
			Leftover []struct{ Location string }
		}
	}
	if err := json.Unmarshal(j.Progress, &progress); err != nil {
		w.t.Fatal(err)
	}
	for _, s := range progress.Samples.Leftover {
		samples = append(samples, s.Location)
	}
	return j.Counts().Leftovers, samples
}

// added returns what is in the warehouse and was not.
func added(before, after map[string]string) (uris []string) {
	for uri := range after {
		if _, ok := before[uri]; !ok {
			uris = append(uris, uri)
		}
	}
	return uris
}

func TestKilledBetweenMetadataAndPointer(t *testing.T) {
	t.Parallel()
	onEach(t, func(w *world) {
		w.upTo("commit.written")
		w.namespace()
		table := w.created("t", map[string]string{"n": "0"})
		before := w.tree()
		w.dies(http.MethodPost, tablesPath+"/t", setProperty("n", "1"))

		// The table is as before; the file that nobody names lies beside its metadata.
		if got := w.load("t"); got.MetadataLocation != table.MetadataLocation || got.Metadata.Properties["n"] != "0" {
			w.t.Errorf("the table is at %s with n=%s, want %s with n=0", got.MetadataLocation, got.Metadata.Properties["n"], table.MetadataLocation)
		}
		orphans := added(before, w.tree())
		if len(orphans) != 1 || !strings.HasSuffix(orphans[0], ".metadata.json") {
			w.t.Fatalf("%v was added, want one metadata file", orphans)
		}
		// The commit can be made again, and the orphan is told of when the table is purged.
		w.call(http.StatusOK, http.MethodPost, tablesPath+"/t", setProperty("n", "2"))
		if got := w.load("t").Metadata.Properties["n"]; got != "2" {
			w.t.Errorf("n=%s, want 2", got)
		}
		n, samples := w.leftovers(w.drop("t"))
		if n != 1 || !cmp.Equal(samples, orphans) {
			w.t.Errorf("%d leftovers, %v; want 1, %v", n, samples, orphans)
		}
		if diff := cmp.Diff(orphans, added(map[string]string{}, w.tree())); diff != "" {
			w.t.Errorf("files left besides the orphan (-want +got):\n%s", diff)
		}
		w.wantOneRow("t", client.Succeeded)
	})
}

func TestKilledBetweenPointerAndAnswer(t *testing.T) {
	t.Parallel()
	onEach(t, func(w *world) {
		w.up()
		w.namespace()
		// The commit that dies had an old metadata file to delete, and did not come to it.
		w.created("t", map[string]string{"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"})
		w.call(http.StatusOK, http.MethodPost, tablesPath+"/t", setProperty("n", "1"))
		w.server.Stop(w.t)
		w.upTo("commit.swapped")
		before := w.tree()
		w.dies(http.MethodPost, tablesPath+"/t", setProperty("n", "2"))

		got := w.load("t")
		if got.Metadata.Properties["n"] != "2" {
			w.t.Errorf("n=%s, want 2: the commit had happened", got.Metadata.Properties["n"])
		}
		if files := added(before, w.tree()); !cmp.Equal(files, []string{got.MetadataLocation}) {
			w.t.Errorf("%v was added, want %s", files, got.MetadataLocation)
		}
		// What the commit should have deleted is found through the logs of logs.
		if n, samples := w.leftovers(w.drop("t")); n != 0 {
			w.t.Errorf("%d leftovers: %v", n, samples)
		}
		w.wantPurged(asTable(got), "t", map[string]string{})
		w.wantOneRow("t", client.Succeeded)
	})
}

func TestKilledInACreate(t *testing.T) {
	t.Parallel()
	onEach(t, func(w *world) {
		w.upTo("create.written")
		w.namespace()
		w.dies(http.MethodPost, tablesPath, map[string]any{"name": "t", "schema": schema})

		w.call(http.StatusNotFound, http.MethodGet, tablesPath+"/t", nil)
		orphans := added(nil, w.tree())
		if len(orphans) != 1 || !strings.HasSuffix(orphans[0], ".metadata.json") {
			w.t.Fatalf("%v is left, want at most the metadata file", orphans)
		}
		// The name is free; the new table lies elsewhere and its purge leaves the orphan alone.
		table := w.created("t", nil)
		if strings.HasPrefix(orphans[0], table.Metadata.Location+"/") {
			w.t.Errorf("the table is at %s, where the dead one was", table.Metadata.Location)
		}
		before := w.tree(asTable(table))
		w.ends(w.drop("t"), client.Succeeded)
		w.wantPurged(asTable(table), "t", before)
		w.wantOneRow("t", client.Succeeded)
	})
}

func TestKilledInARegister(t *testing.T) {
	t.Parallel()
	onEach(t, func(w *world) {
		w.up()
		w.namespace()
		table := w.created("t", nil)
		w.call(http.StatusNoContent, http.MethodDelete, tablesPath+"/t", nil) // its files stay
		w.server.Stop(w.t)
		w.upTo("register.read")
		before := w.tree()
		again := registration("t", purgetest.Table{Metadata: table.MetadataLocation})
		w.dies(http.MethodPost, catalogPath+"/crash/register", again)

		w.call(http.StatusNotFound, http.MethodGet, tablesPath+"/t", nil)
		if diff := cmp.Diff(before, w.tree()); diff != "" {
			w.t.Errorf("files changed (-before +after):\n%s", diff)
		}
		w.call(http.StatusOK, http.MethodPost, catalogPath+"/crash/register", again)
		if got := w.load("t").MetadataLocation; got != table.MetadataLocation {
			w.t.Errorf("registered at %s, want %s", got, table.MetadataLocation)
		}
		w.ends(w.drop("t"), client.Succeeded)
		if left := countFiles(filepath.Join(w.dir, "crash")); left != 0 {
			w.t.Errorf("%d files left", left)
		}
		w.wantOneRow("t", client.Succeeded)
	})
}
