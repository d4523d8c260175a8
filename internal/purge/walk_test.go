package purge_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// shapes are the tables that every kind of test goes through.
var shapes = map[string]struct {
	opts  purgetest.Options
	build func(b *purgetest.Builder)
}{
	"empty":                {build: func(*purgetest.Builder) {}},
	"v1":                   {opts: purgetest.Options{Version: 1}, build: plain},
	"v1 inline manifests":  {opts: purgetest.Options{Version: 1, Inline: true}, build: plain},
	"v2 copy on write":     {build: plain},
	"v2 merge on read":     {build: func(b *purgetest.Builder) { b.Append(5).PositionDeletes(2).EqualityDeletes(2) }},
	"v3 deletion vectors":  {opts: purgetest.Options{Version: 3}, build: func(b *purgetest.Builder) { b.Append(5).DeletionVectors(6) }},
	"unknown version":      {opts: purgetest.Options{Version: 9}, build: plain},
	"gzip and snappy":      {opts: purgetest.Options{Gzip: true, Codec: "snappy"}, build: plain},
	"zstandard":            {opts: purgetest.Options{Codec: "zstandard"}, build: plain},
	"uncompressed":         {opts: purgetest.Options{Codec: "null"}, build: plain},
	"replaced statistics":  {build: func(b *purgetest.Builder) { b.Append(2).Statistics().Statistics().Statistics() }},
	"logs of logs":         {opts: purgetest.Options{LogMax: 2}, build: func(b *purgetest.Builder) { plain(b); b.Statistics().Append(1).Statistics().Append(1) }},
	"trimmed log":          {opts: purgetest.Options{LogMax: 2, Trim: true}, build: func(b *purgetest.Builder) { plain(b); b.Append(1).Append(1) }},
	"branches and tags":    {build: func(b *purgetest.Builder) { b.Append(1).Branch("b", "branch").Append(2).Branch("t", "tag").Append(1) }},
	"expired snapshots":    {build: func(b *purgetest.Builder) { plain(b); b.Statistics().Append(1).Expire(2, true).Append(1) }},
	"expired without care": {build: func(b *purgetest.Builder) { plain(b); b.Expire(3, false).Append(1) }},
	"manifests rewritten ten times": {build: func(b *purgetest.Builder) {
		b.Append(3)
		for range 10 {
			b.Append(1).Rewrite()
		}
	}},
	"moved": {build: func(b *purgetest.Builder) {
		b.Append(3)
		b.Location += "-moved"
		b.Append(2).Set("write.data.path", b.Location+"-data").Append(2)
	}},
}

func plain(b *purgetest.Builder) { b.Append(3).Append(2).Remove().Append(1) }

// siblings are files beside and, if nested, inside a table that no purge may touch.
func siblings(w *world, nested bool) {
	w.builder("t2", purgetest.Options{}).Append(2)
	w.claim(w.root() + "/t2")
	if nested {
		w.builder("t/nested", purgetest.Options{}).Append(2)
		w.claim(w.root() + "/t/nested")
	}
	w.write(w.root()+"/stray", "x")
}

func TestPurgeLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes {
		for store, open := range map[string]func(tb) *world{"mem": newWorld, "local": newLocalWorld} {
			t.Run(name+"/"+store, func(t *testing.T) {
				t.Parallel()
				w := open(t)
				siblings(w, name != "moved") // no location that holds another's can be taken over
				b := w.builder("t", shape.opts)
				shape.build(b)
				table := w.table(b)
				before := w.tree()
				r := w.job(table)
				if err := w.run(r, purge.Config{}); err != nil {
					t.Fatal(err)
				}
				w.want(before, table.Reachable)
				p := r.progress
				if int(p.Files) != len(table.Reachable) || p.Failed != 0 || len(p.Skipped) != 0 {
					t.Errorf("progress %+v, want %d files", p, len(table.Reachable))
				}
				if int(p.Leftovers) != len(table.Leaked) {
					t.Errorf("%d leftovers, want %d", p.Leftovers, len(table.Leaked))
				}
			})
		}
	}
}

func TestPurgeRemovesEmptiedDirectories(t *testing.T) {
	t.Parallel()
	for name, outside := range map[string]bool{"outside files skipped": false, "outside files deleted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLocalWorld(t)
			inside := w.root() + "/ns/t/data/deep/er" // an own location inside another
			b := w.builder("ns/t", purgetest.Options{}).Append(5).Statistics().Set("write.data.path", inside).Append(2)
			if outside { // a directory above the table is taken; the table's own stays its end
				w.write(w.root()+"/ns/beside", "x")
				b.Name(w.root() + "/ns/beside")
			}
			r := w.job(w.table(b))
			w.own = append(w.own, blob.Location(inside))
			w.write(w.root()+"/ns/x/nobody's", "x")
			if err := w.run(r, purge.Config{BatchSize: 2, InFlight: 1, DeleteOutside: outside}); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(w.dir, "ns", "t")); !os.IsNotExist(err) {
				t.Errorf("the table's directory is still there: %v", err)
			}
			if left := keys(w.tree()); len(left) != 1 || r.progress.Leftovers != 0 {
				t.Errorf("left %v, %d leftovers", left, r.progress.Leftovers)
			}
		})
	}
}

// A directory above the table's own location stays.
func TestPurgeKeepsTheDirectoryAboveTheTable(t *testing.T) {
	t.Parallel()
	w := newLocalWorld(t)
	r := w.job(w.table(w.builder("ns/t", purgetest.Options{}).Append(5)))
	if err := w.run(r, purge.Config{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "ns")); err != nil {
		t.Errorf("it went too: %v", err)
	}
}

func TestSkippedKeys(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		path    func(w *world) string
		outside bool // outside-locations: delete
		why     purge.Reason
		gone    bool
	}{
		"beside the table":           {path: func(w *world) string { return w.root() + "/import/a.parquet" }, why: purge.Outside},
		"beside the table, opted in": {path: func(w *world) string { return w.root() + "/import/a.parquet" }, outside: true, gone: true},
		"a name that begins alike":   {path: func(w *world) string { return w.root() + "/tt/a.parquet" }, why: purge.Outside},
		"another table's":            {path: func(w *world) string { return w.root() + "/t2/data/a.parquet" }, outside: true, why: purge.Foreign},
		"a nested table's":           {path: func(w *world) string { return w.root() + "/t/nested/a.parquet" }, outside: true, why: purge.Foreign},
		"another bucket":             {path: func(*world) string { return "mem://other/root/t/a.parquet" }, outside: true, why: purge.OutsideRoots},
		"above the root":             {path: func(*world) string { return "mem://wh/lethe.db" }, outside: true, why: purge.OutsideRoots},
		"a key with the root's name": {path: func(*world) string { return "mem://wh/root2/a" }, outside: true, why: purge.OutsideRoots},
		"the root":                   {path: func(w *world) string { return w.root() }, outside: true, why: purge.OutsideRoots},
		"the table's location":       {path: func(w *world) string { return w.root() + "/t" }, why: purge.Outside},
		"another scheme":             {path: func(*world) string { return "http://wh/root/t/a" }, outside: true, why: purge.OutsideRoots},
		"no scheme":                  {path: func(*world) string { return "t/a" }, outside: true, why: purge.OutsideRoots},
		"NUL":                        {path: func(w *world) string { return w.root() + "/t/a\x00b" }, outside: true, why: purge.OutsideRoots},
		"up and in":                  {path: func(w *world) string { return w.root() + "/t2/../t/a" }, outside: true, why: purge.OutsideRoots},
		"up and out":                 {path: func(w *world) string { return w.root() + "/t/../t2/data/a.parquet" }, outside: true, why: purge.OutsideRoots},
		"up and up":                  {path: func(w *world) string { return w.root() + "/t/../../../etc/passwd" }, outside: true, why: purge.OutsideRoots},
		"question mark and hash":     {path: func(w *world) string { return w.root() + "/t/a#b?c=%2F" }, gone: true},
		"doubled slash":              {path: func(w *world) string { return w.root() + "/t//a" }, gone: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			siblings(w, true)
			w.write(w.root()+"/t2/data/a.parquet", "live")
			w.write(w.root()+"/t/nested/a.parquet", "live")
			w.write(w.root()+"/t/a", "live") // what a cut key or a cleaned path would hit
			path := tt.path(w)
			if tt.gone {
				w.write(path, "mine")
			}
			table := w.table(w.builder("t", purgetest.Options{}).Append(2).Name(path))
			before := w.tree()
			r := w.job(table)
			if err := w.run(r, purge.Config{DeleteOutside: tt.outside}); err != nil {
				t.Fatal(err)
			}
			if tt.gone {
				w.want(before, table.Reachable, []string{path})
				return
			}
			w.want(before, table.Reachable)
			if r.progress.Skipped[tt.why] != 1 || len(r.progress.Skipped) != 1 {
				t.Errorf("skipped %v, want one %s", r.progress.Skipped, tt.why)
			}
		})
	}
}

func TestGCDisabledKeepsDataFiles(t *testing.T) {
	t.Parallel()
	for name, encrypt := range map[string]bool{"plain": false, "encrypted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testGCDisabled(t, encrypt)
		})
	}
}

func testGCDisabled(t *testing.T, encrypt bool) {
	t.Helper()
	w := newWorld(t)
	b := w.builder("t", purgetest.Options{Properties: map[string]string{"gc.enabled": "False"}}).Append(3)
	if encrypt {
		b.Append(1).Encrypt() // a manifest that can not be read need not be
	} else {
		b.Append(2)
	}
	table := w.table(b)
	w.remove(table.Manifests[0]) // is not read, so it is no damage
	before := w.tree()
	r := w.job(table)
	if err := w.run(r, purge.Config{}); err != nil {
		t.Fatal(err)
	}
	var data int
	for uri := range w.tree() {
		if before[uri] != "PAR1" {
			t.Errorf("%s is left", uri)
		}
		data++
	}
	if data != 5 || r.progress.Skipped[purge.GCDisabled] != 5 || r.progress.Leftovers != 5 {
		t.Errorf("%d data files left, progress %+v", data, r.progress)
	}
}

func TestOwnershipIsAskedOncePerDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.builder("t", purgetest.Options{})
	var paths []string
	for i := range 200 {
		paths = append(paths, fmt.Sprintf("%s/import/%d.parquet", w.root(), i))
	}
	b.Name(paths...)
	r := w.job(w.table(b))
	if err := w.run(r, purge.Config{}); err != nil {
		t.Fatal(err)
	}
	if w.whose != 1 || r.progress.Skipped[purge.Outside] != 200 {
		t.Errorf("%d questions, %v skipped", w.whose, r.progress.Skipped)
	}
	if n := len(r.progress.Samples["skipped"]); n != 10 {
		t.Errorf("%d samples, want 10", n)
	}
}

// A manifest that names the table's own root and lists as data does not pull the ladder
// away: they go with their own level.
func TestTableNamesItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.builder("t", purgetest.Options{}).Append(2)
	lists := w.table(b).Lists
	b.Name(lists[0], w.root()+"/t/root.metadata.json")
	table := w.table(b)
	r := w.job(table)
	r.MetadataLocation = w.root() + "/t/root.metadata.json"
	w.write(r.MetadataLocation, string(read(w, table.Metadata)))
	crashAt(w, r, purge.Config{}, "DATA "+purge.StepSettled, 0)
	if err := w.run(r, purge.Config{}); err != nil {
		t.Fatal(err)
	}
	if left := keys(w.tree()); len(left) != 1 || left[0] != table.Metadata { // the copy is the root
		t.Errorf("left: %v", left)
	}
}
