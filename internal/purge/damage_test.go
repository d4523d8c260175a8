package purge_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/faulty"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// dataLeft counts data files.
func dataLeft(w *world) (n int) {
	for uri := range w.tree() {
		if strings.HasSuffix(uri, ".parquet") {
			n++
		}
	}
	return n
}

func read(w *world, uri string) []byte {
	w.t.Helper()
	body, err := purgetest.Read(context.Background(), w.space, uri)
	if err != nil {
		w.t.Fatal(err)
	}
	return body
}

func TestDamage(t *testing.T) {
	t.Parallel()
	// Each table has four snapshots of five files, a manifest for each.
	tests := map[string]struct {
		harm      func(w *world, table purgetest.Table)
		dataLeft  int
		missing   bool // accept-missing lets it pass
		leftovers int  // then
	}{
		"manifest missing":            {harm: func(w *world, t purgetest.Table) { w.remove(t.Manifests[1]) }, dataLeft: 5, missing: true, leftovers: 5},
		"manifest empty":              {harm: func(w *world, t purgetest.Table) { w.replace(t.Manifests[1], "") }, dataLeft: 5},
		"manifest alien":              {harm: func(w *world, t purgetest.Table) { w.replace(t.Manifests[1], "PAR1 and more") }, dataLeft: 5},
		"manifest a list":             {harm: func(w *world, t purgetest.Table) { w.replace(t.Manifests[1], string(read(w, t.Lists[0]))) }, dataLeft: 5},
		"manifest cut in its header":  {harm: cut(func(t purgetest.Table) string { return t.Manifests[1] }, 30), dataLeft: 5},
		"manifest cut in its block":   {harm: cut(func(t purgetest.Table) string { return t.Manifests[1] }, -20), dataLeft: 5},
		"manifest cut between blocks": {harm: cutBlocks, dataLeft: 5},
		"manifest's block flipped": {harm: func(w *world, t purgetest.Table) {
			body := read(w, t.Manifests[1])
			body[len(body)-30] ^= 0xff
			w.replace(t.Manifests[1], string(body))
		}, dataLeft: 5},
		// The last list alone names the last manifest.
		"list missing": {harm: func(w *world, t purgetest.Table) { w.remove(t.Lists[3]) }, dataLeft: 5, missing: true, leftovers: 6},
		"list alien":   {harm: func(w *world, t purgetest.Table) { w.replace(t.Lists[3], "{}") }, dataLeft: 5},
		"list a manifest": {harm: func(w *world, t purgetest.Table) {
			w.replace(t.Lists[3], string(read(w, t.Manifests[0])))
		}, dataLeft: 5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			b := w.builder("t", purgetest.Options{}).Append(5).Append(5).Append(5).Append(5)
			table := w.table(b)
			whole := w.tree()
			tt.harm(w, table)
			r := w.job(table)
			err := w.run(r, purge.Config{BatchSize: 2})
			if !isTerminal(err) || !errors.Is(err, purge.ErrUnsettled) {
				t.Fatalf("got %v, want a terminal error", err)
			}
			if n := dataLeft(w); n != tt.dataLeft {
				t.Errorf("%d data files left, want %d: what is readable goes first", n, tt.dataLeft)
			}
			for _, uri := range append(table.Manifests, append(table.Lists, table.Metadata)...) {
				harmed := tt.missing && (uri == table.Manifests[1] || uri == table.Lists[3])
				if _, there := w.tree()[uri]; !there && !harmed {
					t.Errorf("%s is gone although something below it is not settled", uri)
				}
			}
			if p := r.progress; p.Damaged != 1 || len(p.Samples["damaged"]) != 1 || r.Phase != "DATA" {
				t.Errorf("phase %s, progress %+v", r.Phase, p)
			}

			// An operator who accepts what is missing gets the rest removed; what is
			// unreadable stops that too.
			r.Cursor, r.AcceptMissing = "", true
			err = w.run(r, purge.Config{})
			if tt.missing != (err == nil) {
				t.Fatalf("accept-missing: %v", err)
			}
			if tt.missing {
				if int(r.progress.Leftovers) != tt.leftovers {
					t.Errorf("%d leftovers, want %d", r.progress.Leftovers, tt.leftovers)
				}
				return
			}
			// After repair a retry finishes.
			r.Cursor = ""
			for _, uri := range append(table.Manifests, table.Lists...) {
				w.replace(uri, whole[uri])
			}
			if err := w.run(r, purge.Config{}); err != nil {
				t.Fatal(err)
			}
			w.want(whole, table.Reachable)
		})
	}
}

func cut(which func(purgetest.Table) string, at int) func(w *world, t purgetest.Table) {
	return func(w *world, t purgetest.Table) {
		body := read(w, which(t))
		if at < 0 {
			at += len(body)
		}
		w.replace(which(t), string(body[:at]))
	}
}

// cutBlocks cuts a file behind its header, where Avro sees a good file without entries.
func cutBlocks(w *world, t purgetest.Table) {
	body := read(w, t.Manifests[1])
	sync := body[len(body)-16:]
	w.replace(t.Manifests[1], string(body[:bytes.Index(body, sync)+16]))
}

func TestEncryptedIsDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	table := w.table(w.builder("t", purgetest.Options{}).Append(3).Encrypt())
	r := w.job(table)
	r.AcceptMissing = true
	if err := w.run(r, purge.Config{}); !isTerminal(err) {
		t.Fatalf("got %v, want a terminal error", err)
	}
	if n := dataLeft(w); n != 1 || r.progress.Samples["damaged"][0].Why != "encrypted" {
		t.Errorf("%d data files left, progress %+v", n, r.progress)
	}
}

// A manifest or list that is missing from the phase on in which it is deleted is no damage.
func TestMissingAfterItsPhase(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		phase string
		harm  func(w *world, t purgetest.Table)
	}{
		"manifest in MANIFESTS": {"MANIFESTS", func(w *world, t purgetest.Table) { w.remove(t.Manifests[0]) }},
		"list in LISTS":         {"LISTS", func(w *world, t purgetest.Table) { w.remove(t.Lists[0]); w.remove(t.Manifests[0]) }},
		"older metadata":        {"DATA", func(w *world, t purgetest.Table) { w.remove(older(t)) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			table := w.table(w.builder("t", purgetest.Options{}).Append(3))
			before := w.tree()
			tt.harm(w, table)
			r := w.job(table)
			r.Phase = tt.phase
			if err := w.run(r, purge.Config{}); err != nil {
				t.Fatal(err)
			}
			var left []string
			for uri := range before {
				if _, there := w.tree()[uri]; !there {
					left = append(left, uri)
				}
			}
			w.want(before, left)
			if _, there := w.tree()[table.Metadata]; there {
				t.Error("the root is left")
			}
		})
	}
}

func older(t purgetest.Table) string {
	for _, uri := range t.Reachable {
		if strings.HasSuffix(uri, ".metadata.json") && uri != t.Metadata {
			return uri
		}
	}
	return ""
}

// A manifest or list that is not this table's may be missing: whoever has it may remove
// it, and nobody could ever repair it here.
func TestMissingElsewhereIsSkipped(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		list, foreign, delete bool
		why                   purge.Reason // empty: damage
	}{
		"a manifest outside":           {why: purge.Outside},
		"another's manifest":           {foreign: true, why: purge.Foreign},
		"a list outside":               {list: true, why: purge.Outside},
		"another's list":               {list: true, foreign: true, why: purge.Foreign},
		"a manifest outside, opted in": {delete: true},
		"another's manifest, opted in": {foreign: true, delete: true, why: purge.Foreign},
		"a list outside, opted in":     {list: true, delete: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			table := w.table(w.builder("t", purgetest.Options{Codec: "null"}).Append(3))
			missing := table.Manifests[0]
			if tt.list {
				missing = table.Lists[0]
			}
			away := strings.Replace(missing, "/t/metadata/", "/u/metadata/", 1) // as long, for Avro's sake
			for uri, body := range w.tree() {
				w.replace(uri, strings.ReplaceAll(body, missing, away))
			}
			w.remove(missing)
			if tt.foreign {
				w.claim(w.root() + "/u")
			}
			r := w.job(table)
			err := w.run(r, purge.Config{DeleteOutside: tt.delete})
			if tt.why == "" {
				if !isTerminal(err) || r.progress.Damaged != 1 {
					t.Errorf("got %v, %d damaged", err, r.progress.Damaged)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			p := r.progress
			if p.Skipped[tt.why] != 1 || p.Damaged != 0 || int(p.Leftovers) != len(w.tree()) || p.Leftovers < 3 {
				t.Errorf("progress %+v, left %v", p, keys(w.tree()))
			}
			if _, there := w.tree()[table.Metadata]; there {
				t.Error("the root is left")
			}
		})
	}
}

func TestListMissingInManifestsIsDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	table := w.table(w.builder("t", purgetest.Options{}).Append(3))
	w.remove(table.Lists[0])
	r := w.job(table)
	r.Phase = "MANIFESTS"
	if err := w.run(r, purge.Config{}); !isTerminal(err) {
		t.Fatalf("got %v, want a terminal error", err)
	}
	if _, there := w.tree()[table.Metadata]; !there {
		t.Error("the root is gone")
	}
}

func TestRoot(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		harm   func(w *world, r *row)
		phase  string
		accept bool
		check  func(err error) bool
	}{
		"missing":                  {harm: gone, check: func(err error) bool { return isTerminal(err) && errors.Is(err, purge.ErrRootMissing) }},
		"missing before ROOT":      {harm: gone, phase: "METADATA", check: isTerminal},
		"missing in ROOT":          {harm: gone, phase: "ROOT", check: func(err error) bool { return err == nil }},
		"missing and accepted":     {harm: gone, accept: true, check: func(err error) bool { return err == nil }},
		"unreadable":               {harm: func(w *world, r *row) { w.replace(r.MetadataLocation, "{") }, check: isTerminal},
		"unreadable, not accepted": {harm: func(w *world, r *row) { w.replace(r.MetadataLocation, "[]") }, accept: true, check: isTerminal},
		"denied": {harm: func(w *world, r *row) {
			w.bucket.FailCall(faulty.Open, 1, blob.Denied)
		}, check: func(err error) bool { return err != nil && !isTerminal(err) && !isOutage(err) }},
		"outage": {harm: func(w *world, _ *row) { w.bucket.SetOutage(blob.Unavailable) }, check: isOutage},
		"outside": {harm: func(_ *world, r *row) { // the root may be missing in this server's settings only
			r.MetadataLocation = "mem://else/x"
		}, check: func(err error) bool { return errors.Is(err, blob.ErrOutside) && !isTerminal(err) && !isOutage(err) }},
		"unknown phase": {harm: func(*world, *row) {}, phase: "LATER", check: isTerminal},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			table := w.table(w.builder("t", purgetest.Options{}).Append(3))
			r := w.job(table)
			r.Phase, r.AcceptMissing = tt.phase, tt.accept
			before := w.tree()
			tt.harm(w, r)
			if err := w.run(r, purge.Config{}); !tt.check(err) {
				t.Errorf("got %v", err)
			}
			w.bucket.SetOutage(0)
			if name != "unreadable" && name != "unreadable, not accepted" {
				delete(before, table.Metadata)
				got := w.tree()
				delete(got, table.Metadata)
				if len(got) != len(before) {
					t.Errorf("%d files left of %d", len(got), len(before))
				}
			}
		})
	}
}

func gone(w *world, r *row) { w.remove(r.MetadataLocation) }

// The root may lie anywhere but under another's location.
func TestRootElsewhere(t *testing.T) {
	t.Parallel()
	for name, foreign := range map[string]bool{"nobody's place": false, "another's place": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			table := w.table(w.builder("t", purgetest.Options{}))
			at := w.root() + "/elsewhere/v1.metadata.json"
			w.write(at, string(read(w, table.Metadata)))
			if foreign {
				w.claim(w.root() + "/elsewhere")
			}
			r := w.job(table)
			r.MetadataLocation = at
			if err := w.run(r, purge.Config{}); err != nil {
				t.Fatal(err)
			}
			_, there := w.tree()[at]
			if there != foreign || (r.progress.Skipped[purge.Foreign] == 1) != foreign {
				t.Errorf("there: %v, skipped %v", there, r.progress.Skipped)
			}
		})
	}
}

// Older metadata that can not be read keeps itself and everything newer.
func TestOlderMetadataUnreadable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.builder("t", purgetest.Options{})
	b.Append(1).Statistics().Statistics().Append(1)
	table := w.table(b)
	var metadata []string
	for _, uri := range table.Reachable {
		if strings.HasSuffix(uri, ".metadata.json") {
			metadata = append(metadata, uri) // sorted by their numbers
		}
	}
	w.replace(metadata[2], "not json")
	r := w.job(table)
	if err := w.run(r, purge.Config{}); !isTerminal(err) {
		t.Fatalf("got %v, want a terminal error", err)
	}
	tree := w.tree()
	for i, uri := range metadata {
		if _, there := tree[uri]; there != (i >= 2) {
			t.Errorf("metadata %d there: %v", i, there)
		}
	}
	if r.Phase != "METADATA" {
		t.Errorf("phase %s", r.Phase)
	}
}

// Another table's metadata in the log neither gives away its locations nor its history.
func TestAlienOlderMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	victim := w.table(w.builder("victim", purgetest.Options{}).Append(3)) // dropped without purge: nobody's
	b := w.builder("t", purgetest.Options{}).Append(1).Name(victim.Reachable...)
	table := w.table(b)
	root := strings.Replace(string(read(w, table.Metadata)), `"metadata-log":[`,
		`"metadata-log":[{"timestamp-ms":1,"metadata-file":"`+victim.Metadata+`"},`, 1)
	w.replace(table.Metadata, root)
	before := w.tree()
	r := w.job(table)
	if err := w.run(r, purge.Config{}); err != nil {
		t.Fatal(err)
	}
	w.want(before, table.Reachable)
	if n := r.progress.Levels["METADATA"].Skipped[purge.Outside]; n != 1 { // the victim's file, not its history
		t.Errorf("%d older metadata files skipped, want 1", n)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	t.Run("denied keys", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		table := w.table(w.builder("t", purgetest.Options{}).Append(10))
		var denied int
		for uri := range w.tree() {
			if strings.Contains(uri, "day=1/") {
				denied++
			}
		}
		w.bucket.DenyKeys(func(k blob.Key) bool { return strings.Contains(string(k), "day=1/") })
		r := w.job(table)
		err := w.run(r, purge.Config{})
		w.bucket.DenyKeys(nil)
		if err == nil || isTerminal(err) || isOutage(err) {
			t.Fatalf("got %v, want an ordinary failure", err)
		}
		if dataLeft(w) != denied || int(r.progress.Failed) != denied || r.Phase != "DATA" {
			t.Errorf("%d data files left, want %d; phase %s, progress %+v", dataLeft(w), denied, r.Phase, r.progress)
		}
		if s := r.progress.Samples["failed"][0]; s.Why != "denied" {
			t.Errorf("sample %+v", s)
		}
		if err := w.run(r, purge.Config{}); err != nil {
			t.Fatal(err)
		}
		if len(w.tree()) != 0 || r.progress.Failed != 0 {
			t.Errorf("%v left, progress %+v", keys(w.tree()), r.progress)
		}
	})
	t.Run("denied manifest", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		table := w.table(w.builder("t", purgetest.Options{}).Append(4).Append(4))
		r := w.job(table)
		w.bucket.FailCall(faulty.Open, 3, blob.Denied) // after root and list
		if err := w.run(r, purge.Config{}); err == nil || isTerminal(err) {
			t.Fatalf("got %v, want an ordinary failure", err)
		}
		if n := dataLeft(w); n != 4 {
			t.Errorf("%d data files left, want 4", n)
		}
		finish(w, r, purge.Config{})
		if len(w.tree()) != 0 {
			t.Errorf("%v left", keys(w.tree()))
		}
	})
	t.Run("denied statistics keep what names them", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		table := w.table(w.builder("t", purgetest.Options{}).Append(1).Statistics().Statistics())
		w.bucket.DenyKeys(func(k blob.Key) bool { return strings.HasSuffix(string(k), "-stats") })
		r := w.job(table)
		err := w.run(r, purge.Config{})
		w.bucket.DenyKeys(nil)
		if err == nil || isTerminal(err) || r.Phase != "METADATA" {
			t.Fatalf("got %v in phase %s, want an ordinary failure", err, r.Phase)
		}
		tree := w.tree()
		for uri := range tree {
			if named := func() bool {
				for _, body := range tree {
					if strings.Contains(body, uri) {
						return true
					}
				}
				return false
			}(); !named && uri != table.Metadata {
				t.Errorf("nothing names %s any more", uri)
			}
		}
		finish(w, r, purge.Config{})
		if len(w.tree()) != 0 {
			t.Errorf("%v left", keys(w.tree()))
		}
	})
	t.Run("outage in every phase", func(t *testing.T) {
		t.Parallel()
		for _, step := range steps() {
			w := newWorld(t)
			table := w.table(w.builder("t", purgetest.Options{}).Append(10).Statistics())
			r := w.job(table)
			err := w.run(r, purge.Config{Step: func(level purge.Level, name string) {
				if level.String()+" "+name == step {
					w.bucket.SetOutage(blob.Unavailable)
				}
			}})
			if step != "ROOT "+purge.StepFinish && !isOutage(err) {
				t.Errorf("at %s: got %v, want an outage", step, err)
			}
			w.bucket.SetOutage(0)
			finish(w, r, purge.Config{})
			if len(w.tree()) != 0 {
				t.Errorf("at %s: %v left", step, keys(w.tree()))
			}
		}
	})
	t.Run("leftovers can not be listed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		table := w.table(w.builder("t", purgetest.Options{}).Append(1))
		w.bucket.FailCall(faulty.List, 1, blob.Denied)
		r := w.job(table)
		if err := w.run(r, purge.Config{}); err != nil || !r.progress.LeftoversUnknown {
			t.Errorf("got %v, progress %+v", err, r.progress)
		}
	})
	t.Run("leftovers are bounded", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		table := w.table(w.builder("t", purgetest.Options{}).Append(20).Append(1).Remove().Append(1).Expire(2, false))
		for i := range 20 {
			w.write(w.root()+"/t/stray"+string(rune('a'+i)), "x")
		}
		r := w.job(table)
		if err := w.run(r, purge.Config{MaxLeftovers: 7}); err != nil {
			t.Fatal(err)
		}
		if p := r.progress; p.Leftovers != 7 || !p.LeftoversMore {
			t.Errorf("progress %+v", p)
		}
	})
}

func TestSamplesHoldNoSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.root() + "/t/a.parquet?sig=SECRET"
	w.write(path, "x")
	table := w.table(w.builder("t", purgetest.Options{}).Name(path))
	w.bucket.DenyKeys(func(k blob.Key) bool { return strings.Contains(string(k), "a.parquet") })
	r := w.job(table)
	if err := w.run(r, purge.Config{}); err == nil {
		t.Fatal("no failure")
	}
	if bytes.Contains(r.Progress, []byte("SECRET")) {
		t.Errorf("progress %s", r.Progress)
	}
}

func TestLostLeaseIsTheAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.job(w.table(w.builder("t", purgetest.Options{}).Append(3)))
	before := w.tree()
	s := &session{t: t, row: r, fail: func(int) error { return job.ErrLeaseLost }}
	if err := w.runIn(s, purge.Config{}); !errors.Is(err, job.ErrLeaseLost) {
		t.Errorf("got %v", err)
	}
	w.want(before)
}
