package removal_test

import (
	"context"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/sqldb"
)

// wide are dirs directories of n files each.
func wide(dirs, n int) (p []string) {
	for _, d := range names("d", dirs) {
		p = append(p, d)
		for _, f := range names("f", n) {
			p = append(p, d+"/"+f)
		}
	}
	return p
}

func chainOf(depth, n int) (p []string) {
	at := ""
	for range depth {
		at = strings.TrimPrefix(at+"/d", "/")
		p = append(p, at)
		for _, f := range names("f", n) {
			p = append(p, at+"/"+f)
		}
	}
	return p
}

// measure sweeps a tree with the default batch and returns statements and transactions.
func (w *world) measure(top string, paths []string) (statements, transactions, nodes int64) {
	w.t.Helper()
	w.plant(w.fs, top, paths...)
	r := w.claim(w.removal.Jobs(), w.detach(top))
	s, c := w.db.Statements(), w.commits.Load()
	w.sweepAs(r)
	return w.db.Statements() - s, w.commits.Load() - c, int64(len(paths)) + 1
}

// TestCosts bounds statements and transactions of a sweep.
func TestCosts(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{}, func(t *testing.T, w *world) {
		batch := int64(1000)
		if w.db.Dialect().Name == sqldb.MySQL {
			batch = 500
		}
		var small, large int64
		for _, tc := range []struct {
			name     string
			paths    []string
			most     int64   // transactions; 0: twice the batches and 50
			perBatch float64 // statements a batch, plain reads and all; 0: not asked
		}{
			{"flat", names("f", 20_000), 0, 14},
			{"250 x 10", wide(250, 10), 0, 0},
			{"1,000 x 10", wide(1000, 10), 0, 0},
			{"chain", chainOf(1000, 10), 40, 0},
		} {
			statements, transactions, nodes := w.measure("/"+strings.ReplaceAll(tc.name, " ", ""), tc.paths)
			t.Logf("%s: %d nodes, %d statements, %d transactions", tc.name, nodes, statements, transactions)
			if tc.most == 0 {
				tc.most = 2*nodes/batch + 50
			}
			if transactions > tc.most {
				t.Errorf("%s: %d transactions, want at most %d", tc.name, transactions, tc.most)
			}
			if most := float64(nodes) * (tc.perBatch/float64(batch) + 0.001); tc.perBatch > 0 && float64(statements) > most {
				t.Errorf("%s: %d statements, want at most %.0f", tc.name, statements, most)
			}
			switch tc.name {
			case "250 x 10":
				small = statements
			case "1,000 x 10":
				large = statements
			}
		}
		if float64(large) > 4.5*float64(small) {
			t.Errorf("1,000 x 10 cost %d statements, 250 x 10 cost %d", large, small)
		}
		w.check()
	})
}

// TestBatchStatements counts what one transaction of a sweep sends.
func TestBatchStatements(t *testing.T) {
	t.Parallel()
	each(t, removal.Config{}, func(t *testing.T, w *world) {
		for _, n := range names("f", 30) {
			w.putIn(w.fs, "/t/a/"+n, false)
		}
		w.link("/t/a/f000000", "/stays")
		w.copy("/t/a/f000001", "/shared")
		var begun, most int64
		m := w.with(func(c *removal.Config) {
			c.Step = func(_ context.Context, step string) error {
				switch step {
				case "sweep.gathered":
					begun = w.db.Statements()
				case "sweep.between":
					most, begun = max(most, w.db.Statements()-begun), w.db.Statements()
				}
				return nil
			}
		})
		r := w.claim(w.removal.Jobs(), w.detach("/t"))
		_ = m.Sweep(t.Context(), r)
		if most > 14 || most < 9 { // 13, and the plain read of the files
			t.Errorf("a batch is %d statements", most)
		}
		w.wantPaths("/stays", "/shared")
		w.check()
	})
}
