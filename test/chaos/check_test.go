package chaos

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A server that wakes up after its lease has passed on may still send what it was about
// to send: at most one request a thread, and at once. The machine wakes up all servers
// after a halt.
const wakeGrace = 2 * time.Second

// history is what a store and the machine saw of some deletes.
type history struct {
	requests []request
	wakes    map[int][]time.Time // process id → when it was continued
	halts    halts               // of the machine, with all that runs on it
	threads  int                 // delete-threads of each server
	places   map[string]string   // job → what its keys begin with, bucket included
}

// verdict is what the history shows.
type verdict struct {
	violations []string
	takeovers  int // leases that passed on after deletes were sent under them
	late       int // requests of a lease that had passed on, within what is allowed
}

// check holds the history to what the product promises of leases:
//
//   - A delete names its lease, and an epoch has one server.
//   - A job deletes nothing outside of its own place.
//   - After the first request of a later epoch, at most as many requests of an earlier one
//     come as its server has threads, each within wakeGrace of a wake-up of that server,
//     not counting the time for which the machine stood still.
func (h history) check() verdict {
	var v verdict
	requests := slices.Clone(h.requests)
	slices.SortStableFunc(requests, func(a, b request) int { return a.at.Compare(b.at) })
	type term struct {
		job   string
		epoch int64
	}
	owners := map[term]string{}
	late := map[term]int{}
	newest := map[string]int64{} // job → epoch
	passed := map[term]time.Time{}
	for _, r := range requests {
		l := r.lease
		if l.server == "" {
			v.add("a delete of %d keys, %q first, names no lease", len(r.keys), first(r.keys))
			continue
		}
		at := term{l.job, l.epoch}
		if owner, ok := owners[at]; !ok {
			owners[at] = l.server
		} else if owner != l.server {
			v.add("%s epoch %d was used by %s and by %s", l.job, l.epoch, owner, l.server)
		}
		h.inPlace(&v, r)
		switch before := newest[l.job]; {
		case l.epoch > before:
			if before > 0 {
				v.takeovers++
			}
			newest[l.job] = l.epoch
			for other := range owners {
				if _, ok := passed[other]; !ok && other.job == l.job && other.epoch < l.epoch {
					passed[other] = r.at
				}
			}
			continue
		case l.epoch == before:
			continue
		}
		if _, ok := passed[at]; !ok { // its first request came after one of a later epoch
			passed[at] = r.at
		}
		after := r.at.Sub(passed[at]).Round(time.Millisecond)
		if slept, ok := h.sinceWake(r); !ok {
			v.add("%s epoch %d: a request came %s after the lease had passed on, and %s had not been stopped", l.job, l.epoch, after, l.server)
		} else if slept > wakeGrace {
			v.add("%s epoch %d: a request came %s after the lease had passed on, %s after %s had woken up", l.job, l.epoch, after, slept.Round(time.Millisecond), l.server)
		}
		v.late++
		if late[at]++; late[at] == h.threads+1 {
			v.add("%s epoch %d: more than %d requests came after the lease had passed on", l.job, l.epoch, h.threads)
		}
	}
	return v
}

// sinceWake is for how long the request's sender had run since it was woken up last, by a
// signal or with the whole machine.
func (h history) sinceWake(r request) (since time.Duration, ok bool) {
	woken := func(at time.Time) {
		if ran := max(r.at.Sub(at)-h.halts.within(at, r.at), 0); !ok || ran < since {
			since, ok = ran, true
		}
	}
	for _, wake := range h.wakes[r.lease.pid()] {
		if !wake.After(r.at) {
			woken(wake)
		}
	}
	for _, halt := range h.halts {
		if !halt.begin.After(r.at) { // others may run before its end is seen
			woken(halt.end)
		}
	}
	return since, ok
}

func (h history) inPlace(v *verdict, r request) {
	place, ok := h.places[r.lease.job]
	if !ok {
		v.add("%s is no known job", r.lease.job)
		return
	}
	if len(r.keys) == 0 && !r.cut {
		v.add("%s sent a delete whose keys cannot be read", r.lease.job)
	}
	for _, key := range r.keys {
		if !strings.HasPrefix(key, place) {
			v.add("%s deletes %q, which is not below %q", r.lease.job, key, place)
			return
		}
	}
}

func (v *verdict) add(format string, args ...any) {
	v.violations = append(v.violations, fmt.Sprintf(format, args...))
}

func first(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return keys[0]
}
