package job_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

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
