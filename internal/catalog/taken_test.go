package catalog_test

import (
	"strings"
	"testing"

	"github.com/lethe-project/lethe/internal/catalog"
	"github.com/lethe-project/lethe/internal/fault"
)

// A taken name is refused in the words of Iceberg's own catalogs, whichever kind took it.
func TestTakenNames(t *testing.T) {
	t.Parallel()
	each(t, func(b *bench) {
		ctx := b.t.Context()
		n := b.namespace("n")
		staged, err := b.cat.CreateTable(ctx, b.call(), n, b.request("late", `"stage-create":true`))
		b.must(err)
		table := b.create(ident(n, "t"))
		view := b.createView(ident(n, "v"), "")
		b.createView(ident(n, "late"), "")
		rename := func(kind catalog.Kind, from, to string) func() error {
			return func() error { return b.cat.Rename(ctx, b.call(), kind, ident(n, from), ident(n, to)) }
		}
		for _, c := range []struct {
			name    string
			do      func() error
			message string
		}{
			{"table over table", func() error { _, err := b.cat.CreateTable(ctx, b.call(), n, b.request("t")); return err }, "Table already exists: n.t"},
			{"table over view", func() error { _, err := b.cat.CreateTable(ctx, b.call(), n, b.request("v")); return err }, "View with same name already exists: n.v"},
			{"view over view", func() error { _, err := b.cat.CreateView(ctx, b.call(), n, b.viewRequest("v", "")); return err }, "View already exists: n.v"},
			{"view over table", func() error { _, err := b.cat.CreateView(ctx, b.call(), n, b.viewRequest("t", "")); return err }, "Table with same name already exists: n.t"},
			{"staged create over view", func() error {
				_, err := b.cat.CommitTable(ctx, b.call(), ident(n, "late"), b.stagedCommit(staged))
				return err
			}, "View with same name already exists: n.late"},
			{"register over view", func() error {
				_, err := b.cat.RegisterTable(ctx, b.call(), ident(n, "v"), table.MetadataLocation, false)
				return err
			}, "View with same name already exists: n.v"},
			{"register view over table", func() error {
				_, err := b.cat.RegisterView(ctx, b.call(), ident(n, "t"), view.MetadataLocation)
				return err
			}, "Table with same name already exists: n.t"},
			{"rename table to view", rename(catalog.KindTable, "t", "v"), "Cannot rename n.t to n.v. View already exists"},
			{"rename view to table", rename(catalog.KindView, "v", "t"), "Cannot rename n.v to n.t. Table already exists"},
			{"rename to itself", rename(catalog.KindTable, "t", "t"), "Cannot rename n.t to n.t. Table already exists"},
		} {
			b.t.Run(c.name, func(t *testing.T) {
				err := c.do()
				if !fault.Is(err, catalog.CodeAlreadyExists) || !strings.HasPrefix(fault.Public(err), c.message) {
					t.Errorf("got %v, want %q", err, c.message)
				}
			})
		}
		b.invariants()
	})
}
