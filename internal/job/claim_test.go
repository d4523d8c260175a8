package job_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/sqldb"
)

func TestClaimTakesTheOldestThatMayRun(t *testing.T) {
	t.Parallel()
	each(t, job.Config{}, job.Hooks{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		now := w.get(t, w.insert(t)).CreatedAt
		var ids []job.ID
		for _, at := range []int64{-3000, -1000, -2000, +600_000, -4000, -5000} {
			id := w.insert(t)
			w.set(t, id, "available_at", now+at)
			ids = append(ids, id)
		}
		w.set(t, ids[4], "paused", 1)
		w.set(t, ids[5], "state", "FAILED")
		want := []job.ID{ids[0], ids[2], ids[1], ids[0] - 1}
		for i, id := range want {
			row, ok, err := w.store.Claim(ctx, "me")
			if err != nil || !ok || row.ID != id {
				t.Fatalf("claim %d: job %d, %v, %v, want job %d", i, row.ID, ok, err, id)
			}
			if row.State != job.Running || row.LeaseEpoch != 1 || row.Owner != "me" || row.HeartbeatAt < now {
				t.Errorf("claimed row %+v", row)
			}
		}
		if row, ok, err := w.store.Claim(ctx, "me"); ok || err != nil {
			t.Fatalf("claimed %+v, %v", row, err)
		}
		for _, id := range []job.ID{ids[0], ids[3], ids[4], ids[5], 1 << 40} {
			if _, ok, err := w.store.ClaimID(ctx, "me", id); ok || err != nil {
				t.Errorf("claimed %d: %v", id, err)
			}
		}
	})
}

// Many goroutines of two stores: every job has one owner in every epoch.
func TestClaimRace(t *testing.T) {
	t.Parallel()
	each(t, job.Config{}, job.Hooks{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		const jobs, rounds = 24, 3
		stores := []*job.Store{w.store, job.NewStore(w.db, jobtest.Table, job.Config{}, job.Hooks{}, job.Observer{})}
		var ids []job.ID
		for range jobs {
			ids = append(ids, w.insert(t))
		}
		for round := range rounds {
			var mu sync.Mutex
			owners := map[job.Lease]string{}
			var wg sync.WaitGroup
			for g := range 10 {
				wg.Go(func() {
					owner := fmt.Sprintf("g%d", g)
					for {
						row, ok, err := stores[g%2].Claim(ctx, owner)
						if err != nil {
							t.Errorf("claim: %v", err)
							return
						}
						mu.Lock()
						if !ok {
							done := len(owners) == jobs
							mu.Unlock()
							if done {
								return
							}
							continue // it lost all races of its window
						}
						if other := owners[row.Lease()]; other != "" {
							t.Errorf("%+v has two owners: %s and %s", row.Lease(), other, owner)
						}
						owners[row.Lease()] = owner
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			for _, id := range ids {
				if owners[job.Lease{ID: id, Epoch: int64(round + 1)}] == "" {
					t.Errorf("job %d has no owner in round %d", id, round)
				}
				w.stale(t, id)
			}
		}
	})
}

func TestReclaim(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		before   map[string]any
		claimed  bool
		state    job.State
		reclaims int
		err      string
	}{
		"first":            {nil, true, job.Running, 1, ""},
		"fourth":           {map[string]any{"stale_reclaims": 3}, true, job.Running, 4, ""},
		"fifth":            {map[string]any{"stale_reclaims": 4, "last_error": "the last words"}, false, job.Failed, 5, "the last words"},
		"cancelled":        {map[string]any{"cancel_requested_at": 5}, false, job.Cancelled, 1, ""},
		"cancelled, fifth": {map[string]any{"cancel_requested_at": 5, "stale_reclaims": 4}, false, job.Cancelled, 5, ""},
		"cancelled paused": {map[string]any{"cancel_requested_at": 5, "paused": 1}, false, job.Cancelled, 1, ""},
		"paused":           {map[string]any{"paused": 1}, false, job.Pending, 1, ""},
	}
	var mu sync.Mutex
	told := map[job.ID]job.State{}
	hooks := job.Hooks{Settled: func(_ context.Context, tx *sqldb.Tx, row job.Row, acked bool) error {
		mu.Lock()
		defer mu.Unlock()
		told[row.ID] = row.State
		if acked {
			return errors.New("nobody acknowledged")
		}
		return nil
	}}
	each(t, job.Config{MaxAttempts: 1}, hooks, func(t *testing.T, w *world) {
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				id := w.insert(t)
				w.claimID(t, id)
				for column, value := range tc.before {
					w.set(t, id, column, value)
				}
				if row, ok, err := w.store.Claim(t.Context(), "thief"); ok || err != nil {
					t.Fatalf("claimed %+v, %v from a living owner", row, err)
				}
				w.stale(t, id)
				row, ok, err := w.store.Claim(t.Context(), "heir")
				if err != nil || ok != tc.claimed {
					t.Fatalf("claimed %v, %v, want %v", ok, err, tc.claimed)
				}
				row = w.get(t, id)
				if row.State != tc.state || row.StaleReclaims != tc.reclaims || row.Attempts != 0 || !strings.Contains(row.LastError, tc.err) {
					t.Errorf("row %+v", row)
				}
				if tc.claimed && (row.LeaseEpoch != 2 || row.Owner != "heir") || !tc.claimed && (row.LeaseEpoch != 1 || row.HeartbeatAt != 0) {
					t.Errorf("lease %+v", row)
				}
				mu.Lock()
				state := told[id]
				delete(told, id)
				mu.Unlock()
				if tc.state.Ended() != (state == tc.state) || tc.state.Ended() != (len(w.ended) == 1) {
					t.Errorf("the domain was told %q, %d events", state, len(w.ended))
				}
				for len(w.ended) > 0 {
					<-w.ended
				}
				if _, err := w.db.Exec(t.Context(), "DELETE FROM test_job"); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

// A server that starts on its own database does not wait for leases of its last life.
func TestReclaimAll(t *testing.T) {
	t.Parallel()
	each(t, job.Config{}, job.Hooks{}, func(t *testing.T, w *world) {
		running, pending := w.insert(t), w.insert(t)
		w.claimID(t, running)
		before := w.get(t, pending)
		if n, err := w.store.ReclaimAll(t.Context()); n != 1 || err != nil {
			t.Fatalf("%d rows, %v", n, err)
		}
		if diff := cmp.Diff(before, w.get(t, pending)); diff != "" {
			t.Errorf("a PENDING row changed:\n%s", diff)
		}
		if row := w.claimID(t, running); row.LeaseEpoch != 2 || row.StaleReclaims != 1 {
			t.Errorf("reclaimed %+v", row)
		}
	})
}

// Nothing that runs every few seconds reads the jobs of years.
func TestPlans(t *testing.T) {
	t.Parallel()
	each(t, job.Config{}, job.Hooks{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		fill := `INSERT INTO test_job (state, attempts, stale_reclaims, lease_epoch, owner, available_at, paused, request_id, last_error, phase, {q:cursor}, progress, created_by, created_at, updated_at, kind) VALUES `
		now := time.Now().UnixMilli()
		for batch := range 60 {
			var values []string
			for i := range 100 {
				n := int64(batch*100 + i)
				state := "SUCCEEDED"
				switch {
				case n%20 == 0:
					state = "PENDING"
				case n%300 == 299:
					state = "FAILED"
				}
				values = append(values, fmt.Sprintf("('%s',0,0,1,'',%d,0,'r%d','','','','{}','',0,%d,'%c')", state, now-n, n, now-n, 'x'+rune(batch%2)))
			}
			if _, err := w.db.Exec(ctx, sqldb.Statement(fill+strings.Join(values, ","))); err != nil {
				t.Fatal(err)
			}
		}
		texts := w.store.Texts()
		args := map[string][]any{"claimable": {int64(1000)}, "anyWaiting": nil, "pruneSucceeded": {int64(1000)}, "findRequest": {"r7"}, "gauges": nil}
		index := map[string]string{
			"claimable": "test_job_available", "anyWaiting": "test_job_available", "pruneSucceeded": "test_job_updated", "findRequest": "test_job_request",
			"gauges": "test_job_", "list": "test_job_listed",
		}
		texts["list"], args["list"] = w.store.Listing(job.Filter{State: job.Failed, Extra: []job.Extra{{Column: "kind", Value: "x"}}}, job.Page{Limit: 3})
		for _, statistics := range []string{"none", "fresh"} {
			if statistics == "fresh" {
				analyze := sqldb.Statement("ANALYZE test_job")
				if w.db.Dialect().Name == sqldb.MySQL {
					analyze = "ANALYZE TABLE test_job"
				}
				if _, err := w.db.Exec(ctx, analyze); err != nil {
					t.Fatal(err)
				}
			}
			for name, a := range args {
				plan := explain(t, w.db, texts[name], a)
				if !strings.Contains(plan, index[name]) || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "SCAN test_job") || strings.Contains(plan, "test_job ALL") {
					t.Errorf("%s, statistics %s:\n%s", name, statistics, plan)
				}
				// What is not due yet must not be read either.
				bound := map[sqldb.Name]string{
					sqldb.Postgres: "Index Cond: ((state = 'PENDING'::text) AND (available_at <= ",
					sqldb.MySQL:    "test_job range test_job_available",
				}[w.db.Dialect().Name]
				if name == "list" && (strings.Contains(strings.ToUpper(plan), "SORT") || strings.Contains(plan, "TEMP B-TREE")) {
					t.Errorf("%s, statistics %s: the index does not hold the page in its order:\n%s", name, statistics, plan)
				}
				if index[name] == "test_job_available" && !strings.Contains(plan, bound) {
					t.Errorf("%s, statistics %s: the clock is no bound of the range:\n%s", name, statistics, plan)
				}
			}
		}
	})
}

func explain(t *testing.T, db *sqldb.DB, text sqldb.Statement, args []any) string {
	t.Helper()
	prefix := sqldb.Statement("EXPLAIN ")
	if db.Dialect().Name == sqldb.SQLite {
		prefix = "EXPLAIN QUERY PLAN "
	}
	rows, err := db.Query(t.Context(), prefix+text, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			t.Fatal(err)
		}
		if db.Dialect().Name != sqldb.MySQL {
			fmt.Fprintln(&b, *values[len(values)-1].(*any))
			continue
		}
		for i, name := range columns {
			switch name {
			case "table", "type", "key", "rows", "Extra":
				value := *values[i].(*any)
				if text, ok := value.([]byte); ok {
					value = string(text)
				}
				fmt.Fprint(&b, value, " ")
			}
		}
		fmt.Fprintln(&b)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
