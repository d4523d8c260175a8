package removal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/drivetest"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/drive/tree"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// party is one side of a race: rooms of its own over the same database, an operation in a
// goroutine, and a point at which that stands still.
type party struct {
	w       *world
	removal *removal.Removal
	drive   *drive.Drive

	point   string
	reached chan struct{}
	release chan struct{}
	open    *sync.Once
	mu      sync.Mutex
	left    int // times to pass the point

	done  chan struct{}
	err   error
	stood bool
}

const forEver = 2 * time.Minute

// begin starts an operation and returns when it stands at the nth passing of a point, has
// ended, or waits for somebody.
func (w *world) begin(point string, nth int, without string, op func(p *party) error) *party {
	w.t.Helper()
	p := &party{w: w, point: point, left: nth, reached: make(chan struct{}), release: make(chan struct{}), open: &sync.Once{}, done: make(chan struct{})}
	p.removal = w.with(func(c *removal.Config) {
		*c = c.Without(without)
		c.Step = func(_ context.Context, step string) error { p.pass(step); return nil }
	})
	p.drive = w.over(p.removal, func(_, point string) error { p.pass(point); return nil })
	go func() {
		defer close(p.done)
		p.err = op(p)
	}()
	w.t.Cleanup(func() { p.goOn(); <-p.done })
	w.blocked(p, func() bool {
		select {
		case <-p.reached:
			p.stood = true
			return true
		default:
			return closed(p.done)
		}
	})
	return p
}

// blocked waits until a party came where it was to come, or waits for a lock.
func (w *world) blocked(p *party, came func() bool) bool {
	w.t.Helper()
	w.waiting = slices.DeleteFunc(w.waiting, func(o *party) bool { return o == p || closed(o.done) })
	if !sqldbtest.Blocked(w.t, w.db, len(w.waiting), came) {
		return false
	}
	w.waiting = append(w.waiting, p)
	return true
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (p *party) pass(point string) {
	p.mu.Lock()
	if point == p.point {
		p.left--
	}
	stand := point == p.point && p.left == 0
	reached, release := p.reached, p.release
	p.mu.Unlock()
	if stand {
		close(reached)
		<-release
	}
}

// goOnTo lets the operation go on from where it stands until it passes another point.
func (p *party) goOnTo(point string) {
	p.mu.Lock()
	release := p.release
	p.point, p.left, p.reached, p.release, p.open = point, 1, make(chan struct{}), make(chan struct{}), &sync.Once{}
	p.mu.Unlock()
	close(release)
}

// goOn lets the operation pass its point.
func (p *party) goOn() { p.open.Do(func() { close(p.release) }) }

// ended reports whether the operation ends, rather than wait for somebody.
func (p *party) ended() bool {
	p.w.t.Helper()
	return !p.w.blocked(p, func() bool { return closed(p.done) })
}

// end lets the operation go on to its end.
func (p *party) end() error {
	p.w.t.Helper()
	p.goOn()
	select {
	case <-p.done:
	case <-time.After(forEver):
		p.w.t.Fatalf("an operation hangs after %q", p.point)
	}
	return p.err
}

// ops are the operations of parties.
func create(path string) func(p *party) error {
	return func(p *party) error {
		b := body(path, false)
		_, _, err := p.drive.Put(p.w.t.Context(), p.w.fs, path, drive.PutOptions{Body: strings.NewReader(b), Size: int64(len(b))})
		return err
	}
}

func rename(from, to string) func(p *party) error {
	return func(p *party) error {
		_, err := p.drive.Rename(p.w.t.Context(), p.w.fs, from, to, drive.RenameOptions{})
		return err
	}
}

func rmdir(path string) func(p *party) error {
	return func(p *party) error {
		_, err := p.drive.Remove(p.w.t.Context(), p.w.fs, path, drive.RemoveOptions{})
		return err
	}
}

func detach(path string, id *job.ID) func(p *party) error {
	return func(p *party) (err error) {
		*id, _, err = p.removal.Detach(p.w.t.Context(), p.w.request(path))
		return err
	}
}

func fast(path string) func(p *party) error {
	return func(p *party) error {
		_, err := p.removal.Fast(p.w.t.Context(), p.w.request(path))
		if errors.Is(err, removal.ErrDetach) {
			return nil // it did nothing
		}
		return err
	}
}

// sweepOf runs a job's sweep under its present claim; the end is nil.
func sweepOf(r *run) func(p *party) error {
	return func(p *party) error {
		err := p.removal.Sweep(p.w.t.Context(), r)
		if errors.Is(err, job.ErrEnded) {
			return nil
		}
		return err
	}
}

// race is what a scenario has to say beside the rows.
type race struct {
	*world
	without string
	harm    []string
}

func (r *race) complain(format string, args ...any) {
	r.harm = append(r.harm, fmt.Sprintf(format, args...))
}

// swept expects that a sweep ended well.
func (r *race) swept(err error) {
	if err != nil {
		r.complain("sweep: %v", err)
	}
}

// detached lets a detach go on as far as it comes beside another party, which has to end
// first where the engine has one writer only. It reports whether the other still stands.
func (r *race) detached(path string, id *job.ID, without string, other *party) bool {
	r.t.Helper()
	d := r.begin("", 1, without, detach(path, id))
	stands := d.ended()
	if !stands {
		_ = other.end()
	}
	must(r.t, d.end())
	return stands
}

// alive expects files under a directory of the visible tree, with their bytes.
func (r *race) alive(dir string, want int) {
	r.t.Helper()
	entries, _, err := r.drive.List(r.t.Context(), r.fs, dir, drive.ListOptions{Limit: 10_000})
	if err != nil {
		r.complain("%s: %v", dir, err)
		return
	}
	n := 0
	for _, e := range entries {
		if e.Kind == drive.File {
			n++
		}
	}
	if n != want {
		r.complain("%s has %d files of %d", dir, n, want)
	}
}

func (r *race) files(dir string, n int) []string {
	var out []string
	for _, f := range names("f", n) {
		out = append(out, strings.TrimPrefix(dir+"/"+f, "/"))
	}
	return out
}

// restoreBehind brings a job's tree back to the root by its rows alone, as a restore of
// another time would, whatever the job's state.
func (r *race) restoreBehind(id job.ID, name string) {
	r.t.Helper()
	ctx := r.t.Context()
	must(r.t, r.db.Tx(ctx, func(tx *sqldb.Tx) error {
		if err := r.tree.MoveLock(ctx, tx, r.fs, true); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE drive_delete_job SET state = 'CANCELLED', restored_at = 1, phase = 'RESTORED' WHERE id = ?", int64(id)); err != nil {
			return err
		}
		j, err := r.removal.Job(ctx, r.fs, id)
		if err != nil {
			return err
		}
		return r.tree.Move(ctx, tx, r.fs, tree.Node{Parent: tree.Trash, Name: fmt.Sprint(id), Inode: j.Root}, tree.Root, name)
	}))
}

// TestInterleavings forces the races of the lock protocol, and with each protection taken
// away the harm that it prevents: a control that does no harm is no proof.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	for _, server := range sqldbtest.Servers(t) {
		t.Run(server.String(), func(t *testing.T) {
			t.Parallel()
			base := newWorld(t, server, removal.Config{BatchSize: 50})
			for i, sc := range scenarios {
				t.Run(sc.name, func(t *testing.T) { // one after the other: who waits is told by how many do
					r := &race{world: base.beside(t, i+1), without: sc.without}
					r.putIn(r.other, "/A/B/x", false)
					sc.run(r)
					for _, fs := range []tree.FS{r.fs, r.other} {
						r.harm = append(r.harm, drivetest.Find(t, r.db, int64(fs))...)
					}
					switch harmless := len(r.harm) == 0; {
					case (sc.without == "" || sc.counts) && !harmless:
						t.Errorf("harm: %q", r.harm)
					case sc.without != "" && harmless && !sc.counts && (sc.sqlite || server.Name != sqldb.SQLite):
						t.Errorf("no harm without the %s", sc.without)
					case sc.without != "":
						t.Logf("without the %s: %.300q", sc.without, r.harm)
					}
				})
			}
		})
	}
}
