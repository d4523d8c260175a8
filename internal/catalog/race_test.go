package catalog_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/sqldb"
)

type blobKey = blob.Key

// Forced races: the first stands right before its COMMIT while the second comes as far
// as it can. Every pair runs in both orders; whoever is first wins, the other one is
// refused or sees what the first made, and the tables hold what they must.
func TestForcedRaces(t *testing.T) {
	t.Parallel()
	type op func(ctx context.Context) error
	type pair struct {
		name        string
		setup       func(b *bench) (first, second op)
		first, then fault.Kind // of the loser's error, in this order and in the other
		first1      bool       // the second one succeeds, too
		then1       bool       // the same in the other order
		oneWay      bool       // in the other order the second one fails before its transaction
	}
	const place = `"location":"` + rootURI + `/x/t"`
	purgeOf := func(b *bench, id catalog.Identifier) op {
		return func(ctx context.Context) error {
			_, err := b.cat.Drop(ctx, b.call(), catalog.KindTable, id, catalog.DropOptions{Purge: true})
			return err
		}
	}
	createOf := func(b *bench, id catalog.Identifier, extra ...string) op {
		return func(ctx context.Context) error {
			_, err := b.cat.CreateTable(ctx, b.call(), id.Namespace, b.request(id.Name, extra...))
			return err
		}
	}
	pairs := []pair{
		{
			name: "purge beside register of the same uuid",
			setup: func(b *bench) (op, op) {
				n := b.namespace("n")
				l := b.create(ident(n, "t"))
				return purgeOf(b, ident(n, "t")), func(ctx context.Context) error {
					_, err := b.cat.RegisterTable(ctx, b.call(), ident(n, "twin"), l.MetadataLocation, false)
					return err
				}
			},
			first: fault.Conflict, then: fault.Conflict,
		},
		{
			name: "purge beside an explicit location over it",
			setup: func(b *bench) (op, op) {
				n := b.namespace("n")
				b.create(ident(n, "t"), place)
				return purgeOf(b, ident(n, "t")), createOf(b, ident(n, "u"), `"location":"`+rootURI+`/x/t/in"`)
			},
			first: fault.Conflict, oneWay: true,
		},
		{
			name: "purge beside a commit",
			setup: func(b *bench) (op, op) {
				n := b.namespace("n")
				b.create(ident(n, "t"))
				return purgeOf(b, ident(n, "t")), func(ctx context.Context) error {
					_, err := b.cat.CommitTable(ctx, b.call(), ident(n, "t"), b.set("k", "v"))
					return err
				}
			},
			first: fault.NotFound, then1: true,
		},
		{
			name: "purge beside the commit of a staged create of its name",
			setup: func(b *bench) (op, op) {
				n := b.namespace("n")
				b.create(ident(n, "t"))
				staged := b.create(ident(n, "s"), `"stage-create":true`)
				return purgeOf(b, ident(n, "t")), func(ctx context.Context) error {
					_, err := b.cat.CommitTable(ctx, b.call(), ident(n, "t"), b.stagedCommit(staged))
					return err
				}
			},
			first: fault.Conflict, oneWay: true,
		},
		{
			name: "explicit beside default create",
			setup: func(b *bench) (op, op) {
				n := b.namespace("n")
				return createOf(b, ident(n, "a"), `"location":"`+rootURI+`/n/a"`), createOf(b, ident(n, "b"))
			},
			first1: true, then1: true,
		},
		{
			name: "two explicit creates, one inside the other",
			setup: func(b *bench) (op, op) {
				n := b.namespace("n")
				return createOf(b, ident(n, "a"), place), createOf(b, ident(n, "b"), `"location":"`+rootURI+`/x/t/in/side"`)
			},
			first: fault.Conflict, then: fault.Conflict,
		},
		{
			name: "two creates of one name",
			setup: func(b *bench) (op, op) {
				n := b.namespace("n")
				return createOf(b, ident(n, "a")), createOf(b, ident(n, "a"))
			},
			first: fault.Conflict, then: fault.Conflict,
		},
		{
			name: "namespace drop beside create",
			setup: func(b *bench) (op, op) {
				n := b.namespace("n")
				return func(ctx context.Context) error { return b.cat.DropNamespace(ctx, b.call(), n) }, createOf(b, ident(n, "t"))
			},
			first: fault.NotFound, then: fault.Conflict,
		},
		{
			name: "namespace drop beside create of a child",
			setup: func(b *bench) (op, op) {
				n := b.namespace("n")
				return func(ctx context.Context) error { return b.cat.DropNamespace(ctx, b.call(), n) },
					func(ctx context.Context) error {
						return b.cat.CreateNamespace(ctx, b.call(), catalog.Namespace{"n", "m"}, nil)
					}
			},
			first: fault.NotFound, then: fault.Conflict,
		},
		{
			name: "namespace drop beside rename into it",
			setup: func(b *bench) (op, op) {
				n, m := b.namespace("n"), b.namespace("m")
				b.create(ident(m, "t"))
				return func(ctx context.Context) error { return b.cat.DropNamespace(ctx, b.call(), n) },
					func(ctx context.Context) error {
						return b.cat.Rename(ctx, b.call(), catalog.KindTable, ident(m, "t"), ident(n, "t"))
					}
			},
			first: fault.NotFound, then: fault.Conflict,
		},
		{
			name: "purge beside rename of the same table",
			setup: func(b *bench) (op, op) {
				n := b.namespace("n")
				b.create(ident(n, "t"))
				return purgeOf(b, ident(n, "t")), func(ctx context.Context) error {
					return b.cat.Rename(ctx, b.call(), catalog.KindTable, ident(n, "t"), ident(n, "u"))
				}
			},
			first: fault.NotFound, then: fault.NotFound,
		},
		{
			name: "namespace location beside a table there",
			setup: func(b *bench) (op, op) {
				n := b.namespace("n")
				return createOf(b, ident(n, "t"), place), func(ctx context.Context) error {
					_, err := b.cat.UpdateProperties(ctx, b.call(), n, nil, map[string]string{"location": rootURI + "/x/t/in"})
					return err
				}
			},
			// The other way round the table may not contain the namespace's place.
			first: fault.Conflict, then: fault.Conflict,
		},
		{
			name: "job retry beside register of its metadata",
			setup: func(b *bench) (op, op) {
				n := b.namespace("n")
				l := b.create(ident(n, "t"))
				j, err := b.drop(ident(n, "t"), true)
				b.must(err)
				b.settle(j, job.Terminal(errLost))
				_, err = b.jobs.Jobs().Ack(b.t.Context(), j)
				b.must(err)
				return func(ctx context.Context) error {
						_, err := b.jobs.Jobs().Retry(ctx, j, job.RetryOptions{})
						return err
					}, func(ctx context.Context) error {
						_, err := b.cat.RegisterTable(ctx, b.call(), ident(n, "again"), l.MetadataLocation, false)
						return err
					}
			},
			first: fault.Conflict, then: fault.Conflict,
		},
	}
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			each(t, func(b *bench) {
				first, second := p.setup(b)
				err1, err2 := b.race(first, second)
				b.must(err1)
				check(b, "second", err2, p.first1, p.first)
			})
			if p.oneWay {
				return
			}
			t.Run("swapped", func(t *testing.T) {
				t.Parallel()
				each(t, func(b *bench) {
					second, first := p.setup(b)
					err1, err2 := b.race(first, second)
					b.must(err1)
					check(b, "second, swapped", err2, p.then1, p.then)
				})
			})
		})
	}
}

func check(b *bench, which string, err error, ok bool, kind fault.Kind) {
	b.t.Helper()
	if ok {
		if err != nil {
			b.t.Errorf("%s: %v, want success", which, err)
		}
		return
	}
	if err == nil || fault.KindOf(err) != kind {
		b.t.Errorf("%s: %v (%s), want %s", which, err, fault.KindOf(err), kind)
	}
}

// A commit whose answer is lost with the database down keeps its file and says that
// nobody knows; one that was read back is an ordinary success.
func TestLostAnswerAfterCommit(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		id := ident(b.namespace("n"), "t")
		b.create(id)
		lost := context.WithValue(b.t.Context(), holdKey{}, &stop{after: errLost})

		// The look's own answer is lost too, but it changes nothing: what it saw stands.
		loaded, err := b.cat.CommitTable(lost, b.call(), id, b.set("k", "1"))
		b.must(err)
		now, err := b.cat.LoadTable(b.t.Context(), b.call(), id)
		b.must(err)
		if now.MetadataLocation != loaded.MetadataLocation {
			b.t.Errorf("pointer %s, want %s", now.MetadataLocation, loaded.MetadataLocation)
		}
		j, err := b.cat.Drop(lost, b.call(), catalog.KindTable, id, catalog.DropOptions{Purge: true})
		b.must(err)
		if j == 0 || b.count("SELECT COUNT(*) FROM iceberg_cleanup_job") != 1 {
			b.t.Errorf("job %d, rows %d", j, b.count("SELECT COUNT(*) FROM iceberg_cleanup_job"))
		}
		b.invariants()
	})
}

func TestLostAnswerWithTheDatabaseDown(t *testing.T) {
	t.Parallel()
	eachWaiting(t, 2*time.Second, func(b *bench) { // which it asks for so long
		n := b.namespace("n")
		id := ident(n, "t")
		b.create(id)
		before := len(b.keys())
		// COMMIT goes through, then the database is gone: every later transaction fails.
		down := context.WithValue(b.t.Context(), downKey{}, &downAfter{})
		_, err := b.cat.CommitTable(down, b.call(), id, b.set("k", "1"))
		if !errors.Is(err, sqldb.ErrCommitUnknown) || fault.KindOf(err) != fault.Unknown {
			b.t.Fatalf("error %v, want unknown", err)
		}
		if got := len(b.keys()); got != before+1 {
			b.t.Errorf("%d files, want %d: the new one must stay", got, before+1)
		}
		t, err := metadataOf(b, id)
		b.must(err)
		if t.Properties()["k"] != "1" {
			b.t.Error("the commit was applied and its file is not what the pointer names")
		}
		// A create whose outcome is unknown keeps its file as well.
		down = context.WithValue(b.t.Context(), downKey{}, &downAfter{})
		_, err = b.cat.CreateTable(down, b.call(), n, b.request("u"))
		if !errors.Is(err, sqldb.ErrCommitUnknown) {
			b.t.Fatalf("error %v, want unknown", err)
		}
		_, err = metadataOf(b, ident(n, "u"))
		b.must(err)
		b.invariants()
	})
}

// Commits that surely failed leave no file.
func TestFailedCommitLeavesNoFile(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		id := ident(b.namespace("n"), "t")
		b.create(id)
		before := b.keys()
		refused := context.WithValue(b.t.Context(), downKey{}, &downAfter{used: true})
		if _, err := b.cat.CommitTable(refused, b.call(), id, b.set("k", "1")); err == nil {
			b.t.Fatal("committed")
		}
		if _, err := b.cat.CreateTable(refused, b.call(), id.Namespace, b.request("u")); err == nil {
			b.t.Fatal("created")
		}
		if got := b.keys(); len(got) != len(before) {
			b.t.Errorf("keys %v, want %v", got, before)
		}
	})
}

// Twenty clients commit to one table: each applied commit is there, none is lost.
func TestConcurrentCommits(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		id := ident(b.namespace("n"), "t")
		b.create(id)
		var mu sync.Mutex
		applied := 0
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				_, err := b.cat.CommitTable(b.t.Context(), b.call(), id, b.set("k"+string(rune('a'+i)), "v"))
				switch {
				case err == nil:
					mu.Lock()
					applied++
					mu.Unlock()
				case !fault.Is(err, catalog.CodeCommitFailed):
					b.t.Errorf("commit: %v", err)
				}
			})
		}
		wg.Wait()
		t, err := metadataOf(b, id)
		b.must(err)
		got := 0
		for k := range t.Properties() {
			if len(k) == 2 && k[0] == 'k' {
				got++
			}
		}
		if got != applied || applied == 0 {
			b.t.Errorf("%d commits applied, %d are in the table", applied, got)
		}
		if files := len(b.keys()); files != applied+1 {
			b.t.Errorf("%d metadata files for %d commits", files, applied)
		}
	})
}
