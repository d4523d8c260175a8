// Package concurrency lets many clients work on one catalog at once, through HTTP, and
// asserts what the catalog promises to each of them:
//
//   - An acknowledged change is never lost, whoever else changes the same table; 409 means
//     that nothing was applied.
//   - A name has one owner, whatever the ways by which others come to it.
//   - A transaction over several tables is seen whole: who sees it in one of them, sees it
//     in all that are read afterwards.
//   - A list that is read page by page has every entry that stays throughout, once.
//
// On SQLite there is one server. On the others there are two on one database and one
// store, and the clients are spread over both, since nothing else coordinates replicas.
// Each answer is held to docs/api.
//
// The clients do a little work each; more of it by a flag:
//
//	go test ./test/concurrency -count=1 -timeout=2h -args -scale=20
package concurrency

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/proc"
	"github.com/lethe-project/lethe/test/responder"
)

const (
	clients = 20
	token   = "a-token-for-tests"
	limit   = 15 * time.Minute // of one test, at scale 1: it takes a fraction of this
)

var scale = flag.Int("scale", 1, "how many times the usual work is done")

// onEach runs a test on every database.
func onEach(t *testing.T, run func(t *testing.T, w *world)) {
	t.Helper()
	for _, db := range sqldbtest.Servers(t) {
		t.Run(db.String(), func(t *testing.T) {
			t.Parallel()
			run(t, newWorld(t, db))
		})
	}
}

// world is the servers of a test, on one database and one store.
type world struct {
	dir       string // storage root
	servers   []*proc.Server
	responder *responder.Responder
	http      *http.Client
	busy      atomic.Int64 // answers that asked to come again later
}

func newWorld(t *testing.T, db sqldbtest.Server) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), responder: responder.New(t)}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 2 * clients
	w.http = &http.Client{Transport: transport, Timeout: 5 * time.Minute}
	t.Cleanup(transport.CloseIdleConnections)

	database, replicas := db.URL(t), 2
	if db.Name == sqldb.SQLite {
		replicas = 1
	}
	for range replicas {
		w.servers = append(w.servers, proc.Start(t, proc.Options{
			Database: database,
			Args:     []string{"--storage", w.dir, "--log-level", "warn"},
			Env:      []string{"LETHE_ADMIN_TOKEN=" + token},
		}))
	}
	t.Cleanup(func() { t.Logf("%d answers asked to come again later", w.busy.Load()) })
	w.one(t).must(t, http.MethodPost, namespaces, object{"namespace": []string{"n"}}, http.StatusOK, nil)
	return w
}

// client is one of many; each does one thing at a time.
type client struct {
	*world
	number int
	server *proc.Server
}

func (w *world) one(t *testing.T) *client {
	t.Helper()
	return &client{w, 0, w.servers[0]}
}

// all lets n clients work at once, and fails the test when one of them does.
func (w *world) all(t *testing.T, n int, work func(ctx context.Context, c *client) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit*time.Duration(*scale))
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for i := range n {
		group.Go(func() error {
			if err := work(ctx, &client{w, i, w.servers[i%len(w.servers)]}); err != nil {
				return fmt.Errorf("client %d: %w", i, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

type object = map[string]any

const (
	v1         = "/v1/default"
	namespaces = v1 + "/namespaces"
	tables     = namespaces + "/n/tables"
	views      = namespaces + "/n/views"
)

var schema = object{"type": "struct", "fields": []any{object{"id": 1, "name": "id", "type": "long", "required": false}}}

// send makes one request, again when the server is too busy, and returns the status of
// one that is among those wanted. The answer goes into out, if there is one.
func (c *client) send(ctx context.Context, method, path string, body, out any, want ...int) (int, error) {
	for {
		status, header, answer, err := c.once(ctx, method, path, body)
		if err != nil {
			return 0, err
		}
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable { // surely not applied
			c.busy.Add(1)
			seconds, err := strconv.Atoi(header.Get("Retry-After"))
			if err != nil {
				return 0, fmt.Errorf("%s %s: Retry-After: %w", method, path, err)
			}
			select {
			case <-time.After(time.Duration(seconds) * time.Second):
				continue
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		}
		for _, w := range want {
			if w != status {
				continue
			}
			if status == http.StatusOK && out != nil {
				return status, json.Unmarshal(answer, out)
			}
			return status, nil
		}
		return 0, fmt.Errorf("%s %s: status %d, want %d: %s", method, path, status, want, answer)
	}
}

func (c *client) once(ctx context.Context, method, path string, body any) (int, http.Header, []byte, error) {
	in := io.Reader(http.NoBody)
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return 0, nil, nil, err
		}
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.server.CatalogURI()+path, in)
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept-Encoding", "identity") // the answer is checked as it came
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, nil, err
	}
	path, _, _ = strings.Cut(path, "?")
	if faults := c.responder.Check(method, path, resp.StatusCode, resp.Header, answer); len(faults) > 0 {
		return 0, nil, nil, fmt.Errorf("%s %s: %d is not as documented: %q\n%s", method, path, resp.StatusCode, faults, answer)
	}
	return resp.StatusCode, resp.Header, answer, nil
}

// must is send for the test's own goroutine.
func (c *client) must(t *testing.T, method, path string, body any, want int, out any) {
	t.Helper()
	if _, err := c.send(t.Context(), method, path, body, out, want); err != nil {
		t.Fatal(err)
	}
}

// loaded is what the catalog answers for a table.
type loaded struct {
	MetadataLocation string `json:"metadata-location"`
	Metadata         struct {
		UUID         string            `json:"table-uuid"`
		Location     string            `json:"location"`
		Properties   map[string]string `json:"properties"`
		Current      *int64            `json:"current-snapshot-id"`
		LastSequence int64             `json:"last-sequence-number"`
		Snapshots    []snapshot        `json:"snapshots"`
	} `json:"metadata"`
}

type snapshot struct {
	ID        int64             `json:"snapshot-id"`
	Parent    *int64            `json:"parent-snapshot-id,omitempty"`
	Sequence  int64             `json:"sequence-number"`
	Timestamp int64             `json:"timestamp-ms"`
	List      string            `json:"manifest-list"`
	Schema    int               `json:"schema-id"`
	Summary   map[string]string `json:"summary"`
}

func (c *client) load(ctx context.Context, name string) (out loaded, err error) {
	_, err = c.send(ctx, http.MethodGet, tables+"/"+name, nil, &out, http.StatusOK)
	return out, err
}

func (c *client) create(t *testing.T, name string) (out loaded) {
	t.Helper()
	c.must(t, http.MethodPost, tables, object{"name": name, "schema": schema}, http.StatusOK, &out)
	return out
}

// chain returns the snapshots of the main branch, the newest first. Each follows the one
// before it by one sequence number.
func (l *loaded) chain() (chain []snapshot, err error) {
	byID := map[int64]snapshot{}
	for _, s := range l.Metadata.Snapshots {
		byID[s.ID] = s
	}
	sequence := l.Metadata.LastSequence
	for next := l.current(); next != nil; sequence-- {
		s, ok := byID[*next]
		if !ok || s.Sequence != sequence {
			return nil, fmt.Errorf("snapshot %d is %+v, want sequence number %d", *next, s, sequence)
		}
		chain, next = append(chain, s), s.Parent
	}
	if len(chain) != len(byID) || sequence != 0 {
		return nil, fmt.Errorf("the branch has %d snapshots, the table %d, its last sequence number is %d", len(chain), len(byID), l.Metadata.LastSequence)
	}
	return chain, nil
}

// current is the snapshot that the main branch names, nil for none.
func (l *loaded) current() *int64 {
	if c := l.Metadata.Current; c != nil && *c != -1 {
		return c
	}
	return nil
}

// appends is a commit that appends a snapshot to the branch as it was loaded, and is
// refused when the branch has moved on.
func (l *loaded) appends(id int64, summary map[string]string) object {
	s := snapshot{
		ID: id, Parent: l.current(), Sequence: l.Metadata.LastSequence + 1, Timestamp: time.Now().UnixMilli(),
		List: fmt.Sprintf("%s/metadata/snap-%d.avro", l.Metadata.Location, id), Summary: summary,
	}
	return object{
		"requirements": []any{
			object{"type": "assert-table-uuid", "uuid": l.Metadata.UUID},
			object{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": l.current()},
		},
		"updates": []any{
			object{"action": "add-snapshot", "snapshot": s},
			object{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id},
		},
	}
}

// sets is a commit without conditions.
func sets(key, value string) object {
	return object{
		"requirements": []any{},
		"updates":      []any{object{"action": "set-properties", "updates": map[string]string{key: value}}},
	}
}

// metadataFiles returns the metadata files below the directories that the pattern names.
func metadataFiles(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(pattern, "metadata", "*.metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}
