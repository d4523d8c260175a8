package job_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

func TestControl(t *testing.T) {
	t.Parallel()
	type result struct {
		State   job.State
		Asked   bool // to cancel
		Acked   bool
		Paused  bool
		Settled string
		Kind    fault.Kind // of the error; Internal means that there is none
	}
	conflict := func(s job.State) result { return result{State: s, Kind: fault.Conflict} }
	controls := map[string]func(ctx context.Context, s *job.Store, id job.ID) (job.Row, error){
		"cancel": func(ctx context.Context, s *job.Store, id job.ID) (job.Row, error) { return s.Cancel(ctx, id) },
		"retry": func(ctx context.Context, s *job.Store, id job.ID) (job.Row, error) {
			return s.Retry(ctx, id, job.RetryOptions{AcceptMissing: true})
		},
		"ack":    func(ctx context.Context, s *job.Store, id job.ID) (job.Row, error) { return s.Ack(ctx, id) },
		"pause":  func(ctx context.Context, s *job.Store, id job.ID) (job.Row, error) { return s.Pause(ctx, id) },
		"resume": func(ctx context.Context, s *job.Store, id job.ID) (job.Row, error) { return s.Resume(ctx, id) },
	}
	want := map[string]map[job.State]result{
		"cancel": {
			job.Pending: {State: job.Cancelled, Asked: true, Settled: "CANCELLED"}, job.Running: {State: job.Running, Asked: true},
			job.Succeeded: conflict(job.Succeeded), job.Failed: conflict(job.Failed), job.Cancelled: {State: job.Cancelled},
		},
		"retry": {
			job.Pending: conflict(job.Pending), job.Running: conflict(job.Running), job.Succeeded: conflict(job.Succeeded),
			job.Failed: {State: job.Pending, Settled: "retry true"}, job.Cancelled: {State: job.Pending, Settled: "retry true"},
		},
		"ack": {
			job.Pending: conflict(job.Pending), job.Running: conflict(job.Running), job.Succeeded: conflict(job.Succeeded),
			job.Failed: {State: job.Failed, Acked: true, Settled: "FAILED acked"}, job.Cancelled: {State: job.Cancelled, Acked: true, Settled: "CANCELLED acked"},
		},
		"pause": {
			job.Pending: {State: job.Pending, Paused: true}, job.Running: {State: job.Running, Paused: true},
			job.Succeeded: conflict(job.Succeeded), job.Failed: conflict(job.Failed), job.Cancelled: conflict(job.Cancelled),
		},
		"resume": {
			job.Pending: {State: job.Pending}, job.Running: {State: job.Running},
			job.Succeeded: conflict(job.Succeeded), job.Failed: conflict(job.Failed), job.Cancelled: conflict(job.Cancelled),
		},
	}
	var mu sync.Mutex
	told := map[job.ID]string{}
	note := func(id job.ID, s string) {
		mu.Lock()
		defer mu.Unlock()
		told[id] += s
	}
	hooks := job.Hooks{
		Settled: func(_ context.Context, _ *sqldb.Tx, row job.Row, acked bool) error {
			text := string(row.State)
			if acked {
				text += " acked"
			}
			note(row.ID, text)
			return nil
		},
		Retrying: func(_ context.Context, _ *sqldb.Tx, row job.Row, opts job.RetryOptions) error {
			note(row.ID, fmt.Sprint("retry ", opts.AcceptMissing))
			return nil
		},
	}
	for _, server := range sqldbtest.Servers(t) {
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			db := server.Open(t, sqldb.Config{}, jobtest.Migrations)
			s := job.NewStore(db, jobtest.Table, job.Config{}, hooks, job.Observer{})
			for name, control := range controls {
				for state, want := range want[name] {
					t.Run(name+" "+string(state), func(t *testing.T) {
						id := jobtest.Insert(t, db, s, job.New{})
						jobtest.Set(t, db, jobtest.Table, id, "state", string(state))
						mu.Lock()
						delete(told, id)
						mu.Unlock()
						answer, err := control(t.Context(), s, id)
						row := jobtest.Get(t, s, id)
						mu.Lock()
						got := result{
							State: row.State, Asked: row.CancelRequestedAt != 0, Acked: row.AckedAt != 0, Paused: row.Paused,
							Settled: told[id], Kind: fault.KindOf(err),
						}
						mu.Unlock()
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("(-want +got):\n%s", diff)
						}
						if err != nil {
							return
						}
						if diff := cmp.Diff(row, answer); diff != "" {
							t.Errorf("answer (-row +answer):\n%s", diff)
						}
						if name == "retry" {
							return
						}
						again, err := control(t.Context(), s, id)
						again.UpdatedAt = row.UpdatedAt
						if diff := cmp.Diff(row, again); diff != "" || err != nil {
							t.Errorf("a second time: %v\n%s", err, diff)
						}
					})
				}
				if _, err := control(t.Context(), s, 1<<40); fault.KindOf(err) != fault.NotFound || !fault.Is(err, job.CodeNoSuchJob) {
					t.Errorf("%s of no job: %v", name, err)
				}
			}
		})
	}
}

func TestRetryStartsOver(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	refuse := map[job.ID]bool{}
	hooks := job.Hooks{Retrying: func(_ context.Context, _ *sqldb.Tx, row job.Row, _ job.RetryOptions) error {
		mu.Lock()
		defer mu.Unlock()
		if refuse[row.ID] {
			return fault.New("test", fault.Conflict, "Taken", "the location is taken")
		}
		return nil
	}}
	for _, server := range sqldbtest.Servers(t) {
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			db := server.Open(t, sqldb.Config{}, jobtest.Migrations)
			s := job.NewStore(db, jobtest.Table, job.Config{}, hooks, job.Observer{})
			id := jobtest.Insert(t, db, s, job.New{})
			for column, value := range map[string]any{
				"state": "FAILED", "attempts": 5, "stale_reclaims": 5, "outage_since": 7, "lease_epoch": 9, "acked_at": 8, "cancel_requested_at": 6,
				"phase": "LISTS", "cursor": "33", "progress": `{"files":3}`, "last_error": "boom", "owner": "other", "available_at": 1,
			} {
				jobtest.Set(t, db, jobtest.Table, id, column, value)
			}
			before := jobtest.Get(t, s, id)
			mu.Lock()
			refuse[id] = true
			mu.Unlock()
			if _, err := s.Retry(t.Context(), id, job.RetryOptions{}); !fault.Is(err, "Taken") {
				t.Fatalf("refused retry: %v", err)
			}
			if diff := cmp.Diff(before, jobtest.Get(t, s, id)); diff != "" {
				t.Fatalf("a refused retry changed the row:\n%s", diff)
			}
			mu.Lock()
			refuse[id] = false
			mu.Unlock()
			row, err := s.Retry(t.Context(), id, job.RetryOptions{})
			if err != nil {
				t.Fatal(err)
			}
			want := before
			want.State, want.Attempts, want.StaleReclaims, want.OutageSince, want.AckedAt, want.CancelRequestedAt, want.Cursor = job.Pending, 0, 0, 0, 0, 0, ""
			want.AvailableAt, want.UpdatedAt = row.UpdatedAt, row.UpdatedAt
			if diff := cmp.Diff(want, row); diff != "" || row.UpdatedAt < before.CreatedAt {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Cancel asks a RUNNING job; where the domain fences its own writes, it is at once.
func TestCancelAtOnce(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, []sqldb.Migrations{jobtest.Migrations}, func(t *testing.T, db *sqldb.DB) {
		table := jobtest.Table
		table.CancelAtOnce = true
		s := job.NewStore(db, table, job.Config{}, job.Hooks{}, job.Observer{})
		id := jobtest.Insert(t, db, s, job.New{})
		row, ok, err := s.ClaimID(t.Context(), "me", id)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		if after, err := s.Cancel(t.Context(), id); err != nil || after.State != job.Cancelled {
			t.Fatalf("%+v, %v", after, err)
		}
		if _, err := s.Finish(t.Context(), row.Lease(), nil); !errors.Is(err, job.ErrLeaseLost) {
			t.Errorf("finish after it: %v", err)
		}
	})
}

// A cancel that meets the owner's give-back in any order ends the job.
func TestCancelRacesFinish(t *testing.T) {
	t.Parallel()
	each(t, job.Config{}, job.Hooks{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		for i := range 20 {
			id := w.insert(t)
			l := w.claimID(t, id).Lease()
			answer := []error{job.ErrYield, job.ErrShutdown, errors.New("boom")}[i%3]
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := w.store.Cancel(ctx, id); err != nil {
					t.Errorf("cancel: %v", err)
				}
			})
			wg.Go(func() {
				if _, err := w.store.Finish(ctx, l, answer); err != nil {
					t.Errorf("finish: %v", err)
				}
			})
			wg.Wait()
			if row := w.get(t, id); row.State != job.Cancelled {
				t.Fatalf("round %d: %+v", i, row)
			}
		}
	})
}

func TestSettledRefuses(t *testing.T) {
	t.Parallel()
	refusal := errors.New("the domain is not ready")
	hooks := job.Hooks{Settled: func(context.Context, *sqldb.Tx, job.Row, bool) error { return refusal }}
	each(t, job.Config{}, hooks, func(t *testing.T, w *world) {
		ctx := t.Context()
		id := w.insert(t)
		if _, err := w.store.Cancel(ctx, id); !errors.Is(err, refusal) {
			t.Errorf("cancel: %v", err)
		}
		l := w.claimID(t, id).Lease()
		before := w.get(t, id)
		for _, answer := range []error{nil, job.Terminal(errors.New("x"))} {
			if _, err := w.store.Finish(ctx, l, answer); !errors.Is(err, refusal) {
				t.Errorf("finish %v: %v", answer, err)
			}
		}
		if diff := cmp.Diff(before, w.get(t, id)); diff != "" || len(w.ended) != 0 {
			t.Errorf("%d events; the row changed:\n%s", len(w.ended), diff)
		}
	})
}

func TestInsertAndFindByRequest(t *testing.T) {
	t.Parallel()
	each(t, job.Config{}, job.Hooks{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		id := jobtest.Insert(t, w.db, w.store, job.New{
			RequestID: "req-1", CreatedBy: "ann", Progress: []byte(`{"files":0}`), Delay: time.Hour,
			Extra: []job.Extra{{Column: "kind", Value: "x"}},
		})
		row := w.get(t, id)
		want := job.Row{
			ID: id, State: job.Pending, RequestID: "req-1", CreatedBy: "ann", Progress: []byte(`{"files":0}`),
			CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, AvailableAt: row.AvailableAt,
		}
		if diff := cmp.Diff(want, row); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// PostgreSQL reads its clock for each of them.
		delay := time.Duration(row.AvailableAt-row.CreatedAt) * time.Millisecond
		if (delay-time.Hour).Abs() > time.Minute || row.UpdatedAt-row.CreatedAt > 60_000 || row.CreatedAt == 0 {
			t.Errorf("times %+v", row)
		}
		err := w.db.Tx(ctx, func(tx *sqldb.Tx) error {
			found, ok, err := w.store.FindByRequest(ctx, tx, "req-1")
			if !ok || found.ID != id {
				t.Errorf("found %+v, %v", found, ok)
			}
			if err != nil {
				return err
			}
			if found, ok, err = w.store.FindByRequest(ctx, tx, "req-2"); ok || err != nil {
				t.Errorf("found %+v, %v", found, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestListPagesNewestFirst(t *testing.T) {
	t.Parallel()
	each(t, job.Config{}, job.Hooks{}, func(t *testing.T, w *world) {
		var all []job.ID
		for i := range 7 {
			kind := "even"
			if i%2 == 1 {
				kind = "odd"
			}
			all = append(all, jobtest.Insert(t, w.db, w.store, job.New{Extra: []job.Extra{{Column: "kind", Value: kind}}}))
		}
		w.set(t, all[2], "state", "FAILED")
		w.set(t, all[3], "state", "FAILED")
		slices.Reverse(all)
		odd := []job.Extra{{Column: "kind", Value: "odd"}}
		tests := map[string]struct {
			filter job.Filter
			limit  int
			want   []job.ID
		}{
			"all":             {job.Filter{}, 0, all},
			"all by threes":   {job.Filter{}, 3, all},
			"all by sevens":   {job.Filter{}, 7, all},
			"one state":       {job.Filter{State: job.Failed}, 1, []job.ID{all[3], all[4]}},
			"one kind":        {job.Filter{Extra: odd}, 2, []job.ID{all[1], all[3], all[5]}},
			"kind and state":  {job.Filter{State: job.Failed, Extra: odd}, 2, []job.ID{all[3]}},
			"none":            {job.Filter{State: job.Cancelled}, 2, nil},
			"unreasonable":    {job.Filter{}, 1 << 30, all},
			"negative, one's": {job.Filter{}, -1, all},
		}
		for name, tc := range tests {
			var got []job.ID
			for page, more := (job.Page{Limit: tc.limit}), true; more; more = page.Before != 0 {
				rows, next, err := w.store.List(t.Context(), tc.filter, page)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range rows {
					got = append(got, r.ID)
				}
				page = next
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

func TestGauges(t *testing.T) {
	t.Parallel()
	each(t, job.Config{}, job.Hooks{}, func(t *testing.T, w *world) {
		g, err := w.store.Gauges(t.Context())
		want := map[job.State]int64{job.Pending: 0, job.Running: 0, job.Succeeded: 0, job.Failed: 0, job.Cancelled: 0}
		if diff := cmp.Diff(want, g.Jobs); diff != "" || err != nil || g.OldestPending != 0 {
			t.Fatalf("empty: %v, %v\n%s", g, err, diff)
		}
		for _, s := range []job.State{job.Pending, job.Pending, job.Failed, job.Succeeded, job.Succeeded, job.Succeeded} {
			w.set(t, w.insert(t), "state", string(s))
			want[s]++
		}
		jobtest.Age(t, w.db, jobtest.Table, w.insert(t), time.Hour)
		want[job.Pending]++
		g, err = w.store.Gauges(t.Context())
		if diff := cmp.Diff(want, g.Jobs); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
		if g.OldestPending < time.Hour || g.OldestPending > time.Hour+time.Minute {
			t.Errorf("oldest pending %s, want an hour", g.OldestPending)
		}
	})
}

// What grows with retention is not counted at every scrape.
func TestGaugesOfManyEndedJobs(t *testing.T) {
	t.Parallel()
	each(t, job.Config{}, job.Hooks{}, func(t *testing.T, w *world) {
		gauge := func(state job.State) int64 {
			t.Helper()
			g, err := w.store.Gauges(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return g.Jobs[state]
		}
		id := w.insert(t)
		w.set(t, id, "state", string(job.Succeeded))
		many := int64(1)
		for many <= job.EndedFew { // by doubling
			n, err := w.db.Exec(t.Context(), `INSERT INTO test_job (state, attempts, stale_reclaims, lease_epoch, owner, available_at, paused, request_id, last_error, phase, {q:cursor}, progress, created_by, created_at, updated_at, kind)
				SELECT state, 0, 0, 0, '', 0, 0, '', '', '', '', '{}', '', 0, 0, kind FROM test_job`)
			if err != nil {
				t.Fatal(err)
			}
			if many < job.EndedFew && gauge(job.Succeeded) != many+n { // few are counted each time
				t.Fatalf("%d SUCCEEDED, want %d", gauge(job.Succeeded), many+n)
			}
			many += n
		}
		w.set(t, id, "state", string(job.Failed))
		w.insert(t)
		if s, f, p := gauge(job.Succeeded), gauge(job.Failed), gauge(job.Pending); s != many || f != 1 || p != 1 {
			t.Errorf("%d SUCCEEDED, %d FAILED, %d PENDING; want the count of before, 1 and 1", s, f, p)
		}
		w.store.AgeGauges(61 * time.Second)
		if s := gauge(job.Succeeded); s != many-1 {
			t.Errorf("%d SUCCEEDED after a minute, want %d", s, many-1)
		}
	})
}

// A server that is restarted every day prunes nevertheless.
func TestPruneSoonAfterTheStart(t *testing.T) {
	t.Parallel()
	each(t, slow(), job.Hooks{}, func(t *testing.T, w *world) {
		id := w.insert(t)
		w.set(t, id, "state", string(job.Succeeded))
		jobtest.Age(t, w.db, jobtest.Table, id, w.store.Config().Retention+time.Hour)
		r := job.NewRunner(w.store, jobtest.Handler(nil), "me")
		r.PruneAfter(time.Millisecond)
		r.Start()
		defer func() {
			if err := r.Stop(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}()
		jobtest.Eventually(t, "the old row is pruned", func() bool {
			_, err := w.store.Get(t.Context(), id)
			return fault.KindOf(err) == fault.NotFound && err != nil
		})
	})
}

func TestPrune(t *testing.T) {
	t.Parallel()
	const old, older = 49 * time.Hour, 200 * time.Hour
	tests := map[string]struct {
		state  job.State
		acked  bool
		phase  string // "none" has no files left
		age    time.Duration
		pruned [3]bool // by default; with FailedRetention; where an ack does not let go
	}{
		"fresh":                    {job.Succeeded, false, "", 0, [3]bool{}},
		"succeeded":                {job.Succeeded, false, "", old, [3]bool{true, true, true}},
		"pending":                  {job.Pending, false, "", older, [3]bool{}},
		"running":                  {job.Running, false, "", older, [3]bool{}},
		"failed":                   {job.Failed, false, "", old, [3]bool{}},
		"failed long ago":          {job.Failed, false, "", older, [3]bool{false, true, false}},
		"failed, acked":            {job.Failed, true, "", old, [3]bool{true, true, false}},
		"failed, acked just now":   {job.Failed, true, "", 0, [3]bool{}},
		"failed, nothing left":     {job.Failed, false, "none", old, [3]bool{true, true, true}},
		"cancelled":                {job.Cancelled, false, "", old, [3]bool{}},
		"cancelled long ago":       {job.Cancelled, false, "", older, [3]bool{false, true, false}},
		"cancelled, acked":         {job.Cancelled, true, "", old, [3]bool{true, true, false}},
		"cancelled, nothing left":  {job.Cancelled, false, "none", old, [3]bool{true, true, true}},
		"cancelled, nothing, then": {job.Cancelled, false, "none", 0, [3]bool{}},
	}
	keeping := jobtest.Table
	keeping.AckKeeps = true
	setups := []struct {
		name  string
		table job.Table
		cfg   job.Config
	}{
		{"default", jobtest.Table, job.Config{Retention: 48 * time.Hour}},
		{"failed-retention", jobtest.Table, job.Config{Retention: 48 * time.Hour, FailedRetention: 100 * time.Hour}},
		{"ack keeps", keeping, job.Config{Retention: 48 * time.Hour, FailedRetention: 100 * time.Hour}},
	}
	for i, setup := range setups {
		t.Run(setup.name, func(t *testing.T) {
			t.Parallel()
			sqldbtest.Each(t, []sqldb.Migrations{jobtest.Migrations}, func(t *testing.T, db *sqldb.DB) {
				var told []job.ID
				var log bytes.Buffer
				s := job.NewStore(db, setup.table, setup.cfg, job.Hooks{
					FilesLeft: func(row job.Row) bool { return row.Phase != "none" },
					Pruning: func(_ context.Context, _ *sqldb.Tx, ids []job.ID) error {
						told = append(told, ids...)
						return nil
					},
				}, job.Observer{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				ids := map[string]job.ID{}
				var want []job.ID
				for name, tc := range tests {
					id := jobtest.Insert(t, db, s, job.New{})
					ids[name] = id
					jobtest.Set(t, db, setup.table, id, "state", string(tc.state))
					jobtest.Set(t, db, setup.table, id, "phase", tc.phase)
					if tc.acked {
						jobtest.Set(t, db, setup.table, id, "acked_at", 1)
					}
					jobtest.Age(t, db, setup.table, id, tc.age)
					if tc.pruned[i] {
						want = append(want, id)
					}
				}
				n, err := s.Prune(t.Context())
				if err != nil || n != int64(len(want)) {
					t.Errorf("pruned %d, %v, want %d", n, err, len(want))
				}
				slices.Sort(told)
				slices.Sort(want)
				if diff := cmp.Diff(want, told); diff != "" {
					t.Errorf("the domain was told (-want +got):\n%s", diff)
				}
				for name, id := range ids {
					tc := tests[name]
					leak := tc.pruned[i] && tc.state != job.Succeeded && !tc.acked && tc.phase != "none"
					if said := strings.Contains(log.String(), "job="+s.Name(id)+" "); said != leak {
						t.Errorf("%s: forgotten with a word %v, want %v: %s", name, said, leak, log.String())
					}
					_, err := s.Get(t.Context(), id)
					if gone := fault.KindOf(err) == fault.NotFound; gone != tests[name].pruned[i] {
						t.Errorf("%s: gone %v, want %v (%v)", name, gone, tests[name].pruned[i], err)
					}
				}
			})
		})
	}
}

// Rows that stay do not keep those behind them from going.
func TestPrunePages(t *testing.T) {
	t.Parallel()
	hooks := job.Hooks{FilesLeft: func(row job.Row) bool { return row.ID%3 != 0 }}
	each(t, job.Config{Retention: time.Hour}, hooks, func(t *testing.T, w *world) {
		ctx := t.Context()
		const n = 603
		err := w.db.Tx(ctx, func(tx *sqldb.Tx) error {
			for range n {
				if _, err := w.store.Insert(ctx, tx, job.New{Extra: []job.Extra{{Column: "kind", Value: "x"}}}); err != nil {
					return err
				}
			}
			_, err := tx.Exec(ctx, "UPDATE test_job SET state = 'FAILED', updated_at = created_at - 7200000 - id / 100")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.store.Prune(ctx); err != nil || got != n/3 {
			t.Errorf("pruned %d, %v, want %d", got, err, n/3)
		}
		if got, err := w.store.Prune(ctx); err != nil || got != 0 {
			t.Errorf("and then %d, %v", got, err)
		}
	})
}
