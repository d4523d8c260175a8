package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// end is what a finished run leaves in its row.
type end struct {
	State    job.State
	Attempts int
	Reclaims int
	Outage   bool
	Delay    time.Duration // until it may run again; only for PENDING
	Paused   bool
	Error    string
}

func TestFinish(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	down := fault.New("", fault.Busy, sqldb.CodeUnavailable, "gone")
	type columns map[string]any
	tests := map[string]struct {
		before columns // on the row while it is RUNNING; outage_since counts back from now
		ahead  bool    // the run saved progress
		answer error
		want   end
	}{
		"succeeded":           {nil, false, nil, end{State: job.Succeeded}},
		"succeeded, asked to": {columns{"cancel_requested_at": 5}, false, nil, end{State: job.Succeeded}},
		"succeeded, paused":   {columns{"paused": 1}, false, nil, end{State: job.Succeeded}},
		"succeeded after failures": {
			columns{"attempts": 3, "outage_since": time.Minute, "last_error": "old"},
			false, nil,
			end{State: job.Succeeded, Attempts: 3, Error: "old"},
		},

		"failed":               {nil, false, boom, end{State: job.Pending, Attempts: 1, Delay: 10 * time.Second, Error: "boom"}},
		"failed twice":         {columns{"attempts": 1}, false, boom, end{State: job.Pending, Attempts: 2, Delay: 40 * time.Second, Error: "boom"}},
		"failed four times":    {columns{"attempts": 3}, false, boom, end{State: job.Pending, Attempts: 4, Delay: 640 * time.Second, Error: "boom"}},
		"failed five times":    {columns{"attempts": 4, "paused": 1}, false, boom, end{State: job.Failed, Attempts: 5, Error: "boom"}},
		"failed with progress": {columns{"attempts": 4, "stale_reclaims": 4}, true, boom, end{State: job.Pending, Attempts: 1, Delay: 10 * time.Second, Error: "boom"}},
		"failed, asked to":     {columns{"cancel_requested_at": 5}, false, boom, end{State: job.Cancelled, Attempts: 1, Error: "boom"}},
		"failed, paused":       {columns{"paused": 1}, false, boom, end{State: job.Pending, Attempts: 1, Delay: 10 * time.Second, Paused: true, Error: "boom"}},

		"terminal":           {nil, false, job.Terminal(boom), end{State: job.Failed, Attempts: 1, Error: "boom"}},
		"terminal, wrapped":  {nil, false, fmt.Errorf("level: %w", job.Terminal(boom)), end{State: job.Failed, Attempts: 1, Error: "level: boom"}},
		"terminal, asked to": {columns{"cancel_requested_at": 5}, false, job.Terminal(boom), end{State: job.Cancelled, Attempts: 1, Error: "boom"}},

		"first outage": {nil, false, job.Outage(boom), end{State: job.Pending, Outage: true, Delay: 10 * time.Second, Error: "boom"}},
		"outage within grace": {
			columns{"attempts": 4, "outage_since": 59 * time.Minute},
			false, job.Outage(boom),
			end{State: job.Pending, Attempts: 4, Outage: true, Delay: 30 * time.Minute, Error: "boom"},
		},
		"outage backs off with its age": {
			columns{"outage_since": 5 * time.Minute},
			false, job.Outage(boom),
			end{State: job.Pending, Outage: true, Delay: 5 * time.Minute, Error: "boom"},
		},
		"outage beyond grace": {
			columns{"attempts": 1, "outage_since": 61 * time.Minute},
			false, job.Outage(boom),
			end{State: job.Pending, Attempts: 2, Outage: true, Delay: 40 * time.Second, Error: "boom"},
		},
		"outage beyond grace, last": {
			columns{"attempts": 4, "outage_since": 61 * time.Minute},
			false, job.Outage(boom),
			end{State: job.Failed, Attempts: 5, Outage: true, Error: "boom"},
		},
		"outage after progress": {
			columns{"attempts": 4, "outage_since": 61 * time.Minute},
			true, job.Outage(boom),
			end{State: job.Pending, Outage: true, Delay: 10 * time.Second, Error: "boom"},
		},

		"unsaved": {nil, false, job.Unsaved(boom), end{State: job.Pending, Outage: true, Delay: 10 * time.Second, Error: "job: save: boom"}},
		"unsaved within grace": {
			columns{"attempts": 4, "outage_since": 59 * time.Minute},
			false, job.Unsaved(boom),
			end{State: job.Pending, Attempts: 4, Outage: true, Delay: 30 * time.Minute, Error: "job: save: boom"},
		},
		"unsaved beyond grace": {
			columns{"attempts": 4, "outage_since": 61 * time.Minute},
			false, fmt.Errorf("level: %w", job.Unsaved(boom)),
			end{State: job.Failed, Attempts: 5, Outage: true, Error: "level: job: save: boom"},
		},
		"unsaved, asked to": {columns{"cancel_requested_at": 5}, false, job.Unsaved(boom), end{State: job.Cancelled, Outage: true, Error: "job: save: boom"}},
		"unsaved and damaged": {
			nil, false, errors.Join(job.Terminal(boom), job.Unsaved(boom)),
			end{State: job.Pending, Outage: true, Delay: 10 * time.Second, Error: "boom\njob: save: boom"},
		},
		"no database": {nil, false, fmt.Errorf("owner: %w", down), end{State: job.Pending, Outage: true, Delay: 10 * time.Second, Error: "owner: gone"}},
		"a busy database": {
			columns{"attempts": 4},
			false, fmt.Errorf("adopt: %w", fault.New("", fault.Busy, sqldb.CodeBusy, "busy")),
			end{State: job.Pending, Attempts: 4, Outage: true, Delay: 640 * time.Second, Error: "adopt: busy"},
		},
		"a full database": {
			columns{"attempts": 4},
			false, fault.New("", fault.Full, sqldb.CodeFull, "full"),
			end{State: job.Pending, Attempts: 4, Outage: true, Delay: 640 * time.Second, Error: "full"},
		},
		"a database in doubt": {
			columns{"attempts": 4},
			false, fault.New("", fault.Unknown, sqldb.CodeCommitUnknown, "unknown"),
			end{State: job.Pending, Attempts: 4, Outage: true, Delay: 640 * time.Second, Error: "unknown"},
		},
		"busy, but not the database": {
			columns{"attempts": 4},
			false, fault.New("", fault.Busy, "Other", "busy"),
			end{State: job.Failed, Attempts: 5, Error: "busy"},
		},
		"no database beyond grace": {
			columns{"attempts": 4, "outage_since": 61 * time.Minute},
			false, down,
			end{State: job.Failed, Attempts: 5, Outage: true, Error: "gone"},
		},

		"yield":              {columns{"attempts": 2}, false, job.ErrYield, end{State: job.Pending, Attempts: 2}},
		"yield, asked to":    {columns{"cancel_requested_at": 5}, false, job.ErrYield, end{State: job.Cancelled}},
		"paused":             {columns{"attempts": 2, "paused": 1}, false, job.ErrPaused, end{State: job.Pending, Attempts: 2, Paused: true, Delay: -time.Hour}},
		"shutdown":           {columns{"attempts": 4}, false, fmt.Errorf("read: %w", job.ErrShutdown), end{State: job.Pending, Attempts: 4, Delay: -time.Hour}},
		"in doubt":           {columns{"attempts": 4}, false, job.ErrLeaseLost, end{State: job.Pending, Attempts: 4, Delay: 10 * time.Second}},
		"cancelled":          {columns{"cancel_requested_at": 5, "paused": 1}, false, job.ErrCancelled, end{State: job.Cancelled}},
		"cancelled, unasked": {nil, false, job.ErrCancelled, end{State: job.Pending, Attempts: 1, Delay: 10 * time.Second, Error: job.ErrCancelled.Error()}},
	}
	each(t, job.Config{}, job.Hooks{}, func(t *testing.T, w *world) {
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				ctx := t.Context()
				id := w.insert(t)
				l := w.claimID(t, id).Lease()
				now := w.get(t, id).UpdatedAt
				w.set(t, id, "available_at", now-time.Hour.Milliseconds())
				for column, value := range tc.before {
					if d, ok := value.(time.Duration); ok {
						value = now - d.Milliseconds()
					}
					w.set(t, id, column, value)
				}
				if tc.ahead {
					if err := w.store.Save(ctx, l, job.Point{Phase: "a", Cursor: "7"}, json.RawMessage(`{"files":1}`), true); err != nil {
						t.Fatal(err)
					}
				}
				after, err := w.store.Finish(ctx, l, tc.answer)
				if err != nil {
					t.Fatal(err)
				}
				row := w.get(t, id)
				got := end{
					State: row.State, Attempts: row.Attempts, Reclaims: row.StaleReclaims, Outage: row.OutageSince != 0,
					Paused: row.Paused, Error: row.LastError,
				}
				if row.State == job.Pending {
					// Times of the database moved on since now was read; the pauses are far apart.
					got.Delay = time.Duration(row.AvailableAt-now) * time.Millisecond
					if slack := got.Delay - tc.want.Delay; slack >= 0 && slack < 9*time.Second {
						got.Delay = tc.want.Delay
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("row (-want +got):\n%s", diff)
				}
				if row.HeartbeatAt != 0 || after.State != row.State || after.Attempts != row.Attempts || row.LeaseEpoch != l.Epoch {
					t.Errorf("row %+v, answered %+v", row, after)
				}
				if row.State.Ended() != (len(w.ended) == 1) {
					t.Errorf("%d events of the end for %s", len(w.ended), row.State)
				}
				for len(w.ended) > 0 {
					<-w.ended
				}
			})
		}
	})
}

// A lease that is another's writes nothing, by any way in.
func TestOldEpochsWriteNothing(t *testing.T) {
	t.Parallel()
	each(t, job.Config{}, job.Hooks{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		type way struct {
			name string
			take func(t *testing.T, id job.ID)
		}
		ways := []way{
			{"stolen", func(t *testing.T, id job.ID) { t.Helper(); w.stale(t, id); w.claimID(t, id) }},
			{"given back", func(t *testing.T, id job.ID) {
				t.Helper()
				if _, err := w.store.Finish(ctx, w.get(t, id).Lease(), job.ErrShutdown); err != nil {
					t.Fatal(err)
				}
			}},
			{"done", func(t *testing.T, id job.ID) {
				t.Helper()
				if _, err := w.store.Finish(ctx, w.get(t, id).Lease(), nil); err != nil {
					t.Fatal(err)
				}
			}},
		}
		for _, way := range ways {
			t.Run(way.name, func(t *testing.T) {
				id := w.insert(t)
				old := w.claimID(t, id).Lease()
				way.take(t, id)
				before := w.get(t, id)
				writes := map[string]error{
					"heartbeat": w.store.Heartbeat(ctx, old),
					"save":      w.store.Save(ctx, old, job.Point{Phase: "z"}, json.RawMessage(`{}`), true),
				}
				for i, answer := range []error{nil, errors.New("boom"), job.Terminal(errors.New("x")), job.ErrYield, job.ErrShutdown, job.ErrCancelled} {
					_, err := w.store.Finish(ctx, old, answer)
					writes[fmt.Sprintf("finish %d", i)] = err
				}
				for what, err := range writes {
					if !errors.Is(err, job.ErrLeaseLost) {
						t.Errorf("%s: %v, want the lease lost", what, err)
					}
				}
				if diff := cmp.Diff(before, w.get(t, id)); diff != "" {
					t.Errorf("the row changed (-before +after):\n%s", diff)
				}
			})
		}
	})
}

// A row that is gone is nobody's lease either: its run ends at once, and does not try for
// as long as a lease lasts to write how.
func TestGoneRowsEndTheirRuns(t *testing.T) {
	t.Parallel()
	each(t, job.Config{}, job.Hooks{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		id := w.insert(t)
		l := w.claimID(t, id).Lease()
		if n, err := w.db.Exec(ctx, "DELETE FROM "+sqldb.Statement(jobtest.Table.Name)+" WHERE id = ?", int64(id)); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		writes := map[string]error{
			"heartbeat": w.store.Heartbeat(ctx, l),
			"save":      w.store.Save(ctx, l, job.Point{Phase: "z"}, json.RawMessage(`{}`), true),
		}
		for _, answer := range []error{nil, errors.New("boom"), job.ErrShutdown} {
			_, err := w.store.Finish(ctx, l, answer)
			writes[fmt.Sprintf("finish %v", answer)] = err
		}
		for what, err := range writes {
			if !errors.Is(err, job.ErrLeaseLost) {
				t.Errorf("%s: %v, want the lease lost", what, err)
			}
		}
	})
}

func TestSaveSignals(t *testing.T) {
	t.Parallel()
	each(t, job.Config{}, job.Hooks{}, func(t *testing.T, w *world) {
		tests := map[string]struct {
			column string
			value  any
			want   error
		}{
			"nothing":   {"owner", "me", nil},
			"cancelled": {"cancel_requested_at", 5, job.ErrCancelled},
			"paused":    {"paused", 1, job.ErrPaused},
			"at once":   {"state", "CANCELLED", job.ErrCancelled},
		}
		for name, tc := range tests {
			t.Run(name, func(t *testing.T) {
				id := w.insert(t)
				l := w.claimID(t, id).Lease()
				w.set(t, id, tc.column, tc.value)
				err := w.store.Save(t.Context(), l, job.Point{Phase: "p", Cursor: "3"}, json.RawMessage(`{"n":1}`), false)
				if !errors.Is(err, tc.want) {
					t.Fatalf("save: %v, want %v", err, tc.want)
				}
				row := w.get(t, id)
				if written := row.Phase == "p" && row.Cursor == "3" && string(row.Progress) == `{"n":1}`; written != (name != "at once") {
					t.Errorf("written: %v", written)
				}
			})
		}
	})
}
