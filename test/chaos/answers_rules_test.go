package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/job"
)

// The check of answers finds what it is there to find: each case but the good ones holds
// one planted violation.
func TestAnswersCheckFindsPlantedViolations(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	took := func(kind exchangeKind, node int, from, to float64, status int, body string, retryAfter bool) exchange {
		return exchange{kind: kind, node: node, what: "PUT /f", began: at(from), ended: at(to), status: status, body: body, retryAfter: retryAfter}
	}
	busy := func(kind exchangeKind, node int, from, to float64) exchange {
		return took(kind, node, from, to, 503, `{"error":{"code":"Busy"}}`, true)
	}
	silent := func(node int, from, to float64) exchange { return took(siblingWrite, node, from, to, 0, "", false) }
	good := func(node int, from, to float64) exchange {
		return took(siblingWrite, node, from, to, 201, "", false)
	}
	unknown := func(from, to float64) exchange {
		return took(siblingWrite, 0, from, to, 500, `{"error":{"code":"CommitStateUnknown"}}`, false)
	}
	done := func(what action, node int, seconds float64) note {
		return note{event{what: what, node: node}, at(seconds), at(seconds)}
	}
	// Server 0 is away from 10 to 12 and answers again at 15.
	killed := []note{done(kill, 0, 10), done(restart, 0, 12)}
	stopped := []note{done(stop, 0, 10), done(proceed, 0, 14)}
	for _, tt := range []struct {
		name      string
		exchanges []exchange
		notes     []note
		halts     halts
		want      string // in the one violation; empty: none
		excused   int
	}{
		{name: "nothing"},
		{name: "a good answer", exchanges: []exchange{good(0, 1, 2)}},
		{name: "a refusal that is final", exchanges: []exchange{took(siblingWrite, 0, 1, 2, 404, "", false)}},
		{name: "500 without harm", exchanges: []exchange{took(siblingWrite, 0, 1, 2, 500, "", false)}, want: "500"},
		{name: "500 while the database is away", exchanges: []exchange{took(siblingWrite, 0, 10, 11, 500, `{"error":{"code":"Internal"}}`, false)}, notes: []note{done(downDB, 0, 10), done(healDB, 0, 11)}, want: "Internal"},
		{name: "500 of a delete", exchanges: []exchange{took(treeDelete, 0, 1, 2, 500, "", true)}, want: "500"},
		{name: "503 without harm", exchanges: []exchange{busy(siblingWrite, 0, 1, 2)}, want: "503"},
		{name: "503 of a delete without harm", exchanges: []exchange{busy(treeDelete, 0, 1, 2)}, excused: 1},
		{name: "503 of a delete that does not say when", exchanges: []exchange{took(treeDelete, 0, 1, 2, 503, "", false)}, want: "503"},
		{name: "no answer without harm", exchanges: []exchange{silent(0, 1, 2)}, want: "0 after 1s"},
		{name: "503 while the database is away", exchanges: []exchange{busy(siblingWrite, 0, 10, 11)}, notes: []note{done(downDB, 0, 10), done(healDB, 0, 11)}, excused: 1},
		{name: "503 after a cut", exchanges: []exchange{busy(siblingWrite, 0, 11, 12)}, notes: []note{done(cutDB, 0, 10)}, excused: 1},
		{name: "503 long after a cut", exchanges: []exchange{busy(siblingWrite, 0, 12.1, 13)}, notes: []note{done(cutDB, 0, 10)}, want: "503"},
		{name: "503 after a cut and a halt", exchanges: []exchange{busy(siblingWrite, 0, 12.1, 13)}, notes: []note{done(cutDB, 0, 10)}, halts: halts{{at(11), at(12)}}, excused: 1},
		{name: "503 long after a cut and a halt", exchanges: []exchange{busy(siblingWrite, 0, 13.1, 14)}, notes: []note{done(cutDB, 0, 10)}, halts: halts{{at(11), at(12)}}, want: "503"},
		{name: "503 after a halt", exchanges: []exchange{busy(siblingWrite, 0, 12.1, 13)}, halts: halts{{at(11), at(12)}}, want: "503"},
		{name: "503 before a cut", exchanges: []exchange{busy(siblingWrite, 0, 8, 9.9)}, notes: []note{done(cutDB, 0, 10)}, want: "503"},
		{name: "503 that does not say when", exchanges: []exchange{took(siblingWrite, 0, 10, 11, 503, "", false)}, notes: []note{done(cutDB, 0, 10)}, want: "503"},
		{name: "503 when another server's database is cut", exchanges: []exchange{busy(siblingWrite, 0, 10, 11)}, notes: []note{done(cutDB, 1, 10)}, want: "503"},
		{name: "503 while the database is slow", exchanges: []exchange{busy(siblingWrite, 0, 10, 11)}, notes: []note{done(slowDB, 0, 10), done(healDB, 0, 12)}, want: "503"},
		{name: "a commit that nobody knows of, at a cut", exchanges: []exchange{unknown(10, 11)}, notes: []note{done(cutDB, 0, 10)}, excused: 1},
		{name: "a commit that nobody knows of, without harm", exchanges: []exchange{unknown(1, 2)}, want: "CommitStateUnknown"},
		{name: "no answer at a cut", exchanges: []exchange{silent(0, 10, 11)}, notes: []note{done(cutDB, 0, 10)}, want: "0 after 1s"},
		{name: "bytes while the store is in trouble", exchanges: []exchange{busy(siblingObject, 2, 10, 11)}, notes: []note{done(hurtDisk, 0, 10), done(healDisk, 0, 11)}, excused: 1},
		{name: "rows while the store is in trouble", exchanges: []exchange{busy(siblingWrite, 2, 10, 11)}, notes: []note{done(hurtDisk, 0, 10), done(healDisk, 0, 11)}, want: "503"},
		{name: "bytes after the store's trouble", exchanges: []exchange{busy(siblingObject, 2, 20, 21)}, notes: []note{done(hurtDisk, 0, 10), done(healDisk, 0, 11)}, want: "503"},
		{name: "a killed server until it answers", exchanges: []exchange{silent(0, 9, 10.5), silent(0, 14, 14.5), good(0, 13, 15)}, notes: killed, excused: 2},
		{name: "a killed server after it answered", exchanges: []exchange{silent(0, 15.5, 16), good(0, 13, 15)}, notes: killed, want: "0 after"},
		{name: "an answer before the end is no sign of life", exchanges: []exchange{silent(0, 15.5, 16), good(0, 1, 2)}, notes: killed, excused: 1},
		{name: "another server than the killed", exchanges: []exchange{silent(1, 10, 11)}, notes: killed, want: "server 1"},
		{name: "500 of a server that starts", exchanges: []exchange{took(siblingWrite, 0, 12, 13, 500, "", false)}, notes: killed, want: "500"},
		{name: "a stopped server", exchanges: []exchange{silent(0, 9, 15), busy(siblingWrite, 0, 11, 14.5)}, notes: stopped, excused: 2},
		{name: "another server than the stopped, which holds a lock", exchanges: []exchange{busy(siblingWrite, 1, 11, 14.5)}, notes: stopped, want: "server 1"},
		{name: "a server that ends while it starts", exchanges: []exchange{good(0, 13.5, 15)}, notes: append(killed[:2:2], done(revive, 0, 13)), excused: 0},
		{name: "a server that ends by itself", exchanges: []exchange{good(0, 13.5, 15)}, notes: append(killed[:2:2], done(revive, 0, 20)), want: "ended by itself"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := answers{tt.exchanges, tt.notes, tt.halts}.check()
			switch {
			case tt.want == "" && len(v.violations) > 0:
				t.Errorf("found %q", v.violations)
			case tt.want != "" && (len(v.violations) != 1 || !strings.Contains(v.violations[0], tt.want)):
				t.Errorf("found %q, want one with %q", v.violations, tt.want)
			}
			excused := 0
			for _, n := range v.excused {
				excused += n
			}
			if excused != tt.excused {
				t.Errorf("%d excused (%v), want %d", excused, v.excused, tt.excused)
			}
		})
	}
}

// So does the check of job rows.
func TestJobCheckFindsPlantedViolations(t *testing.T) {
	t.Parallel()
	large, small := newTree(1), newTree(0)
	large.inode, small.inode = 11, 12
	of := func(t *tree) treeRow { return treeRow{id: t.inode, root: t.inode, path: t.path, state: job.Succeeded} }
	failed, elsewhere, stray := of(large), of(large), of(large)
	failed.state, elsewhere.path, stray.root = job.Failed, "/elsewhere", 13
	for _, tt := range []struct {
		name   string
		rows   []treeRow
		answer string
		want   string
	}{
		{name: "one for the large", rows: []treeRow{of(large)}},
		{name: "one for each", rows: []treeRow{of(large), of(small)}, answer: "delete-11"},
		{name: "none for the large", rows: []treeRow{of(small)}, want: "has 0 jobs"},
		{name: "two for the large", rows: []treeRow{of(large), of(large)}, want: "has 2 jobs"},
		{name: "two for the small", rows: []treeRow{of(large), of(small), of(small)}, want: "has 2 jobs"},
		{name: "failed", rows: []treeRow{failed}, want: "FAILED"},
		{name: "of another path", rows: []treeRow{elsewhere}, want: "/elsewhere"},
		{name: "of what nobody deleted", rows: []treeRow{of(large), stray}, want: "nobody deleted"},
		{name: "not the one that was answered", rows: []treeRow{of(large)}, answer: "delete-7", want: "delete-7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			asked := *large
			asked.answer = tt.answer
			problems := jobProblems([]*tree{&asked, small}, tt.rows)
			if (tt.want == "") != (len(problems) == 0) || len(problems) > 1 || !strings.Contains(strings.Join(problems, ""), tt.want) {
				t.Errorf("found %q, want one with %q", problems, tt.want)
			}
		})
	}
}

// And what compares the visible drive with what is known.
func TestLeftoversAreFound(t *testing.T) {
	t.Parallel()
	writers := []*writer{{
		dirs: []string{"/p/own"}, files: map[string]*sibling{"/p/own/f": {body: "f"}}, maybe: map[string]string{"/p/m": "m"},
	}}
	stays := map[string]string{"/p/stays/s": "s"}
	for _, tt := range []struct {
		name   string
		change func(visible map[string]string)
		want   string
	}{
		{name: "as it should be", change: func(map[string]string) {}},
		{name: "what may be there", change: func(v map[string]string) { v["/p/m"] = "m" }},
		{name: "what may be there, with other bytes", change: func(v map[string]string) { v["/p/m"] = "f" }, want: `/p/m has "f"`},
		{name: "a file of a tree", change: func(v map[string]string) { v["/p/stays/left"] = "" }, want: "left is there"},
		{name: "a directory of a tree", change: func(v map[string]string) { v["/p/tree/"] = "" }, want: "/p/tree/ is there"},
		{name: "a sibling that is gone", change: func(v map[string]string) { delete(v, "/p/own/f") }, want: "/p/own/f is gone"},
		{name: "what was not written to and is gone", change: func(v map[string]string) { delete(v, "/p/stays/s") }, want: "/p/stays/s is gone"},
		{name: "a directory that is gone", change: func(v map[string]string) { delete(v, "/p/own/") }, want: "/p/own/ is gone"},
		{name: "other bytes", change: func(v map[string]string) { v["/p/own/f"] = "g" }, want: `has "g"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			visible := map[string]string{"/p/": "", "/p/own/": "", "/p/own/f": "f", "/p/stays/": "", "/p/stays/s": "s"}
			tt.change(visible)
			problems := leftovers(visible, stays, writers)
			if (tt.want == "") != (len(problems) == 0) || len(problems) > 1 || !strings.Contains(strings.Join(problems, ""), tt.want) {
				t.Errorf("found %q, want one with %q", problems, tt.want)
			}
		})
	}
}
