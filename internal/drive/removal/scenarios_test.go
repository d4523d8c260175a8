package removal_test

import (
	"errors"
	"slices"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

type scenario struct {
	name    string
	without string // the protection that is missing: the servers must come to harm
	counts  bool   // without it the counts of what was hit still hold
	sqlite  bool   // without it SQLite comes to harm too: one writer does not help
	run     func(r *race)
}

var scenarios = []scenario{
	{name: "S1 create into an inner directory between the look and its removal", run: s1},
	{name: "S1x", without: "close lock", run: s1},
	{name: "S2 resolved before the detach, inserted after it", run: func(r *race) {
		r.put("/A/f", "/A/B/x")
		c := r.begin("resolved", 1, "", create("/A/B/new"))
		var id job.ID
		r.detached("/A", &id, "", c)
		must(r.t, c.end())
		r.swept(sweepOf(r.claim(r.removal.Jobs(), id))(r.begin("", 1, "", nothing)))
	}},
	{name: "S2b a creator holds the parent, the sweep comes", run: func(r *race) {
		r.put("/A/f", "/A/x1/x")
		r.mkdir("/A/B")
		c := r.begin("inserted", 1, "", create("/A/B/new"))
		var id job.ID
		r.detached("/A", &id, "", c)
		s := r.begin("", 1, "", sweepOf(r.claim(r.removal.Jobs(), id)))
		must(r.t, c.end())
		r.swept(s.end())
	}},
	{name: "S3 rename of a directory out of a tree that is detached", run: s3},
	{name: "S3x", without: "move lock, barrier", run: s3},
	{name: "S10 two deletes of one tree", run: func(r *race) {
		r.put("/A/f", "/A/B/x")
		var one, two job.ID
		d1 := r.begin("detach.moved", 1, "", detach("/A", &one))
		d2 := r.begin("", 1, "", detach("/A", &two))
		f := r.begin("", 1, "", fast("/A"))
		first, second := d1.end(), d2.end()
		_ = f.end()
		if (first == nil) == (second == nil) {
			r.complain("two detaches: %v, %v", first, second)
		}
		r.swept(sweepOf(r.claim(r.removal.Jobs(), max(one, two)))(r.begin("", 1, "", nothing)))
	}},
	{name: "S11 rename of a file out of its batch", run: s11},
	{name: "S11y", without: "set lock", counts: true, run: s11},
	{name: "S11x", without: "set lock, counts", run: s11},
	{name: "S12 create into the root of the job as it leaves", run: func(r *race) {
		r.mkdir("/A")
		c := r.begin("resolved", 1, "", create("/A/new"))
		var id job.ID
		if !r.detached("/A", &id, "", c) {
			return
		}
		s := r.begin("sweep.rootchildless", 1, "", sweepOf(r.claim(r.removal.Jobs(), id)))
		c.goOn()
		if c.ended() {
			r.complain("the creator did not wait")
		}
		r.swept(s.end())
		must(r.t, c.end()) // it resolved again and made the way anew
		r.alive("/A", 1)
	}},
	{name: "S14 link of a file that is swept", run: func(r *race) {
		r.put("/A/f", "/E/e")
		l := r.begin("linked", 1, "", func(p *party) error {
			_, err := p.drive.Link(p.w.t.Context(), p.w.fs, "/A/f", "/E/h", drive.Change{})
			return err
		})
		var id job.ID
		r.detached("/A", &id, "", l)
		s := r.begin("", 1, "", sweepOf(r.claim(r.removal.Jobs(), id)))
		must(r.t, l.end())
		r.swept(s.end())
		r.alive("/E", 2)
		if got := r.read("/E/h"); got != body("/A/f", false) {
			r.complain("the linked file reads %q", got)
		}
	}},
	{name: "S15 fast path in a directory whose batch is not committed", run: s15},
	{name: "S15y", without: "set lock", counts: true, run: s15},
	{name: "S15x", without: "set lock, counts", run: s15},
	{name: "S16a rmdir resolved, the sweep holds its parent", run: s16("resolved", "sweep.deleted")},
	{name: "S16b rmdir between the walk and the lock", run: s16("resolved", "sweep.gathered")},
	{name: "S16c rmdir between the look and the lock of the close", run: s16("resolved", "sweep.closeread")},
	{name: "S16d rmdir resolved, the close holds it", run: s16("resolved", "sweep.closed")},
	{name: "S16e rmdir holds its locks, the sweep comes", run: s16("looked", "sweep.closed")},
	{name: "S17a an older epoch paused between batches", run: s17("sweep.between", 1)},
	{name: "S17b an older epoch paused inside a batch", run: s17("sweep.deleted", 2)},
	{name: "S17c an older epoch paused after its walk", run: s17("sweep.gathered", 3)},
	{name: "S17x", without: "fence", sqlite: true, run: s17("sweep.gathered", 3)},
	{name: "S18 restored while the sweeper is paused", run: s18},
	{name: "S18x", without: "fence", sqlite: true, run: s18},
	{name: "S19 create into a drained directory before it is closed", run: func(r *race) {
		r.put("/A/f", "/A/B/x")
		c := r.begin("resolved", 1, "", create("/A/B/n1/n2/late"))
		var id job.ID
		if !r.detached("/A", &id, "", c) {
			return
		}
		s := r.begin("sweep.closeread", 1, "", sweepOf(r.claim(r.removal.Jobs(), id)))
		if r.db.Dialect().Name == sqldb.SQLite {
			c.goOn() // it waits for the writer
		} else {
			must(r.t, c.end())
		}
		r.swept(s.end())
		must(r.t, c.end())
	}},
	{name: "S20 copy of a file whose content is freed", run: func(r *race) {
		r.put("/A/f", "/E/e")
		c := r.begin("resolved", 1, "", func(p *party) error {
			_, _, err := p.drive.Copy(p.w.t.Context(), p.w.fs, "/A/f", "/E/c", drive.CopyOptions{})
			return err
		})
		var id job.ID
		if !r.detached("/A", &id, "", c) {
			return
		}
		s := r.begin("sweep.deleted", 1, "", sweepOf(r.claim(r.removal.Jobs(), id)))
		c.goOn()
		c.ended()
		r.swept(s.end())
		if c.end() == nil {
			r.alive("/E", 2)
			_ = r.read("/E/c")
		}
	}},
	{name: "S21 detach inside a tree that was detached meanwhile, and its restore", run: s21},
	{name: "S21x", without: "barrier", run: s21},
}

func nothing(*party) error { return nil }

func s1(r *race) {
	r.put("/A/f", "/A/B/x")
	r.mkdir("/A/B/C")
	c := r.begin("resolved", 1, "", create("/A/B/C/new"))
	var id job.ID
	if !r.detached("/A", &id, "", c) {
		return
	}
	s := r.begin("sweep.childless", 1, r.without, sweepOf(r.claim(r.removal.Jobs(), id)))
	c.goOn()
	c.ended()
	r.swept(s.end())
	must(r.t, c.end())
}

func s3(r *race) {
	r.plant(r.fs, "/A", append([]string{"f", "B"}, r.files("B", 120)...)...)
	r.put("/E/e")
	rn := r.begin("move-locked", 1, "", rename("/A/B", "/E/B"))
	var id job.ID
	if !r.detached("/A", &id, r.without, rn) {
		r.swept(sweepOf(r.claim(r.removal.Jobs(), id))(r.begin("", 1, "", nothing)))
		r.alive("/E/B", 120)
		return
	}
	s := r.begin("sweep.between", 2, r.without, sweepOf(r.claim(r.removal.Jobs(), id)))
	err := rn.end()
	_ = s.end()
	if err == nil {
		r.alive("/E/B", 120)
	}
}

func s11(r *race) {
	r.put("/A/f", "/A/g", "/E/e")
	rn := r.begin("resolved", 1, "", rename("/A/f", "/E/f"))
	var id job.ID
	if !r.detached("/A", &id, "", rn) {
		return
	}
	s := r.begin("sweep.read", 1, r.without, sweepOf(r.claim(r.removal.Jobs(), id)))
	rn.goOn()
	rn.ended()
	r.swept(s.end())
	if rn.end() == nil {
		r.alive("/E", 2)
	}
}

func s15(r *race) {
	r.put("/A/f", "/A/B/x", "/A/B/y", "/E/e")
	r.link("/A/B/x", "/E/x")
	f := r.begin("fast.resolved", 1, r.without, fast("/A/B"))
	var id job.ID
	if !r.detached("/A", &id, "", f) {
		r.swept(sweepOf(r.claim(r.removal.Jobs(), id))(r.begin("", 1, "", nothing)))
		return
	}
	s := r.begin("sweep.deleted", 1, r.without, sweepOf(r.claim(r.removal.Jobs(), id)))
	f.goOn()
	f.ended()
	r.swept(s.end())
	if err := f.end(); errors.Is(err, removal.ErrDamaged) {
		r.complain("the fast path: %v", err)
	}
	r.alive("/E", 2)
}

func s16(rmdirAt, sweepAt string) func(r *race) {
	return func(r *race) {
		r.put("/A/f", "/A/B/x", "/A/B/y")
		r.mkdir("/A/C")
		rm := r.begin(rmdirAt, 1, "", rmdir("/A/C"))
		var id job.ID
		r.detached("/A", &id, "", rm)
		s := r.begin(sweepAt, 1, "", sweepOf(r.claim(r.removal.Jobs(), id)))
		rm.goOn()
		rm.ended()
		r.swept(s.end())
		_ = rm.end() // done, or gone
	}
}

func s17(point string, nth int) func(r *race) {
	return func(r *race) {
		r.plant(r.fs, "/A", slices.Concat(r.files("", 120), []string{"B"}, r.files("B", 30), []string{"B/C", "B/C/D"}, r.files("B/C/D", 30))...)
		r.mkdir("/E")
		r.link("/A/B/f000000", "/E/x")
		id := r.detach("/A")
		old := r.begin(point, nth, r.without, sweepOf(r.claim(r.removal.Jobs(), id)))
		var second *run
		claim := r.begin("", 1, "", func(p *party) error {
			// One statement, as a claimer's.
			n, err := p.w.db.Exec(p.w.t.Context(), "UPDATE drive_delete_job SET lease_epoch = 2 WHERE id = ? AND lease_epoch = 1 AND state = 'RUNNING'", int64(id))
			if err != nil || n != 1 {
				return errors.Join(err, errors.New("not claimed"))
			}
			row, err := p.w.removal.Jobs().Get(p.w.t.Context(), id)
			second = &run{store: p.w.removal.Jobs(), row: row}
			return err
		})
		if !claim.ended() { // it waits for the batch, and is served before the owner's next one
			old.goOnTo("sweep.between")
		}
		must(r.t, claim.end())
		r.swept(sweepOf(second)(r.begin("", 1, "", nothing)))
		if err := old.end(); !errors.Is(err, job.ErrLeaseLost) {
			r.complain("the older epoch ended with: %v", err)
		}
		if j := r.job(id); j.State != job.Succeeded || j.LeaseEpoch != 2 {
			r.complain("the job is %s, epoch %d", j.State, j.LeaseEpoch)
		}
		r.alive("/E", 1)
	}
}

func s18(r *race) {
	r.plant(r.fs, "/A", slices.Concat(r.files("", 40), []string{"B"}, r.files("B", 40), []string{"B/C"}, r.files("B/C", 40))...)
	id := r.detach("/A")
	s := r.begin("sweep.gathered", 2, r.without, sweepOf(r.claim(r.removal.Jobs(), id)))
	before := r.rows("file_nodes", r.fs)
	r.restoreBehind(id, "A")
	_ = s.end()
	if after := r.rows("file_nodes", r.fs); after != before {
		r.complain("%d live names of %d are left", after, before)
	}
}

func s21(r *race) {
	r.plant(r.fs, "/A", slices.Concat(r.files("", 60), []string{"B"}, r.files("B", 30), []string{"B/C"}, r.files("B/C", 30))...)
	var inner, outer job.ID
	d2 := r.begin("detach.resolved", 1, "", detach("/A/B", &inner))
	if !r.detached("/A", &outer, "", d2) {
		return
	}
	s := r.begin("sweep.between", 1, r.without, sweepOf(r.claim(r.removal.Jobs(), outer)))
	if err := d2.end(); err != nil {
		_ = s.end()
		return
	}
	to := path(r.t, "/B")
	_, err := r.removal.Restore(r.t.Context(), r.fs, inner, &to, "test")
	_ = s.end()
	if err == nil {
		r.alive("/B", 30)
		r.alive("/B/C", 30)
	}
}
