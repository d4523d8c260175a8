package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The check finds what it is there to find: each history but the good ones holds one
// planted violation.
func TestCheckFindsPlantedViolations(t *testing.T) {
	t.Parallel()
	const a, b = "host/11/aaaaaaaa", "host/22/bbbbbbbb"
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	send := func(seconds float64, server, job string, epoch int64, keys ...string) request {
		if keys == nil {
			keys = []string{"bucket/root/t" + job + "/f"}
		}
		return request{at: at(seconds), lease: parseLease(fmt.Sprintf("%s %s %d", server, job, epoch)), keys: keys}
	}
	// The server a is stopped at 1, loses the job to b at 5, and wakes up at 10.
	passed := []request{send(0, a, "purge-1", 1), send(1, a, "purge-1", 1), send(5, b, "purge-1", 2), send(9, b, "purge-1", 2)}
	woken := map[int][]time.Time{11: {at(10)}}
	late := func(seconds ...float64) []request {
		all := append([]request{}, passed...)
		for _, s := range seconds {
			all = append(all, send(s, a, "purge-1", 1))
		}
		return all
	}
	for _, tt := range []struct {
		name     string
		requests []request
		wakes    map[int][]time.Time
		halts    halts
		want     string // in the one violation; empty: none
		late     int
	}{
		{name: "nothing", requests: nil},
		{name: "a lease passes on", requests: passed},
		{name: "what was on the wire, at the wake-up", requests: late(10, 10.1, 10.2, 11.9), wakes: woken, late: 4},
		{name: "an earlier request that the log has later", requests: append(passed[2:3:3], passed[0]), late: 0},
		{name: "two jobs at once", requests: append(late(), send(10, a, "purge-2", 1)), wakes: woken},
		{name: "one more than was on the wire", requests: late(10, 10.1, 10.2, 10.3, 10.4), wakes: woken, want: "more than 4 requests", late: 5},
		{name: "later than the wake-up allows", requests: late(12.1), wakes: woken, want: "2.1s after host/11/aaaaaaaa had woken up", late: 1},
		{name: "before the wake-up", requests: late(9.5), wakes: woken, want: "had not been stopped", late: 1},
		{name: "of a server that was never stopped", requests: late(10), want: "had not been stopped", late: 1},
		{name: "of a server when another one woke up", requests: late(10), wakes: map[int][]time.Time{22: {at(10)}}, want: "had not been stopped", late: 1},
		{name: "an old wake-up is no excuse", requests: late(10), wakes: map[int][]time.Time{11: {at(0.5), at(30)}}, want: "9.5s after", late: 1},
		{name: "of a server that the machine had stopped", requests: late(10, 11.9), halts: halts{{at(4), at(10)}}, late: 2},
		{name: "before the end of the halt is seen", requests: late(9.9), halts: halts{{at(4), at(10)}}, late: 1},
		{name: "before the machine stopped", requests: late(9.9), halts: halts{{at(9.95), at(12)}}, want: "had not been stopped", late: 1},
		{name: "an old halt is no excuse", requests: late(12.1), halts: halts{{at(4), at(10)}}, want: "2.1s after host/11/aaaaaaaa had woken up", late: 1},
		{name: "later than the wake-up allows, with a halt between", requests: late(12.1), wakes: woken, halts: halts{{at(10.1), at(12)}}, late: 1},
		{name: "after a halt that does not make up for it", requests: late(14.2), wakes: woken, halts: halts{{at(11), at(12)}}, want: "2.2s after", late: 1},
		{
			name:     "an epoch that sends nothing before it is over",
			requests: []request{send(0, a, "purge-1", 1), send(5, b, "purge-1", 3), send(6, a, "purge-1", 2)},
			want:     "purge-1 epoch 2: a request came 0s after the lease had passed on", late: 1,
		},
		{name: "two servers in one epoch", requests: []request{send(0, a, "purge-1", 1), send(1, b, "purge-1", 1)}, want: "was used by"},
		{name: "no lease", requests: []request{{at: at(0), keys: []string{"bucket/root/tpurge-1/f"}}}, want: "names no lease"},
		{name: "half a lease", requests: []request{send(0, a, "purge-1 x", 1)}, want: "names no lease"},
		{name: "a job that nobody made", requests: []request{send(0, a, "purge-9", 1)}, want: "no known job"},
		{name: "a key of the neighbour", requests: []request{send(0, a, "purge-1", 1, "bucket/root/tpurge-1/f", "bucket/root/tpurge-2/f")}, want: `deletes "bucket/root/tpurge-2/f"`},
		{name: "a name that begins alike", requests: []request{send(0, a, "purge-1", 1, "bucket/root/tpurge-12/f")}, want: "is not below"},
		{name: "keys that cannot be read", requests: []request{{at: at(0), lease: lease{a, "purge-1", 1}}}, want: "keys cannot be read"},
		{name: "a sender that ended in the middle", requests: []request{{at: at(0), lease: lease{a, "purge-1", 1}, cut: true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := history{
				requests: tt.requests, wakes: tt.wakes, halts: tt.halts, threads: 4,
				places: map[string]string{"purge-1": "bucket/root/tpurge-1/", "purge-2": "bucket/root/tpurge-2/"},
			}
			v := h.check()
			switch {
			case tt.want == "" && len(v.violations) > 0:
				t.Errorf("found %q", v.violations)
			case tt.want != "" && (len(v.violations) != 1 || !strings.Contains(v.violations[0], tt.want)):
				t.Errorf("found %q, want one with %q", v.violations, tt.want)
			}
			if v.late != tt.late {
				t.Errorf("%d late requests, want %d", v.late, tt.late)
			}
		})
	}
	if v := (history{requests: passed, threads: 4, places: map[string]string{"purge-1": "bucket/"}}).check(); v.takeovers != 1 {
		t.Errorf("%d takeovers, want 1", v.takeovers)
	}
}
