package purge_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/mem"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// What is the table's own but out of this server's reach is not skipped: the purge fails
// before it deletes anything, and succeeds where the storage is.
func TestOwnLocationOutOfReach(t *testing.T) {
	t.Parallel()
	const far = "mem://other/data/t"
	for name, own := range map[string]func(w *world, r *row){
		"as the host says":  func(w *world, _ *row) { w.own = append(w.own, far) },
		"as the drop wrote": func(_ *world, r *row) { r.Locations = []string{r.TableLocation, far} },
	} {
		for _, phase := range []string{"", "MANIFESTS", "ROOT"} {
			t.Run(name+" "+phase, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				narrow := w.space
				wide, err := blob.NewSpace(narrow.Mounts()[0], blob.Mount{Root: "mem://other/data", Bucket: mem.New()})
				if err != nil {
					t.Fatal(err)
				}
				w.space = wide
				w.write(far+"/1", "x")
				b := w.builder("t", purgetest.Options{Properties: map[string]string{"write.data.path": far}}).Name(far + "/1")
				r := w.job(w.table(b))
				own(w, r)
				before := w.tree()

				w.space, r.Phase = narrow, phase
				err = w.run(r, purge.Config{})
				if err == nil || isTerminal(err) || isOutage(err) || !strings.Contains(err.Error(), far) {
					t.Errorf("got %v, want an ordinary failure that names the location", err)
				}
				w.space, r.Phase = wide, ""
				w.want(before)
				if err := w.run(r, purge.Config{}); err != nil || len(w.tree()) != 0 {
					t.Errorf("with the storage: %v, left %v", err, keys(w.tree()))
				}
			})
		}
	}
}

// rivals is a catalog in which others take a location when the n-th question comes. Like
// the real one it refuses what overlaps the job's own.
type rivals struct {
	*world
	at       blob.Location
	n, asked int
	refused  bool
}

func (h *rivals) question() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked++; h.asked != h.n {
		return
	}
	for _, l := range h.own {
		if l.Overlaps(h.at) {
			h.refused = true
			return
		}
	}
	h.others = append(h.others, h.at)
}

func (h *rivals) Whose(ctx context.Context, j purge.Job, at []blob.Location) ([]purge.Owner, error) {
	defer h.question()
	return h.world.Whose(ctx, j, at)
}

func (h *rivals) Adopt(ctx context.Context, j purge.Job, at []blob.Location) ([]blob.Location, error) {
	h.question()
	defer h.question()
	return h.world.Adopt(ctx, j, at)
}

// outside-locations=delete: whenever another entry comes to the directory, either its
// claim is refused or all its files stay.
func TestOutsideIsTakenBeforeItIsDeleted(t *testing.T) {
	t.Parallel()
	for _, at := range []blob.Location{root + "/area", root + "/area/raw", root + "/area/raw/deep"} {
		took, refused := 0, 0
		for n := 1; n <= 14; n++ {
			w := newWorld(t)
			b := w.builder("t", purgetest.Options{})
			for i := range 6 {
				file := fmt.Sprintf("%s/area/raw/%d", root, i)
				if i >= 3 {
					file = fmt.Sprintf("%s/area/raw/deep/%d", root, i)
				}
				w.write(file, "x")
				b.Name(file)
			}
			r := w.job(w.table(b))
			host := &rivals{world: w, at: at, n: n}
			inside := func() (n int) {
				for f := range w.tree() {
					if at.Contains(blob.Location(f)) {
						n++
					}
				}
				return n
			}
			files := inside()
			cfg := purge.Config{BatchSize: 1, InFlight: 1, DeleteOutside: true}
			if err := purge.NewWalker(cfg, host, w.pool).Run(t.Context(), r.Job, &session{t: t, row: r}); err != nil {
				t.Fatal(err)
			}
			switch {
			case len(w.others) > 0:
				if took++; inside() != files {
					t.Errorf("%s, question %d: %d of the live entry's %d files are left", at, n, inside(), files)
				}
			case host.refused:
				if refused++; inside() != 0 {
					t.Errorf("%s, question %d: %d files are left of what was taken", at, n, inside())
				}
			}
		}
		if took == 0 || refused == 0 {
			t.Errorf("%s: taken %d times, refused %d times", at, took, refused)
		}
	}
}

// What a purge may take outside is bounded, and so are the questions it asks.
func TestOutsideIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var paths []string
	for i := range 1200 {
		file := fmt.Sprintf("%s/import/day=%d/f", w.root(), i)
		w.write(file, "x")
		paths = append(paths, file)
	}
	table := w.table(w.builder("t", purgetest.Options{}).Name(paths...))
	r := w.job(table)
	if err := w.run(r, purge.Config{DeleteOutside: true}); err != nil {
		t.Fatal(err)
	}
	if left := len(w.tree()); left == 0 || int(r.progress.Skipped[purge.Outside]) != left || len(w.own) > 1000 {
		t.Errorf("%d left, skipped %v, %d locations owned", left, r.progress.Skipped, len(w.own))
	}
}

// What was taken outside is not the table's home: nobody's files there are no leftovers,
// neither now nor in a later attempt.
func TestTakenOutsideIsNoHome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(w.root()+"/raw/named", "x")
	w.write(w.root()+"/raw/nobody's", "x")
	table := w.table(w.builder("t", purgetest.Options{}).Append(1).Name(w.root() + "/raw/named"))
	w.write(w.root()+"/t/stray", "x")
	before := w.tree()
	r := w.job(table)
	r.Locations = []string{table.Location}
	cfg := purge.Config{DeleteOutside: true}
	crashAt(w, r, cfg, "LISTS "+purge.StepSaved, 0)
	if err := w.run(r, cfg); err != nil {
		t.Fatal(err)
	}
	w.want(before, table.Reachable, []string{w.root() + "/raw/named"})
	if r.progress.Leftovers != 1 {
		t.Errorf("%d leftovers: %v", r.progress.Leftovers, r.progress.Samples["leftover"])
	}
}
