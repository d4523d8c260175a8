package removal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/job/jobtest"
)

// standing is how a delete can stand, and what each request makes of it: its state then, or
// 409.
type standing struct {
	name string
	file bool
	make func(w *world, id job.ID)
	// By restore, empty, retry, cancel, ack, pause and resume.
	want string
	list string // what the trash says of it; empty: it is not there
}

const over = "409 409 409 409 409 409 409"

var standings = []standing{
	{"in the trash", false, as(), "restored due 409 CANCELLED 409 later,paused later", "restorable"},
	{"in the trash, paused", false, as(pause), "restored due 409 CANCELLED 409 later,paused later", "restorable"},
	{"due", false, as(empty), "restored due 409 CANCELLED 409 due,paused due", "restorable"},
	{"cancelled whole", false, as(cancel), "restored due due CANCELLED CANCELLED,acked 409 409", "restorable"},
	{"restored", false, as(restore), over, ""},
	{"between two tries", false, as(empty, claim, fail, wait), "409 due 409 CANCELLED 409 later,paused later", "-"},
	{"between two tries, paused", false, as(empty, claim, fail, wait, pause), "409 due 409 CANCELLED 409 later,paused later", "-"},
	{"running", false, as(empty, claim), "409 RUNNING 409 CANCELLED 409 RUNNING,paused RUNNING", "-"},
	{"running, to be paused", false, as(empty, claim, pause), "409 RUNNING 409 CANCELLED 409 RUNNING,paused RUNNING", "-"},
	{"partial", false, as(empty, claim, cancel), "409 due due CANCELLED CANCELLED,acked 409 409", "partial"},
	{"failed", false, as(empty, claim, give), "409 due due 409 FAILED,acked 409 409", "-"},
	{"failed, acknowledged", false, as(empty, claim, give, ack), "409 due due 409 FAILED,acked 409 409", "-"},
	{"gone", false, as(empty, sweep), over, ""},

	{"file in the trash", true, as(), "restored due 409 CANCELLED 409 later,paused later", "restorable"},
	{"file in the trash, paused", true, as(pause), "restored due 409 CANCELLED 409 later,paused later", "restorable"},
	{"file cancelled", true, as(cancel), "restored due due CANCELLED CANCELLED,acked 409 409", "restorable"},
	{"file restored", true, as(restore), over, ""},
	{"file between two tries", true, as(empty, putOff), "restored due 409 CANCELLED 409 later,paused later", "restorable"},
	{"file failed", true, as(empty, giveFile), "restored due due 409 FAILED,acked 409 409", "restorable"},
	{"file failed, acknowledged", true, as(empty, giveFile, ack), "restored due due 409 FAILED,acked 409 409", "restorable"},
	{"file gone", true, as(empty, sweepFile), over, ""},
}

// as is one step after the other.
func as(steps ...func(w *world, id job.ID)) func(w *world, id job.ID) {
	return func(w *world, id job.ID) {
		w.t.Helper()
		for _, s := range steps {
			s(w, id)
		}
	}
}

func (w *world) do(_ any, err error) {
	w.t.Helper()
	must(w.t, err)
}

func pause(w *world, id job.ID)   { w.do(w.removal.Jobs().Pause(w.t.Context(), id)) }
func empty(w *world, id job.ID)   { w.do(w.removal.Empty(w.t.Context(), w.fs, id)) }
func cancel(w *world, id job.ID)  { w.do(w.removal.Cancel(w.t.Context(), w.fs, id)) }
func ack(w *world, id job.ID)     { w.do(w.removal.Ack(w.t.Context(), w.fs, id)) }
func restore(w *world, id job.ID) { w.restore(id) }
func sweep(w *world, id job.ID)   { w.sweep(id) }
func claim(w *world, id job.ID)   { w.claim(w.removal.Jobs(), id) }

// finish ends the run of a claimed job.
func finish(w *world, id job.ID, err error) {
	row, getErr := w.removal.Jobs().Get(w.t.Context(), id)
	must(w.t, getErr)
	w.do(w.removal.Jobs().Finish(w.t.Context(), row.Lease(), err))
}

func fail(w *world, id job.ID) { finish(w, id, errors.New("disk")) }
func give(w *world, id job.ID) { finish(w, id, job.Terminal(errors.New("disk"))) }

// wait moves the next try away.
func wait(w *world, id job.ID) {
	w.exec(1, "UPDATE drive_delete_job SET available_at = available_at + 3600000 WHERE id = ?", int64(id))
}

func putOff(w *world, id job.ID) {
	w.exec(1, "UPDATE drive_delete_job SET attempts = 1, last_error = 'disk' WHERE id = ?", int64(id))
	wait(w, id)
}

func giveFile(w *world, id job.ID) {
	w.exec(1, "UPDATE drive_delete_job SET state = 'FAILED', attempts = 5, last_error = 'disk' WHERE id = ?", int64(id))
}

func sweepFile(w *world, id job.ID) {
	w.do(w.removal.SweepFiles(w.t.Context()))
	if j := w.job(id); j.State != job.Succeeded {
		w.t.Fatalf("the file is %s", j.State)
	}
}

// stand makes a delete that stands so, of something of its own.
func (w *world) stand(s standing, top string) job.ID {
	w.t.Helper()
	if s.file {
		w.put(top)
	} else {
		w.put(top+"/x", top+"/d/y")
	}
	id := w.drop(top)
	s.make(w, id)
	return id
}

// stands tells in words how a delete stands.
func stands(j removal.Job) string {
	text := string(j.State)
	switch {
	case j.RestoredAt != 0:
		text = "restored"
	case j.State == job.Pending && j.AvailableAt > j.UpdatedAt+60_000:
		text = "later"
	case j.State == job.Pending:
		text = "due"
	}
	if j.Paused {
		text += ",paused"
	}
	if j.AckedAt != 0 {
		text += ",acked"
	}
	return text
}

// TestStandings is the table of what requests make of deletes. Whatever was asked for, all of
// it can be brought to its end afterwards.
func TestStandings(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{BatchSize: 5, TrashRetention: 2 * time.Hour}, func(t *testing.T, w *world) {
		ctx := t.Context()
		operations := []struct {
			name string
			do   func(id job.ID) error
		}{
			{"restore", func(id job.ID) error { _, err := w.removal.Restore(ctx, w.fs, id, nil, "test"); return err }},
			{"empty", func(id job.ID) error { _, err := w.removal.Empty(ctx, w.fs, id); return err }},
			{"retry", func(id job.ID) error { _, err := w.removal.Retry(ctx, w.fs, id); return err }},
			{"cancel", func(id job.ID) error { _, err := w.removal.Cancel(ctx, w.fs, id); return err }},
			{"ack", func(id job.ID) error { _, err := w.removal.Ack(ctx, w.fs, id); return err }},
			{"pause", func(id job.ID) error { _, err := w.removal.Jobs().Pause(ctx, id); return err }},
			{"resume", func(id job.ID) error { _, err := w.removal.Jobs().Resume(ctx, id); return err }},
		}
		restored := 0
		for i, s := range standings {
			var got []string
			for n, op := range operations {
				id := w.stand(s, fmt.Sprintf("/s%02d-%d", i, n))
				if n == 0 {
					if diff := cmp.Diff(s.list, w.listed(id)); diff != "" {
						t.Errorf("%s is listed (-want +got):\n%s", s.name, diff)
					}
				}
				before := stands(w.job(id))
				err := op.do(id)
				after := stands(w.job(id))
				switch fault.KindOf(err) {
				case fault.Conflict:
					if after != before {
						t.Errorf("%s of %s was refused and made it %s", op.name, s.name, after)
					}
					got = append(got, "409")
				default:
					must(t, err)
					got = append(got, after)
				}
				if after == "restored" {
					restored++
				}
			}
			if diff := cmp.Diff(s.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("%s, by restore, empty, retry, cancel, ack, pause, resume (-want +got):\n%s", s.name, diff)
			}
		}
		w.check()
		// The workers of those that run are dead.
		_, err := w.db.Exec(ctx, "UPDATE drive_delete_job SET heartbeat_at = 0 WHERE state = 'RUNNING'")
		must(t, err)
		w.start()
		w.emptied()
		entries, err := w.tree.List(ctx, w.db, w.fs, 1, "", 1000)
		must(t, err)
		if len(entries) != restored {
			t.Errorf("%d are back, %d were restored", len(entries), restored)
		}
		w.check()
	})
}

// listed is what the trash says of a job.
func (w *world) listed(id job.ID) string {
	w.t.Helper()
	for _, j := range w.trash() {
		switch {
		case j.ID != id:
		case j.Restorable():
			return "restorable"
		case j.Partial():
			return "partial"
		default:
			return "-"
		}
	}
	return ""
}

// emptied empties the trash until nothing is in it.
func (w *world) emptied() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), forEver)
	defer cancel()
	for len(w.trash()) > 0 {
		w.do(w.removal.EmptyAll(w.t.Context(), w.fs, nil))
		must(w.t, w.removal.Patrol(w.t.Context()))
		select {
		case <-ctx.Done():
			w.t.Fatalf("in the trash is still %+v", w.trash())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestRetention keeps the row of a delete as long as something of it is there, whoever said
// that he knows, and however long ago.
func TestRetention(t *testing.T) {
	t.Parallel()
	cfg := jobtest.Config()
	cfg.Retention, cfg.FailedRetention = time.Hour, time.Hour
	each(t, removal.Config{BatchSize: 5, TrashRetention: 2 * time.Hour, Job: cfg}, func(t *testing.T, w *world) {
		ctx := t.Context()
		names := map[job.ID]string{}
		var over []string
		for i, s := range standings {
			names[w.stand(s, fmt.Sprintf("/s%02d", i))] = s.name
			if s.list == "" {
				over = append(over, s.name)
			}
		}
		if n, err := w.removal.Jobs().Prune(ctx); n != 0 || err != nil {
			t.Errorf("%d young rows were pruned, %v", n, err)
		}
		_, err := w.db.Exec(ctx, "UPDATE drive_delete_job SET updated_at = updated_at - 7200000")
		must(t, err)
		if n, err := w.removal.Jobs().Prune(ctx); int(n) != len(over) || err != nil {
			t.Errorf("%d rows were pruned, %v", n, err)
		}
		list, err := w.removal.List(ctx, w.fs, "", 0, 1000)
		must(t, err)
		for _, j := range list {
			delete(names, j.ID)
		}
		var pruned []string
		for _, name := range names {
			pruned = append(pruned, name)
		}
		slices.Sort(pruned)
		slices.Sort(over)
		if diff := cmp.Diff(over, pruned); diff != "" {
			t.Errorf("pruned (-want +got):\n%s", diff)
		}
		w.check()
	})
}
