package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// frozen runs fn with a server on each database that can fall silent.
func frozen(t *testing.T, fn func(t *testing.T, r *running, g *sqldbtest.Gateway)) {
	t.Helper()
	for _, db := range sqldbtest.Servers(t) {
		if db.Name == sqldb.SQLite {
			continue // it is in this process
		}
		t.Run(db.String(), func(t *testing.T) {
			t.Parallel()
			g := sqldbtest.NewGateway(t, db.URL(t))
			t.Cleanup(g.Thaw) // before the server ends
			cfg := config(t, t.TempDir(), map[string]string{"LETHE_DATABASE": g.URL},
				"--database-timeout", "5s", "--lock-wait", "2s", "--async-purge-heartbeat-timeout-ms", "20000", "--async-purge-retry-base-ms", "100")
			cfg.Drain = 3 * time.Second
			fn(t, start(t, cfg), g)
		})
	}
}

// A database that says nothing costs nobody more than its time: requests are told to come
// again, balancers that the server is not ready, and all goes on when it answers again.
func TestDatabaseIsFrozen(t *testing.T) {
	t.Parallel()
	frozen(t, func(t *testing.T, r *running, g *sqldbtest.Gateway) {
		const table = space + "/n/tables/t"
		set := `{"requirements":[],"updates":[{"action":"set-properties","updates":{"k":"v"}}]}`
		r.table()
		r.want(200, "POST", table, set)
		r.want(200, "POST", space+"/n/tables", strings.Replace(create, `"t"`, `"u"`, 1))
		r.want(201, "PUT", "/v1/fs/f", "x")
		dropped := r.want(204, "DELETE", space+"/n/tables/u?purgeRequested=true", "", "X-Gravitino-Async-Purge", "true")
		job := dropped.header.Get("X-Lethe-Job")

		g.Freeze()
		var asked sync.WaitGroup
		for _, q := range []struct {
			method, path, body string
			status             int
		}{
			{"GET", table, "", 503},
			{"GET", space, "", 503},
			{"POST", space, `{"namespace":["m"]}`, 503},
			{"DELETE", table, "", 503},
			{"POST", table, set, 429},
			{"POST", "/iceberg/v1/default/transactions/commit", `{"table-changes":[{"identifier":{"namespace":["n"],"name":"t"},"requirements":[],"updates":[{"action":"set-properties","updates":{"k":"w"}}]}]}`, 429},
			{"GET", "/v1/fs/f", "", 503},
			{"PUT", "/v1/fs/g", "y", 503},
			{"DELETE", "/v1/fs/f", "", 503},
			{"GET", "/v1/jobs", "", 503},
			{"GET", "/v1/warehouses", "", 503},
			{"GET", "/readyz", "", 503},
		} {
			asked.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				got, err := r.try(ctx, q.method, q.path, q.body)
				if err != nil || got.status != q.status {
					t.Errorf("%s %s: %d %v, want %d: %s", q.method, q.path, got.status, err, q.status, got.body)
				}
				if after := got.header.Get("Retry-After"); after == "" && q.path != "/readyz" {
					t.Errorf("%s %s: no Retry-After", q.method, q.path)
				}
			})
		}
		asked.Wait()
		g.Thaw()

		r.eventually(func() bool { return r.do("GET", "/readyz", "").status == http.StatusOK })
		r.want(200, "GET", table, "")
		r.want(200, "POST", table, set)
		r.want(404, "GET", space+"/m", "") // 503 said that nothing was changed
		r.want(200, "GET", "/v1/fs/f", "")
		r.want(404, "GET", "/v1/fs/g", "")
		r.eventually(func() bool { return strings.Contains(r.do("GET", "/v1/jobs/"+job, "").body, `"SUCCEEDED"`) })
		r.eventually(func() bool { // the end of a job is seen before it is counted
			return strings.Contains(r.do("GET", "/metrics", "").body, "\nlethe_purge_completed_total 1\n")
		})
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
}

// A server whose database says nothing stops within its time, with requests under way.
func TestStopWhileTheDatabaseIsFrozen(t *testing.T) {
	t.Parallel()
	frozen(t, func(t *testing.T, r *running, g *sqldbtest.Gateway) {
		r.table()
		g.Freeze()
		var asked sync.WaitGroup
		for range 20 {
			asked.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if got, err := r.try(ctx, "GET", space, ""); err == nil && got.status != http.StatusServiceUnavailable {
					t.Errorf("status %d", got.status)
				}
			})
		}
		<-g.GivenUp()
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			if err := r.stop(); err != nil && !errors.Is(err, context.DeadlineExceeded) { // what could not be given back in time
				t.Errorf("stop: %v", err)
			}
		}()
		select {
		case <-stopped:
		case <-time.After(30 * time.Second): // 3 s, and what a slow machine adds
			t.Error("it does not stop")
			g.Thaw()
			<-stopped
		}
		asked.Wait()
	})
}
