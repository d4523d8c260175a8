package concurrency

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// way is one of the ways by which an entry comes to a name.
type way struct {
	name string
	view bool
	// prepare does what can be done before, for a client of a round, and returns the last
	// request, and the uuid of the entry if it is known already. It answers success with
	// 200 or 204.
	prepare func(ctx context.Context, c *client, name, spare string) (path string, body object, uuid string, err error)
}

// ways stand with the quickest first: those that write no file before they take the name.
var ways = []way{
	{"rename", false, func(ctx context.Context, c *client, name, spare string) (string, object, string, error) {
		var made loaded
		_, err := c.send(ctx, http.MethodPost, tables, object{"name": spare, "schema": schema}, &made, http.StatusOK)
		return v1 + "/tables/rename", object{"source": identifier(spare), "destination": identifier(name)}, made.Metadata.UUID, err
	}},
	{"rename a view", true, func(ctx context.Context, c *client, name, spare string) (string, object, string, error) {
		_, err := c.send(ctx, http.MethodPost, views, view(spare), nil, http.StatusOK)
		return v1 + "/views/rename", object{"source": identifier(spare), "destination": identifier(name)}, "", err
	}},
	{"register", false, func(ctx context.Context, c *client, name, spare string) (string, object, string, error) {
		var made loaded
		_, err := c.send(ctx, http.MethodPost, tables, object{"name": spare, "schema": schema}, &made, http.StatusOK)
		if err == nil {
			_, err = c.send(ctx, http.MethodPost, tables+"/"+spare+"/unregister", nil, nil, http.StatusOK)
		}
		return namespaces + "/n/register", object{"name": name, "metadata-location": made.MetadataLocation}, made.Metadata.UUID, err
	}},
	{"create a view", true, func(_ context.Context, _ *client, name, _ string) (string, object, string, error) {
		return views, view(name), "", nil
	}},
	{"create", false, func(_ context.Context, _ *client, name, _ string) (string, object, string, error) {
		return tables, object{"name": name, "schema": schema}, "", nil
	}},
	{"commit a staged create", false, func(ctx context.Context, c *client, name, _ string) (string, object, string, error) {
		body, uuid, err := c.stage(ctx, name)
		return tables + "/" + name, body, uuid, err
	}},
	{"create in a transaction", false, func(ctx context.Context, c *client, name, _ string) (string, object, string, error) {
		body, uuid, err := c.stage(ctx, name)
		if err == nil {
			body["identifier"] = identifier(name)
		}
		return v1 + "/transactions/commit", object{"table-changes": []any{body}}, uuid, err
	}},
}

// TestCreatesOfOneName lets all clients make an entry of one name, by every way there is:
// exactly one succeeds, and what is there afterwards is what that one made. Each round
// leaves out one more of the quick ways, so that the others win, too.
func TestCreatesOfOneName(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		won := map[string]int{}
		for round := range len(ways) * *scale {
			name := fmt.Sprintf("t%03d", round)
			winners := race(t, w, name, ways[round%len(ways):])
			if len(winners) != 1 {
				t.Fatalf("%d clients made %s: %v", len(winners), name, winners)
			}
			won[winners[0].way.name]++
			winners[0].check(t, w.one(t), name)
			w.onlyFiles(t, name, winners[0].way)
		}
		t.Logf("who won: %v", won)
	})
}

// TestCreatesOfOneNamespace is the same for namespaces.
func TestCreatesOfOneNamespace(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world) {
		for round := range 5 * *scale {
			var mu sync.Mutex
			var winners []string
			w.all(t, clients, func(ctx context.Context, c *client) error {
				owner := fmt.Sprint(c.number)
				body := object{"namespace": []string{fmt.Sprint("n", round)}, "properties": map[string]string{"owner": owner}}
				status, err := c.send(ctx, http.MethodPost, namespaces, body, nil, http.StatusOK, http.StatusConflict)
				if status == http.StatusOK {
					mu.Lock()
					defer mu.Unlock()
					winners = append(winners, owner)
				}
				return err
			})
			var got struct{ Properties map[string]string }
			w.one(t).must(t, http.MethodGet, fmt.Sprint(namespaces, "/n", round), nil, http.StatusOK, &got)
			if len(winners) != 1 || got.Properties["owner"] != winners[0] {
				t.Errorf("round %d: made by %q, owned by %s", round, winners, got.Properties["owner"])
			}
		}
	})
}

// winner is a client that made the entry.
type winner struct {
	way  way
	uuid string
}

func (won winner) String() string { return strings.TrimSpace(won.way.name + " " + won.uuid) }

// race lets all clients prepare, and then make the entry at the same moment.
func race(t *testing.T, w *world, name string, ways []way) (winners []winner) {
	t.Helper()
	var mu sync.Mutex
	var ready sync.WaitGroup
	ready.Add(clients)
	w.all(t, clients, func(ctx context.Context, c *client) error {
		way := ways[c.number%len(ways)]
		path, body, uuid, err := way.prepare(ctx, c, name, fmt.Sprintf("%s-spare-%d", name, c.number))
		ready.Done()
		if err != nil {
			return err
		}
		ready.Wait()
		var made struct {
			Metadata struct {
				Table string `json:"table-uuid"`
				View  string `json:"view-uuid"`
			} `json:"metadata"`
		}
		status, err := c.send(ctx, http.MethodPost, path, body, &made, http.StatusOK, http.StatusNoContent, http.StatusConflict)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		if status == http.StatusConflict {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		winners = append(winners, winner{way, cmp.Or(uuid, made.Metadata.Table, made.Metadata.View)})
		return nil
	})
	return winners
}

// check asserts that the name stands for what the winner made, and for nothing else.
func (won winner) check(t *testing.T, c *client, name string) {
	t.Helper()
	is, other := tables, views
	if won.way.view {
		is, other = views, tables
	}
	var now struct {
		Metadata struct {
			Table string `json:"table-uuid"`
			View  string `json:"view-uuid"`
		} `json:"metadata"`
	}
	c.must(t, http.MethodGet, is+"/"+name, nil, http.StatusOK, &now)
	c.must(t, http.MethodHead, other+"/"+name, nil, http.StatusNotFound, nil)
	if uuid := cmp.Or(now.Metadata.Table, now.Metadata.View); won.uuid != "" && uuid != won.uuid {
		t.Errorf("%s made %s %s, it is %s", won.way.name, name, won.uuid, uuid)
	}
	listed := 0
	for _, list := range []string{tables, views} {
		var page page
		c.must(t, http.MethodGet, list, nil, http.StatusOK, &page)
		for _, id := range page.Identifiers {
			if id.Name == name {
				listed++
			}
		}
	}
	if listed != 1 {
		t.Errorf("%s is listed %d times", name, listed)
	}
}

// onlyFiles asserts that those who lost left no metadata file. A default location holds
// the name; entries that came by rename or register lie where their spare names were.
func (w *world) onlyFiles(t *testing.T, name string, won way) {
	t.Helper()
	var own []string
	for _, file := range metadataFiles(t, filepath.Join(w.dir, "n", name+"-*")) {
		if !strings.Contains(file, "-spare-") {
			own = append(own, file)
		}
	}
	want := 1
	if strings.HasPrefix(won.name, "re") {
		want = 0
	}
	if len(own) != want {
		t.Errorf("after %s made %s there are metadata files %q, want %d", won.name, name, own, want)
	}
}

func identifier(name string) object { return object{"namespace": []string{"n"}, "name": name} }

func view(name string) object {
	return object{"name": name, "schema": schema, "properties": object{}, "view-version": object{
		"version-id": 1, "schema-id": 0, "timestamp-ms": 1_700_000_000_000, "summary": object{}, "default-namespace": []string{"n"},
		"representations": []any{object{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}},
	}}
}

// stage begins a create and returns the commit that ends it.
func (c *client) stage(ctx context.Context, name string) (commit object, uuid string, err error) {
	var staged loaded
	_, err = c.send(ctx, http.MethodPost, tables, object{"name": name, "schema": schema, "stage-create": true}, &staged, http.StatusOK)
	return object{
		"requirements": []any{object{"type": "assert-create"}},
		"updates": []any{
			object{"action": "assign-uuid", "uuid": staged.Metadata.UUID},
			object{"action": "upgrade-format-version", "format-version": 2},
			object{"action": "add-schema", "schema": schema},
			object{"action": "set-current-schema", "schema-id": -1},
			object{"action": "add-spec", "spec": object{"spec-id": 0, "fields": []any{}}},
			object{"action": "set-default-spec", "spec-id": -1},
			object{"action": "add-sort-order", "sort-order": object{"order-id": 0, "fields": []any{}}},
			object{"action": "set-default-sort-order", "sort-order-id": -1},
			object{"action": "set-location", "location": staged.Metadata.Location},
		},
	}, staged.Metadata.UUID, err
}
