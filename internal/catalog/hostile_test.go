package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/fault"
	"github.com/lethe-project/lethe/internal/job"
	"github.com/lethe-project/lethe/internal/purge"
	"github.com/lethe-project/lethe/internal/sqldb"
)

const trims = `"properties":{"write.metadata.delete-after-commit.enabled":"true","write.metadata.previous-versions-max":"1"}`

func (b *bench) put(uri, doc string) {
	b.t.Helper()
	b.must(b.bucket.Put(b.t.Context(), blob.Key(strings.TrimPrefix(uri, rootURI+"/")), strings.NewReader(doc)))
}

func (b *bench) has(uri string) bool {
	b.t.Helper()
	return slices.Contains(b.keys(), strings.TrimPrefix(uri, rootURI+"/"))
}

// A metadata log is client-written: it may name another table's live metadata, or any
// file of the warehouse. Trimming it touches none of them.
func TestTrimmingTouchesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		id := ident(n, "evil")
		victim := b.create(ident(n, "victim"))
		stray := rootURI + "/stray.json"
		b.put(stray, "{}")
		evil := b.create(id, trims)
		for i, named := range []string{victim.MetadataLocation, stray} {
			doc := strings.Replace(string(evil.Table.JSON()), `"metadata-log":[]`, fmt.Sprintf(`"metadata-log":[{"metadata-file":%q,"timestamp-ms":1}]`, named), 1)
			file := fmt.Sprintf("%s/metadata/0000%d-x.metadata.json", evil.Table.Location(), 8+i)
			b.put(file, doc)
			_, err := b.cat.RegisterTable(ctx, b.call(), id, file, true)
			b.must(err)
			for _, v := range []string{"1", "2"} {
				_, err = b.cat.CommitTable(ctx, b.call(), id, b.set("k", v))
				b.must(err)
			}
			if !b.has(named) {
				b.t.Errorf("%s is gone", named)
			}
		}
	})
}

// A table that is registered a second time at an older version keeps that version's file.
func TestTrimmingSparesTwins(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		a := b.create(ident(n, "a"), trims)
		_, err := b.cat.RegisterTable(ctx, b.call(), ident(n, "twin"), a.MetadataLocation, false)
		b.must(err)
		for i := range 3 {
			_, err = b.cat.CommitTable(ctx, b.call(), ident(n, "a"), b.set("k", fmt.Sprint(i)))
			b.must(err)
		}
		if !b.has(a.MetadataLocation) {
			b.t.Error("the live twin's metadata file is gone")
		}
	})
}

// However many namespaces share a parent, the table that is in the way is seen.
func TestOverlapBehindManyNamespaces(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		b.create(ident(n, "one"), `"location":"`+rootURI+`/shared/t"`)
		b.must(b.db.Tx(ctx, func(tx *sqldb.Tx) error {
			for i := range 2100 {
				if _, err := tx.Exec(ctx, "INSERT INTO tabular_locations (warehouse_id, location, owner_kind, owner_id) VALUES (?, ?, 1, ?)", b.w.ID, rootURI+"/shared/", 10_000+i); err != nil {
					return err
				}
			}
			return nil
		}))
		for _, place := range []string{"/shared/t", "/shared/t/sub", "/shared"} {
			_, err := b.cat.CreateTable(ctx, b.call(), n, b.request("two", `"location":"`+rootURI+place+`"`))
			b.wantCode(err, fault.Conflict, catalog.CodeLocationTaken)
		}
		err := b.cat.CreateNamespace(ctx, b.call(), catalog.Namespace{"m"}, map[string]string{"location": rootURI + "/shared/t/ns"})
		b.wantCode(err, fault.Conflict, catalog.CodeLocationTaken)
	})
}

// A COMMIT whose answer is lost is read back exactly, also when somebody was faster to
// change what it made: no acknowledged file is removed, and nobody is told a lie.
func TestLostAnswerBeforeAnotherChange(t *testing.T) {
	t.Parallel()
	n := catalog.Namespace{"n"}
	x, y, z := ident(n, "x"), ident(n, "y"), ident(n, "z")
	for name, tc := range map[string]struct {
		first func(b *bench, ctx context.Context) error
		other func(b *bench)
		after catalog.Identifier // must load in full
	}{
		"create, renamed": {
			func(b *bench, ctx context.Context) error {
				_, err := b.cat.CreateTable(ctx, b.call(), n, b.request("y"))
				return err
			},
			func(b *bench) { b.must(b.cat.Rename(b.t.Context(), b.call(), catalog.KindTable, y, z)) }, z,
		},
		"create, committed": {
			func(b *bench, ctx context.Context) error {
				_, err := b.cat.CreateTable(ctx, b.call(), n, b.request("y"))
				return err
			},
			func(b *bench) { _, err := b.cat.CommitTable(b.t.Context(), b.call(), y, b.set("k", "v")); b.must(err) }, y,
		},
		"commit, committed": {
			func(b *bench, ctx context.Context) error {
				_, err := b.cat.CommitTable(ctx, b.call(), x, b.set("a", "1"))
				return err
			},
			func(b *bench) { _, err := b.cat.CommitTable(b.t.Context(), b.call(), x, b.set("k", "v")); b.must(err) }, x,
		},
		"commit, dropped": {
			func(b *bench, ctx context.Context) error {
				_, err := b.cat.CommitTable(ctx, b.call(), x, b.set("a", "1"))
				return err
			},
			func(b *bench) { _, err := b.drop(x, false); b.must(err) },
			catalog.Identifier{},
		},
		"rename, renamed": {
			func(b *bench, ctx context.Context) error { return b.cat.Rename(ctx, b.call(), catalog.KindTable, x, y) },
			func(b *bench) { b.must(b.cat.Rename(b.t.Context(), b.call(), catalog.KindTable, y, z)) }, z,
		},
		"drop, created again": {
			func(b *bench, ctx context.Context) error {
				_, err := b.cat.Drop(ctx, b.call(), catalog.KindTable, x, catalog.DropOptions{})
				return err
			},
			func(b *bench) { b.create(x) }, x,
		},
		"namespace created": {
			func(b *bench, ctx context.Context) error {
				return b.cat.CreateNamespace(ctx, b.call(), catalog.Namespace{"m"}, nil)
			},
			func(b *bench) { b.must(b.cat.DropNamespace(b.t.Context(), b.call(), catalog.Namespace{"m"})) }, x,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(b *bench) {
				if b.db.Dialect().Name == sqldb.SQLite {
					return // one writer: nobody comes between a commit and its answer
				}
				b.namespace("n")
				b.create(x)
				ctx := context.WithValue(b.t.Context(), holdKey{}, &stop{between: func() { tc.other(b) }})
				if err := tc.first(b, ctx); err != nil {
					b.t.Errorf("applied, and the answer is %v", err)
				}
				if tc.after.Name == "" {
					return
				}
				fresh := catalog.New(catalog.Config{DB: b.db, Jobs: b.jobs}) // without the cache
				l, err := fresh.LoadTable(b.t.Context(), b.call(), tc.after)
				b.must(err)
				for _, file := range append(l.Table.PreviousFiles(), l.MetadataLocation) {
					if !b.has(file) {
						b.t.Errorf("%s was removed", file)
					}
				}
				b.invariants()
			})
		})
	}
}

// withoutUUID registers a table of format v1 that has no uuid.
func (b *bench) withoutUUID(id catalog.Identifier) *catalog.Loaded {
	b.t.Helper()
	l := b.create(id, `"properties":{"format-version":"1"}`)
	doc := strings.Replace(string(l.Table.JSON()), `"table-uuid":"`+l.Table.UUID()+`",`, "", 1)
	place := rootURI + "/v1/" + id.Name
	file := place + "/metadata/00000-a.metadata.json"
	b.put(file, strings.ReplaceAll(doc, l.Table.Location(), place))
	_, err := b.drop(id, false)
	b.must(err)
	l, err = b.cat.RegisterTable(b.t.Context(), b.call(), id, file, false)
	b.must(err)
	if l.Table.UUID() != "" {
		b.t.Fatalf("it has a uuid, %s", l.Table.UUID())
	}
	return l
}

func TestPurgeBesideRegisterWithoutUUID(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		n := b.namespace("n")
		b.withoutUUID(ident(n, "a"))
		now, err := b.cat.CommitTable(b.t.Context(), b.call(), ident(n, "a"), b.set("k", "v"))
		b.must(err)
		err1, err2 := b.race(func(ctx context.Context) error {
			_, err := b.cat.Drop(ctx, b.call(), catalog.KindTable, ident(n, "a"), catalog.DropOptions{Purge: true})
			return err
		}, func(ctx context.Context) error {
			_, err := b.cat.RegisterTable(ctx, b.call(), ident(n, "c"), now.MetadataLocation, false)
			return err
		})
		b.must(err1)
		if fault.KindOf(err2) != fault.Conflict {
			b.t.Errorf("register beside the purge: %v, want a conflict", err2)
		}
	})
}

func TestTwinsOfATableThatGotItsUUID(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		b.withoutUUID(ident(n, "a"))
		now, err := b.cat.CommitTable(ctx, b.call(), ident(n, "a"), b.commit("", `{"action":"assign-uuid","uuid":"11111111-2222-4333-8444-555555555555"}`))
		b.must(err)
		_, err = b.cat.RegisterTable(ctx, b.call(), ident(n, "c"), now.MetadataLocation, false)
		b.must(err)
		_, err = b.cat.CommitTable(ctx, b.call(), ident(n, "a"), b.set("k", "v"))
		b.must(err)
		for _, name := range []string{"a", "c"} {
			_, err := b.drop(ident(n, name), true)
			b.wantCode(err, fault.Conflict, catalog.CodeShared)
		}
	})
}

// A worker whose lease is gone adopts no location.
func TestAdoptIsFenced(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		b.create(ident(b.namespace("n"), "t"))
		id, err := b.drop(ident(catalog.Namespace{"n"}, "t"), true)
		b.must(err)
		row, ok, err := b.jobs.Jobs().ClaimID(ctx, "test", id)
		b.must(err)
		if !ok {
			b.t.Fatal("not claimed")
		}
		j, err := b.jobs.Find(ctx, id)
		b.must(err)
		j.Epoch = row.LeaseEpoch
		got, err := b.owns.Adopt(ctx, j, []blob.Location{rootURI + "/mine"})
		b.must(err)
		if len(got) != 1 {
			b.t.Errorf("adopted %v", got)
		}
		j.Epoch--
		if _, err := b.owns.Adopt(ctx, j, []blob.Location{rootURI + "/elsewhere"}); !errors.Is(err, job.ErrLeaseLost) {
			b.t.Errorf("an old epoch adopted: %v", err)
		}
		if n := b.count("SELECT COUNT(*) FROM tabular_locations WHERE owner_kind = 3"); n != 2 {
			b.t.Errorf("%d locations of the job, want its own and the adopted one", n)
		}
	})
}

// Rows that retention removes let go of what they held.
func TestPrunedRowsHoldNothing(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		place := `"location":"` + rootURI + `/x/t"`
		b.create(ident(n, "t"), place)
		id, err := b.drop(ident(n, "t"), true)
		b.must(err)
		b.settle(id, job.Terminal(errLost))
		jobs := purge.NewStore(b.db, job.Config{FailedRetention: time.Millisecond}, b.owns.Hooks(), job.Observer{})
		_, err = b.db.Exec(ctx, "UPDATE iceberg_cleanup_job SET updated_at = 0")
		b.must(err)
		pruned, err := jobs.Jobs().Prune(ctx)
		b.must(err)
		if rows := b.count("SELECT COUNT(*) FROM table_uuids"); pruned != 1 || rows != 0 {
			b.t.Errorf("%d rows pruned, %d uuid rows left", pruned, rows)
		}
		b.create(ident(n, "u"), place)
	})
}

// Plain creates do not stand in line behind somebody who holds the warehouse row.
func TestPlainCreateDoesNotWaitForTheWarehouse(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		if b.db.Dialect().Name == sqldb.SQLite {
			return // one writer
		}
		n := b.namespace("n")
		s := &stop{reached: make(chan struct{}), release: make(chan struct{})}
		done := make(chan error, 1)
		go func() {
			done <- b.cat.CreateNamespace(context.WithValue(b.t.Context(), holdKey{}, s), b.call(), catalog.Namespace{"other"}, nil)
		}()
		<-s.reached
		_, err := b.cat.CreateTable(b.t.Context(), b.call(), n, b.request("t"))
		close(s.release)
		b.must(err)
		b.must(<-done)
	})
}

// A twin that is still under way is waited for, and then said.
func TestTwinUnderWay(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		if b.db.Dialect().Name == sqldb.SQLite {
			return // one writer: the twin waits in line and finds the answer
		}
		n := b.namespace("n")
		call := b.call()
		call.Idempotency = &catalog.Idempotency{Key: "0190163d-8694-739b-aea5-966c26f8ad91", Hash: "h"}
		s := &stop{reached: make(chan struct{}), release: make(chan struct{})}
		done := make(chan error, 1)
		go func() { done <- b.cat.DropNamespace(context.WithValue(b.t.Context(), holdKey{}, s), call, n) }()
		<-s.reached
		twin := call
		twin.RequestID = b.call().RequestID
		err := b.cat.DropNamespace(b.t.Context(), twin, n)
		close(s.release)
		b.wantCode(err, fault.Busy, catalog.CodeTwin)
		b.must(<-done)
		if err := b.cat.DropNamespace(b.t.Context(), twin, n); !errors.Is(err, catalog.ErrTwin) {
			b.t.Errorf("after the twin: %v, want its answer to be recalled", err)
		}
	})
}
