// Package iceberggo drives a built server through iceberg-go's REST client: the client's
// own conformance suite, and a table's life with files on the local disk and in S3.
package iceberggo

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/catalogtest"
	"github.com/apache/iceberg-go/catalog/rest"
	_ "github.com/apache/iceberg-go/io/gocloud/s3" // the FileIO of s3://
	"github.com/apache/iceberg-go/table"
	"github.com/google/go-cmp/cmp"

	"github.com/lethe-project/lethe/test/conformance/storages"
	"github.com/lethe-project/lethe/test/proc"
	"github.com/lethe-project/lethe/test/responder"
)

// server is a server under test, where it keeps its tables, and the URI of its catalog,
// where each answer is checked.
type server struct {
	*proc.Server
	store   *storages.Storage
	catalog string
}

// each runs fn against a server on every database and storage.
func each(t *testing.T, fn func(t *testing.T, server server)) {
	t.Helper()
	for _, place := range storages.All(t) {
		t.Run(place.Name, func(t *testing.T) {
			t.Parallel()
			s, store := place.Start(t)
			fn(t, server{s, store, responder.New(t).Proxy(t, s.URI) + responder.Base})
		})
	}
}

func open(t *testing.T, server server) *rest.Catalog {
	t.Helper()
	c, err := rest.NewCatalog(t.Context(), "lethe", server.catalog, rest.WithOAuthToken(server.Token(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func TestCatalogSuite(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, server server) {
		catalogtest.RunCatalogTests(t, catalogtest.Config{
			NewCatalog:                  func(t *testing.T) catalog.Catalog { t.Helper(); return open(t, server) },
			SupportsNamespaceProperties: true,
		})
	})
}

func TestTableLife(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, server server) {
		for _, ns := range []table.Identifier{
			{"plain"},
			{"nested", "a.b"},
			{"with space", "ünï%41?#"}, // no plus sign: Java sends a space as one, iceberg-go a plus
		} {
			t.Run(strings.Join(ns, " "), func(t *testing.T) { life(t, server, ns) })
		}
	})
}

// life creates, appends, renames and purges a table and looks at the disk meanwhile.
func life(t *testing.T, server server, ns table.Identifier) {
	t.Helper()
	ctx, c := t.Context(), open(t, server)
	for depth := range ns {
		if err := c.CreateNamespace(ctx, ns[:depth+1], nil); err != nil {
			t.Fatal(err)
		}
	}
	sibling := appended(t, c, name(ns, "sibling"), 1)
	tbl := appended(t, c, name(ns, "t"), 3)
	where := tbl.Location()
	if n := len(server.store.Files(t, where)); n < 10 {
		t.Fatalf("only %d files of the table before the purge", n)
	}
	others := beside(t, server, where)

	moved, err := c.RenameTable(ctx, name(ns, "t"), name(ns, "moved"))
	if err != nil {
		t.Fatal(err)
	}
	if moved.Location() != tbl.Location() {
		t.Errorf("a rename moved the table to %s", moved.Location())
	}
	if err := c.PurgeTable(ctx, name(ns, "moved")); err != nil {
		t.Fatal(err)
	}
	if !server.store.Gone(t, where) {
		t.Errorf("left after the purge, if only directories: %q", slices.Sorted(maps.Keys(server.store.Files(t, where))))
	}
	if diff := cmp.Diff(others, beside(t, server, where)); diff != "" {
		t.Errorf("the purge touched what is not its own (-before +after):\n%s", diff)
	}
	if _, err := c.LoadTable(ctx, name(ns, "moved")); !errors.Is(err, catalog.ErrNoSuchTable) {
		t.Errorf("load after the purge: %v", err)
	}
	if n := rows(t, sibling); n != 2 {
		t.Errorf("the sibling has %d rows, want 2", n)
	}
}

func TestDropKeepsFiles(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, server server) {
		ctx, c := t.Context(), open(t, server)
		ns := table.Identifier{"keep"}
		if err := c.CreateNamespace(ctx, ns, nil); err != nil {
			t.Fatal(err)
		}
		tbl := appended(t, c, name(ns, "t"), 2)
		before := server.store.Files(t, server.store.Root)
		if err := c.DropTable(ctx, name(ns, "t")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, server.store.Files(t, server.store.Root)); diff != "" {
			t.Errorf("a drop without purge changed files (-before +after):\n%s", diff)
		}
		again, err := c.RegisterTable(ctx, name(ns, "again"), tbl.MetadataLocation())
		if err != nil {
			t.Fatal(err)
		}
		if n := rows(t, again); n != 4 {
			t.Errorf("%d rows after it was registered again, want 4", n)
		}
	})
}

// name returns a new identifier; appending to a shared one would overwrite a neighbour's.
func name(ns table.Identifier, tbl string) table.Identifier {
	return append(slices.Clone(ns), tbl)
}

// appended creates a table of two columns and appends two rows, several times.
func appended(t *testing.T, c *rest.Catalog, id table.Identifier, times int) *table.Table {
	t.Helper()
	ctx := t.Context()
	schema := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 2, Name: "city", Type: iceberg.PrimitiveTypes.String},
	)
	tbl, err := c.CreateTable(ctx, id, schema)
	if err != nil {
		t.Fatal(err)
	}
	fields := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "city", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	for range times {
		build := array.NewRecordBuilder(memory.DefaultAllocator, fields)
		build.Field(0).(*array.Int64Builder).AppendValues([]int64{1, 2}, nil)
		build.Field(1).(*array.StringBuilder).AppendValues([]string{"Drachten", "Berlin"}, nil)
		rdr, err := array.NewRecordReader(fields, []arrow.RecordBatch{build.NewRecordBatch()})
		if err != nil {
			t.Fatal(err)
		}
		if tbl, err = tbl.Append(ctx, rdr, nil); err != nil {
			t.Fatal(err)
		}
	}
	return tbl
}

func rows(t *testing.T, tbl *table.Table) int64 {
	t.Helper()
	found, err := tbl.Scan().ToArrowTable(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	defer found.Release()
	return found.NumRows()
}

// beside returns the files of the storage that are not at a location.
func beside(t *testing.T, server server, where string) map[string]string {
	t.Helper()
	found := server.store.Files(t, server.store.Root)
	maps.DeleteFunc(found, func(uri, _ string) bool { return strings.HasPrefix(uri, where+"/") })
	return found
}
