package concurrency

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCommitsToOneTable lets all clients commit to one table until each has been
// acknowledged often enough. Nothing acknowledged is lost, nothing refused is applied,
// and no metadata file is left by a commit that was not.
func TestCommitsToOneTable(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		name string
		make func(ctx context.Context, c *client, id int64) (object, error)
		has  func(l *loaded) (map[int64]bool, error)
	}{
		{"without conditions", setsID, propertyIDs}, // the server tries again
		{"on a branch", appendsID, snapshotIDs},     // the clients do
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, w *world) {
				table := w.one(t).create(t, "t")
				var mu sync.Mutex
				acknowledged, refused := map[int64]bool{}, 0
				w.all(t, clients, func(ctx context.Context, c *client) error {
					for id := int64(c.number+1) * 1_000_000; ; id++ { // an id for each try
						body, err := kind.make(ctx, c, id)
						if err != nil {
							return err
						}
						status, err := c.send(ctx, http.MethodPost, tables+"/t", body, nil, http.StatusOK, http.StatusConflict)
						if err != nil {
							return err
						}
						mu.Lock()
						if status == http.StatusOK {
							acknowledged[id] = true
						} else {
							refused++
						}
						mine := count(acknowledged, c.number)
						mu.Unlock()
						if mine == 5**scale {
							return nil
						}
					}
				})
				t.Logf("%d commits were acknowledged, %d refused", len(acknowledged), refused)

				now, err := w.one(t).load(t.Context(), "t")
				if err != nil {
					t.Fatal(err)
				}
				has, err := kind.has(&now)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(acknowledged, has); diff != "" {
					t.Errorf("the table has other commits than were acknowledged (-acknowledged +table):\n%s", diff)
				}
				dir := strings.TrimPrefix(table.Metadata.Location, "file://")
				if files := metadataFiles(t, dir); len(files) != 1+len(acknowledged) {
					t.Errorf("%d metadata files, want one for each of %d commits and the first", len(files), len(acknowledged))
				}
			})
		})
	}
}

// count returns how many of the ids are a client's.
func count(ids map[int64]bool, number int) (n int) {
	for id := range ids {
		if id/1_000_000 == int64(number+1) {
			n++
		}
	}
	return n
}

func setsID(_ context.Context, _ *client, id int64) (object, error) {
	return sets(fmt.Sprint(id), ""), nil
}

func propertyIDs(l *loaded) (map[int64]bool, error) {
	ids := map[int64]bool{}
	for key := range l.Metadata.Properties {
		var id int64
		if _, err := fmt.Sscan(key, &id); err == nil { // the server sets others
			ids[id] = true
		}
	}
	return ids, nil
}

func appendsID(ctx context.Context, c *client, id int64) (object, error) {
	l, err := c.load(ctx, "t")
	if err != nil {
		return nil, err
	}
	return l.appends(id, map[string]string{"operation": "append"}), nil
}

func snapshotIDs(l *loaded) (map[int64]bool, error) {
	chain, err := l.chain()
	ids := map[int64]bool{}
	for _, s := range chain {
		ids[s.ID] = true
	}
	return ids, err
}
