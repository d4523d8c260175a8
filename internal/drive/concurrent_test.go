package drive_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/internal/drive"
	"github.com/lethe-project/lethe/internal/drive/content"
	"github.com/lethe-project/lethe/internal/drive/removal"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/sqldb"
	"github.com/lethe-project/lethe/internal/sqldb/sqldbtest"
)

// collectAll makes every task due and runs the collector until it finds none.
func (r *room) collectAll(ctx context.Context) error {
	c := content.NewCollector(r.content, content.CollectorConfig{})
	for {
		if _, err := r.db.Exec(ctx, "UPDATE file_gc_tasks SET due_at = 0 WHERE claim IS NULL AND due_at > 0"); err != nil {
			return err
		}
		if n, err := c.Collect(ctx); err != nil || n == 0 {
			return err
		}
	}
}

// objects compares what lies in the bucket with what rows name, once the collector is done.
func (r *room) objects(t *testing.T) {
	t.Helper()
	if err := r.collectAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows, err := r.db.Query(t.Context(), "SELECT object_key FROM contents WHERE object_key IS NOT NULL ORDER BY object_key")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var want []string
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			t.Fatal(err)
		}
		want = append(want, key)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, key := range r.bucket.Keys() {
		got = append(got, string(key))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-named +there):\n%s", diff)
	}
}

// A write beside a collector that finds its object due, at every point: it is whole, or
// it failed and nothing is there.
func TestWriteBesideCollector(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		collect := func(ctx context.Context) error { return r.collectAll(ctx) }
		expired := 0
		for _, kind := range []string{"create", "overwrite"} {
			for n := 0; ; n++ {
				path := fmt.Sprintf("/%s%d", kind, n)
				old := "NotFound"
				if kind == "overwrite" {
					old = strings.Repeat("old", inline)
					r.put(t, path, old)
				}
				reached, written, collected := r.beside(t, "drive.Put", n, write(path, longText)(r, ""), collect)
				if collected != nil {
					t.Errorf("%s, point %d: the collector: %v", kind, n, collected)
				}
				want := longText
				if code(written) == "WriteExpired" {
					want = old
					expired++
				} else if written != nil {
					t.Errorf("%s, point %d: %v", kind, n, written)
				}
				r.oneOf(t, path, want)
				r.objects(t)
				if !reached {
					break
				}
			}
		}
		if expired < 2 {
			t.Errorf("the collector came in time only %d times", expired)
		}
	})
}

// The completion of an upload beside the removal of its directory, and the reverse, at
// every point.
func TestUploadBesideRmdir(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		for _, order := range []string{"drive.CompleteUpload", "drive.Remove", "drive.CompleteUpload all"} {
			for n := 0; ; n++ {
				op, all := strings.CutSuffix(order, " all")
				base := fmt.Sprintf("/%s%d", order, n)
				dir := base + "/dir"
				r.mkdir(t, dir)
				id := r.begin(t, dir+"/sub/file", int64(len(longText)))
				r.part(t, id, 1, longText)
				complete := func(ctx context.Context) error {
					_, _, err := r.CompleteUpload(ctx, one, id, drive.CompleteOptions{})
					return err
				}
				vacate := remove("/dir")(r, base)
				if all {
					vacate = removeAll("/dir")(r, base)
				}
				var completed, removed error
				var reached bool
				if op == "drive.Remove" {
					reached, removed, completed = r.beside(t, op, n, vacate, complete)
				} else {
					reached, completed, removed = r.beside(t, op, n, complete, vacate)
				}
				switch c := code(completed); c {
				case "ok", "UploadAborted", "UploadBaseGone":
				default:
					t.Errorf("%s, point %d: complete: %v", order, n, completed)
				}
				if c := code(removed); c != "ok" && c != "DirectoryNotEmpty" {
					t.Errorf("%s, point %d: remove: %v", order, n, removed)
				}
				if !all && reached && (completed == nil) == (removed == nil) {
					t.Errorf("%s, point %d: %v, %v", order, n, completed, removed)
				}
				// Beside the removal of a whole tree, a completed upload may count as before it.
				want, done, gone := "NotFound", reached || op != "drive.Remove", reached || op == "drive.Remove"
				if done && completed == nil && (!gone || removed != nil) {
					want = longText
				}
				r.oneOf(t, dir+"/sub/file", want)
				if removed == nil && reached {
					if _, err := r.Stat(t.Context(), one, dir, false); code(err) != "NotFound" {
						t.Errorf("%s, point %d: the directory is there again: %v", order, n, err)
					}
				}
				if !done || completed != nil {
					_ = r.AbortUpload(t.Context(), one, id) // gone with its directory, or given up here
				}
				if !reached {
					break
				}
			}
		}
		r.objects(t)
	})
}

// A tree that goes into the trash while an upload into it is completed: what is detached is
// alive, and no upload goes there any more.
func TestUploadBesideDetach(t *testing.T) {
	t.Parallel()
	sqldbtest.Each(t, owners, func(t *testing.T, db *sqldb.DB) {
		r := setup(t, db, func(c *removal.Config) { c.TrashRetention = time.Hour })
		r.mkdir(t, "/tree/dir")
		id := r.begin(t, "/tree/dir/file", 5)
		r.part(t, id, 1, "bytes")
		reached, completed, removed := r.beside(t, "drive.CompleteUpload", 0,
			func(ctx context.Context) error {
				_, _, err := r.CompleteUpload(ctx, one, id, drive.CompleteOptions{})
				return err
			}, removeAll("/tree")(r, ""))
		if !reached || removed != nil || code(completed) != "UploadBaseGone" {
			t.Errorf("%t, complete: %v, remove: %v", reached, completed, removed)
		}
		if _, err := r.Stat(t.Context(), one, "/tree", false); code(err) != "NotFound" {
			t.Errorf("the tree is there: %v", err)
		}
		r.agree(t)
	})
}

// Eight clients at once on few names: afterwards the rows agree, every acknowledged write
// can be read, and no object is left that nobody knows.
func TestEightClients(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *room) {
		const clients, turns = 8, 40
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var mu sync.Mutex
		var busy, ok int
		own := map[string]string{}
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(c), 1))
				path := func() string {
					p := ""
					for range 1 + rng.IntN(3) {
						p += "/" + string("abc"[rng.IntN(3)])
					}
					return p
				}
				for turn := range turns {
					text := fmt.Sprintf("client %d, turn %d %s", c, turn, strings.Repeat("x", rng.IntN(2*inline)))
					err := r.turn(ctx, rng.IntN(11), path(), path(), text)
					mine := fmt.Sprintf("/own/%d/%d", c, turn%5)
					_, _, ownErr := r.Put(ctx, one, mine, drive.PutOptions{Body: strings.NewReader(text), Size: -1})
					mu.Lock()
					for _, err := range []error{err, ownErr} {
						switch fault.KindOf(err) {
						case fault.NotFound, fault.Conflict, fault.Unsupported:
						case fault.Busy:
							busy++
						default:
							if err != nil {
								t.Errorf("client %d: %v", c, err)
							} else {
								ok++
							}
						}
					}
					if ownErr == nil {
						own[mine] = text
					}
					mu.Unlock()
				}
			})
		}
		wg.Go(func() { // the collector and the sequencer work beside them
			collector := content.NewCollector(r.content, content.CollectorConfig{})
			for range 20 {
				if _, err := collector.Collect(ctx); err != nil {
					t.Errorf("collect: %v", err)
				}
				if err := r.feed.Fold(ctx); err != nil {
					t.Errorf("fold: %v", err)
				}
			}
		})
		wg.Wait()
		t.Logf("%d changes, %d times busy, %d transactions run again", ok, busy, r.db.Retries())
		if busy*20 > clients*turns {
			t.Errorf("%d of %d operations were answered busy", busy, 2*clients*turns)
		}
		for path, want := range own {
			r.oneOf(t, path, want)
		}
		r.objects(t)
	})
}

// turn is one random operation.
func (r *room) turn(ctx context.Context, which int, p, q, text string) (err error) {
	switch which {
	case 0, 1:
		_, _, err = r.Put(ctx, one, p, drive.PutOptions{Body: strings.NewReader(text), Size: -1})
	case 2:
		_, err = r.Append(ctx, one, p, drive.AppendOptions{Body: strings.NewReader(text), Size: -1})
	case 3:
		_, _, err = r.Mkdir(ctx, one, p, drive.MkdirOptions{Parents: true})
	case 4:
		_, err = r.Link(ctx, one, p, q, drive.Change{})
	case 5:
		_, _, err = r.Copy(ctx, one, p, q, drive.CopyOptions{})
	case 6, 7:
		_, err = r.Rename(ctx, one, p, q, drive.RenameOptions{})
	case 8:
		_, err = r.Remove(ctx, one, p, drive.RemoveOptions{})
	case 9:
		_, err = r.RemoveAll(ctx, one, p, drive.RemoveAllOptions{Wait: time.Minute})
	case 10:
		var u drive.Upload
		if u, err = r.InitiateUpload(ctx, one, p, drive.UploadOptions{Size: int64(len(text))}); err != nil {
			return err
		}
		if _, err = r.PutPart(ctx, one, u.ID, 1, drive.PartOptions{Body: strings.NewReader(text), Size: int64(len(text))}); err == nil {
			_, _, err = r.CompleteUpload(ctx, one, u.ID, drive.CompleteOptions{})
		}
		if err != nil {
			if abortErr := r.AbortUpload(ctx, one, u.ID); fault.KindOf(abortErr) == fault.Internal {
				err = errors.Join(err, abortErr)
			}
		}
	}
	return err
}
