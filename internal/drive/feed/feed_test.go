package feed_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive/feed"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
	"github.com/lethe-project/lethe/test/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const one, two = 7, 8 // the drives of every test

func each(t *testing.T, cfg feed.Config, fn func(t *testing.T, db *sqldb.DB, s *feed.Store)) {
	t.Helper()
	sqldbtest.Each(t, []sqldb.Migrations{feed.Migrations}, func(t *testing.T, db *sqldb.DB) {
		cfg := cfg
		cfg.DB = db
		s := feed.New(cfg)
		for _, fs := range []int64{one, two, one} { // twice is no error
			in(t, db, func(ctx context.Context, tx *sqldb.Tx) error { return s.CreateDrive(ctx, tx, fs, time.Hour) })
		}
		fn(t, db, s)
	})
}

func in(t *testing.T, db *sqldb.DB, fn func(ctx context.Context, tx *sqldb.Tx) error) {
	t.Helper()
	if err := db.Tx(t.Context(), func(tx *sqldb.Tx) error { return fn(t.Context(), tx) }); err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, db *sqldb.DB, s *feed.Store, fs int64, names ...string) {
	t.Helper()
	in(t, db, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, name := range names {
			if err := s.Publish(ctx, tx, fs, feed.Event{Kind: feed.Create, Parent: 1, Name: name, Inode: 20, Revision: 3, Path: "/" + name, Actor: "ann"}); err != nil {
				return err
			}
		}
		return nil
	})
}

func names(t *testing.T, s *feed.Store, fs, after int64) (list []string, next int64) {
	t.Helper()
	events, next, reset, err := s.Read(t.Context(), fs, after, 0)
	if err != nil || reset {
		t.Fatalf("Read: reset %v, %v", reset, err)
	}
	for _, e := range events {
		list = append(list, e.Name)
	}
	return list, next
}

func fold(t *testing.T, s *feed.Store) {
	t.Helper()
	if err := s.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	each(t, feed.Config{}, func(t *testing.T, db *sqldb.DB, s *feed.Store) {
		add := func(fs int64, d feed.Delta) {
			in(t, db, func(ctx context.Context, tx *sqldb.Tx) error { return s.Add(ctx, tx, fs, d) })
		}
		want := func(when string, fs int64, d feed.Delta) {
			t.Helper()
			u, err := s.Usage(t.Context(), db, fs)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(d, u.Delta); diff != "" {
				t.Errorf("%s: drive %d: %s", when, fs, diff)
			}
		}
		for range 3 {
			add(one, feed.Delta{Bytes: 10, Files: 1, Reserved: 5})
		}
		add(one, feed.Delta{Bytes: -7, Files: -1})
		add(one, feed.Delta{})
		add(two, feed.Delta{Bytes: 1})
		want("before folding", one, feed.Delta{Bytes: 23, Files: 2, Reserved: 15})
		fold(t, s)
		want("after folding", one, feed.Delta{Bytes: 23, Files: 2, Reserved: 15})
		want("after folding", two, feed.Delta{Bytes: 1})
		var left int
		if err := db.QueryRow(t.Context(), "SELECT COUNT(*) FROM usage_delta").Scan(&left); err != nil || left != 0 {
			t.Errorf("%d deltas left, %v", left, err)
		}
		add(one, feed.Delta{Bytes: -23, Files: -2, Reserved: -15})
		fold(t, s)
		want("when all is gone", one, feed.Delta{})
		if _, err := s.Usage(t.Context(), db, 99); fault.KindOf(err) != fault.NotFound {
			t.Errorf("usage of no drive: %v", err)
		}
	})
}

func TestQuota(t *testing.T) {
	t.Parallel()
	each(t, feed.Config{}, func(t *testing.T, db *sqldb.DB, s *feed.Store) {
		in(t, db, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := s.SetQuota(ctx, tx, one, 100, 2); err != nil {
				return err
			}
			return s.Add(ctx, tx, one, feed.Delta{Bytes: 50, Files: 1, Reserved: 20})
		})
		for _, c := range []struct {
			name string
			fs   int64
			more feed.Delta
			full bool
		}{
			{"what fits exactly", one, feed.Delta{Bytes: 30, Files: 1}, false},
			{"one byte more", one, feed.Delta{Bytes: 31, Files: 1}, true},
			{"a reservation of one byte more", one, feed.Delta{Reserved: 31}, true},
			{"one file more", one, feed.Delta{Files: 2}, true},
			{"a smaller drive", one, feed.Delta{Bytes: -10, Files: -1}, false},
			{"a drive without quota", two, feed.Delta{Bytes: 1 << 50, Files: 1 << 40}, false},
		} {
			err := s.CheckQuota(t.Context(), db, c.fs, c.more)
			if got := fault.KindOf(err) == fault.Full && fault.Is(err, feed.CodeQuotaExceeded); got != c.full || (!c.full && err != nil) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		// A drive that is over its quota may still shrink, and grow in files without bytes.
		in(t, db, func(ctx context.Context, tx *sqldb.Tx) error { return s.SetQuota(ctx, tx, one, 10, 0) })
		for _, d := range []feed.Delta{{Bytes: -1}, {Files: 5}} {
			if err := s.CheckQuota(t.Context(), db, one, d); err != nil {
				t.Errorf("over quota, %+v: %v", d, err)
			}
		}
		err := db.Tx(t.Context(), func(tx *sqldb.Tx) error { return s.SetQuota(t.Context(), tx, 99, 1, 1) })
		if fault.KindOf(err) != fault.NotFound {
			t.Errorf("quota of no drive: %v", err)
		}
	})
}

func TestEvents(t *testing.T) {
	t.Parallel()
	each(t, feed.Config{}, func(t *testing.T, db *sqldb.DB, s *feed.Store) {
		publish(t, db, s, one, "a", "b")
		publish(t, db, s, two, "other")
		if list, _ := names(t, s, one, 0); list != nil {
			t.Errorf("seen before they were numbered: %v", list)
		}
		fold(t, s)
		list, next := names(t, s, one, 0)
		if diff := cmp.Diff([]string{"a", "b"}, list); diff != "" {
			t.Error(diff)
		}
		publish(t, db, s, one, "c")
		fold(t, s)
		list, last := names(t, s, one, next)
		if diff := cmp.Diff([]string{"c"}, list); diff != "" {
			t.Error(diff)
		}
		if list, again := names(t, s, one, last); list != nil || again != last {
			t.Errorf("at the end: %v, go on from %d instead of %d", list, again, last)
		}
		if list, from := names(t, s, one, -1); list != nil || from != last {
			t.Errorf("from now on: %v, %d instead of %d", list, from, last)
		}
		if _, next, reset, err := s.Read(t.Context(), one, last+1000, 0); err != nil || !reset || next != last {
			t.Errorf("a number of the future: reset %v, next %d, %v", reset, next, err)
		}
		if _, _, _, err := s.Read(t.Context(), 99, 0, 0); fault.KindOf(err) != fault.NotFound {
			t.Errorf("events of no drive: %v", err)
		}
	})
}

// TestCommitOrder: an event of a transaction that began first and committed last must not
// be missed by a reader who is past the others.
func TestCommitOrder(t *testing.T) {
	t.Parallel()
	each(t, feed.Config{}, func(t *testing.T, db *sqldb.DB, s *feed.Store) {
		if db.Dialect().Name == sqldb.SQLite {
			t.Log("one writer at a time: transactions commit in the order of their ids")
			return
		}
		var seen []string
		var next int64
		in(t, db, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := s.Publish(ctx, tx, one, feed.Event{Kind: feed.Create, Name: "slow"}); err != nil {
				return err
			}
			publish(t, db, s, one, "quick")
			fold(t, s)
			seen, next = names(t, s, one, 0)
			return nil
		})
		fold(t, s)
		rest, _ := names(t, s, one, next)
		if diff := cmp.Diff([]string{"quick", "slow"}, append(seen, rest...)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	each(t, feed.Config{}, func(t *testing.T, db *sqldb.DB, s *feed.Store) {
		const writers, writes = 4, 30
		failed := make(chan error, writers+2)
		stop := make(chan struct{})
		for range 2 { // servers that fold at once
			go func() {
				for {
					select {
					case <-stop:
						failed <- nil
						return
					default:
						if err := s.Fold(context.WithoutCancel(t.Context())); err != nil {
							failed <- err
							return
						}
					}
				}
			}()
		}
		done := make(chan error, writers)
		for w := range writers {
			go func() {
				for i := range writes {
					err := db.Tx(t.Context(), func(tx *sqldb.Tx) error {
						if err := s.Add(t.Context(), tx, one, feed.Delta{Bytes: 2, Files: 1}); err != nil {
							return err
						}
						return s.Publish(t.Context(), tx, one, feed.Event{Kind: feed.Create, Name: fmt.Sprintf("%d-%d", w, i)})
					})
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		// A reader beside them sees every event once, and none twice.
		count := map[string]int{}
		var next int64
		read := func() {
			list, at := names(t, s, one, next)
			if at < next {
				t.Errorf("numbers went back from %d to %d", next, at)
			}
			for _, name := range list {
				count[name]++
			}
			next = at
		}
		for left := writers; left > 0; {
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				left--
			default:
				read()
			}
		}
		close(stop)
		for range 2 {
			if err := <-failed; err != nil {
				t.Error(err)
			}
		}
		fold(t, s)
		read()
		if len(count) != writers*writes {
			t.Errorf("%d events of %d", len(count), writers*writes)
		}
		for name, n := range count {
			if n != 1 {
				t.Errorf("event %s seen %d times", name, n)
			}
		}
		u, err := s.Usage(t.Context(), db, one)
		if want := (feed.Delta{Bytes: 2 * writers * writes, Files: writers * writes}); err != nil || u.Delta != want {
			t.Errorf("usage %+v, want %+v, %v", u.Delta, want, err)
		}
	})
}

func TestPrune(t *testing.T) {
	t.Parallel()
	each(t, feed.Config{Retention: time.Hour}, func(t *testing.T, db *sqldb.DB, s *feed.Store) {
		publish(t, db, s, one, strings.Split(strings.Repeat("old,", 700), ",")[:700]...)
		fold(t, s)
		_, first := names(t, s, one, 0) // a page of them
		if _, err := db.Exec(t.Context(), "UPDATE fs_events SET created_at = created_at - 7200000"); err != nil {
			t.Fatal(err)
		}
		publish(t, db, s, one, "new")
		publish(t, db, s, two, "other")
		fold(t, s)
		if err := s.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		if list, _ := names(t, s, one, first); len(list) != 1 || list[0] != "new" {
			t.Errorf("after the pruned ones: %v", list)
		}
		if _, _, reset, err := s.Read(t.Context(), one, 3, 0); err != nil || !reset {
			t.Errorf("from inside the pruned ones: reset %v, %v", reset, err)
		}
		if list, _ := names(t, s, two, 0); len(list) != 1 {
			t.Errorf("the other drive lost events: %v", list)
		}
		var rows int
		if err := db.QueryRow(t.Context(), "SELECT COUNT(*) FROM fs_events").Scan(&rows); err != nil || rows != 2 {
			t.Errorf("%d rows left, %v", rows, err)
		}
	})
}

// An event that is younger than one with a higher number goes when its own time is over.
// Until then nobody reads it: the reader is told to begin anew.
func TestPruneOutOfOrder(t *testing.T) {
	t.Parallel()
	each(t, feed.Config{Retention: time.Hour}, func(t *testing.T, db *sqldb.DB, s *feed.Store) {
		age := func(name string) {
			t.Helper()
			if _, err := db.Exec(t.Context(), "UPDATE fs_events SET created_at = created_at - 7200000 WHERE name = ?", name); err != nil {
				t.Fatal(err)
			}
			if err := s.Prune(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		left := func() (n int) {
			t.Helper()
			if err := db.QueryRow(t.Context(), "SELECT COUNT(*) FROM fs_events").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		publish(t, db, s, one, "young", "old", "last")
		fold(t, s)
		age("old")
		if _, _, reset, err := s.Read(t.Context(), one, 0, 0); err != nil || !reset || left() != 2 {
			t.Errorf("reset %v, %d events, %v", reset, left(), err)
		}
		if list, _ := names(t, s, one, 2); len(list) != 1 || list[0] != "last" {
			t.Errorf("after the pruned one: %v", list)
		}
		age("young")
		if list, _ := names(t, s, one, 2); len(list) != 1 || left() != 1 {
			t.Errorf("after all: %v, %d events", list, left())
		}
	})
}

func TestAudits(t *testing.T) {
	t.Parallel()
	each(t, feed.Config{}, func(t *testing.T, db *sqldb.DB, s *feed.Store) {
		if due, err := s.DueAudits(t.Context()); err != nil || len(due) != 0 {
			t.Fatalf("due at once: %v, %v", due, err)
		}
		in(t, db, func(ctx context.Context, tx *sqldb.Tx) error { return s.AuditDone(ctx, tx, two, -time.Second) })
		if due, err := s.DueAudits(t.Context()); err != nil || len(due) != 1 || due[0] != two {
			t.Fatalf("due: %v, %v", due, err)
		}
		err := db.Tx(t.Context(), func(tx *sqldb.Tx) error { return s.AuditDone(t.Context(), tx, 99, time.Hour) })
		if !fault.Is(err, feed.CodeNoSuchDrive) {
			t.Errorf("of no drive: %v", err)
		}
	})
}

func TestSequencer(t *testing.T) {
	t.Parallel()
	each(t, feed.Config{Interval: 5 * time.Millisecond}, func(t *testing.T, db *sqldb.DB, s *feed.Store) {
		q := s.StartSequencer(t.Context())
		defer q.Stop()
		publish(t, db, s, one, "a")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		for {
			if list, _ := names(t, s, one, 0); len(list) == 1 {
				return
			}
			if err := s.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestStatements(t *testing.T) {
	t.Parallel()
	sqldbtest.PrepareAll(t, ".", []sqldb.Migrations{feed.Migrations}, nil)
}
