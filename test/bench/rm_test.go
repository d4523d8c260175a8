package main

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/sqldb"
)

func TestRmRuns(t *testing.T) {
	t.Parallel()
	report := smoke(t, "rm")
	for i := range 4 {
		positive(t, report, "shapes", i, "statements_per_node")
		positive(t, report, "shapes", i, "hold_milliseconds", "p99")
		positive(t, report, "shapes", i, "beside", "idle_milliseconds", "p99")
		positive(t, report, "shapes", i, "beside", "sweep_milliseconds", "p99")
		for form := range 2 {
			positive(t, report, "shapes", i, "ceilings", form, "ratio", "p50")
		}
	}
	positive(t, report, "detach", "median_ratio")
	for i := range 2 {
		positive(t, report, "memory", i, "peak_mib", "p50")
	}
	countsMet(t, report, "transactions")
}

// The raw statements and those that fill trees in are written for each engine.
func TestRmRunsOnServers(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"LETHE_TEST_POSTGRES", "LETHE_TEST_MYSQL"} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			url := os.Getenv(variable)
			if url == "" {
				t.Skip(variable + " names no server")
			}
			report := smoke(t, "rm", "--part", "rates", "--database", url)
			for i := range 4 {
				positive(t, report, "shapes", i, "ceilings", 1, "ratio", "p50")
			}
			countsMet(t, report, "transactions")
		})
	}
}

// What is planted is as many rows as the shape says, the product sees it as a tree, and
// both forms of the ceiling leave nothing of it.
func TestCeilingLeavesNothing(t *testing.T) {
	t.Parallel()
	b := &bench{dir: t.TempDir(), notes: io.Discard, began: time.Now()}
	for _, name := range []string{"flat2500", "2x1500", "30x50", "chain120x10"} {
		for _, form := range []string{byKeys, byRanges} {
			t.Run(name+" "+form, func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				rooms, err := b.driveRooms(ctx, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := rooms.close(); err != nil {
						t.Error(err)
					}
				}()
				s, err := parseShape(name)
				if err != nil {
					t.Fatal(err)
				}
				p, err := rooms.planted(ctx, "tree", s)
				if err != nil {
					t.Fatal(err)
				}
				want := map[string]int{"file_nodes": s.nodes(), "inodes": s.nodes() + 2, "contents": s.files(), "file_gc_tasks": 0}
				rooms.wantRows(t, want)
				if _, err := rooms.do(ctx, "GET", "/v1/fs/tree?list", ""); err != nil {
					t.Error(err)
				}
				if _, err := ceiling(ctx, rooms.db, p, form); err != nil {
					t.Fatal(err)
				}
				rooms.wantRows(t, map[string]int{"file_nodes": 0, "inodes": 2, "contents": 0, "file_gc_tasks": s.files()})
				if _, err := ceiling(ctx, rooms.db, p, form); err == nil {
					t.Error("rows that are gone were removed again")
				}
			})
		}
	}
}

func (r *driveRooms) wantRows(t *testing.T, want map[string]int) {
	t.Helper()
	for table, n := range want {
		var got int
		if err := r.db.QueryRow(t.Context(), sqldb.Statement("SELECT COUNT(*) FROM "+table)).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != n {
			t.Errorf("%s has %d rows, want %d", table, got, n)
		}
	}
}

// A step that a transaction passes again counts from its last try.
func TestStepClock(t *testing.T) {
	t.Parallel()
	var c stepClock
	for _, step := range []string{"sweep.begin", "sweep.gathered", "sweep.locked", "sweep.read", "sweep.locked", "sweep.between", "sweep.closelocked", "sweep.between"} {
		c.step(step)
	}
	batch, hold := c.taken()
	if len(batch) != 1 || len(hold) != 1 || hold[0] > batch[0] {
		t.Errorf("batches %v, holds %v", batch, hold)
	}
	if batch, _ = c.taken(); batch != nil {
		t.Errorf("%v was taken twice", batch)
	}
}
